//! Output for people: tables, times, sizes, progress. With `--json`, programs get the resources as they are.

mod json;
mod prepared;
mod progress;
mod table;
mod terminal;
mod time;
mod timeline;

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use anyhow::Context as _;
use serde::Serialize;

pub(crate) use json::readable;
pub(crate) use prepared::{prepared_lines, strategy_words};
pub(crate) use progress::Progress;
pub(crate) use table::table;
pub(crate) use time::{ago, clock, human_duration, human_size};
pub(crate) use timeline::draw_timeline;

/// Prints a value as one JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_line(&readable(&serde_json::to_string(value)?))
}

/// Prints a line on stdout; on a terminal, without control sequences.
pub(crate) fn print_line(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().is_terminal() {
        true => print_bytes(format!("{}\n", terminal::harmless(text)).as_bytes()),
        false => print_bytes(format!("{text}\n").as_bytes()),
    }
}

/// Writes bytes to stdout. If the reader has gone (`| head`), the command ends there, quietly and with
/// exit code 0. Any other failure, such as a full disk, is an error.
pub(crate) fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.context("cannot write to standard output"),
    }
}

/// Prints to stderr like `eprintln!`, but a closed stderr is not an error.
macro_rules! tell {
    ($($words:tt)*) => { $crate::output::write_stderr(&format!("{}\n", format_args!($($words)*))) };
}
pub(crate) use tell;

/// Writes to stderr if possible; on a terminal, without control sequences.
pub(crate) fn write_stderr(text: &str) {
    let mut err = std::io::stderr().lock();
    let text = if err.is_terminal() { terminal::harmless(text) } else { text.into() };
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
