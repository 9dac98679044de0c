//! Durations as people write them.

use std::time::Duration;

/// Reads `500ms`, `10s`, `10min` (or `10m`), `1h`; a bare number is milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}

/// The shortest exact way of writing it.
pub fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (unit, length) in [("h", 3_600_000), ("min", 60_000), ("s", 1000)] {
        if millis >= length && millis.is_multiple_of(length) {
            return format!("{}{unit}", millis / length);
        }
    }
    format!("{millis}ms")
}

/// A duration as whole milliseconds.
pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(duration.as_millis() as u64)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// The same, where it may be absent.
pub(crate) mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(|duration| duration.as_millis() as u64).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for (text, millis) in
            [("0ms", 0), ("999ms", 999), ("1s", 1000), ("90s", 90_000), ("2min", 120_000), ("1h", 3_600_000)]
        {
            let duration = Duration::from_millis(millis);
            assert_eq!((show_duration(duration).as_str(), parse_duration(text)), (text, Some(duration)));
        }
        assert_eq!(parse_duration(" 5 m "), Some(Duration::from_secs(300)));
        for bad in ["", "s", "-1s", "1.5s", "1 day", "99999999999999999999", "9999999999999999h"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
