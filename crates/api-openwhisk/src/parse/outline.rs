//! Measures the body of a PUT before its parts become values, which take a hundred times the memory.

use flint_controller::{ControllerError, allowed_around_code, check_json_text};
use flint_model::ByteSize;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::object;

/// Why a body is refused before it is parsed.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It is no JSON object: the detail of the API's "malformed" text.
    Malformed(String),
    /// A part with a limit of its own is too large.
    Part(ControllerError),
    /// What is around the code is too large.
    Whole,
}

#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow)]
    exec: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

/// Checks the sizes of a body's parts.
pub(crate) fn check_parts(body: &[u8], max_parameters: ByteSize) -> Result<(), Unfit> {
    let outline: Outline<'_> = object(body).map_err(Unfit::Malformed)?;
    for (what, part) in [("annotations", outline.annotations), ("parameters", outline.parameters)] {
        check_json_text(what, part.map_or("", RawValue::get), max_parameters).map_err(Unfit::Part)?;
    }
    let around = (body.len() as u64).saturating_sub(outline.exec.map_or(0, code_length));
    match around > allowed_around_code(max_parameters) {
        true => Err(Unfit::Whole),
        false => Ok(()),
    }
}

/// The length of the code as it came; 0 if `exec` is not as it should be.
fn code_length(exec: &RawValue) -> u64 {
    #[derive(Deserialize)]
    struct Exec<'a> {
        #[serde(borrow, alias = "jar")]
        code: Option<&'a RawValue>,
    }
    let exec: Result<Exec<'_>, _> = serde_json::from_str(exec.get());
    exec.ok().and_then(|exec| exec.code).map_or(0, |code| code.get().len() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(body: &serde_json::Value) -> Result<(), Unfit> {
        check_parts(body.to_string().as_bytes(), ByteSize::kib(1))
    }

    #[test]
    fn parts_are_measured_before_they_become_values() {
        let many = |count| vec![json!({"": 0}); count];
        for part in ["parameters", "annotations"] {
            assert!(check(&json!({ part: many(100) })).is_ok(), "{part}");
            let Err(Unfit::Part(error)) = check(&json!({ part: many(200) })) else { panic!("{part}") };
            assert_eq!(error.to_string(), format!("{part} larger than allowed: 1401 > 1024 bytes."));
        }
        for body in [
            json!({"binding": many(600_000)}),
            json!({"trigger": many(600_000)}),
            json!({"exec": {"kind": "sequence", "components": many(600_000)}}),
            json!({"exec": {"code": "x", "jar": "x".repeat(5 << 20)}}),
            json!({"exec": "x".repeat(5 << 20)}),
        ] {
            assert!(matches!(check(&body), Err(Unfit::Whole)));
        }
        for name in ["code", "jar"] {
            assert!(check(&json!({"exec": {"kind": "nodejs", name: "x".repeat(5 << 20)}})).is_ok(), "{name}");
        }
        let twice = r#"{"annotations": [], "annotations": []}"#;
        let refused = check_parts(twice.as_bytes(), ByteSize::kib(1));
        assert!(matches!(refused, Err(Unfit::Malformed(text)) if text.contains("duplicate field")));
    }

    proptest! {
        #[test]
        fn no_body_panics(bytes: Vec<u8>) {
            let _ = check_parts(&bytes, ByteSize::kib(1));
        }
    }
}
