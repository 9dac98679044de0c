//! JSON with line breaks, without turning it into values: numbers and members stay as they came.

/// How much longer it may become, beside [`TIMES`] of its length.
const LONGER: usize = 64 << 10;
/// How many times as long it may become.
const TIMES: usize = 4;

/// Two spaces a level, as OpenWhisk prints. `json` has to be valid. What is nested so deeply that its line breaks would fill the memory
/// is left as it came.
pub(crate) fn pretty(json: &str) -> String {
    with_line_breaks(json, json.len().saturating_mul(TIMES) + LONGER).unwrap_or_else(|| json.to_owned())
}

/// None when it would be longer than `most`.
fn with_line_breaks(json: &str, most: usize) -> Option<String> {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut characters = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        if out.len() + 2 * depth > most {
            return None;
        }
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
        Some(())
    };
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                out.push('"');
                while let Some(inside) = characters.next() {
                    out.push(inside);
                    match inside {
                        '"' => break,
                        '\\' => out.extend(characters.next()),
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth)?;
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth)?;
                out.push(character);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth)?;
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_nested_without_end_stays_as_it_came() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(pretty(&deep), deep);
    }

    #[test]
    fn numbers_stay_as_they_came() {
        assert_eq!(
            pretty(r#"{"a" : [1.10,{ }, [ ]],"b\"{":"x:,\\"}"#),
            "{\n  \"a\": [\n    1.10,\n    {},\n    []\n  ],\n  \"b\\\"{\": \"x:,\\\\\"\n}"
        );
        assert_eq!(pretty("7"), "7");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_serde_prints(value in any_json()) {
            prop_assert_eq!(pretty(&value.to_string()), serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
