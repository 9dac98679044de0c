//! Parameters and annotations: lists of keys with JSON values.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::keyed::{FEW, KeySet, last_wins};

/// A default argument of a function or package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// The argument's name.
    pub key: String,
    /// Its value.
    #[serde(default)]
    pub value: Value,
    /// Goes to the environment when the function is loaded instead of to each call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub init: bool,
}

/// Default arguments. A later entry with the same key replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parameters(pub Vec<Parameter>);

impl Parameter {
    fn key(&self) -> &str {
        &self.key
    }
}

impl Parameters {
    /// No defaults at all: a call's body can be handed on as it is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These, with what `under` has beside them: what a function inherits from its package.
    #[must_use]
    pub fn over(&self, under: &Parameters) -> Parameters {
        let own = self.keys(under.0.len());
        let inherited = under.effective().filter(|parameter| !own.contains(&parameter.key));
        Parameters(inherited.chain(self.effective()).cloned().collect())
    }

    /// The keys, of which about `lookups` will be asked for.
    pub fn keys(&self, lookups: usize) -> KeySet<'_, Parameter> {
        KeySet::new(&self.0, Parameter::key, lookups)
    }

    /// Those that no later one with the same key replaces.
    fn effective(&self) -> impl Iterator<Item = &Parameter> {
        let last: Option<HashMap<&str, usize>> =
            (self.0.len() > FEW).then(|| self.0.iter().map(Parameter::key).zip(0..).collect());
        let is_last = move |at: usize, one: &Parameter| match &last {
            Some(last) => last.get(one.key()) == Some(&at),
            None => !self.0[at + 1..].iter().any(|later| later.key == one.key),
        };
        self.0.iter().enumerate().filter(move |(at, one)| is_last(*at, one)).map(|(_, one)| one)
    }

    /// The arguments of a call: these defaults, overridden by `arguments`.
    pub fn merge_into(&self, arguments: &mut Map<String, Value>) {
        for parameter in self.0.iter().rev().filter(|parameter| !parameter.init) {
            if !arguments.contains_key(&parameter.key) {
                arguments.insert(parameter.key.clone(), parameter.value.clone());
            }
        }
    }

    /// What goes to the environment when the function is loaded: strings as they are, null as "", other values as JSON.
    pub fn environment(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.effective().filter(|parameter| parameter.init).map(|parameter| {
            let value = match &parameter.value {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            (parameter.key.clone(), value)
        })
    }
}

/// What is known about an entity: `{"key":…,"value":…}` in order, keys unique. Copies share it until one is changed: every record of a call has one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<Annotation>")]
pub struct Annotations(Arc<Shared>);

#[derive(Clone, Debug, Default)]
struct Shared {
    list: Vec<Annotation>,
    /// The list as JSON, once it was asked for.
    json: OnceLock<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Annotation {
    key: String,
    #[serde(default)]
    value: Value,
}

impl Annotation {
    fn key(&self) -> &str {
        &self.key
    }
}

impl Annotations {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.list.iter().find(|annotation| annotation.key == key).map(|annotation| &annotation.value)
    }

    /// Whether `key` is there and is not `false`, `0`, `null` or `""`.
    pub fn is_truthy(&self, key: &str) -> bool {
        match self.get(key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Number(number)) => number.as_f64() != Some(0.0),
            Some(_) => true,
        }
    }

    /// Sets `key`, in its old place when it was there.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        let list = self.list_mut();
        match list.iter_mut().find(|annotation| annotation.key == key) {
            Some(annotation) => annotation.value = value,
            None => list.push(Annotation { key, value }),
        }
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &str) {
        if self.get(key).is_some() {
            self.list_mut().retain(|annotation| annotation.key != key);
        }
    }

    /// Removes every one of `keys`.
    pub fn remove_all(&mut self, keys: &[String]) {
        let removed = KeySet::new(keys, String::as_str, self.0.list.len());
        self.list_mut().retain(|annotation| !removed.contains(&annotation.key));
    }

    /// Sets every key of `other`, keeping the rest.
    pub fn merge(&mut self, other: Annotations) {
        if !other.0.list.is_empty() {
            let list = self.list_mut();
            list.extend(Arc::unwrap_or_clone(other.0).list);
            *list = last_wins(std::mem::take(list), Annotation::key);
        }
    }

    /// Every key with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.list.iter().map(|annotation| (annotation.key.as_str(), &annotation.value))
    }

    /// All of it as JSON, as it is serialised. Copies share this too.
    pub fn json(&self) -> serde_json::Result<&str> {
        if let Some(json) = self.0.json.get() {
            return Ok(json);
        }
        let json = serde_json::to_string(&self.0.list)?.into_boxed_str();
        Ok(self.0.json.get_or_init(|| json))
    }

    fn list_mut(&mut self) -> &mut Vec<Annotation> {
        let shared = Arc::make_mut(&mut self.0);
        shared.json.take();
        &mut shared.list
    }
}

impl PartialEq for Annotations {
    fn eq(&self, other: &Self) -> bool {
        self.0.list == other.0.list
    }
}

impl Serialize for Annotations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.list.serialize(serializer)
    }
}

