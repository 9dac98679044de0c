//! The result of preparing a function, from which it starts quickly.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use flint_model::{Function, SnapshotReport, Strategy};

/// A deployed function with its code.
#[derive(Clone, Debug)]
pub struct FunctionSource {
    /// The function.
    pub function: Arc<Function>,
    /// Its code blob.
    pub code: Bytes,
}

/// Receives short descriptions of what a long step is doing, for people.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// A function that can be started.
pub struct Prepared {
    /// The function.
    pub function: Arc<Function>,
    /// What was done, for people: `unpacked 12 files`, `compiled Main.java`, `built an AOT cache`.
    pub steps: Vec<String>,
    /// How long preparing took; zero when the result was there already.
    pub took: Duration,
    /// The strategy by which it runs: the function's own, unless it fell back.
    pub strategy: Strategy,
    /// Why it runs by another strategy than the function's, and what to do about it, for people.
    pub fallback: Option<String>,
    /// What was warmed up and frozen, if anything.
    pub snapshot: Option<SnapshotReport>,
    /// The executor's own data.
    pub artefact: Box<dyn Any + Send + Sync>,
}

impl Prepared {
    /// A function that runs by its own strategy, without a snapshot.
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
    /// This host lacks a feature that the function needs.
    #[error("{what} is not available on this host: {reason}")]
    Unavailable {
        /// The runtime or strategy asked for.
        what: String,
        /// What is missing, and how to get it.
        reason: String,
    },
    /// The code is invalid for its kind.
    #[error("{0}")]
    Code(String),
    /// Too many functions are being prepared; try again later.
    #[error("{0}")]
    Busy(String),
    /// There is too little room on the server's disk.
    #[error("{0}")]
    NoRoom(String),
    /// The namespace's unpacked code would exceed its quota.
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
