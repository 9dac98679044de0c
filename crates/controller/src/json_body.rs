//! Inspects JSON bodies without parsing them into values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Whether a body can have a member named `error`: cheap, and without false negatives.
pub(crate) fn may_have_error(body: &[u8]) -> bool {
    // An escape may spell the key differently.
    memchr::memmem::find(body, b"\"error\"").is_some() || memchr::memchr(b'\\', body).is_some()
}

/// `{"error": …}` when the body is an object with that member; any value counts, `null` as well, and of several the last.
pub(crate) fn error_member(body: &[u8]) -> Option<Option<Box<RawValue>>> {
    struct Error;

    impl<'de> Visitor<'de> for Error {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut error = None;
            while let Some(is_error) = map.next_key_seed(IsError)? {
                match is_error {
                    true => error = Some(map.next_value()?),
                    false => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(error)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let error = deserializer.deserialize_map(Error).ok()??;
    deserializer.end().ok()?;
    Some(RawValue::from_string(format!("{{\"error\":{}}}", error.get())).ok())
}

/// Whether a key is `error`.
struct IsError;

impl<'de> DeserializeSeed<'de> for IsError {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsError {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == "error")
    }
}

/// Whether a body is one JSON object or array.
pub(crate) fn is_document(body: &[u8]) -> bool {
    body.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'['))
        && serde_json::from_slice::<&RawValue>(body).is_ok()
}
