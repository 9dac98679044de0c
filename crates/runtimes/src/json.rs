//! Checks JSON without building a value.

use serde::de::IgnoredAny;

/// Whether `text` is exactly one JSON object or array.
pub fn is_object_or_array(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
        && std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Whether `text` can be the beginning of a JSON object or array.
pub fn may_become_object_or_array(text: &[u8]) -> bool {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        // The last character may be incomplete.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    match text.trim_ascii_start().as_bytes() {
        [] => true,
        [b'{' | b'[', ..] => {
            // The last number may be incomplete, which the parser would report as invalid.
            let text =
                text.trim_end_matches(|letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter));
            // A complete value may be followed by white space.
            serde_json::from_str::<IgnoredAny>(text).map_or_else(|error| error.is_eof(), |_| true)
        }
        _ => false,
    }
}

/// The beginning of an answer, for an error message.
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

    #[test]
    fn the_beginning_of_an_object_or_array_is_known() {
        for good in [
            &b""[..],
            b" \n",
            b"[",
            b"{\"a",
            b"{\"a\": [1, \"\xc3",
            b"[1] ",
            b"[tru",
            b"[1.",
            b"[-",
            b"[2E+",
            b"[\"\\u00",
        ] {
            assert!(may_become_object_or_array(good), "{good:?}");
        }
        for bad in [&b"1"[..], b"INFO", b"[INFO", b"{a", b"[1] [", b"{\"a\":\"\xff", b"[1}"] {
            assert!(!may_become_object_or_array(bad), "{bad:?}");
        }
    }
}
