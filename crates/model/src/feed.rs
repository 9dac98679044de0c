//! What fires a trigger by itself.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value, value::RawValue};

use crate::{EntityName, EntityPath, NamespaceName, NatsSource, StreamPosition, Timestamp};

/// What fires a trigger, and how far it has come. A trigger has one or none, and takes it along when it goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feed {
    /// The owner.
    pub namespace: NamespaceName,
    /// What is fired.
    pub trigger: EntityName,
    /// On whose behalf.
    pub subject: String,
    /// Counts every write; the store chooses it.
    pub revision: u64,
    /// What it fires at.
    pub source: FeedSource,
    /// What its events carry.
    #[serde(default, skip_serializing_if = "FeedPayload::is_empty")]
    pub payload: FeedPayload,
    /// Whether it fires.
    pub state: FeedState,
    /// Since when that is so.
    pub since: Timestamp,
    /// The instant that it fires for next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// It was not admitted, and is not tried again before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The latest instant that it has fired for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// How often it has fired.
    #[serde(default)]
    pub fired: u64,
    /// How far it has read its stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<StreamPosition>,
    /// How often it may fire yet; absent = without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
}

/// A JSON object, kept as text that clones share: a megabyte of numbers would take many as values.
#[derive(Clone, Debug, Default)]
pub struct FeedPayload(Option<Arc<RawValue>>);

impl FeedPayload {
    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.as_str() == "{}"
    }

    /// The object.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().map_or("{}", RawValue::get)
    }

    /// Its members, each as text.
    pub fn members(&self) -> BTreeMap<String, &RawValue> {
        // It is an object.
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }
}

impl From<Map<String, Value>> for FeedPayload {
    fn from(object: Map<String, Value>) -> Self {
        // Any object can be written.
        Self(serde_json::value::to_raw_value(&object).ok().map(Arc::from))
    }
}

impl PartialEq for FeedPayload {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Serialize for FeedPayload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(object) => RawValue::serialize(object, serializer),
            None => Map::new().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FeedPayload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Box::<RawValue>::deserialize(deserializer)?;
        match object.get().starts_with('{') {
            true => Ok(Self(Some(object.into()))),
            false => Err(D::Error::custom("a feed's payload is an object")),
        }
    }
}

/// What a feed fires at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "feed", rename_all = "lowercase")]
pub enum FeedSource {
    /// The instants of a cron pattern.
    Alarm {
        /// Five fields from minutes to days of the week, or six with seconds in front.
        cron: String,
        /// An IANA time zone; absent = UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timezone: Option<String>,
        /// Nothing before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<Date>,
        /// Nothing after.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<Date>,
    },
    /// Every so many minutes.
    Interval {
        /// How many.
        minutes: u32,
        /// The first instant.
        start: Date,
        /// Nothing after.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<Date>,
    },
    /// One instant.
    Once {
        /// That instant.
        date: Date,
        /// What goes after it.
        #[serde(default)]
        then_delete: ThenDelete,
    },
    /// Messages that come by NATS.
    Nats(NatsSource),
}

/// What goes when a feed that fires once has fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThenDelete {
    /// Nothing.
    #[default]
    Nothing,
    /// The trigger.
    Trigger,
    /// The trigger, and its rules.
    Rules,
}

/// An instant as somebody has written it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Date {
    /// The instant.
    pub at: Timestamp,
    /// The text that meant it; absent = it was written as milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Date {
    /// As it was written.
    pub fn written(&self) -> Value {
        match &self.text {
            Some(text) => text.as_str().into(),
            None => self.at.as_millis().into(),
        }
    }
}

/// Whether a feed fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedState {
    /// It does.
    Active,
    /// Its owner has paused it.
    Paused,
    /// It has come to an end, for this reason.
    Ended(String),
    /// It has fired, and its trigger is about to be deleted.
    Leaving,
}

impl Feed {
    /// The trigger that it fires.
    pub fn path(&self) -> EntityPath {
        EntityPath::new(self.namespace.clone(), self.trigger.clone())
    }

    /// When there is something to do about it.
    pub fn due(&self) -> Option<Timestamp> {
        let moment = match self.state {
            FeedState::Active => self.next?,
            FeedState::Leaving => Timestamp::default(),
            FeedState::Paused | FeedState::Ended(_) => return None,
        };
        Some(self.retry_at.map_or(moment, |retry| retry.max(moment)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn feed() -> Feed {
        let date = Date { at: Timestamp::from_millis(500), text: Some("then".to_owned()) };
        Feed {
            namespace: NamespaceName::parse("guest").unwrap(),
            trigger: EntityName::parse("t").unwrap(),
            subject: "guest".to_owned(),
            revision: 1,
            source: FeedSource::Once { date, then_delete: ThenDelete::Rules },
            payload: FeedPayload::default(),
            state: FeedState::Active,
            since: Timestamp::from_millis(100),
            next: Some(Timestamp::from_millis(500)),
            retry_at: None,
            last: None,
            fired: 0,
            position: None,
            left: None,
        }
    }

    #[test]
    fn it_is_due_at_its_instant_or_when_it_is_tried_again() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        assert_eq!(feed().due(), at(500));
        assert_eq!(Feed { retry_at: at(900), ..feed() }.due(), at(900));
        assert_eq!(Feed { retry_at: at(100), ..feed() }.due(), at(500));
        assert_eq!(Feed { state: FeedState::Leaving, ..feed() }.due(), at(0));
        for state in [FeedState::Paused, FeedState::Ended("over".to_owned())] {
            assert_eq!(Feed { state, ..feed() }.due(), None);
        }
        assert_eq!(Feed { next: None, ..feed() }.due(), None);
    }

    #[test]
    fn it_is_written_and_read() {
        let written = serde_json::to_value(feed()).unwrap();
        assert_eq!(
            written["source"],
            json!({"feed": "once", "date": {"at": 500, "text": "then"}, "then_delete": "rules"})
        );
        assert_eq!(serde_json::from_value::<Feed>(written).unwrap(), feed());
        assert_eq!(written_payload(json!({})), None);
        let payload = json!({"n": 12.50, "text": "\u{e9}", "messages": [1, {"a": null}]});
        assert_eq!(written_payload(payload.clone()), Some(payload));
        let ended = Feed { state: FeedState::Ended("over".to_owned()), ..feed() };
        let written = serde_json::to_value(&ended).unwrap();
        assert_eq!(serde_json::from_value::<Feed>(written).unwrap(), ended);
    }

    /// What is written of a feed's payload, which comes back.
    fn written_payload(payload: Value) -> Option<Value> {
        let Value::Object(object) = payload else { panic!("a payload is an object") };
        let feed = Feed { payload: object.into(), ..feed() };
        let text = serde_json::to_string(&feed).unwrap();
        assert_eq!(serde_json::from_str::<Feed>(&text).unwrap(), feed);
        let written = serde_json::to_value(&feed).unwrap();
        assert_eq!(serde_json::from_value::<Feed>(written.clone()).unwrap(), feed);
        written.get("payload").cloned()
    }

    #[test]
    fn a_payload_is_an_object_whose_members_stay_text() {
        let payload: FeedPayload = serde_json::from_str(r#"{"b": 1.10, "a": [1, 2]}"#).unwrap();
        let members: Vec<_> = payload.members().into_iter().map(|(key, text)| (key, text.get())).collect();
        assert_eq!(members, [("a".to_owned(), "[1, 2]"), ("b".to_owned(), "1.10")]);
        assert!(FeedPayload::default().members().is_empty());
        assert!(serde_json::from_str::<FeedPayload>("[1]").is_err());
    }
}
