//! Bounds on the JSON of a deploy as text, before it becomes values, which may take a hundred times its memory.

use flint_model::ByteSize;

use crate::{ControllerError, merge};

/// Allowance for JSON around code, besides parameters and annotations, which have limits of their own.
const AROUND_CODE: ByteSize = ByteSize::mib(4);

/// How much JSON there may be around the code of a deploy, in bytes.
pub fn allowed_around_code(max_parameters: ByteSize) -> u64 {
    AROUND_CODE.as_u64() + 2 * max_parameters.as_u64()
}

/// The largest JSON of a deploy, in bytes: the largest code as base64, with what may be around it.
pub fn largest_deploy(max_code: ByteSize, max_parameters: ByteSize) -> u64 {
    let code = (max_code.as_u64() / 3).saturating_mul(4);
    code.saturating_add(allowed_around_code(max_parameters))
}

/// Checks the size of a JSON text before it becomes values, which may take a hundred times its memory. What
/// [`merge::check_json`] lets pass passes here too, unless the text has what does not become a value: keys that it
/// repeats, and members that are ignored.
pub fn check_json_text(what: &'static str, json: &str, allowed: ByteSize) -> Result<(), ControllerError> {
    merge::check_size(what, least_size(json), allowed)
}

/// How long a JSON text is at least once it is written again, without spaces and needless escapes. Numbers are
/// written again as they are kept, which may take one byte.
fn least_size(json: &str) -> u64 {
    let (mut size, mut quoted, mut in_number, mut bytes) = (0, false, false, json.bytes());
    while let Some(byte) = bytes.next() {
        let goes_on = in_number;
        in_number = !quoted && matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        size += match byte {
            _ if in_number => u64::from(!goes_on),
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
    fn a_deploy_has_room_for_its_largest_parts() {
        let (code, parameters) = (ByteSize::mib(48), ByteSize::mib(1));
        assert_eq!(largest_deploy(code, parameters), (64 + 4 + 2) << 20);
        assert_eq!(largest_deploy(ByteSize::bytes(0), parameters), allowed_around_code(parameters));
    }

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
        for (text, least) in [("-1.50e+0", 1), ("[-1.50e+0, 1E2,true]", 10), (r#"{"1.5":1.50}"#, 9)] {
            assert_eq!(least_size(text), least, "{text}");
        }
        let long = "[0.10000000000000001,1.00000000]";
        let kept: serde_json::Value = serde_json::from_str(long).unwrap();
        let allowed = ByteSize::bytes(9);
        assert!(merge::check_json("parameters", &kept, allowed).is_ok(), "{kept}");
        assert!(check_json_text("parameters", long, allowed).is_ok());
        let plain = r#"{"a b":[1,"x \\ \"y\" \n"],"":{}}"#;
        assert_eq!(least_size(plain), plain.len() as u64);
        assert_eq!(least_size(r#" [ "\u00e9\/" , 1 ] "#), 8, "what stands for one letter counts as one");
        assert!(check_json_text("annotations", plain, ByteSize::bytes(plain.len() as u64)).is_ok());
        let many = format!("[{}0]", "0,".repeat(600));
        let error = check_json_text("annotations", &many, ByteSize::kib(1)).unwrap_err().to_string();
        assert_eq!(error, "annotations larger than allowed: 1203 > 1024 bytes.");
    }
}
