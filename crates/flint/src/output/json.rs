//! Formats JSON for reading without changing its contents.

/// Beyond this depth, lines would be mostly white space.
const DEEPEST: usize = 128;

/// The same JSON document with one line per member. Numbers keep their text and members their order; strings
/// are written without needless escapes. Deeply nested parts stay on one line. `json` has to be well-formed.
pub(crate) fn readable(json: &str) -> String {
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len() * 2);
    let (mut at, mut depth) = (0, 0_usize);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(byte) = bytes.get(at) {
        if depth > DEEPEST {
            return json.to_owned();
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'{' | b'[' => {
                out.push(char::from(*byte));
                at += 1;
                let rest = json[at..].trim_ascii_start();
                match rest.starts_with(['}', ']']) {
                    true => {
                        out.push(char::from(byte + 2));
                        at = json.len() - rest.len() + 1;
                    }
                    false => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(char::from(*byte));
                at += 1;
            }
            b',' => {
                out.push(',');
                line(&mut out, depth);
                at += 1;
            }
            b':' => {
                out.push_str(": ");
                at += 1;
            }
            b'"' => {
                let end = at + string(&bytes[at..]);
                let text = &json[at..end];
                // A lone surrogate is no text, and stays as it is.
                let short =
                    serde_json::from_str::<String>(text).and_then(|text| serde_json::to_string(&text));
                out.push_str(short.as_deref().unwrap_or(text));
                at = end;
            }
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:{}[]\"".contains(byte);
                let end = bytes[at..].iter().position(ends).map_or(json.len(), |length| at + length);
                out.push_str(&json[at..end]);
                at = end;
            }
        }
    }
    out
}

/// The length of the string that begins here, with its quotes.
fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn it_reads_as_serde_writes_it() {
        for value in [
            json!({}),
            json!([]),
            json!("a"),
            json!(1),
            json!({"a": [1, {"b": []}, "x\"y\\"], "c": {}, "d": null}),
        ] {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            assert_eq!(readable(&value.to_string()), pretty);
            assert_eq!(readable(&pretty), pretty);
        }
    }

    #[test]
    fn nothing_is_lost() {
        let text = r#"{"z":12345678901234567890123,"a":[1e400,1.10,"\ud800","gr\u00fcn"]}"#;
        let shown = readable(text);
        assert_eq!(
            shown,
            "{\n  \"z\": 12345678901234567890123,\n  \"a\": [\n    1e400,\n    1.10,\n    \"\\ud800\",\n    \"grün\"\n  ]\n}"
        );
    }

    #[test]
    fn what_is_nested_too_deep_is_left_alone() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(readable(&deep), deep);
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC{0,40}|[\\[\\]{}\",:\\\\a1 ]{0,30}") {
            let shown = readable(&text);
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
            }
        }
    }
}
