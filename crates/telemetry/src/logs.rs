//! Structured logs.

use std::{
    io::{self, IsTerminal},
    str::FromStr,
    sync::OnceLock,
    time::Duration,
};

use tracing_subscriber::{EnvFilter, fmt};

use crate::lines::Lines;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text for people.
    #[default]
    Text,
    /// One JSON object a line for machines.
    Json,
}

/// Why a text is not a log format.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a log format: choose text or json")]
pub struct LogFormatError(String);

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogFormatError(text.to_owned())),
        }
    }
}

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error(
        "'{filter}' is not a log filter ({detail}): write a level, or targets with levels, for example 'info,flint_invoker=debug'"
    )]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Somebody set up logs before.
    #[error("logs are already set up in this process")]
    Already,
    /// The thread that writes them could not be started.
    #[error("the thread that writes logs could not be started: {0}")]
    Thread(#[from] io::Error),
}

/// What is told about the guests of WebAssembly, who can have it said as often as they like: an operator's log that
/// is full of it says nothing else.
const GUESTS: &str = "wasmtime_wasi=error";

/// Those of this process.
static LINES: OnceLock<Lines> = OnceLock::new();

/// Sends `tracing` events that pass `filter` to standard error; standard output stays free for what a command prints. Whoever logs does not wait
/// for that: see [`flush`]. What guests of WebAssembly can have logged is left out, unless the filter names it.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let filter = parse(filter)?;
    let lines = Lines::to(io::stderr())?;
    LINES.set(lines.clone()).map_err(|_| TelemetryError::Already)?;
    // What goes wrong with a line is counted; said on standard error, it would panic where that cannot be written.
    let builder = fmt().with_env_filter(filter).with_writer(move || lines.clone()).log_internal_errors(false);
    match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    }
    .map_err(|_| TelemetryError::Already)
}

fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    // What the filter itself says of the same counts. An empty one stands for all errors.
    let whole = if filter.is_empty() { String::new() } else { format!("{GUESTS},{filter}") };
    EnvFilter::try_new(whole)
        .map_err(|error| TelemetryError::Filter { filter: filter.to_owned(), detail: error.to_string() })
}

/// Waits until what was logged is written, but not for longer than `within`.
pub fn flush(within: Duration) {
    if let Some(lines) = LINES.get() {
        lines.flush(within);
    }
}

/// How many lines could not be written.
pub(crate) fn dropped() -> u64 {
    LINES.get().map_or(0, Lines::dropped)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn what_guests_can_have_logged_is_left_out_unless_it_is_asked_for() {
        let logs = |filter: &str| {
            let subscriber = fmt().with_env_filter(parse(filter).unwrap()).with_writer(io::sink).finish();
            tracing::subscriber::with_default(subscriber, || {
                [
                    tracing::enabled!(target: "wasmtime_wasi::p1", Level::WARN),
                    tracing::enabled!(target: "wasmtime_wasi_http::p2::error", Level::WARN),
                    tracing::enabled!(target: "flint_invoker", Level::INFO),
                ]
            })
        };
        assert_eq!(logs("info"), [false, false, true]);
        assert_eq!(logs("info,wasmtime_wasi=warn"), [true, true, true]);
        assert_eq!(logs("info,wasmtime_wasi_http=warn"), [false, true, true]);
        assert_eq!(logs(""), [false, false, false]);
    }

    #[test]
    fn a_wrong_filter_or_format_is_named() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!(
            "xml".parse::<LogFormat>().unwrap_err().to_string(),
            "'xml' is not a log format: choose text or json"
        );
        let error = init(LogFormat::Text, "flint=loudest").unwrap_err().to_string();
        assert!(error.starts_with("'flint=loudest' is not a log filter"), "{error}");
    }
}
