//! Parameters and annotations: lists of keys with JSON values.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

impl Parameters {
    /// No defaults at all: a call's body can be handed on as it is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
        self.0.iter().filter(|parameter| parameter.init).map(|parameter| {
            let value = match &parameter.value {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            (parameter.key.clone(), value)
        })
    }
}

/// What is known about an entity: `{"key":…,"value":…}` in order, keys unique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Annotation>", into = "Vec<Annotation>")]
pub struct Annotations(Vec<Annotation>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Annotation {
    key: String,
    #[serde(default)]
    value: Value,
}

impl Annotations {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|annotation| annotation.key == key).map(|annotation| &annotation.value)
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
        match self.0.iter_mut().find(|annotation| annotation.key == key) {
            Some(annotation) => annotation.value = value,
            None => self.0.push(Annotation { key, value }),
        }
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|annotation| annotation.key != key);
    }

    /// Sets every key of `other`, keeping the rest.
    pub fn merge(&mut self, other: Annotations) {
        for Annotation { key, value } in other.0 {
            self.set(key, value);
        }
    }

    /// Every key with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|annotation| (annotation.key.as_str(), &annotation.value))
    }
}

impl From<Vec<Annotation>> for Annotations {
    fn from(list: Vec<Annotation>) -> Self {
        let mut annotations = Self::default();
        annotations.merge(Self(list));
        annotations
    }
}

impl From<Annotations> for Vec<Annotation> {
    fn from(annotations: Annotations) -> Self {
        annotations.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_overrides_defaults_and_init_parameters_go_to_the_environment() {
        let defaults: Parameters = serde_json::from_value(json!([
            {"key": "a", "value": 1}, {"key": "b", "value": 2}, {"key": "b", "value": 3},
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
