//! Bytes as JSON has them: base64.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Reads with or without padding, writes with it.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes that a text stands for.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    ENGINE.decode(text).ok()
}

/// Bytes as text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_may_be_missing() {
        for text in ["aGk=", "aGk"] {
            assert_eq!(decode(text).as_deref(), Some(b"hi".as_slice()), "{text}");
        }
        assert_eq!(encode(b"hi"), "aGk=");
        for bad in ["a", "aG k=", "%%%%", "aGk=\n"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
