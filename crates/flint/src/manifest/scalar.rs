//! Resolves plain YAML scalars: by the core schema of YAML 1.2, plus the boolean words of wskdeploy's reader
//! (YAML 1.1).

use serde_json::{Number, Value};

/// The value of an unquoted scalar. The error says why it is ambiguous here.
pub(crate) fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => true.into(),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => false.into(),
        _ => match number(text) {
            Some(number) => number?.into(),
            None => text.into(),
        },
    })
}

/// A number, if it looks like one.
fn number(text: &str) -> Option<Result<Number, String>> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let all = |digits: &str, digit: fn(&u8) -> bool| !digits.is_empty() && digits.bytes().all(|b| digit(&b));
    if matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Some(Err(format!("{text} is a number that JSON does not have")));
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = digits.strip_prefix(prefix) {
            if !rest.chars().all(|digit| digit.is_digit(radix)) || rest.is_empty() || !sign.is_empty() {
                return None;
            }
            let read = u64::from_str_radix(rest, radix).map(Number::from);
            return Some(read.map_err(|_| format!("{text} is too large for a whole number")));
        }
    }
    if all(digits, u8::is_ascii_digit) {
        if digits.len() > 1 && digits.starts_with('0') {
            return Some(Err(format!("{text} begins with 0, which some readers of YAML take for octal")));
        }
        let whole = format!("{sign}{digits}");
        let read = whole.parse::<i64>().map(Number::from).or_else(|_| whole.parse::<u64>().map(Number::from));
        return Some(read.map_err(|_| format!("{text} is too large for a whole number")));
    }
    // [digits][.digits][e[sign]digits], with a digit before the exponent.
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let only_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|exponent| {
        all(exponent.strip_prefix(['-', '+']).unwrap_or(exponent), u8::is_ascii_digit)
    });
    if !(only_digits(whole)
        && only_digits(fraction)
        && exponent_fits
        && !(whole.is_empty() && fraction.is_empty()))
    {
        return None;
    }
    let read = format!("{sign}{digits}").parse::<f64>().ok().and_then(Number::from_f64);
    Some(read.ok_or_else(|| format!("{text} is too large for a number")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_mean_what_the_core_schema_says() {
        for (text, value) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("true", json!(true)),
            ("Yes", json!(true)),
            ("off", json!(false)),
            ("0", json!(0)),
            ("-12", json!(-12)),
            ("+7", json!(7)),
            ("18446744073709551615", json!(u64::MAX)),
            ("0x1F", json!(31)),
            ("0o17", json!(15)),
            ("1.5", json!(1.5)),
            ("-.5", json!(-0.5)),
            ("1.", json!(1.0)),
            ("6e3", json!(6000.0)),
            ("1e-2", json!(0.01)),
            ("y", json!("y")),
            ("1.2.3", json!("1.2.3")),
            ("1_000", json!("1_000")),
            ("0x", json!("0x")),
            ("-", json!("-")),
            (".", json!(".")),
            ("e5", json!("e5")),
            ("nodejs:20", json!("nodejs:20")),
            ("2026-01-01", json!("2026-01-01")),
        ] {
            assert_eq!(plain(text), Ok(value), "{text:?}");
        }
        for bad in ["0123", ".inf", "-.INF", ".nan", "99999999999999999999", "1e999", "0xFFFFFFFFFFFFFFFFF"] {
            assert!(plain(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_and_json_numbers_keep_their_value(whole: i64, number in -1e300..1e300_f64, text in "\\PC{0,20}") {
            prop_assert_eq!(plain(&whole.to_string()), Ok(json!(whole)));
            let read = plain(&format!("{number:e}")).unwrap();
            prop_assert_eq!(read.as_f64(), Some(number));
            let _ = plain(&text);
        }
    }
}
