//! Looking at JSON without building it.

use serde::de::IgnoredAny;

/// Whether `text` is exactly one JSON object or array.
pub fn is_object_or_array(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
        && std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// The beginning of an answer, for an error's text.
pub fn beginning(text: &[u8]) -> String {
    const SHOWN: usize = 1024;
    let mut shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]).into_owned();
    if text.len() > SHOWN {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_objects_and_arrays() {
        for good in ["{}", " [1, {\"a\": \"\u{e9}\"}] \n", "{\"a\":1e400}"] {
            assert!(is_object_or_array(good.as_bytes()), "{good}");
        }
        for bad in [&b""[..], b"1", b"\"a\"", b"null", b"{} {}", b"{\"a\":}", b"[\xff]", b"[\"\xff\"]", b"{"]
        {
            assert!(!is_object_or_array(bad), "{bad:?}");
        }
    }
}
