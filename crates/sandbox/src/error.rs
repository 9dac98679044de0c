//! The errors of this crate: what failed, where, and what to do about it.

use std::io;

use serde::{Deserialize, Serialize};

/// A failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The launcher process could not be started.
    #[error(
        "the sandbox launcher did not start: {step}: {source}. Run `flint doctor` for what this host lacks"
    )]
    LauncherStart {
        /// What was being done.
        step: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The launcher process ended while the request was under way; the sandbox, if any, has ended with it.
    #[error(
        "the sandbox launcher ended (it was killed or crashed), and its sandboxes with it; the next start brings up a new one"
    )]
    LauncherGone,
    /// The launcher has been shut down on purpose.
    #[error("the sandbox launcher was shut down; no further sandboxes start")]
    ShutDown,
    /// The request is invalid on any host.
    #[error("sandbox {id}: {what}")]
    InvalidSpec {
        /// The sandbox asked for.
        id: String,
        /// What is wrong and what would be right.
        what: String,
    },
    /// Arguments or environment are longer than a program can be given.
    #[error("sandbox {id}: {what}")]
    TextTooLong {
        /// The sandbox asked for.
        id: String,
        /// Which, with the figures, in words for whoever chose it.
        what: String,
    },
    /// This host lacks a feature that the request needs.
    #[error("sandbox {id}: {what} is not available on this host: {remedy}")]
    Unavailable {
        /// The sandbox asked for.
        id: String,
        /// The missing piece.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A step of the set-up failed.
    #[error("sandbox {id}: {step}: {source}")]
    Setup {
        /// The sandbox asked for.
        id: String,
        /// The failing step and its object, such as `mount /function`.
        step: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The payload's program could not be executed.
    #[error(
        "sandbox {id}: cannot execute {program}: {source}. The path is looked up inside the sandbox; an interpreter outside /usr needs a mount"
    )]
    Exec {
        /// The sandbox asked for.
        id: String,
        /// `argv[0]`.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The sandbox has already ended.
    #[error("sandbox {id} has ended")]
    Ended {
        /// The sandbox.
        id: String,
    },
    /// [`crate::Sandbox::seal`]: forked processes would share state with this one or with each other.
    #[error("sandbox {id} cannot be forked: {}", reasons.join("; "))]
    NotForkable {
        /// The sandbox.
        id: String,
        /// The obstacles and what to do about each, for the function's developer.
        reasons: Vec<String>,
    },
    /// [`crate::Cell::admit`]: the process or its zygote failed the inspection. The process has been killed
    /// if it was known to belong to the sandbox; do not send the zygote further calls.
    #[error("sandbox {id}: {what}")]
    Tampered {
        /// The cell.
        id: String,
        /// What was found.
        what: String,
    },
    /// The server or the launcher ran out of descriptors for the sandbox. A sandbox that was starting has
    /// been ended; all others go on.
    #[error(
        "sandbox {id}: {process} has as many files open as it may, {limit}. Raise the limit (ulimit -n, LimitNOFILE= of a systemd unit, --ulimit nofile= of a \
         container), or let fewer sandboxes and connections be open at once"
    )]
    OutOfDescriptors {
        /// The sandbox asked for.
        id: String,
        /// Whose limit it is: `the server` or `the sandbox launcher`.
        process: String,
        /// The limit of open files.
        limit: u64,
    },
    /// An operation on a running sandbox failed.
    #[error("sandbox {id}: {operation}: {source}")]
    Operation {
        /// The sandbox.
        id: String,
        /// What was tried, such as `connect to port 8080`.
        operation: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure as the launcher reports it; the server turns it into an [`Error`] with the sandbox's name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Fault {
    Invalid { what: String },
    TextTooLong { what: String },
    Unavailable { what: String, remedy: String },
    Step { step: String, errno: i32 },
    Exec { program: String, errno: i32 },
    Ended,
    NotForkable { reasons: Vec<String> },
    Tampered { what: String },
    OutOfDescriptors { process: String, limit: u64 },
}

impl Fault {
    /// `process`, the receiver, had no room in its descriptor table for the descriptors of a message.
    pub(crate) fn out_of_descriptors(process: &str) -> Self {
        Self::OutOfDescriptors { process: process.into(), limit: crate::open_files::limit() }
    }

    pub(crate) fn step(step: impl Into<String>, error: &io::Error) -> Self {
        Self::Step { step: step.into(), errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// As an error of setting up sandbox `id`.
    pub(crate) fn setup(self, id: &str) -> Error {
        let id = id.to_owned();
        match self {
            Self::Invalid { what } => Error::InvalidSpec { id, what },
            Self::TextTooLong { what } => Error::TextTooLong { id, what },
            Self::Unavailable { what, remedy } => Error::Unavailable { id, what, remedy },
            Self::Step { step, errno } => {
                Error::Setup { id, step, source: io::Error::from_raw_os_error(errno) }
            }
            Self::Exec { program, errno } => {
                Error::Exec { id, program, source: io::Error::from_raw_os_error(errno) }
            }
            Self::Ended => Error::Ended { id },
            Self::NotForkable { reasons } => Error::NotForkable { id, reasons },
            Self::Tampered { what } => Error::Tampered { id, what },
            Self::OutOfDescriptors { process, limit } => Error::OutOfDescriptors { id, process, limit },
        }
    }

    /// As an error of an operation on the running sandbox `id`.
    pub(crate) fn operation(self, id: &str) -> Error {
        match self {
            Self::Step { step, errno } => Error::Operation {
                id: id.to_owned(),
                operation: step,
                source: io::Error::from_raw_os_error(errno),
            },
            other => other.setup(id),
        }
    }
}
