//! An instance in the pool, and the state of it that can be used without the pool's lock.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use flint_executor::Instance;
use flint_model::{ByteSize, Function, InstanceId, Reuse, Strategy};
use tokio::sync::Notify;

use crate::{InstanceKey, StartReport, freeze::Freeze};

/// An instance in the pool. Decisions about it are made under the pool's lock; the fields here can be read
/// and marked without it.
pub(crate) struct Entry {
    pub(crate) id: InstanceId,
    pub(crate) key: Arc<InstanceKey>,
    pub(crate) function: Arc<Function>,
    pub(crate) instance: Arc<dyn Instance>,
    /// The function's declared strategy, or the one it fell back to.
    pub(crate) strategy: Strategy,
    /// Concurrent calls it serves.
    pub(crate) slots: u32,
    /// Whether it is running or paused.
    pub(crate) freeze: Freeze,
    /// Tells its keeper to stop it.
    pub(crate) retire: Notify,
    /// Serves no further call: it is broken, has ended, or is to be stopped.
    condemned: AtomicBool,
    /// Its function was updated or deleted: it serves the calls already waiting for it, and no others.
    outdated: AtomicBool,
    /// It has been given a call.
    called: AtomicBool,
    /// It has served a call since its memory was last measured.
    used: AtomicBool,
    /// The largest memory use seen.
    peak: AtomicU64,
    /// How it was started, for its first call to take.
    report: Mutex<Option<Box<StartReport>>>,
}

impl Entry {
    pub(crate) fn new(
        key: Arc<InstanceKey>,
        function: Arc<Function>,
        strategy: Strategy,
        instance: Arc<dyn Instance>,
        report: StartReport,
        id: InstanceId,
    ) -> Self {
        Self {
            id,
            slots: slots(&function, &strategy),
            strategy,
            key,
            function,
            instance,
            freeze: Freeze::default(),
            retire: Notify::new(),
            condemned: AtomicBool::new(false),
            outdated: AtomicBool::new(false),
            called: AtomicBool::new(false),
            used: AtomicBool::new(true),
            peak: AtomicU64::new(0),
            report: Mutex::new(Some(Box::new(report))),
        }
    }

    pub(crate) fn condemn(&self) {
        self.condemned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_condemned(&self) -> bool {
        self.condemned.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_outdated(&self) {
        self.outdated.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    /// Whether it serves a single call only.
    pub(crate) fn is_single_use(&self) -> bool {
        self.strategy.is_single_use()
    }

    /// Marks it as having been given a call; `true` if it had been given one before.
    pub(crate) fn mark_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) || self.called.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether it has served a call since the last time this was asked.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn note_memory(&self, memory: ByteSize) {
        self.peak.fetch_max(memory.as_u64(), Ordering::Relaxed);
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn take_report(&self) -> Option<Box<StartReport>> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put_report(&self, report: Box<StartReport>) {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }
}

/// Concurrent calls that an instance of `function` serves: the configured concurrency as far as the strategy
/// allows it.
pub(crate) fn slots(function: &Function, strategy: &Strategy) -> u32 {
    match strategy.reuse {
        Reuse::Never => 1,
        Reuse::Warm => function.limits.concurrency.min(strategy.concurrency).get(),
    }
}
