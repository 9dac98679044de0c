//! Splits a call's query into options of this API and arguments for the function.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::ApiError;

/// A call's query, split.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CallQuery {
    /// `async=true`: answer as soon as the call is durable.
    pub(crate) asynchronous: bool,
    /// `record=true`: answer with the activation record.
    pub(crate) record: bool,
    /// `wait_ms=N`: wait no longer than this.
    pub(crate) wait: Option<Duration>,
    /// The other parameters, verbatim.
    pub(crate) rest: String,
}

impl CallQuery {
    pub(crate) fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let mut parsed = Self::default();
        let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(parsed) };
        let flag = |name: &str, value: &str| match value {
            "" | "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(ApiError::invalid(format!("{name}={value}: write true or false"))),
        };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "async" => parsed.asynchronous = flag(name, value)?,
                "record" => parsed.record = flag(name, value)?,
                "wait_ms" => {
                    let millis = value.parse().map_err(|_| {
                        ApiError::invalid(format!("wait_ms={value} is not a number of milliseconds"))
                    })?;
                    parsed.wait = Some(Duration::from_millis(millis));
                }
                _ => rest.push(pair),
            }
        }
        parsed.rest = rest.join("&");
        Ok(parsed)
    }
}

/// A call's arguments: query parameters as strings, overridden by the JSON body.
pub(crate) fn merged(query: &str, body: Bytes) -> Result<Bytes, ApiError> {
    if query.is_empty() {
        return Ok(body);
    }
    let mut arguments: BTreeMap<String, String> =
        query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
    let refused = |why: String| {
        ApiError::invalid(format!("the body is not a JSON object: {why}"))
            .hint("arguments are a JSON object; send anything else with its own content type")
    };
    let object = std::str::from_utf8(&body).map_err(|error| refused(error.to_string()))?.trim_ascii();
    let mut members = "";
    if !object.is_empty() {
        leave_out(&mut arguments, object).map_err(|error| refused(error.to_string()))?;
        members = object[1..object.len() - 1].trim_ascii();
    }
    let mut whole = serde_json::to_string(&arguments).map_err(|error| refused(error.to_string()))?;
    if !members.is_empty() {
        whole.pop();
        if !arguments.is_empty() {
            whole.push(',');
        }
        whole.push_str(members);
        whole.push('}');
    }
    Ok(whole.into())
}

fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(value))
}

/// Removes arguments that a JSON object overrides. Its values are checked but not parsed, and are copied
/// verbatim.
fn leave_out(arguments: &mut BTreeMap<String, String>, object: &str) -> serde_json::Result<()> {
    struct Own<'a>(&'a mut BTreeMap<String, String>);

    impl<'de> Visitor<'de> for Own<'_> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<String>()? {
                map.next_value::<IgnoredAny>()?;
                self.0.remove(&key);
            }
            Ok(())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(object);
    deserializer.deserialize_map(Own(arguments))?;
    deserializer.end()
}

/// Percent-decoding with `+` as a space, as in forms.
fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&percent_decoded(&text.replace('+', " "))).into_owned()
}

/// Percent-decoding; malformed escapes stay as they are.
pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[at], hex(1), hex(2)) {
            // Two hex digits are at most 255.
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (other, ..) => {
                out.push(other);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn options_are_told_from_arguments() {
        let query = CallQuery::parse(Some("async=true&max=128&wait_ms=50&record&x=%20a")).unwrap();
        assert!(query.asynchronous && query.record);
        assert_eq!((query.wait, query.rest.as_str()), (Some(Duration::from_millis(50)), "max=128&x=%20a"));
        assert!(
            CallQuery::parse(Some("async=maybe")).is_err() && CallQuery::parse(Some("wait_ms=soon")).is_err()
        );
        assert_eq!(CallQuery::parse(None).unwrap(), CallQuery::default());
    }

    #[test]
    fn the_body_wins_over_the_query() {
        let merge = |query: &str, body: &'static str| merged(query, Bytes::from_static(body.as_bytes()));
        let value = |bytes: Bytes| serde_json::from_slice::<Value>(&bytes).unwrap();
        assert_eq!(
            value(merge("a=1&b=x+y%21&c", r#"{"a":2}"#).unwrap()),
            json!({"a": 2, "b": "x y!", "c": ""})
        );
        assert_eq!(merge("", "not json").unwrap(), "not json", "the controller refuses it");
        for bad in ["[1]", "1", "{", "{}x", "{\"a\":}"] {
            assert!(merge("a=1", bad).is_err(), "{bad}");
        }
        for empty in ["", " ", "{}", " { } "] {
            assert_eq!(merge("a=1", empty).unwrap(), r#"{"a":"1"}"#, "{empty}");
        }
        assert_eq!(merge("&", "").unwrap(), "{}");
    }

    #[test]
    fn the_body_keeps_its_own_text() {
        let merge =
            |query: &str, body: &'static str| merged(query, Bytes::from_static(body.as_bytes())).unwrap();
        let body = r#" {"n": 12345678901234567890123, "e":1e400,"s":"\ud800"} "#;
        let kept = r#""n": 12345678901234567890123, "e":1e400,"s":"\ud800""#;
        assert_eq!(merge("x=1", body), format!(r#"{{"x":"1",{kept}}}"#));
        assert_eq!(merge("n=1", body), format!("{{{kept}}}"), "the body wins");
    }

    #[test]
    fn an_argument_of_an_options_name_is_written_with_a_letter_encoded() {
        let query = CallQuery::parse(Some("%61sync=true&%72ecord=1&wait_m%73=x")).unwrap();
        assert!(!query.asynchronous && !query.record && query.wait.is_none());
        let arguments: Value = serde_json::from_slice(&merged(&query.rest, Bytes::new()).unwrap()).unwrap();
        assert_eq!(arguments, json!({"async": "true", "record": "1", "wait_ms": "x"}));
    }

    proptest! {
        #[test]
        fn no_query_makes_the_parsers_panic(query in "\\PC{0,60}") {
            let _ = CallQuery::parse(Some(&query));
            let _ = merged(&query, Bytes::new());
        }
    }
}
