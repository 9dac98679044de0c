//! A call's arguments: the request's JSON object merged over the function's defaults.
//!
//! The request's members are not parsed into values and serialised again: they are checked, and copied as
//! they came. A function without defaults gets the request's own bytes.

use std::borrow::Cow;

use bytes::Bytes;
use flint_model::{Annotations, KeySet, Parameters, last_wins};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};

use crate::ControllerError;

/// A function's default arguments, ready to be merged.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    /// Keys with their serialised `"key":value`; of duplicate keys the last.
    members: Vec<(String, String)>,
    /// Keys that a request must not set.
    fixed: Vec<String>,
}

impl Defaults {
    /// The defaults of a function. With the annotation `final`, parameters that have a value cannot be
    /// overridden.
    pub(crate) fn new(parameters: &Parameters, annotations: &Annotations) -> Self {
        let given = parameters.0.iter().filter(|parameter| !parameter.init).map(|parameter| {
            let text = format!("{}:{}", Value::from(parameter.key.as_str()), parameter.value);
            (parameter.key.clone(), text)
        });
        let members = last_wins(given.collect(), |(key, _)| key);
        let fixed = match annotations.is_truthy("final") {
            true => parameters.0.iter().filter(|p| !p.value.is_null()).map(|p| p.key.clone()).collect(),
            false => Vec::new(),
        };
        Self { members, fixed }
    }

    /// Approximate memory use in bytes.
    pub(crate) fn weight(&self) -> usize {
        let members = self.members.iter().map(|(key, text)| key.len() + text.len());
        let fixed = self.fixed.iter().map(String::len);
        members.chain(fixed).sum::<usize>()
            + self.members.len() * size_of::<(String, String)>()
            + self.fixed.len() * size_of::<String>()
    }

    /// Whether there are neither defaults nor fixed keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.fixed.is_empty()
    }

    /// Whether there are keys that a request must not set.
    pub(crate) fn has_fixed(&self) -> bool {
        !self.fixed.is_empty()
    }

    /// The arguments of a call whose request has this body; an empty body is `{}`.
    pub(crate) fn merge(&self, body: Bytes) -> Result<Bytes, ControllerError> {
        let object = body.trim_ascii();
        if object.is_empty() {
            return Ok(self.splice(&KeySet::Few(&[], Cow::as_ref), b""));
        }
        let malformed = |detail: String| ControllerError::Malformed(detail);
        if object[0] != b'{' {
            let what = match serde_json::from_slice::<&RawValue>(object) {
                Ok(_) => "The arguments have to be a JSON object.".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(malformed(what));
        }
        if self.is_empty() {
            serde_json::from_slice::<&RawValue>(object).map_err(|error| malformed(error.to_string()))?;
            return Ok(body);
        }
        let text = std::str::from_utf8(object).map_err(|error| malformed(error.to_string()))?;
        let keys = top_level_keys(text).map_err(|error| malformed(error.to_string()))?;
        let keys = KeySet::new(&keys, Cow::as_ref, self.fixed.len() + self.members.len());
        if self.fixed.iter().any(|fixed| keys.contains(fixed)) {
            return Err(ControllerError::ReservedParameters);
        }
        if self.members.is_empty() {
            return Ok(body);
        }
        let members = object[1..object.len() - 1].trim_ascii();
        Ok(self.splice(&keys, members))
    }

    /// The defaults that `keys` do not override, then `members`, as one object.
    fn splice(&self, keys: &KeySet<'_, Cow<'_, str>>, members: &[u8]) -> Bytes {
        let size: usize = self.members.iter().map(|(_, text)| text.len() + 1).sum();
        let mut whole = Vec::with_capacity(size + members.len() + 2);
        whole.push(b'{');
        for (key, text) in &self.members {
            if !keys.contains(key) {
                whole.extend_from_slice(text.as_bytes());
                whole.push(b',');
            }
        }
        if members.is_empty() && whole.len() > 1 {
            whole.pop();
        }
        whole.extend_from_slice(members);
        whole.push(b'}');
        whole.into()
    }
}

/// The keys of a JSON object; its values are checked but not parsed.
fn top_level_keys(object: &str) -> serde_json::Result<Vec<Cow<'_, str>>> {
    struct Keys;

    impl<'de> Visitor<'de> for Keys {
        type Value = Vec<Cow<'de, str>>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut keys = Vec::new();
            while let Some(key) = map.next_key_seed(Key)? {
                map.next_value::<IgnoredAny>()?;
                keys.push(key);
            }
            Ok(keys)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(object);
    let keys = deserializer.deserialize_map(Keys)?;
    deserializer.end()?;
    Ok(keys)
}

