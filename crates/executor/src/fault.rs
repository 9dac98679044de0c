//! How a call or a start can fail.

use std::fmt;

use bytes::Bytes;

use crate::BodyError;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfProcess {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// In the developer's terms: `was ended by SIGSEGV`.
impl fmt::Display for EndOfProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => match name_of_signal(signal) {
                Some(name) => write!(f, "was ended by {name}"),
                None => write!(f, "was ended by signal {signal}"),
            },
        }
    }
}

/// The names of signals that end a process on Linux (signal(7)).
fn name_of_signal(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

/// Why there is no valid answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Fault {
    /// The function's code failed: it did not load, threw, or reported an error.
    #[error("{message}")]
    Developer {
        /// What the developer needs to know.
        message: String,
    },
    /// The answer violates the contract.
    #[error("the function answered with something that is not valid: {text}")]
    InvalidAnswer {
        /// The beginning of the answer.
        text: String,
    },
    /// The JSON result is longer than allowed.
    #[error("the result has {size} bytes, more than the {allowed} allowed")]
    ResultTooLarge {
        /// Its size, as far as it was read.
        size: u64,
        /// The most allowed.
        allowed: u64,
        /// Its beginning.
        beginning: Bytes,
    },
    /// The instance ended without an answer.
    #[error("the function's process ended without an answer")]
    Exited {
        /// Its exit status, if known.
        end: Option<EndOfProcess>,
    },
    /// The time limit passed.
    #[error("the function did not answer within its time limit")]
    Deadline,
    /// The memory limit was exceeded.
    #[error("the function exhausted its memory")]
    OutOfMemory,
    /// The caller's request is incomplete.
    #[error("the request cannot be given to the function: {0}")]
    Request(BodyError),
    /// The contract takes JSON, and the caller's request is not JSON; says why.
    #[error("the request cannot be given to the function: it is not JSON: {0}")]
    NotJson(String),
    /// Flint, or the host, failed.
    #[error("{cause}")]
    Platform {
        /// What failed, and what to do.
        cause: String,
    },
}

impl Fault {
    /// Whether the caller is to blame, rather than the function or Flint.
    pub fn is_the_callers(&self) -> bool {
        matches!(self, Self::Request(_) | Self::NotJson(_))
    }
}
