//! What an operator can set about snapshots.

use std::{num::NonZeroUsize, time::Duration};

/// Keys `snapshot.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkConfig {
    /// The most clones that are forked ahead of need for one function; 0 = none.
    pub standbys: usize,
    /// How long a zygote that is not called is kept, once no clone of it lives; its successor is made at the next call.
    pub idle: Duration,
    /// The most calls that warm-up events are repeated in.
    pub warmup_calls: u32,
    /// How long that may take.
    pub warmup_budget: Duration,
    /// Zygotes for which nobody waits are made so many at a time. A server that begins anew makes one for each function that is called, and calls are to find processors all the while.
    pub made_at_once: NonZeroUsize,
    /// Move the heaps of zygotes to huge pages.
    pub huge_pages: bool,
}

impl Default for ForkConfig {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            standbys: 4,
            idle: Duration::from_secs(3600),
            warmup_calls: 2000,
            warmup_budget: Duration::from_secs(10),
            made_at_once: NonZeroUsize::new(processors / 2).unwrap_or(NonZeroUsize::MIN),
            huge_pages: true,
        }
    }
}
