//! Parsers of untrusted input. Pure functions from bytes to a value or the API's error text.

mod body;
mod code;
mod dots;
mod entity;
mod names;
mod outline;
mod query;
mod route;
mod version;

pub use body::{Exec, PutBody, put_body};
pub use code::{DecodedCode, decode_code, looks_like_base64};
pub use dots::without_dots;
pub use entity::{
    EntityName, PackageBody, RuleBody, TriggerBody, package_body, rule_body, rule_status, trigger_body,
};
pub use names::{action_filter, percent_decode};
pub(crate) use outline::{Unfit, check_parts};
pub use query::{ListQuery, Query, QueryError};
pub use route::{Method, Name, Route, RouteError, route};
use serde::Deserialize;
use version::version;

/// A body that is an object; the error is a text for people.
pub(crate) fn object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    if !bytes.trim_ascii_start().starts_with(b"{") {
        // serde would also read a struct from an array.
        return Err("The body has to be a JSON object.".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| told(&error))
}

/// How serde's own texts about values begin. They need the position that follows them.
const BY_SERDE: [&str; 4] = ["invalid ", "unknown ", "missing ", "duplicate "];

/// An error's text. Constant texts of the API, which clients match on, come without the position that serde
/// appends.
fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if !error.is_data() || BY_SERDE.iter().any(|begin| text.starts_with(begin)) {
        return text;
    }
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

/// Parsers of requests to the API gateway.
pub mod gateway {
    pub use crate::gateway::{CreateApi, create_api};
}

/// Parsers of requests to web actions.
pub mod web {
    pub use crate::web::{
        Envelope, InputError, MediaType, Projected, Projection, ProjectionError, Target, arguments, target,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_texts_are_whole_and_others_say_where() {
        let refused = |body: &str| package_body(body.as_bytes()).unwrap_err();
        let name = "The name of the entity contains illegal characters.";
        assert_eq!(refused(r#"{"binding": {"namespace": "_", "name": "a/b"}}"#), name);
        let rule = rule_body(br#"{"trigger": "t"}"#).unwrap_err();
        let qualified = "The fully qualified name of the entity must contain at least the namespace and the name of the entity.";
        assert_eq!(rule, qualified);
        let action = put_body(br#"{"exec": {"kind": "sequence", "components": ["f"]}}"#).unwrap_err();
        assert_eq!(action, qualified);
        // A text of the body's own cannot pass for a position.
        let odd = refused(r#"{"version": "x at line 1 column 2"}"#);
        assert!(
            odd.starts_with("'x at line 1 column 2' is not a version: ") && odd.ends_with("'0.0.1'"),
            "{odd}"
        );
        for body in [r#"{"publish": 1}"#, r#"{"parameters": [{"value": 1}]}"#, r#"{"publish": tru"#] {
            assert!(refused(body).contains(" at line 1 column "), "{body}");
        }
    }
}
