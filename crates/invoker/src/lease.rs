//! The right to give an instance one call at a time.

use std::{sync::Arc, time::Duration};

use flint_executor::{Call, CallEnd, Fault, Invoked, until};
use flint_model::{InstanceId, LogLine, Strategy, Timestamp};
use tokio::time::Instant;

use crate::{entry::Entry, shared::Shared};

/// How much later than at the call's deadline an executor that has not ended the call is taken to be broken.
pub const OVERDUE: Duration = Duration::from_secs(1);

/// One slot of an instance: the right to give it one call after the other. Dropping it gives the slot back; an instance whose call
/// was dropped halfway is stopped.
pub struct Lease {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    /// A call was begun and not [`Self::settle`]d.
    in_call: bool,
    report: Option<Box<StartReport>>,
}

/// How an instance was started.
#[derive(Debug)]
pub struct StartReport {
    /// When the start began.
    pub began: Instant,
    /// The same by the wall clock.
    pub began_at: Timestamp,
    /// Until the sandbox was up and the runtime answered; zero when a prewarmed one was taken. Of a snapshot that had to be made first, until
    /// that was there.
    pub started: Duration,
    /// Until the snapshot was resumed, counted from the beginning.
    pub restored: Option<Duration>,
    /// Until the code was loaded, counted from the beginning.
    pub initialised: Duration,
    /// What loading logged.
    pub logs: Vec<LogLine>,
}

impl StartReport {
    /// What the next start costs, as far as this one tells: a snapshot that had to be made for it is there now.
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

    /// Whether the instance may serve a call that `nested` others wait for: not every one may that was started
    /// [beyond the budget](crate::NESTED_LEVELS).
    pub fn may_serve(&self, nested: u32) -> bool {
        self.shared.pool().may_serve(self.entry.id, nested)
    }

    /// How the instance is run: what its function says, unless that fell back.
    pub fn strategy(&self) -> Strategy {
        self.entry.strategy
    }

    /// How the instance was started, when nobody has taken that yet.
    pub fn report(&self) -> Option<&StartReport> {
        self.report.as_deref()
    }

    /// How the instance was started, when nobody has taken that yet: the first call should.
    pub fn take_report(&mut self) -> Option<Box<StartReport>> {
        self.report.take()
    }

    /// Puts back what was taken: the call that took it was not made.
    pub fn put_report(&mut self, report: Box<StartReport>) {
        self.report = Some(report);
    }

    /// Makes a call, after giving the instance the processor back where it was paused. [`Self::settle`] is to follow.
    ///
    /// Not cancellation-safe: when this future is dropped, the instance is stopped with the lease. An executor that has not
    /// answered [`OVERDUE`] after the call's deadline is not waited for: the answer is then [`Fault::Deadline`].
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

    /// How a call ended whose executor did not end it in time.
    pub fn overdue(&self) -> CallEnd {
        self.shared.totals.overdue.add(1);
        tracing::error!(instance = %self.entry.id, function = %self.entry.key.path,
            "the executor did not end a call at its deadline; the instance is stopped");
        CallEnd::default()
    }

    /// The call is over.
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

    /// Ends the instance when the lease is dropped: its memory is needed elsewhere.
    pub fn condemn(&self) {
        self.entry.condemn();
    }

    /// Whether the instance has ended, which its keeper may not have noticed yet.
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
