//! Parses names in paths and queries.

use std::borrow::Cow;

use flint_model::EntityName;

use super::QueryError;

/// Percent-decoding; `None` if a `%` is not followed by two hex digits or the result is not UTF-8.
pub fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        decoded.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

/// The activation list's `name`: `action`, or `package/action`.
pub fn action_filter(text: &str) -> Result<String, QueryError> {
    let segments: Vec<_> = text.split('/').collect();
    let simple = |name: &&str| EntityName::parse(name).is_ok();
    match segments.len() <= 2 && segments.iter().all(simple) {
        true => Ok(text.to_owned()),
        false => Err(QueryError {
            parameter: "name",
            detail: format!("Parameter may be a 'simple' name or 'package-name/simple' name: {text}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(percent_decode("a%20b%26c").as_deref(), Some("a b&c"));
        assert_eq!(percent_decode("%2541").as_deref(), Some("%41"));
        assert_eq!(percent_decode("+").as_deref(), Some("+"));
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(percent_decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_filter_has_at_most_a_package() {
        assert_eq!(action_filter("p/a"), Ok("p/a".to_owned()));
        for bad in ["", "/a", "n/p/a", "a/", "a b/%"] {
            assert!(action_filter(bad).is_err(), "{bad}");
        }
    }
}
