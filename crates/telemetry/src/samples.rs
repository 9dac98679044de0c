//! What is not counted as it happens but looked up when the metrics are read.

/// A state of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstanceState {
    /// Coming up.
    Starting,
    /// Serving a call.
    Busy,
    /// Waiting for a call.
    Idle,
    /// Waiting without the processor.
    Paused,
    /// A runtime without a function.
    Prewarmed,
}

impl InstanceState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Paused => "paused",
            Self::Prewarmed => "prewarmed",
        }
    }
}

/// The activation log's own counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSamples {
    /// Records accepted.
    pub appended: u64,
    /// Records kept without their log lines.
    pub shed_logs: u64,
    /// Records not kept.
    pub shed_records: u64,
    /// Records accepted and not yet written.
    pub pending: u64,
    /// Records removed by retention.
    pub expired: u64,
    /// How often a damaged record was left out of a list.
    pub damaged_reads: u64,
}

/// Snapshots that functions are forked from.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotSamples {
    /// Those that can be forked now.
    pub zygotes: u64,
    /// Clones forked ahead that wait for a call.
    pub standbys: u64,
    /// Starts with a clone forked ahead.
    pub from_standby: u64,
    /// Starts with a clone forked for them.
    pub forked: u64,
    /// Starts with a fresh process, for want of a snapshot.
    pub fresh: u64,
    /// Those found to have been tampered with.
    pub tampered: u64,
    /// Those made again.
    pub rebuilt: u64,
}

/// The pool that Wasm instances are allocated from.
#[derive(Clone, Copy, Debug)]
pub struct WasmPoolSamples {
    /// Slots in all.
    pub total: u64,
    /// What decided how many.
    pub bound: &'static str,
    /// Instances that live.
    pub live: u64,
    /// Slots with an instance's memory in them.
    pub in_use: u64,
    /// Free slots that were used before.
    pub warm: u64,
    /// Memory that free slots keep, in bytes.
    pub kept_bytes: u64,
    /// Calls that found it full and waited.
    pub waited: u64,
    /// Calls that found it full until their time limit passed.
    pub refused: u64,
}

/// What is so at this moment.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Calls admitted and not over.
    pub in_flight: u64,
    /// Accepted asynchronous calls waiting or running.
    pub queue_depth: u64,
    /// Those that failed before and wait for a further attempt.
    pub retries_waiting: u64,
    /// Accepted asynchronous calls that cannot be read.
    pub calls_damaged: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// What they take, in bytes.
    pub dead_letters_bytes: u64,
    /// Calls waiting for an instance.
    pub waiting: u64,
    /// Instances by state.
    pub instances: Vec<(InstanceState, u64)>,
    /// Memory promised to instances, in bytes.
    pub memory_committed: u64,
    /// Memory of runtimes without a function, in bytes.
    pub memory_prewarmed: u64,
    /// The most memory that instances may have together, in bytes.
    pub memory_budget: u64,
    /// Snapshots.
    pub snapshots: SnapshotSamples,
    /// The pool of Wasm instances, once there is one.
    pub wasm_pool: Option<WasmPoolSamples>,
    /// The activation log.
    pub log: LogSamples,
}
