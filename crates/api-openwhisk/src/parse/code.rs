//! Decodes `exec.code`: text, or bytes as base64.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;

/// Decoded code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedCode {
    /// The bytes that are stored.
    pub content: Bytes,
    /// Whether it was sent as base64, and is returned so.
    pub binary: bool,
}

/// Whether OpenWhisk takes a text for base64: not empty, a multiple of 4 characters, only those of the
/// alphabet with at most two `=` at the end. As in OpenWhisk, this includes the source `abcd`.
pub fn looks_like_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let data = match bytes {
        [data @ .., b'=', b'='] | [data @ .., b'='] => data,
        data => data,
    };
    !data.is_empty()
        && bytes.len().is_multiple_of(4)
        && data.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// The bytes of `exec.code`. Text that looks like base64 but does not decode (stray bits at its end) is text.
pub fn decode_code(code: String) -> DecodedCode {
    let trimmed = code.trim();
    if looks_like_base64(trimmed)
        && let Ok(content) = STANDARD.decode(trimmed)
    {
        return DecodedCode { content: content.into(), binary: true };
    }
    DecodedCode { content: code.into_bytes().into(), binary: false }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base64_is_told_from_text_as_openwhisk_does() {
        for text in ["abcd", "YQ==", "YWI=", "UEsDBAoA", "+/+/"] {
            assert!(looks_like_base64(text), "{text}");
        }
        for text in ["", "abc", "====", "a===", "ab=c", "ab d", "function main() {}", "YQ==\n"] {
            assert!(!looks_like_base64(text), "{text:?}");
        }
        assert_eq!(decode_code("  YQ==\n".into()), DecodedCode { content: "a".into(), binary: true });
        assert_eq!(decode_code("x = 1\n".into()), DecodedCode { content: "x = 1\n".into(), binary: false });
    }

    proptest! {
        #[test]
        fn bytes_survive_the_way_through_base64(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            let decoded = decode_code(STANDARD.encode(&bytes));
            prop_assert_eq!(decoded, DecodedCode { content: bytes.into(), binary: true });
        }

        #[test]
        fn no_text_panics_and_text_stays_text(text in ".*") {
            let decoded = decode_code(text.clone());
            prop_assert!(decoded.binary || decoded.content == text.as_bytes());
        }
    }
}
