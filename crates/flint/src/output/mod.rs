//! What people see: tables, times, sizes, progress. With `--json` programs get the resources as they are.

mod prepared;
mod progress;
mod table;
mod time;
mod timeline;

use serde::Serialize;

pub(crate) use prepared::{prepared_lines, strategy_words};
pub(crate) use progress::Progress;
pub(crate) use table::table;
pub(crate) use time::{ago, clock, human_duration, human_size};
pub(crate) use timeline::draw_timeline;

/// Prints a value as one JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_line(&serde_json::to_string_pretty(value)?)
}

/// Prints a line on stdout; a reader that has gone away (`| head`) is not an error.
pub(crate) fn print_line(text: &str) -> anyhow::Result<()> {
    use std::io::{ErrorKind, Write};
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}
