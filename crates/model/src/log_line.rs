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
