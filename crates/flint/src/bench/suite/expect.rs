//! Verification rules: a workload's `expect`.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// All given rules must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(default, deserialize_with = "some")]
    equals: Option<Value>,
    one_of: Option<Vec<Value>>,
    min: Option<f64>,
    max: Option<f64>,
    length: Option<usize>,
    matches: Option<String>,
    sha256: Option<String>,
    pub(super) encoding: Option<String>,
    #[serde(default)]
    absent: bool,
}

/// Distinguishes `"equals": null`, which is a rule, from an absent one.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Rule {
    /// The rule that `value` breaks, in words.
    pub(super) fn broken_by(&self, value: Option<&Value>) -> Option<String> {
        let Some(value) = value else {
            return (!self.absent).then(|| "is not there".into());
        };
        if self.absent {
            return Some("is there".into());
        }
        let shown: String = value.to_string().chars().take(120).collect();
        if let Some(expected) = &self.equals
            && !same(value, expected)
        {
            return Some(format!(
                "{shown} is not {}",
                expected.to_string().chars().take(120).collect::<String>()
            ));
        }
        if let Some(choices) = &self.one_of
            && !choices.iter().any(|choice| same(value, choice))
        {
            return Some(format!("{shown} is none of {} choices", choices.len()));
        }
        let number = value.as_f64();
        if self.min.is_some_and(|min| number.is_none_or(|number| number < min)) {
            return Some(format!("{shown} is less than {}", self.min.unwrap_or_default()));
        }
        if self.max.is_some_and(|max| number.is_none_or(|number| number > max)) {
            return Some(format!("{shown} is more than {}", self.max.unwrap_or_default()));
        }
        let length = match value {
            Value::String(text) => Some(text.chars().count()),
            Value::Array(items) => Some(items.len()),
            _ => None,
        };
        if self.length.is_some() && length != self.length {
            return Some(format!("{shown} has another length"));
        }
        if let Some(pattern) = &self.matches {
            let whole = regex::Regex::new(&format!("^(?:{pattern})$"));
            let Ok(whole) = whole else { return Some(format!("the pattern {pattern} is none")) };
            if !value.as_str().is_some_and(|text| whole.is_match(text)) {
                return Some(format!("{shown} does not match {pattern}"));
            }
        }
        if let Some(expected) = &self.sha256 {
            let bytes = match (value.as_str(), self.encoding.as_deref()) {
                (Some(text), Some("base64")) => BASE64.decode(text).unwrap_or_default(),
                (Some(text), _) => text.as_bytes().to_vec(),
                (None, _) => return Some(format!("{shown} is not text")),
            };
            let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            if digest != *expected {
                return Some(format!("its digest {digest} is not {expected}"));
            }
        }
        None
    }
}

/// Equal as JSON: 1 and 1.0 are the same number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_rule_accepts_what_it_says_and_nothing_else() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for (rule, good, bad) in [
            (json!({ "equals": { "a": [1, 2.0] } }), json!({ "a": [1.0, 2] }), json!({ "a": [1, 3] })),
            (json!({ "equals": null }), json!(null), json!(0)),
            (json!({ "equals": true }), json!(true), json!(1)),
            (json!({ "one_of": ["x", "y"] }), json!("y"), json!("z")),
            (json!({ "min": 1, "max": 2 }), json!(1.5), json!(3)),
            (json!({ "min": 1 }), json!(1), json!("1")),
            (json!({ "length": 3 }), json!("äöü"), json!([1, 2])),
            (json!({ "matches": "a|b+" }), json!("bb"), json!("ab")),
            (json!({ "sha256": abc }), json!("abc"), json!("abd")),
            (json!({ "sha256": abc, "encoding": "base64" }), json!("YWJj"), json!("abc")),
        ] {
            let read: Rule = serde_json::from_value(rule.clone()).unwrap();
            assert_eq!(read.broken_by(Some(&good)), None, "{rule}");
            assert!(read.broken_by(Some(&bad)).is_some(), "{rule}");
            assert_eq!(read.broken_by(None), Some("is not there".into()));
        }
        let absent: Rule = serde_json::from_value(json!({ "absent": true })).unwrap();
        assert_eq!(
            (absent.broken_by(None), absent.broken_by(Some(&json!(1)))),
            (None, Some("is there".into()))
        );
        assert!(serde_json::from_value::<Rule>(json!({ "equal": 1 })).is_err());
    }
}
