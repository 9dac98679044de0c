//! Structured logs.

use std::{io::IsTerminal, str::FromStr};

use tracing_subscriber::{EnvFilter, fmt};

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
}

/// Sends `tracing` events that pass `filter` to standard error; standard output stays free for what a command prints.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| TelemetryError::Filter { filter: filter.to_owned(), detail: error.to_string() })?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    }
    .map_err(|_| TelemetryError::Already)
}

#[cfg(test)]
mod tests {
    use super::*;

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
