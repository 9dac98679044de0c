//! Bounds on the JSON of a deploy as text, before it becomes values, which may take a hundred times its memory.

use flint_model::ByteSize;

use crate::{ControllerError, merge};

/// Allowance for JSON around the code besides parameters and annotations, which have limits of their own.
pub const AROUND_CODE: ByteSize = ByteSize::mib(4);

/// How much JSON there may be around the code, in bytes.
pub fn allowed_around_code(max_parameters: ByteSize) -> u64 {
    AROUND_CODE.as_u64() + 2 * max_parameters.as_u64()
}

/// Checks the size of a JSON text before it becomes values, which may take a hundred times its memory. What
/// [`merge::check_json`] lets pass passes here too.
pub fn check_json_text(what: &'static str, json: &str, allowed: ByteSize) -> Result<(), ControllerError> {
    merge::check_size(what, least_size(json), allowed)
}

/// How long a JSON text is at least once it is written again, without spaces and needless escapes.
fn least_size(json: &str) -> u64 {
    let (mut size, mut quoted, mut bytes) = (0, false, json.bytes());
    while let Some(byte) = bytes.next() {
        size += match byte {
            b' ' | b'\n' | b'\r' | b'\t' if !quoted => 0,
            b'\\' => match bytes.next() {
                Some(b'u') => bytes.nth(3).map_or(0, |_| 1),
                Some(b'/') => 1,
                _ => 2,
            },
            b'"' => {
                quoted = !quoted;
                1
            }
            _ => 1,
        };
    }
    size
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_not_taken_for_larger_than_what_it_says() {
        for json in [
            json!({"a b": [1, "x \\ \"y\" \n {é}", null], "": {}}),
            json!("\u{1F980}\u{1}"),
            json!([[], {"k": -1.5}]),
        ] {
            let compact = json.to_string();
            let length = compact.len() as u64;
            assert!(least_size(&compact) <= length, "{compact}");
            assert_eq!(least_size(&serde_json::to_string_pretty(&json).unwrap()), least_size(&compact));
        }
        let plain = r#"{"a b":[1,"x \\ \"y\" \n"],"":{}}"#;
        assert_eq!(least_size(plain), plain.len() as u64);
        assert_eq!(least_size(r#" [ "\u00e9\/" , 1 ] "#), 8, "what stands for one letter counts as one");
        assert!(check_json_text("annotations", plain, ByteSize::bytes(plain.len() as u64)).is_ok());
        let many = format!("[{}0]", "0,".repeat(600));
        let error = check_json_text("annotations", &many, ByteSize::kib(1)).unwrap_err().to_string();
        assert_eq!(error, "annotations larger than allowed: 1203 > 1024 bytes.");
    }
}
