//! Statistics of the queues, for metrics.

use std::time::Duration;

use flint_model::{FunctionPath, NamespaceName};

/// The queues at one moment, and counters since the start.
#[derive(Clone, Debug, Default)]
pub struct SchedulerStats {
    /// Calls that wait.
    pub waiting: usize,
    /// Calls that run.
    pub running: usize,
    /// Instances being started.
    pub starting: usize,
    /// Calls by how they were placed or refused.
    pub totals: CallTotals,
    /// Waiting times for an instance, including calls that found one at once.
    pub waited: WaitedHistogram,
    /// Every function with waiting or running calls, now or recently.
    pub functions: Vec<FunctionQueue>,
}

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Given to an instance.
    pub placed: u64,
    /// Refused: too many waited.
    pub queue_full: u64,
    /// Refused: waited too long.
    pub waited_too_long: u64,
    /// Refused: needs more memory than the pool has.
    pub too_large: u64,
    /// Refused: this host cannot run it.
    pub unavailable: u64,
    /// Refused: shutting down.
    pub shutting_down: u64,
    /// Their instance failed to start.
    pub not_started: u64,
    /// Dropped by their caller while waiting.
    pub gone: u64,
}

/// One function on one namespace's account.
#[derive(Clone, Debug)]
pub struct FunctionQueue {
    /// On whose account.
    pub namespace: NamespaceName,
    /// Which function.
    pub path: FunctionPath,
    /// Which revision of it.
    pub revision: u64,
    /// Calls that wait.
    pub waiting: usize,
    /// Calls that run.
    pub running: usize,
    /// Instances being started for it.
    pub starting: usize,
    /// How long a call runs, a moving average; absent until one has run.
    pub service_time: Option<Duration>,
    /// How long a start takes, a moving average; absent until one was seen.
    pub start_time: Option<Duration>,
}

/// A histogram of waiting times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitedHistogram {
    /// Number of calls per bucket: those that waited at most the bound at the same position of
    /// [`Self::BOUNDS_US`]; the last counts those beyond every bound.
    pub counts: [u64; 13],
    /// Sum of all waiting times, in µs.
    pub sum_us: u64,
}

impl WaitedHistogram {
    /// Upper bounds of the buckets, in µs.
    pub const BOUNDS_US: [u64; 12] =
        [10, 100, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 2_500_000, 10_000_000];

    /// Counts one call.
    pub(crate) fn record(&mut self, waited: Duration) {
        let waited = waited.as_micros() as u64;
        self.counts[Self::BOUNDS_US.partition_point(|bound| *bound < waited)] += 1;
        self.sum_us += waited;
    }
}
