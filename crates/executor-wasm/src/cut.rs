//! Texts of a limited length: what a guest says may have megabytes, and more in quotation marks.

use std::fmt::{self, Display, Write};

/// The longest text from a guest in what its developer is told.
const LONGEST: usize = 4 << 10;

/// What `shown` shows, if it is not too long, or the beginning.
pub(crate) fn cut(shown: impl Display) -> String {
    up_to(LONGEST, shown)
}

/// The same for so many bytes. What is left out is never formatted.
pub(crate) fn up_to(most: usize, shown: impl Display) -> String {
    let mut short = Short { text: String::new(), most };
    let whole = write!(short, "{shown}").is_ok();
    if whole { short.text } else { short.text + "…" }
}

struct Short {
    text: String,
    most: usize,
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(self.most - self.text.len());
        self.text.push_str(&text[..fits]);
        if fits < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_between_letters() {
        assert_eq!(up_to(4, "four"), "four");
        assert_eq!(up_to(4, "fünf"), "fün…");
        let long = Some("\0".repeat(1 << 20));
        let told = cut(format_args!("{long:?}"));
        assert!(
            told.starts_with("Some(\"\\0\\0") && told.len() == LONGEST + '…'.len_utf8(),
            "{}",
            told.len()
        );
    }
}
