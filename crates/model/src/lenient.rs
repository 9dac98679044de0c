//! Text from functions, whose strings need not be valid Unicode.

use std::fmt;

use serde::{
    Deserializer,
    de::{Error, Visitor},
};

/// Reads a JSON string that may contain unpaired surrogates, which strings of JavaScript, Java and Python can have and UTF-8 cannot. Each is
/// replaced with U+FFFD.
pub fn lenient_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_bytes(Lenient)
}

struct Lenient;

impl Visitor<'_> for Lenient {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    /// Asked for bytes, `serde_json` gives UTF-8 in which unpaired surrogates are encoded as if they were characters (WTF-8).
    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
        let mut text = String::with_capacity(bytes.len());
        let mut broken = false;
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            let Some(first) = chunk.invalid().first() else { break };
            // The second and third byte of a surrogate are chunks of their own.
            let goes_on = broken && chunk.valid().is_empty() && (0x80..0xc0).contains(first);
            if !goes_on {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            broken = true;
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::lenient_text;

    #[test]
    fn halves_of_surrogate_pairs_are_replaced_and_nothing_else() {
        for (json, text) in [
            (r#""plain""#, "plain"),
            (r#""gr\u00fcn, grün, \ud83d\ude00, 😀\n""#, "grün, grün, 😀, 😀\n"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""a\ud83db""#, "a\u{fffd}b"),
            (r#""\udcff\ud83d\ud83d""#, "\u{fffd}\u{fffd}\u{fffd}"),
            (r#""\ud83dé\ude00""#, "\u{fffd}é\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""""#, ""),
        ] {
            let read = lenient_text(&mut serde_json::Deserializer::from_str(json)).unwrap();
            assert_eq!(read, text, "{json}");
        }
        for json in ["7", "null", "[1]", r#""open"#] {
            assert!(lenient_text(&mut serde_json::Deserializer::from_str(json)).is_err(), "{json}");
        }
    }
}
