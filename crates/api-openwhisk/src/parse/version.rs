//! Reads versions as OpenWhisk does, for which one number is enough.

use flint_model::Version;
use serde::{Deserialize, Deserializer, de::Error};

/// One to three numbers, of which not all are 0; missing ones are 0, and what comes after the third is
/// ignored.
pub(super) fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Version>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let wrong = || {
        format!(
            "'{text}' is not a version: write one to three numbers, of which not all are 0, for example '0.0.1'"
        )
    };
    completed(&text).map(Some).ok_or_else(|| D::Error::custom(wrong()))
}

fn completed(text: &str) -> Option<Version> {
    let mut parts: Vec<_> = text.trim_end_matches('.').split('.').take(3).collect();
    parts.resize(3, "0");
    parts.join(".").parse().ok().filter(|version: &Version| version.numbers() != [0; 3])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn missing_numbers_are_0_and_further_ones_nothing() {
        let read = |text| completed(text).map(|version| version.to_string());
        for (text, version) in [
            ("1", "1.0.0"),
            ("1.0", "1.0.0"),
            ("1.", "1.0.0"),
            ("0.2", "0.2.0"),
            ("1.2.3", "1.2.3"),
            ("1.2.3.4", "1.2.3"),
            ("1.2.3.x", "1.2.3"),
        ] {
            assert_eq!(read(text).as_deref(), Some(version), "{text}");
        }
        for text in ["", ".", "0", "0.0", "0.0.0", "0.0.0.1", "x", "1.x", "1..3", ".1", "-1", "1.2.3-beta"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_out_is_read_as_everywhere(numbers in "[0-9]{1,11}(\\.[0-9]{1,11}){2}") {
            let strict = numbers.parse().ok().filter(|version: &Version| version.numbers() != [0; 3]);
            prop_assert_eq!(completed(&numbers), strict);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = completed(&text);
        }
    }
}
