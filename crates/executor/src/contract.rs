//! The trait [`Executor`], which makes instances, and the figures that it reports.

use std::{
    collections::HashMap,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
};

use async_trait::async_trait;
use flint_model::{ByteSize, Contract, Function, FunctionPath, Kind, NamespaceName, Strategy};

use crate::{FunctionSource, PrepareError, Prepared, Progress, StartContext, StartFailure, Started};

/// Resolves when what an executor makes ahead of calls is there, or will not come to be.
pub type Anticipation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A technique of running functions.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Its name: `process`, `fork`, `wasm`.
    fn name(&self) -> &'static str;

    /// Whether it can run functions of this strategy and contract in principle; [`Self::capabilities`] says
    /// whether this host lets it.
    fn handles(&self, strategy: &Strategy, contract: Contract) -> bool;

    /// What this host offers and lacks for it.
    fn capabilities(&self) -> Vec<Capability>;

    /// The runtimes that it supports, available or not, the default of each family first.
    fn kinds(&self) -> Vec<RuntimeKind>;

    /// Whether the function may be deployed, as far as that is known before it is prepared. Not asked when a
    /// deployed function is prepared again.
    fn admits(&self, _function: &Function) -> Result<(), PrepareError> {
        Ok(())
    }

    /// Makes a function ready to start: unpacks, compiles, warms up, takes a snapshot. The result is kept on
    /// disk under the digest of the content, so preparing twice is a no-op. Never runs user code outside a
    /// sandbox.
    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError>;

    /// Calls of this function are expected: makes in the background what its first starts are faster with and
    /// preparing found known rather than made. That begins at once and goes on whether or not the result is
    /// awaited.
    fn anticipate(&self, _prepared: &Prepared) -> Anticipation {
        Box::pin(ready(()))
    }

    /// Starts an instance and loads the code, by the deadline.
    async fn start(&self, prepared: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure>;

    /// Keeps this many runtimes started without a function, for [`Self::start`] to take; replaces the
    /// previous targets. None while memory is short.
    async fn prewarm(&self, _targets: &[PrewarmTarget]) {}

    /// Releases snapshots without running clones until `wanted` bytes are free or none is left: each time one of
    /// the namespace whose snapshots use the most memory, its least recently used. The snapshot of `spare`, a
    /// function with a call that waits for the memory, is kept. Build tools that wait for the next deploy are
    /// released in any case.
    async fn reclaim(&self, _wanted: ByteSize, _spare: Option<&FunctionPath>) {}

    /// Memory that prewarmed runtimes, snapshots and waiting build tools use now.
    async fn prewarmed_memory(&self) -> PrewarmedMemory;

    /// The state of its snapshots; `None` if it makes none.
    fn snapshots(&self) -> Option<SnapshotCounts> {
        None
    }

    /// The state of the pool from which instances are allocated; `None` if there is none (yet).
    fn slots(&self) -> Option<SlotCounts> {
        None
    }

    /// Does the slow part of the next [`Self::collect`] ahead of it. Deploys wait for a collection, but not
    /// for this.
    async fn measure(&self) {}

    /// Removes the prepared artefacts of all functions but `keep`.
    async fn collect(&self, keep: &[Arc<Function>]);

    /// Ends everything that it keeps.
    async fn shutdown(&self);
}

/// Memory that prewarmed runtimes, snapshots and waiting build tools use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrewarmedMemory {
    /// All of it.
    pub all: ByteSize,
    /// Of that, the snapshots of each namespace's functions.
    pub of_snapshots: HashMap<NamespaceName, ByteSize>,
    /// Of that, the build tools that wait for the next deploy.
    pub of_tools: ByteSize,
}

/// Snapshots at one moment, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// Snapshots that can be forked.
    pub zygotes: u64,
    /// Clones that were forked ahead and wait for a call.
    pub standbys: u64,
    /// Starts that took such a clone.
    pub from_standby: u64,
    /// Starts that forked a clone.
    pub forked: u64,
    /// Starts as a fresh process, because the function could not be frozen, was given up or had no snapshot
    /// at that moment.
    pub fresh: u64,
    /// Snapshots found to have been tampered with.
    pub tampered: u64,
    /// Snapshots made again after an earlier one of their function had ended.
    pub rebuilt: u64,
}

/// A pool of preallocated memory for instances, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCounts {
    /// Slots in all.
    pub total: u64,
    /// What limits their number: one of a few fixed words, constant for the pool's life.
    pub bound: &'static str,
    /// Calls that have an instance from it.
    pub live: u64,
    /// Slots that hold an instance's memory.
    pub in_use: u64,
    /// Free slots that keep pages of their last instance; the next instance of the same code gets one of
    /// them.
    pub warm: u64,
    /// Memory kept by free slots.
    pub kept: ByteSize,
    /// Calls that had to wait because the pool was full.
    pub waited: u64,
    /// Those of them whose time limit passed first.
    pub refused: u64,
}

/// An ability that a host may or may not have.
#[derive(Clone, Debug)]
pub struct Capability {
    /// Its name: `isolation process`, `network egress`, `runtime nodejs:20`.
    pub name: String,
    /// How it is provided, or what is missing and how to get it.
    pub state: Result<String, String>,
}

/// A runtime.
#[derive(Clone, Debug)]
pub struct RuntimeKind {
    /// Its name.
    pub kind: Kind,
    /// Whether it is what `family:default` means.
    pub default: bool,
    /// Whether the entry point must be given.
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
