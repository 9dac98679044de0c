//! The outcome of a command: exit codes for scripts, and errors with a next step.

use std::{fmt, process::ExitCode};

use flint_api_native::resource::{ErrorBody, ErrorDetail};

use crate::output::tell;

/// How a command ended. Documented in `docs/cli.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Ok = 0,
    /// The server did its part, the function did not.
    FunctionFailed = 1,
    /// The command line, a file it names or the configuration is wrong.
    Usage = 2,
    /// The server did not answer.
    Unreachable = 3,
    /// The server refused: not found, not allowed, over a limit.
    Refused = 4,
    /// Something on this machine is in the way: a busy port, a full disk, a damaged store.
    Local = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        (exit as u8).into()
    }
}

/// Why a command did not do what was asked, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A stable word, shown with `--json`.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    pub(crate) fn local(message: impl Into<String>) -> Self {
        Self::new(Exit::Local, "local", message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// From an error response of the server.
    pub(crate) fn refused(error: ErrorDetail) -> Self {
        Self { exit: Exit::Refused, code: error.code, message: error.message, hint: error.hint }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Prints an error on stderr, for people or as JSON; returns the exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> Exit {
    let failure = error.downcast_ref::<Failure>();
    // `{:#}` joins the contexts; a `Failure` has a complete message.
    let message = failure.map_or_else(|| format!("{error:#}"), |failure| failure.message.clone());
    let hint = failure.and_then(|failure| failure.hint.clone());
    if json {
        let mut body = ErrorBody::new(failure.map_or("failed", |failure| &failure.code), message);
        body.error.hint = hint;
        tell!("{}", serde_json::to_string(&body).unwrap_or_else(|_| body.error.message.clone()));
    } else {
        tell!("error: {message}");
        if let Some(hint) = hint {
            tell!("  try: {hint}");
        }
    }
    failure.map_or(Exit::Local, |failure| failure.exit)
}
