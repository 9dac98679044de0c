//! Parsers of structured values on the command line.

use std::time::Duration;

use flint_model::ByteSize;
use http::{HeaderName, HeaderValue};
use serde_json::{Value, value::RawValue};

/// A size of memory: `256` (MiB) or with a unit, `256MB`, `1GB`. Whole mebibytes.
pub(crate) fn mebibytes(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.trim().parse::<u64>() {
        return Ok(number);
    }
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    match size.as_u64() % (1 << 20) {
        0 => Ok(size.as_mib()),
        _ => Err(format!("'{text}' is not a whole number of MB")),
    }
}

/// A time with its unit: `500ms`, `60s`, `5m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "'{text}' is not a time: write a number with its unit ms, s, m or h, for example '60s' or '500ms'"
        )
    };
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "ms" => number / 1000.0,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    // Whole milliseconds, the server's unit.
    let millis = (seconds * 1000.0).round();
    if !millis.is_finite() || millis > u64::MAX as f64 {
        return Err(wrong());
    }
    Ok(Duration::from_millis(millis as u64))
}

/// The same for a time in which something has to happen.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    match time.is_zero() {
        true => Err(format!("'{text}' is no time at all: nothing could happen in it")),
        false => Ok(time),
    }
}

/// A share of CPU time in cores, `0.5`, or thousandths of a core, `500m`.
pub(crate) fn cpu_millis(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a share of CPU time: write cores, '0.5', or thousandths, '500m'");
    let millis = match text.trim().strip_suffix('m') {
        Some(thousandths) => f64::from(thousandths.parse::<u32>().map_err(|_| wrong())?),
        None => text.trim().parse::<f64>().map_err(|_| wrong())? * 1000.0,
    };
    if !(1.0..=1_000_000.0).contains(&millis) {
        return Err(wrong());
    }
    Ok(millis.round() as u32)
}

/// The name of a function to deploy.
pub(crate) fn function_name(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty: write NAME or PACKAGE/NAME".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A name or an id. The server validates it; only an empty one is refused here, since it would address
/// something else.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("it is empty: is it a variable that was not set?".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// `key=value`. The value is JSON if it parses as JSON, otherwise a string.
pub(crate) fn parameter(text: &str) -> Result<(String, Value), String> {
    let (key, value) = pair(text)?;
    let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
    Ok((key, value))
}

/// The same for a call: JSON keeps its text, so that numbers arrive as written.
pub(crate) fn argument(text: &str) -> Result<(String, Box<RawValue>), String> {
    let (key, value) = pair(text)?;
    let value = serde_json::from_str(&value).or_else(|_| serde_json::value::to_raw_value(&value));
    Ok((key, value.map_err(|error| error.to_string())?))
}

/// `key=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!(
            "'{text}' has no '=': write key=value, for example name=you or 'sizes=[64,128]'"
        ));
    };
    if key.is_empty() {
        return Err(format!("'{text}' has no key before the '=': write key=value"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Headers that say where the request ends, or are about the connection: with others than flint's own, the
/// server would wait for bytes that never come.
const OF_THE_CONNECTION: &[&str] =
    &["content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "upgrade"];

/// `Name: value`, as curl takes it.
pub(crate) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("'{text}' has no ':': write 'Name: value'"))?;
    let name: HeaderName = name.trim().parse().map_err(|_| format!("'{name}' is not a header's name"))?;
    if OF_THE_CONNECTION.contains(&name.as_str()) {
        return Err(format!("'{name}' is between the client and the server, and set by flint"));
    }
    let value = value.trim().parse().map_err(|_| format!("'{}' cannot be a header's value", value.trim()))?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_megabytes_unless_they_say_otherwise() {
        assert_eq!((mebibytes("256"), mebibytes("256MB"), mebibytes("1 GB")), (Ok(256), Ok(256), Ok(1024)));
        for bad in ["", "much", "1.5GB", "100KB", "-1"] {
            assert!(mebibytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration(" 2m "), Ok(Duration::from_secs(120)));
        for bad in ["", "60", "s", "-1s", "1h30", "1e9s", "nan s", "1.2.3s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_happens_in_no_time() {
        assert_eq!((some_time("1ms"), duration("0s")), (Ok(Duration::from_millis(1)), Ok(Duration::ZERO)));
        for bad in ["0s", "0.1ms", "60"] {
            assert!(some_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_that_frame_the_request_are_refused() {
        let (name, value) = header("X-Mine:  a: b ").unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("x-mine", &b"a: b"[..]));
        assert!(header("Host: example.com").is_ok());
        for bad in
            ["Content-Length: 5", "transfer-encoding: chunked", "Connection: close", "nonsense", "a b: c"]
        {
            assert!(header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_has_no_name_is_nothing() {
        assert_eq!(name("images/resize").as_deref(), Ok("images/resize"));
        for bad in ["", " ", "\t"] {
            assert!(name(bad).is_err() && function_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cpu_is_cores_or_thousandths() {
        assert_eq!((cpu_millis("0.5"), cpu_millis("500m"), cpu_millis("2")), (Ok(500), Ok(500), Ok(2000)));
        for bad in ["", "0", "-1", "half", "NaN", "inf"] {
            assert!(cpu_millis(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_that_is_json_is_taken_as_json() {
        let parsed = |text| parameter(text).unwrap().1;
        assert_eq!(parsed("n=1"), json!(1));
        assert_eq!(parsed("n=[1,\"a\"]"), json!([1, "a"]));
        assert_eq!(parsed("n=true"), json!(true));
        assert_eq!(parsed("n=you"), json!("you"));
        assert_eq!(parsed("n=\"1\""), json!("1"));
        assert_eq!(parsed("n=007"), json!("007"));
        assert_eq!(parsed("n="), json!(""));
        assert_eq!(parsed("url=http://x/?a=b"), json!("http://x/?a=b"));
        for (text, json) in
            [("n= 1.10 ", "1.10"), ("n=1e400", "1e400"), ("n=you", "\"you\""), ("n=007", "\"007\"")]
        {
            assert_eq!(argument(text).unwrap().1.get(), json);
        }
        assert!(parameter("n").is_err() && parameter("=1").is_err());
    }

    proptest! {
        #[test]
        fn any_string_survives_as_a_parameter(key in "[^=]{1,20}", value in "\\PC{0,40}") {
            let (parsed_key, parsed) = parameter(&format!("{key}={value}")).unwrap();
            prop_assert_eq!(parsed_key, key);
            match parsed {
                Value::String(text) => prop_assert!(text == value || serde_json::from_str::<String>(&value).unwrap() == text),
                other => prop_assert_eq!(serde_json::from_str::<Value>(&value).unwrap(), other),
            }
        }

        #[test]
        fn nothing_makes_the_parsers_panic(text in "\\PC{0,40}") {
            let _ = (mebibytes(&text), duration(&text), cpu_millis(&text), header(&text), parameter(&text));
        }
    }
}
