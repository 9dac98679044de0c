//! A lease: the right to give an instance one call at a time.

use std::{sync::Arc, time::Duration};

use flint_executor::{Call, CallEnd, Fault, Invoked, until};
use flint_model::{InstanceId, LogLine, Strategy, Timestamp};
use tokio::time::Instant;

use crate::{entry::Entry, shared::Shared};

/// Time after a call's deadline at which an executor that has not ended the call is taken to be broken.
pub const OVERDUE: Duration = Duration::from_secs(1);

/// A lease on one slot of an instance: the right to give it one call after the other. Dropping the lease
/// returns the slot; an instance whose call was dropped halfway is stopped.
pub struct Lease {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    /// A call has begun and is not [`Self::settle`]d.
    in_call: bool,
    report: Option<Box<StartReport>>,
}

/// How an instance was started.
#[derive(Debug)]
pub struct StartReport {
    /// When the start began.
    pub began: Instant,
    /// The same in wall-clock time.
    pub began_at: Timestamp,
    /// Until the sandbox was up and the runtime answered; zero for a prewarmed runtime. If a snapshot had to
    /// be made first, until it was made.
    pub started: Duration,
    /// From the beginning until the snapshot was resumed.
    pub restored: Option<Duration>,
    /// From the beginning until the code was loaded.
    pub initialised: Duration,
    /// Log lines from loading the code.
    pub logs: Vec<LogLine>,
}

impl StartReport {
    /// The expected cost of the next start: a snapshot made for this one does not have to be made again.
    pub fn cost_of_another(&self) -> Duration {
        match self.restored {
            Some(restored) if self.made_a_snapshot() => restored - self.started,
            _ => self.initialised,
        }
    }

    /// Whether a snapshot had to be made for it.
    pub(crate) fn made_a_snapshot(&self) -> bool {
        self.restored.is_some_and(|restored| restored > self.started)
    }
}

impl Lease {
    pub(crate) fn new(shared: Arc<Shared>, entry: Arc<Entry>) -> Self {
        let report = entry.take_report();
        Self { shared, entry, in_call: false, report }
    }

    /// Which instance.
    pub fn instance(&self) -> InstanceId {
        self.entry.id
    }

    /// Whether the instance can serve a call, as far as is known.
    pub fn is_usable(&self) -> bool {
        !self.in_call && !self.entry.is_condemned()
    }

    /// Whether the instance may serve a call on which `nested` callers wait; one started [beyond the
    /// budget](crate::NESTED_LEVELS) may not serve every call.
    pub fn may_serve(&self, nested: u32) -> bool {
        self.shared.pool().may_serve(self.entry.id, nested)
    }

    /// The function's declared strategy, or the one the instance fell back to.
    pub fn strategy(&self) -> Strategy {
        self.entry.strategy
    }

    /// How the instance was started, unless already taken.
    pub fn report(&self) -> Option<&StartReport> {
        self.report.as_deref()
    }

    /// Takes the report of the start, for the instance's first call.
    pub fn take_report(&mut self) -> Option<Box<StartReport>> {
        self.report.take()
    }

    /// Puts the report back if the call that took it was not made.
    pub fn put_report(&mut self, report: Box<StartReport>) {
        self.report = Some(report);
    }

    /// Makes a call, resuming the instance first if it is paused. [`Self::settle`] has to follow.
    ///
    /// Not cancellation-safe: when this future is dropped, the instance is stopped with the lease. An
    /// executor that has not answered [`OVERDUE`] after the call's deadline is given up: the answer is then
    /// [`Fault::Deadline`].
    pub async fn invoke(&mut self, call: Call) -> Invoked {
        let patience = Instant::from_std(call.deadline) + OVERDUE;
        self.in_call = true;
        self.shared.totals.warm.add(usize::from(self.entry.mark_called()));
        let instance = &*self.entry.instance;
        let invoked = async {
            if !self.entry.freeze.is_running() {
                self.entry.freeze.resume(instance).await;
            }
            instance.invoke(call).await
        };
        match until(patience, invoked).await {
            Ok(invoked) => invoked,
            Err(_) => Invoked::Done { result: Err(Fault::Deadline), end: self.overdue() },
        }
    }

    /// The end of a call that its executor did not end in time.
    pub fn overdue(&self) -> CallEnd {
        self.shared.totals.overdue.add(1);
        tracing::error!(instance = %self.entry.id, function = %self.entry.key.path,
            "the executor did not end a call at its deadline; the instance is stopped");
        CallEnd::default()
    }

    /// Records the end of a call, and decides whether the instance may be reused.
    pub fn settle(&mut self, fault: Option<&Fault>, end: &CallEnd) {
        self.in_call = false;
        if let Some(peak) = end.usage.memory_peak {
            self.entry.note_memory(peak);
        }
        if fault == Some(&Fault::OutOfMemory) {
            self.shared.totals.out_of_memory.add(1);
            self.entry.note_memory(self.entry.function.limits.memory);
        }
        if !end.reusable || self.entry.is_single_use() {
            self.entry.condemn();
        }
        self.entry.mark_used();
    }

    /// Stops the instance when the lease is dropped.
    pub fn condemn(&self) {
        self.entry.condemn();
    }

    /// Whether the instance has ended; its keeper may not have noticed yet.
    pub fn has_ended(&self) -> bool {
        self.entry.instance.has_ended()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            self.entry.put_report(report);
        }
        let reuse = !self.in_call && !self.entry.is_single_use();
        self.shared.pool().give_back(self.entry.id, reuse, Instant::now());
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("instance", &self.entry.id).field("in_call", &self.in_call).finish()
    }
}
