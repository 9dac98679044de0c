//! Who may call a web action: its annotation `require-whisk-auth`.

use flint_model::Annotations;
use http::{HeaderMap, HeaderName};
use serde_json::Value;

/// The header that carries an action's own secret.
pub(crate) const SECRET: HeaderName = HeaderName::from_static("x-require-whisk-auth");

/// The annotation.
const ANNOTATION: &str = "require-whisk-auth";

/// Whether a request may call an action with these annotations.
pub(crate) fn is_allowed(annotations: &Annotations, headers: &HeaderMap, is_known: bool) -> bool {
    let carries =
        |secret: &str| headers.get(SECRET).is_some_and(|value| same(value.as_bytes(), secret.as_bytes()));
    match annotations.get(ANNOTATION) {
        None | Some(Value::Bool(false)) => true,
        Some(Value::Bool(true)) => is_known,
        Some(Value::String(secret)) => carries(secret),
        Some(Value::Number(secret)) => carries(&secret.to_string()),
        // Somebody meant to close it, and nobody knows how it opens.
        Some(_) => false,
    }
}

/// Compares without stopping at the first difference, so that the time taken says nothing about it.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |different, (l, r)| different | (l ^ r)) == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allowed(annotation: Option<Value>, header: Option<&str>, is_known: bool) -> bool {
        let mut annotations = Annotations::default();
        if let Some(value) = annotation {
            annotations.set(ANNOTATION, value);
        }
        let headers = header.map(|value| (SECRET, value.parse().unwrap()));
        is_allowed(&annotations, &headers.into_iter().collect(), is_known)
    }

    #[test]
    fn an_open_action_is_for_everybody() {
        for annotation in [None, Some(json!(false))] {
            assert!(allowed(annotation.clone(), None, false) && allowed(annotation, Some("x"), true));
        }
    }

    #[test]
    fn true_asks_for_a_key() {
        assert!(allowed(Some(json!(true)), None, true));
        assert!(!allowed(Some(json!(true)), Some("true"), false));
    }

    #[test]
    fn a_secret_is_compared_with_the_header() {
        assert!(allowed(Some(json!("s3cret")), Some("s3cret"), false));
        assert!(allowed(Some(json!(7)), Some("7"), false));
        for header in [None, Some(""), Some("s3cre"), Some("s3cret ".trim_end().to_uppercase().as_str())] {
            assert!(!allowed(Some(json!("s3cret")), header, true), "{header:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_closed() {
        for value in [json!(null), json!({}), json!(["s"])] {
            assert!(!allowed(Some(value.clone()), Some("s"), true), "{value}");
        }
    }
}
