//! State shared by an invoker, its leases and its tasks.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Totals, pool::Pool};

/// State shared by an invoker, its leases and its tasks.
pub(crate) struct Shared {
    pool: Mutex<Pool>,
    pub(crate) totals: Counters,
    /// Every task of this invoker; [`Invoker::shutdown`](crate::Invoker::shutdown) joins them.
    pub(crate) tasks: TaskTracker,
    /// Ends the tasks that look after the pool.
    pub(crate) closing: CancellationToken,
    /// Memory became free, or an instance went.
    pub(crate) capacity: Notify,
    /// A start wakes the task that looks after the pool, which sleeps while the pool is empty.
    pub(crate) occupied: Notify,
    /// A prewarmed runtime was taken, a snapshot was made, or memory became short or plentiful.
    pub(crate) prewarm: Notify,
}

impl Shared {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            pool: Mutex::new(pool),
            totals: Counters::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            capacity: Notify::new(),
            occupied: Notify::new(),
            prewarm: Notify::new(),
        }
    }

    /// Locks the pool. Never held across an await.
    pub(crate) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task that looks after the pool.
    pub(crate) fn note_start(&self) {
        self.occupied.notify_one();
    }
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// [`Totals`] as atomic counters.
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Totals {
                Totals { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters!(
    warm,
    cold,
    prewarmed,
    restored,
    failed,
    evicted,
    expired,
    forgotten,
    crashed,
    out_of_memory,
    overdue
);

/// A monotonic counter.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }
}
