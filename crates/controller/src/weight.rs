//! Approximate memory use in bytes, counting what clients choose the size of.

use flint_model::{Annotations, Parameter, Parameters};
use serde_json::Value;

/// Of parameters.
pub(crate) fn of_parameters(parameters: &Parameters) -> usize {
    let one =
        |parameter: &Parameter| size_of::<Parameter>() + parameter.key.len() + of_value(&parameter.value);
    parameters.0.iter().map(one).sum()
}

/// Of annotations.
pub(crate) fn of_annotations(annotations: &Annotations) -> usize {
    annotations.iter().map(|(key, value)| of_member(key, value)).sum()
}

fn of_member(key: &str, value: &Value) -> usize {
    size_of::<(String, Value)>() + key.len() + of_value(value)
}

/// A value's heap use. Its depth is bounded where it is parsed.
fn of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(|one| size_of::<Value>() + of_value(one)).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| of_member(key, value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_deep_inside_is_counted() {
        let weight = |value: Value| {
            let annotations = serde_json::from_value(json!([{"key": "k", "value": value}])).unwrap();
            let parameters = serde_json::from_value(json!([{"key": "k", "value": value}])).unwrap();
            of_annotations(&annotations).min(of_parameters(&parameters))
        };
        let long = "x".repeat(1000);
        assert!(weight(json!({"a": [{"b": long}]})) > 1000);
        assert!(weight(json!({ long: 1 })) > 1000);
        assert!(weight(json!(vec![0; 1000])) > 1000 * size_of::<Value>());
        assert!(weight(json!(1)) < 1000);
    }
}
