//! What a deploy makes of a function, so that starting it is quick.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use flint_model::{Function, SnapshotReport, Strategy};

/// A function with its code, as it was deployed.
#[derive(Clone, Debug)]
pub struct FunctionSource {
    /// The function.
    pub function: Arc<Function>,
    /// Its code blob.
    pub code: Bytes,
}

/// Told what a long step is doing, in a few words for people.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// A function that can be started.
pub struct Prepared {
    /// The function.
    pub function: Arc<Function>,
    /// What was done, for people: `unpacked 12 files`, `compiled Main.java`, `built an AOT cache`.
    pub steps: Vec<String>,
    /// How long that took; zero when it was found ready.
    pub took: Duration,
    /// How it is run: what the function says, unless it fell back.
    pub strategy: Strategy,
    /// Why it is run otherwise than the function says, and what to do about it, for people.
    pub fallback: Option<String>,
    /// What was warmed up and frozen, where something was.
    pub snapshot: Option<SnapshotReport>,
    /// The executor's own.
    pub artefact: Box<dyn Any + Send + Sync>,
}

impl Prepared {
    /// A function that is run the way it says, without a snapshot.
    pub fn plain(
        function: Arc<Function>,
        steps: Vec<String>,
        took: Duration,
        artefact: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let strategy = function.strategy;
        Self { function, steps, took, strategy, fallback: None, snapshot: None, artefact }
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("function", &self.function.path)
            .field("strategy", &self.strategy)
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}

/// Why a function cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// This host cannot run it so.
    #[error("{what} is not available on this host: {reason}")]
    Unavailable {
        /// The runtime or strategy asked for.
        what: String,
        /// What is missing, and how to get it.
        reason: String,
    },
    /// The code is not what its kind asks for.
    #[error("{0}")]
    Code(String),
    /// Too many others are being prepared; later it will work.
    #[error("{0}")]
    Busy(String),
    /// There is too little room on the server's disk.
    #[error("{0}")]
    NoRoom(String),
    /// The function's namespace has as much unpacked code as it may.
    #[error("{0}")]
    OverQuota(String),
    /// Flint, or the host, failed.
    #[error("{operation} failed: {detail}")]
    Failed {
        /// What was being done.
        operation: String,
        /// What went wrong.
        detail: String,
    },
}
