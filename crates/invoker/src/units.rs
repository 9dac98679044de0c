//! Sizes and durations in the configuration, as text with a unit or as a plain number.

use std::{fmt, time::Duration};

use flint_model::{ByteSize, parse_duration};
use serde::de::{Error, Visitor};

struct DurationText;

impl Visitor<'_> for DurationText {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as '500ms', '10s' or '10min', or a number of milliseconds")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).ok_or_else(|| {
            E::custom(format!("'{text}' is not a duration: write for example '500ms', '10s' or '10min'"))
        })
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
        Ok(Duration::from_millis(millis))
    }

    fn visit_i64<E: Error>(self, millis: i64) -> Result<Duration, E> {
        u64::try_from(millis).map(Duration::from_millis).map_err(|_| E::custom("a duration is not negative"))
    }
}

struct SizeText;

impl Visitor<'_> for SizeText {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as '512MB', or a number of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<ByteSize, E> {
        Ok(ByteSize::bytes(bytes))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<ByteSize, E> {
        u64::try_from(bytes).map(ByteSize::bytes).map_err(|_| E::custom("a size is not negative"))
    }
}

/// A [`Duration`] as text.
pub mod duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    /// Writes `10s`.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&flint_model::show_duration(*duration))
    }

    /// Reads `10s`, or a number of milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_any(super::DurationText)
    }
}

/// A [`Duration`] as text that must not be zero.
pub mod some_time {
    use std::time::Duration;

    use serde::{Deserializer, de::Error};

    pub use super::duration::serialize;

    /// Reads `10s`, or a number of milliseconds; not zero.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let duration = super::duration::deserialize(deserializer)?;
        match duration.is_zero() {
            true => {
                Err(D::Error::custom("0 does not switch it off: write a duration such as '500ms' or '10s'"))
            }
            false => Ok(duration),
        }
    }
}

/// A [`ByteSize`] as text.
pub mod size {
    use flint_model::ByteSize;
    use serde::{Deserializer, Serializer};

    /// Writes `64 MB`.
    pub fn serialize<S: Serializer>(size: &ByteSize, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(size)
    }

    /// Reads `64MB`, or a number of bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        deserializer.deserialize_any(super::SizeText)
    }
}

/// A [`ByteSize`] that may be absent.
pub mod optional_size {
    use flint_model::ByteSize;
    use serde::{Deserializer, Serializer};

    /// Writes `64 MB`.
    pub fn serialize<S: Serializer>(size: &Option<ByteSize>, serializer: S) -> Result<S::Ok, S::Error> {
        match size {
            Some(size) => serializer.collect_str(size),
            None => serializer.serialize_none(),
        }
    }

    /// Reads `64MB`, or a number of bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
        deserializer.deserialize_any(super::SizeText).map(Some)
    }
}
