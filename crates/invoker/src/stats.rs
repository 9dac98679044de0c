//! Statistics of the pool, for metrics.

use flint_model::{ByteSize, FunctionPath, NamespaceName};

/// The pool at one moment, and counters since the start.
#[derive(Clone, Debug, Default)]
pub struct InvokerStats {
    /// Instances by state.
    pub instances: InstanceCounts,
    /// Memory that instances may use together.
    pub memory_budget: ByteSize,
    /// Memory charged to instances, including those being started and stopped.
    pub memory_charged: ByteSize,
    /// Memory of runtimes that are started without a function.
    pub memory_prewarmed: ByteSize,
    /// Runtimes that are to be kept started without a function.
    pub prewarmed: usize,
    /// Counters since the start.
    pub totals: Totals,
    /// Every function that has an instance.
    pub functions: Vec<FunctionInstances>,
}

/// Instances by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceCounts {
    /// Being started.
    pub starting: usize,
    /// Serving a call.
    pub busy: usize,
    /// Waiting for a call, running.
    pub idle: usize,
    /// Waiting for a call, paused.
    pub paused: usize,
    /// Being stopped.
    pub stopping: usize,
}

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls given to an instance that had served another one before.
    pub warm: u64,
    /// Instances started from nothing.
    pub cold: u64,
    /// Instances started from a prewarmed runtime.
    pub prewarmed: u64,
    /// Instances started from a snapshot.
    pub restored: u64,
    /// Starts that failed.
    pub failed: u64,
    /// Idle instances evicted because their memory was needed.
    pub evicted: u64,
    /// Idle instances stopped at the end of their keep-alive.
    pub expired: u64,
    /// Instances stopped because their function was updated or deleted.
    pub forgotten: u64,
    /// Instances that ended by themselves.
    pub crashed: u64,
    /// Calls that ran out of memory.
    pub out_of_memory: u64,
    /// Calls that Flint ended because their executor did not end them at their deadline.
    pub overdue: u64,
}

/// The instances of one function on one namespace's account.
#[derive(Clone, Debug)]
pub struct FunctionInstances {
    /// On whose account.
    pub namespace: NamespaceName,
    /// Which function.
    pub path: FunctionPath,
    /// Which revision of it.
    pub revision: u64,
    /// Its instances by state.
    pub instances: InstanceCounts,
    /// Memory charged to them.
    pub memory: ByteSize,
}
