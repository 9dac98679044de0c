//! Counters of snapshots and starts.

use std::sync::atomic::{AtomicU64, Ordering};

use flint_executor::SnapshotCounts;

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub(crate) fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`SnapshotCounts`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) from_standby: Count,
    pub(crate) forked: Count,
    pub(crate) fresh: Count,
    pub(crate) tampered: Count,
    pub(crate) rebuilt: Count,
}

impl Tally {
    /// The counters; the figures of the present are left at 0.
    pub(crate) fn counts(&self) -> SnapshotCounts {
        SnapshotCounts {
            from_standby: self.from_standby.read(),
            forked: self.forked.read(),
            fresh: self.fresh.read(),
            tampered: self.tampered.read(),
            rebuilt: self.rebuilt.read(),
            ..SnapshotCounts::default()
        }
    }
}
