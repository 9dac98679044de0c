//! Sanitises untrusted text for a terminal.

use std::borrow::Cow;

const RESET: &str = "\x1b[0m";

/// The text with control characters escaped, except line ends, tabs and colours; colours are reset at the end
/// of each line. Anything else could move the cursor, rename the window or answer for the user.
pub(super) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\t')) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut is_coloured) = (text, false);
    while let Some(char) = rest.chars().next() {
        if let Some(length) = colour(rest) {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            is_coloured = true;
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match char {
            // Part of a line end, as some systems write it.
            '\r' if rest.is_empty() || rest.starts_with('\n') => {}
            '\n' => {
                if std::mem::take(&mut is_coloured) {
                    out.push_str(RESET);
                }
                out.push(char);
            }
            '\t' => out.push(char),
            control if control.is_control() => out.extend(control.escape_default()),
            _ => out.push(char),
        }
    }
    if is_coloured {
        out.push_str(RESET);
    }
    out.into()
}

/// The length of a colour sequence at the start of a text: `ESC [ 1;31 m`.
fn colour(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    let length = parameters.bytes().take_while(is_parameter).count();
    (parameters.as_bytes().get(length) == Some(&b'm')).then_some("\x1b[".len() + length + "m".len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_has_colours_and_no_other_control_over_a_terminal() {
        for (text, sent) in [
            ("gr\u{fc}n\tand\nmore\n", "gr\u{fc}n\tand\nmore\n"),
            ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
            ("\x1b[1;38:5:9mred\nnot", "\x1b[1;38:5:9mred\x1b[0m\nnot"),
            ("dos\r\nline\r", "dos\nline"),
            ("50%\r100%", "50%\\r100%"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("\x1b[2J\x1b[", "\\u{1b}[2J\\u{1b}["),
            ("\u{9b}2J\x7f", "\\u{9b}2J\\u{7f}"),
        ] {
            assert_eq!(harmless(text), sent);
        }
    }

    proptest! {
        #[test]
        fn nothing_else_gets_through(text in "[\\x00-\\x1f\\x7f-\u{9f}a\\[;m0-9]{0,30}") {
            let sent = harmless(&text);
            let mut rest = &*sent;
            while let Some(char) = rest.chars().next() {
                let coloured = colour(rest);
                let is_plain = !char.is_control() || matches!(char, '\n' | '\t');
                prop_assert!(coloured.is_some() || is_plain, "{sent:?}");
                rest = &rest[coloured.unwrap_or(char.len_utf8())..];
            }
        }
    }
}
