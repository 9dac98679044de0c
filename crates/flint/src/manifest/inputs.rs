//! Inputs, in the three forms of manifests: a value, the name of a type, or a map with `type`, `value` and
//! `default`.

use serde_json::{Map, Number, Value};

/// A default argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) sort: Option<Sort>,
    /// Absent: it has to be given elsewhere.
    pub(crate) value: Option<Value>,
    /// For the environment, set when the code is loaded.
    pub(crate) init: bool,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Text,
    Integer,
    Float,
    Boolean,
    Json,
}

/// The keys of the long form. A map with any other key is a value.
pub(crate) const LONG_FORM: [&str; 8] =
    ["type", "value", "default", "description", "required", "status", "schema", "init"];

impl Sort {
    /// The type of that name in manifests.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::Text,
            "integer" | "int" => Self::Integer,
            "float" | "number" | "double" => Self::Float,
            "boolean" | "bool" => Self::Boolean,
            "json" | "object" | "map" | "array" | "list" => Self::Json,
            _ => return None,
        })
    }

    /// The type of a name that denotes one even where a value is expected.
    pub(crate) fn as_value(name: &str) -> Option<Self> {
        matches!(name, "string" | "integer" | "float" | "boolean" | "json").then(|| Self::named(name))?
    }

    fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::Json => "json",
        }
    }

    /// The value of an input with a type only.
    pub(crate) fn zero(self) -> Value {
        match self {
            Self::Text => "".into(),
            Self::Integer => 0.into(),
            Self::Float => 0.0.into(),
            Self::Boolean => false.into(),
            Self::Json => Map::new().into(),
        }
    }

    /// Converts a value to this type, parsing text such as variables have. The error says what is expected.
    pub(crate) fn of(self, value: Value) -> Result<Value, String> {
        let text = value.as_str().map(str::trim);
        let read = match (self, text) {
            (_, None) if value.is_null() => Some(Value::Null),
            (Self::Text, Some(_)) => return Ok(value),
            (Self::Text, None) => (!value.is_object() && !value.is_array()).then(|| value.to_string().into()),
            (Self::Integer, None) => {
                value.is_i64().then(|| value.clone()).or_else(|| value.is_u64().then(|| value.clone()))
            }
            (Self::Integer, Some(text)) => text.parse::<i64>().ok().map(Value::from),
            (Self::Float, None) => value.is_number().then(|| value.clone()),
            (Self::Float, Some(text)) => text.parse().ok().and_then(Number::from_f64).map(Value::Number),
            (Self::Boolean, None) => value.is_boolean().then(|| value.clone()),
            (Self::Boolean, Some(text)) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => Some(true.into()),
                "false" | "no" | "off" => Some(false.into()),
                _ => None,
            },
            (Self::Json, None) => Some(value.clone()),
            (Self::Json, Some(text)) => match serde_json::from_str(text) {
                Ok(read) => Some(read),
                Err(error) => return Err(format!("its type is json, and its text is not JSON: {error}")),
            },
        };
        // Without the value, which may be a secret.
        read.ok_or_else(|| format!("its type is {}, and its value is not", self.name()))
    }
}

impl Input {
    /// Replaces the value.
    pub(crate) fn set(&mut self, value: Value) -> Result<(), String> {
        self.value = Some(match self.sort {
            Some(sort) => sort.of(value)?,
            None => value,
        });
        Ok(())
    }
}

/// Inputs as the parameters of packages, triggers and bindings.
pub(crate) fn pairs(inputs: &[Input]) -> Vec<(String, Value)> {
    inputs.iter().map(|input| (input.name.clone(), input.value.clone().unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_read_as_their_type_says() {
        for (sort, value, read) in [
            (Sort::Integer, json!("12"), json!(12)),
            (Sort::Integer, json!(12), json!(12)),
            (Sort::Float, json!("1.5"), json!(1.5)),
            (Sort::Float, json!(2), json!(2)),
            (Sort::Boolean, json!("Yes"), json!(true)),
            (Sort::Text, json!(5), json!("5")),
            (Sort::Text, json!(" a "), json!(" a ")),
            (Sort::Json, json!(r#"{"a": [1]}"#), json!({"a": [1]})),
            (Sort::Json, json!({"a": 1}), json!({"a": 1})),
            (Sort::Integer, json!(null), json!(null)),
        ] {
            assert_eq!(sort.of(value.clone()), Ok(read), "{sort:?} {value}");
        }
        for (sort, value) in [
            (Sort::Integer, json!("s3cret")),
            (Sort::Integer, json!(1.5)),
            (Sort::Float, json!("NaN")),
            (Sort::Boolean, json!(1)),
            (Sort::Json, json!("{s3cret")),
            (Sort::Text, json!(["s3cret"])),
        ] {
            let error = sort.of(value.clone()).unwrap_err();
            assert!(error.contains("its type is") && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_type_alone_has_an_empty_value() {
        let zeros = ["string", "integer", "float", "boolean", "json"]
            .map(|name| Sort::as_value(name).unwrap().zero());
        assert_eq!(zeros, [json!(""), json!(0), json!(0.0), json!(false), json!({})]);
        assert_eq!(Sort::as_value("list"), None, "an everyday word stays a value");
    }
}
