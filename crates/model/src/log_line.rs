//! What a function wrote while it served one activation.

use serde::{Deserialize, Serialize};

/// Which of its streams a function wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line, without its newline. Bytes that are not UTF-8 are replaced by U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When Flint read it, in µs since the epoch.
    pub time_us: u64,
    /// Where it was written.
    pub stream: LogStream,
    /// The text.
    pub text: String,
}

impl LogLine {
    /// A line takes some sixty bytes beside its text: on average of those that are kept, there is at least so much text in one, with its newline.
    const LEAST_TEXT: usize = 16;
    /// So many are kept in any case.
    const LEAST_LINES: usize = 1024;

    /// How many lines are kept where so many bytes of text are.
    pub const fn most_within(bytes: usize) -> usize {
        let most = bytes / Self::LEAST_TEXT;
        if most > Self::LEAST_LINES { most } else { Self::LEAST_LINES }
    }
}