impl From<Vec<Annotation>> for Annotations {
    fn from(list: Vec<Annotation>) -> Self {
        Self(Arc::new(Shared { list: last_wins(list, Annotation::key), json: OnceLock::new() }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::json;

    use super::*;

    /// Few keys in many entries, so that they meet.
    fn entries() -> impl Strategy<Value = Vec<(String, i32)>> {
        vec(("[a-e]{0,2}", 0..9_i32), 0..40)
    }

    fn parameters(entries: &[(String, i32)]) -> Parameters {
        let parameter = |(key, value): &(String, i32)| Parameter {
            key: key.clone(),
            value: (*value).into(),
            init: false,
        };
        Parameters(entries.iter().map(parameter).collect())
    }

    fn annotations(entries: &[(String, i32)]) -> Annotations {
        let annotation =
            |(key, value): &(String, i32)| Annotation { key: key.clone(), value: (*value).into() };
        entries.iter().map(annotation).collect::<Vec<_>>().into()
    }

    proptest! {
        #[test]
        fn over_keeps_the_last_of_each_key_in_order(over in entries(), under in entries()) {
            let last = |list: &[(String, i32)]| -> Vec<(String, i32)> {
                let kept = list.iter().enumerate().filter(|(at, one)| list[at + 1..].iter().all(|later| later.0 != one.0));
                kept.map(|(_, one)| one.clone()).collect()
            };
            let mut expected = last(&under);
            expected.retain(|(key, _)| over.iter().all(|own| own.0 != *key));
            expected.extend(last(&over));
            prop_assert_eq!(parameters(&over).over(&parameters(&under)), parameters(&expected));
        }

        #[test]
        fn a_merge_is_setting_key_by_key_and_removing_them_is_removing_each(
            old in entries(), new in entries(), keys in vec("[a-e]{0,2}", 0..40),
        ) {
            let mut expected = Annotations::default();
            for (key, value) in old.iter().chain(&new) {
                expected.set(key.clone(), *value);
            }
            let mut merged = annotations(&old);
            merged.merge(annotations(&new));
            prop_assert_eq!(&merged, &expected);
            keys.iter().for_each(|key| expected.remove(key));
            merged.remove_all(&keys);
            prop_assert_eq!(merged, expected);
        }

        /// Asked for between the changes, of copies and of what they were made of.
        #[test]
        fn the_json_is_that_of_the_list(old in entries(), new in entries(), keys in vec("[a-e]{0,2}", 0..4)) {
            let is_up_to_date = |annotations: &Annotations| {
                assert_eq!(annotations.json().unwrap(), serde_json::to_string(annotations).unwrap());
            };
            let original = annotations(&old);
            is_up_to_date(&original);
            let mut copy = original.clone();
            for (key, value) in new {
                copy.set(key, value);
                is_up_to_date(&copy);
            }
            copy.merge(annotations(&old));
            is_up_to_date(&copy);
            if let Some(key) = keys.first() {
                copy.remove(key);
                is_up_to_date(&copy);
            }
            copy.remove_all(&keys);
            is_up_to_date(&copy);
            is_up_to_date(&original);
        }
    }

    #[test]
    fn lists_of_200_000_keys_are_handled() {
        const COUNT: usize = 200_000;
        let keys: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
        let list: Vec<Value> = keys.iter().map(|key| json!({"key": key, "value": 1})).collect();
        let text = serde_json::to_string(&list).unwrap();
        let mut annotations: Annotations = serde_json::from_str(&text).unwrap();
        annotations.merge(annotations.clone());
        assert_eq!(annotations.iter().count(), COUNT);
        annotations.remove_all(&keys[1..]);
        assert_eq!(annotations.iter().collect::<Vec<_>>(), [("0", &json!(1))]);
        let parameters: Parameters = serde_json::from_str(&text).unwrap();
        assert_eq!(parameters.over(&parameters), parameters);
        assert_eq!(parameters.environment().count(), 0);
    }

    #[test]
    fn a_call_overrides_defaults_and_init_parameters_go_to_the_environment() {
        let defaults: Parameters = serde_json::from_value(json!([
            {"key": "a", "value": 1}, {"key": "b", "value": 2}, {"key": "b", "value": 3},
            {"key": "TOKEN", "value": "old", "init": true}, {"key": "N", "value": 6, "init": true},
            {"key": "TOKEN", "value": "t", "init": true}, {"key": "N", "value": 7, "init": true}
        ]))
        .unwrap();
        let Value::Object(mut arguments) = json!({"a": "mine"}) else { unreachable!() };
        defaults.merge_into(&mut arguments);
        assert_eq!(Value::Object(arguments), json!({"a": "mine", "b": 3}));
        let environment: Vec<_> = defaults.environment().collect();
        assert_eq!(environment, [("TOKEN".into(), "t".into()), ("N".into(), "7".into())]);
    }

    #[test]
    fn what_is_over_replaces_what_is_under_key_by_key() {
        let list = |value| serde_json::from_value::<Parameters>(value).unwrap();
        let under = list(
            json!([{"key": "a", "value": 1}, {"key": "b", "value": 2, "init": true}, {"key": "a", "value": 3}]),
        );
        let over = list(json!([{"key": "b", "value": 4}, {"key": "c", "value": 5}]));
        let merged = json!([{"key": "a", "value": 3}, {"key": "b", "value": 4}, {"key": "c", "value": 5}]);
        assert_eq!(serde_json::to_value(over.over(&under)).unwrap(), merged);
    }

    #[test]
    fn annotations_merge_key_by_key() {
        let mut annotations: Annotations =
            serde_json::from_value(json!([{"key": "x", "value": 0}, {"key": "y"}])).unwrap();
        assert!(!annotations.is_truthy("x") && !annotations.is_truthy("y") && !annotations.is_truthy("z"));
        annotations.merge(serde_json::from_value(json!([{"key": "x", "value": true}])).unwrap());
        assert_eq!(
            serde_json::to_value(&annotations).unwrap(),
            json!([{"key":"x","value":true},{"key":"y","value":null}])
        );
    }
}
