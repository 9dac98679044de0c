//! What makes instances.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::{ByteSize, Contract, Function, FunctionPath, Kind, Strategy};

use crate::{FunctionSource, PrepareError, Prepared, Progress, StartContext, StartFailure, Started};

/// A technique of running functions.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Its name: `process`, `fork`, `wasm`.
    fn name(&self) -> &'static str;

    /// Whether it runs functions of this strategy and contract at all; whether the host lets it is another question.
    fn handles(&self, strategy: &Strategy, contract: Contract) -> bool;

    /// What the host offers it and what it lacks.
    fn capabilities(&self) -> Vec<Capability>;

    /// The runtimes it can serve, available or not, the default of each family first.
    fn kinds(&self) -> Vec<RuntimeKind>;

    /// Whether the function may be deployed, as far as that can be said before it is prepared. One that is deployed already is prepared again without being
    /// asked for this.
    fn admits(&self, _function: &Function) -> Result<(), PrepareError> {
        Ok(())
    }

    /// Makes a function ready to start: unpack, compile, warm, snapshot. The result is kept on disk under its content's
    /// address; preparing twice is a no-op. Never runs user code outside a sandbox.
    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError>;

    /// Starts an instance and loads the code, by the deadline.
    async fn start(&self, prepared: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure>;

    /// Keeps this many runtimes started without a function, for [`Self::start`] to take; replaces what was said before. None at all: memory is short, and
    /// whatever is only there to make starts quicker is to go, except what is in use.
    async fn prewarm(&self, targets: &[PrewarmTarget]);

    /// A call of the function `spare` waits for this much memory: gives back at once that of snapshots which nothing runs from, the least recently
    /// used first, until it is enough or none is left; that function's own stays.
    async fn reclaim(&self, _wanted: ByteSize, _spare: &FunctionPath) {}

    /// Memory that runtimes without a function, and snapshots, use now.
    async fn prewarmed_memory(&self) -> ByteSize;

    /// What it keeps of snapshots; `None` when it makes none.
    fn snapshots(&self) -> Option<SnapshotCounts> {
        None
    }

    /// What it keeps of a pool that instances are allocated from; `None` when there is none (yet).
    fn slots(&self) -> Option<SlotCounts> {
        None
    }

    /// Does what may take long about the next [`Self::collect`], for which deploys wait, while they go on.
    async fn measure(&self) {}

    /// Removes prepared artefacts of functions other than `keep`.
    async fn collect(&self, keep: &[Arc<Function>]);

    /// Ends everything it keeps.
    async fn shutdown(&self);
}

/// Snapshots at one moment, and what became of them so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// Snapshots that can be forked now.
    pub zygotes: u64,
    /// Clones that were forked ahead and wait for a call.
    pub standbys: u64,
    /// Starts that took a clone forked ahead.
    pub from_standby: u64,
    /// Starts that forked one.
    pub forked: u64,
    /// Starts as a fresh process, of functions that could not be frozen, were given up or had no snapshot at the moment.
    pub fresh: u64,
    /// Snapshots found to have been tampered with.
    pub tampered: u64,
    /// Snapshots made again after the first of their function had gone.
    pub rebuilt: u64,
}

/// A pool of prepared memory that instances are allocated from, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounts {
    /// Slots in all.
    pub total: u64,
    /// What decided how many: one of few words, the same for the pool's life.
    pub bound: &'static str,
    /// Calls that have an instance from it.
    pub live: u64,
    /// Slots that hold an instance's memory.
    pub in_use: u64,
    /// Slots that are free and were used before: the next instance of the same code begins with them.
    pub warm: u64,
    /// Memory that free slots keep.
    pub kept: ByteSize,
    /// Calls that found the pool full and had to wait.
    pub waited: u64,
    /// Those of them whose time limit passed before there was room.
    pub refused: u64,
}

/// Something a host may or may not offer.
#[derive(Clone, Debug)]
pub struct Capability {
    /// What: `isolation process`, `network egress`, `runtime nodejs:20`.
    pub name: String,
    /// How it is provided, or what is missing and how to get it.
    pub state: Result<String, String>,
}

/// A runtime.
#[derive(Clone, Debug)]
pub struct RuntimeKind {
    /// Its name.
    pub kind: Kind,
    /// What `family:default` means.
    pub default: bool,
    /// The code must say its entry point.
    pub requires_main: bool,
    /// What was found (`v20.20.2 at /usr/bin/node`), or what is missing and which package brings it.
    pub state: Result<String, String>,
}

/// Runtimes to keep started without a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrewarmTarget {
    /// Which runtime.
    pub kind: Kind,
    /// With which memory limit.
    pub memory: ByteSize,
    /// How many.
    pub count: usize,
}
