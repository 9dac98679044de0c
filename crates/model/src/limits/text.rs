//! Sizes and durations as OpenWhisk writes them in limits.

/// A size as OpenWhisk writes it, `1 MB`, or as a number of bytes.
pub(super) mod size_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::ByteSize;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Bytes(u64),
        Text(String),
    }

    pub(crate) fn serialize<S: Serializer>(
        size: &Option<ByteSize>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match size {
            Some(size) => serializer.collect_str(size),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ByteSize>, D::Error> {
        Ok(match Option::<Written>::deserialize(deserializer)? {
            None => None,
            Some(Written::Bytes(bytes)) => Some(ByteSize::bytes(bytes)),
            Some(Written::Text(text)) => Some(text.parse().map_err(D::Error::custom)?),
        })
    }
}

/// A duration as text, in short or in OpenWhisk's words.
pub(super) mod duration_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::{parse_duration, show_duration};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_str(&show_duration(*duration)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let read = parse_duration(&in_short(&text));
        read.map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is no duration such as 10min")))
    }

    /// `10 minutes` as `10 min`.
    fn in_short(text: &str) -> String {
        let Some((number, unit)) = text.trim().split_once(' ') else { return text.to_owned() };
        let short = match unit.trim() {
            "millisecond" | "milliseconds" => "ms",
            "second" | "seconds" => "s",
            "minute" | "minutes" => "min",
            "hour" | "hours" => "h",
            unit => unit,
        };
        format!("{number} {short}")
    }
}
