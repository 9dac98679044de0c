//! The operator's configuration of snapshots.

use std::{num::NonZeroUsize, time::Duration};

/// Keys `snapshot.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkConfig {
    /// Most clones forked ahead of need for one function; 0 for none.
    pub standbys: usize,
    /// How long after a function's last call one of them is kept. A function has none if its calls are further
    /// apart.
    pub standby_idle: Duration,
    /// How long an unused zygote is kept after its last clone has ended. A later call makes another one.
    pub idle: Duration,
    /// Most calls by which the warm-up events are repeated.
    pub warmup_calls: u32,
    /// How long that may take.
    pub warmup_budget: Duration,
    /// How many zygotes are made at a time for which nobody waits. A restarted server makes one for each
    /// function that is called, and must leave CPUs to calls meanwhile.
    pub made_at_once: NonZeroUsize,
    /// Whether the heaps of zygotes are moved to huge pages.
    pub huge_pages: bool,
}

impl Default for ForkConfig {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            standbys: 4,
            standby_idle: Duration::from_secs(600),
            idle: Duration::from_secs(3600),
            warmup_calls: 2000,
            warmup_budget: Duration::from_secs(10),
            made_at_once: NonZeroUsize::new(processors / 2).unwrap_or(NonZeroUsize::MIN),
            huge_pages: true,
        }
    }
}