/// A key, borrowed where it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn defaults(parameters: Value, annotations: Value) -> Defaults {
        let parameters = serde_json::from_value(parameters).unwrap();
        Defaults::new(&parameters, &serde_json::from_value(annotations).unwrap())
    }

    fn merged(defaults: &Defaults, body: &'static str) -> Result<String, String> {
        let merged =
            defaults.merge(Bytes::from_static(body.as_bytes())).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(merged.to_vec()).unwrap())
    }

    #[test]
    fn the_request_goes_over_the_defaults_and_keeps_its_own_text() {
        let none = Defaults::default();
        assert_eq!(merged(&none, " "), Ok("{}".into()));
        assert_eq!(merged(&none, r#" {"n": 1.10}"#), Ok(r#" {"n": 1.10}"#.into()));
        let some = defaults(
            json!([{"key":"a","value":1},{"key":"b\"","value":null},{"key":"E","value":2,"init":true}]),
            json!([]),
        );
        assert_eq!(merged(&some, ""), Ok(r#"{"a":1,"b\"":null}"#.into()));
        assert_eq!(merged(&some, "{ }"), Ok(r#"{"a":1,"b\"":null}"#.into()));
        assert_eq!(
            merged(&some, r#"{"\u0061":9007199254740993}"#),
            Ok(r#"{"b\"":null,"\u0061":9007199254740993}"#.into())
        );
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for defaults in [Defaults::default(), defaults(json!([{"key":"a","value":1}]), json!([]))] {
            for body in ["[]", "1", "null", "{", "{}x", "{\"a\":}", "{'a':1}", "\u{feff}{}"] {
                let error = merged(&defaults, body).unwrap_err();
                assert!(error.starts_with("The request content was malformed:\n"), "{body}: {error}");
            }
            assert!(defaults.merge(Bytes::from_static(b"{\"a\":\"\xff\"}")).is_err());
        }
    }

    #[test]
    fn final_parameters_with_a_value_cannot_be_overridden() {
        let fixed = defaults(
            json!([{"key":"a","value":1},{"key":"b","value":null}]),
            json!([{"key":"final","value":true}]),
        );
        let error = merged(&fixed, r#"{"a":2}"#).unwrap_err();
        assert_eq!(error, "Request defines parameters that are not allowed (e.g., reserved properties).");
        assert_eq!(merged(&fixed, r#"{"b":2}"#), Ok(r#"{"a":1,"b":2}"#.into()));
    }

    #[test]
    fn requests_and_defaults_of_200_000_keys_are_merged() {
        const COUNT: usize = 200_000;
        let list: Vec<Value> =
            (0..COUNT).map(|number| json!({"key": number.to_string(), "value": 1})).collect();
        let body: Map<String, Value> = (1..=COUNT).map(|number| (number.to_string(), Value::Null)).collect();
        let body = Bytes::from(serde_json::to_vec(&body).unwrap());
        let some = defaults(Value::from(list.clone()), json!([]));
        let whole: Map<String, Value> = serde_json::from_slice(&some.merge(body.clone()).unwrap()).unwrap();
        assert_eq!(whole.len(), COUNT + 1);
        assert_eq!((&whole["0"], &whole["1"]), (&json!(1), &Value::Null));
        let fixed = defaults(Value::from(list), json!([{"key": "final", "value": true}]));
        assert!(fixed.merge(body).is_err());
    }

    fn any_object() -> impl Strategy<Value = Map<String, Value>> {
        let value =
            prop_oneof![Just(Value::Null), any::<i32>().prop_map(Value::from), ".*".prop_map(Value::from)];
        proptest::collection::btree_map("[abc\"\\\\é]{0,2}", value, 0..30)
            .prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn merging_text_is_merging_values(defaults in any_object(), arguments in any_object(), pretty: bool) {
            let list: Vec<_> = defaults.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
            let parameters: Parameters = serde_json::from_value(Value::Array(list)).unwrap();
            let body = match pretty {
                true => serde_json::to_vec_pretty(&arguments).unwrap(),
                false => serde_json::to_vec(&arguments).unwrap(),
            };
            let merged = Defaults::new(&parameters, &Annotations::default()).merge(body.into()).unwrap();
            let mut expected = arguments;
            parameters.merge_into(&mut expected);
            prop_assert_eq!(serde_json::from_slice::<Map<String, Value>>(&merged).unwrap(), expected);
        }

        #[test]
        fn any_bytes_are_either_refused_or_an_object(body: Vec<u8>) {
            let some = defaults(json!([{"key":"a","value":1}]), json!([]));
            for defaults in [Defaults::default(), some] {
                if let Ok(merged) = defaults.merge(body.clone().into()) {
                    prop_assert!(serde_json::from_slice::<Map<String, Value>>(&merged).is_ok());
                }
            }
        }
    }
}
