//! What became of snapshots and starts, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use flint_executor::SnapshotCounts;

/// One thing that happens.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// It has happened.
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
    /// With nothing of what there is now.
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
