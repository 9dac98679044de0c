//! How a function is brought to the point from which its instances are forked, as its user says it.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{ByteSize, strategy::axis};

axis! {
    /// A compiler that a function's code is given to when its user asks for that: what it compiles may be quicker, and its
    /// results are compared with those of the plain code before it is used.
    Jit as "jit" {
        /// Python's numba, in nopython mode.
        Numba = "numba",
    }
}

/// How a function is warmed up and frozen. Only a strategy that starts from a snapshot reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotOptions {
    /// What the function is called with until its code is compiled; none = it is frozen as it was loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warmup: Vec<WarmupEvent>,
    /// Warm-up may use the function's network; without it, warm-up reaches nothing outside.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warmup_network: bool,
    /// What warm-up reaches is driven to optimised code, function by function; of Java, a deploy writes a class
    /// archive.
    #[serde(skip_serializing_if = "is_true")]
    pub annotate: bool,
    /// A further compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jit: Option<Jit>,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { warmup: Vec::new(), warmup_network: false, annotate: true, jit: None }
    }
}

fn is_true(value: &bool) -> bool {
    *value
}

/// A call that is made before the snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum WarmupEvent {
    /// A call with this JSON as its body: `{"params": …}`.
    Params(Value),
    /// A call with any body: `{"body": "<base64>", "content_type": "image/jpeg"}`.
    Body {
        /// The bytes.
        body: Bytes,
        /// What they are.
        content_type: String,
    },
}

/// Why snapshot options are refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SnapshotOptionsError {
    /// Too many events.
    #[error(
        "{count} warm-up events are more than the {} that a function may have",
        SnapshotOptions::MAX_EVENTS
    )]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// Events that are too large in all.
    #[error(
        "the warm-up events have {size} in all, more than the {} that a function may have",
        SnapshotOptions::MAX_BYTES
    )]
    TooLarge {
        /// What they have.
        size: ByteSize,
    },
    /// A content type that could not be a header's value.
    #[error("warm-up event {number} has a content type that is none: {content_type:?}")]
    ContentType {
        /// Which event, from 1.
        number: usize,
        /// What stood there.
        content_type: String,
    },
}

impl SnapshotOptions {
    /// The most warm-up events of a function.
    pub const MAX_EVENTS: usize = 64;

    /// The most bytes that they have in all.
    pub const MAX_BYTES: ByteSize = ByteSize::mib(1);

    /// Nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether they are within bounds.
    pub fn check(&self) -> Result<(), SnapshotOptionsError> {
        if self.warmup.len() > Self::MAX_EVENTS {
            return Err(SnapshotOptionsError::TooMany { count: self.warmup.len() });
        }
        let size = ByteSize::bytes(self.warmup.iter().map(WarmupEvent::size).sum());
        if size > Self::MAX_BYTES {
            return Err(SnapshotOptionsError::TooLarge { size });
        }
        for (index, event) in self.warmup.iter().enumerate() {
            if let WarmupEvent::Body { content_type, .. } = event
                && !(content_type.contains('/')
                    && content_type.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
            {
                let content_type = content_type.clone();
                return Err(SnapshotOptionsError::ContentType { number: index + 1, content_type });
            }
        }
        Ok(())
    }
}

impl WarmupEvent {
    /// How many bytes the call's body has.
    pub fn size(&self) -> u64 {
        self.body().len() as u64
    }

    /// The call's body.
    pub fn body(&self) -> Bytes {
        match self {
            Self::Params(value) => value.to_string().into(),
            Self::Body { body, .. } => body.clone(),
        }
    }

    /// What that is.
    pub fn content_type(&self) -> &str {
        match self {
            Self::Params(_) => "application/json",
            Self::Body { content_type, .. } => content_type,
        }
    }
}

/// How an event is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    params: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "contentType")]
    content_type: Option<String>,
}

/// `null` is a value too, other than nothing at all.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Serialize for WarmupEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let written = match self {
            Self::Params(value) => Written { params: Some(value.clone()), body: None, content_type: None },
            Self::Body { body, content_type } => Written {
                params: None,
                body: Some(STANDARD.encode(body)),
                content_type: Some(content_type.clone()),
            },
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WarmupEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        match Written::deserialize(deserializer)? {
            Written { params: Some(value), body: None, content_type: None } => Ok(Self::Params(value)),
            Written { params: None, body: Some(body), content_type: Some(content_type) } => {
                let body = STANDARD.decode(body).map_err(|error| {
                    D::Error::custom(format!("a warm-up event's 'body' is not base64: {error}"))
                })?;
                Ok(Self::Body { body: body.into(), content_type })
            }
            _ => Err(D::Error::custom(
                "a warm-up event has either 'params', any JSON, or 'body', base64, with its 'content_type'",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(json: Value) -> Result<SnapshotOptions, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    #[test]
    fn events_are_json_or_bytes_with_their_type_and_are_written_as_they_were_read() {
        let written = json!({
            "warmup": [{"params": {"n": 1}}, {"params": null}, {"body": "/9g=", "content_type": "image/jpeg"}],
            "warmup_network": true, "annotate": false, "jit": "numba",
        });
        let read = options(written.clone()).unwrap();
        assert_eq!(
            (&*read.warmup[0].body(), read.warmup[0].content_type()),
            (&br#"{"n":1}"#[..], "application/json")
        );
        assert_eq!(
            (&*read.warmup[2].body(), read.warmup[2].content_type()),
            (&[0xff, 0xd8][..], "image/jpeg")
        );
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert_eq!(options(json!({})).unwrap(), SnapshotOptions::default());
        assert_eq!(serde_json::to_value(SnapshotOptions::default()).unwrap(), json!({}));
        let other = json!({"warmup": [{"body": "", "contentType": "text/plain"}]});
        assert_eq!(options(other).unwrap().warmup[0].content_type(), "text/plain");
    }

    #[test]
    fn an_event_that_is_neither_is_told_what_it_should_be() {
        for wrong in
            [json!({}), json!({"body": "AA=="}), json!({"params": 1, "body": "AA==", "content_type": "a/b"})]
        {
            let error = options(json!({ "warmup": [wrong] })).unwrap_err();
            assert!(error.contains("either 'params'"), "{error}");
        }
        let error = options(json!({"warmup": [{"body": "?", "content_type": "a/b"}]})).unwrap_err();
        assert!(error.contains("is not base64"), "{error}");
        assert!(options(json!({"jit": "magic"})).unwrap_err().contains("numba"));
    }

    #[test]
    fn events_are_bounded_in_number_and_size() {
        let with = |warmup| SnapshotOptions { warmup, ..SnapshotOptions::default() };
        let event = || WarmupEvent::Params(json!({}));
        assert_eq!(with((0..64).map(|_| event()).collect()).check(), Ok(()));
        let error = with((0..65).map(|_| event()).collect()).check().unwrap_err().to_string();
        assert_eq!(error, "65 warm-up events are more than the 64 that a function may have");
        let half = || WarmupEvent::Body { body: vec![0; 1 << 19].into(), content_type: "a/b".into() };
        assert_eq!(with(vec![half(), half()]).check(), Ok(()));
        let error = with(vec![half(), half(), event()]).check().unwrap_err().to_string();
        assert!(error.starts_with("the warm-up events have 1048578 B in all, more than the 1 MB"), "{error}");
        for content_type in ["", "jpeg", "a/b\r\nx: y"] {
            let event = WarmupEvent::Body { body: Bytes::new(), content_type: content_type.to_owned() };
            let error = with(vec![event]).check().unwrap_err();
            assert!(matches!(error, SnapshotOptionsError::ContentType { number: 1, .. }), "{content_type}");
        }
    }
}
