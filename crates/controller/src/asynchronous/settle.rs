//! Settles an attempt that has ended: the call is over, is attempted again, or becomes a dead letter.
//!
//! Writes are ordered for durability: a record is on disk before the queue is told of it. A crash in between
//! repeats the attempt, if the policy allows one more; neither the call nor its count is lost.

use std::sync::{Arc, atomic::Ordering};

use flint_model::{Activation, ActivationId, Attempt, DeadLetterReason, FailureKind};
use flint_store::{Lease, QueuedCall, StoreError};

use super::{
    policy::{self, Next},
    state::{Done, Held, Room},
};
use crate::{Controller, account::Account, in_flight::InFlight};

/// The annotation of a record that numbers the attempt.
const ATTEMPT: &str = "attempt";

/// The annotation of a record that says why its call is a dead letter.
pub(super) const DEAD_LETTER: &str = "deadLetter";

/// An attempt that has ended.
pub(super) struct Ended {
    /// Its record.
    pub(super) record: Activation,
    /// Whether it was one of a whole composition.
    pub(super) composition: bool,
    /// Flint could not even begin it: it is repeated whatever the policy says.
    pub(super) not_begun: bool,
    /// The call is over, whatever the record says.
    pub(super) over: bool,
}

/// What a call still takes that this server holds no longer.
pub(super) struct Released {
    pub(super) lease: Lease,
    attempt: u32,
    in_flight: InFlight,
    room: Room,
}

/// Why the call of this record became a dead letter, if it did.
pub(super) fn dead_letter_reason(record: &Activation) -> Option<DeadLetterReason> {
    record.annotations.get(DEAD_LETTER)?.as_str()?.parse().ok()
}

impl Controller {
    /// Settles the attempt.
    pub(super) async fn settle(&self, held: Held, recorded: bool, ended: Ended) {
        let Ended { mut record, composition, not_begun, over } = ended;
        if over {
            return self.over(held, recorded, record).await;
        }
        record.attempts.clone_from(&held.earlier);
        record.cause = record.cause.or(held.call.cause);
        let failed = policy::failure(record.response.status, record.timed_out);
        let failed = failed.filter(|kind| not_begun || held.call.policy.on.contains(*kind));
        let Some(kind) = failed else { return self.over(held, recorded, record).await };
        // A failure before there was an instance counts as an attempt too, as does a whole composition. An
        // attempt that is already counted is not counted twice.
        let counting = self.stores.queue.begin(held.lease).await;
        if let Err(error) = &counting {
            tracing::error!(activation = %held.call.activation, %error, "an attempt could not be counted");
        }
        let counted = counting.is_ok() || held.begun.load(Ordering::Relaxed);
        let now = self.stores.clock.now();
        let next = match policy::next(&held.call, held.attempt, now) {
            Next::Again(_) if self.too_many_wait(&held.call, 1).await => {
                Next::Dead(DeadLetterReason::TooManyWaiting)
            }
            next => next,
        };
        match next {
            Next::Again(delay) => {
                let id = held.call.activation;
                tracing::warn!(activation = %id, attempt = held.attempt, why = kind.as_str(), ?delay, "attempt failed, the call is repeated");
                let failed = self.write_attempt(&held, recorded, kind, record).await;
                self.metrics.async_retried();
                let released = self.let_go(held);
                match self.stores.queue.retry(released.lease, failed, delay, composition).await {
                    Ok(true) => self.let_wait(released),
                    // Its lease has expired meanwhile, or its attempt is not counted.
                    Ok(false) => self.come_back(released, counted),
                    Err(error) => {
                        tracing::error!(activation = %id, %error, "a failed attempt could not be written down");
                        self.come_back(released, counted);
                    }
                }
            }
            Next::Dead(reason) => {
                self.give_up_call(held, recorded, record, reason, Some(counted)).await;
            }
        }
    }

    /// Ends a call with this record.
    pub(super) async fn over(&self, held: Held, recorded: bool, record: Activation) {
        if recorded && !self.keep(record).await {
            // The next run of the server executes it again.
            self.accepted.leased().remove(&held.lease);
            return;
        }
        let Held { lease, attempt, begun, in_flight, room, .. } = held;
        let is_first = attempt == 1 && !begun.load(Ordering::Relaxed);
        let first = is_first.then(|| Arc::clone(in_flight.account()));
        drop((in_flight, room));
        self.finish(Done { lease, first }).await;
        self.look_for_more(attempt);
    }

    /// Gives a call up; `record` is that of its last attempt, or of none. `counted` says whether the queue has
    /// counted that attempt.
    pub(super) async fn give_up_call(
        &self,
        held: Held,
        recorded: bool,
        mut record: Activation,
        reason: DeadLetterReason,
        counted: Option<bool>,
    ) {
        record.cause = record.cause.or(held.call.cause);
        let kind = policy::failure(record.response.status, record.timed_out).unwrap_or(FailureKind::Platform);
        let failed = counted.map(|_| Attempt::new(record.start, ended_by(kind, &record)));
        record.annotations.set(DEAD_LETTER, reason.as_str());
        if recorded && !self.keep(record).await {
            self.accepted.leased().remove(&held.lease);
            return;
        }
        let (id, attempt) = (held.call.activation, held.attempt);
        match self.bury(&held.call, held.lease, reason, failed).await {
            Ok(()) => {
                self.accepted.leased().remove(&held.lease);
                drop(held);
                self.look_for_more(attempt);
            }
            // It is found again when its lease expires or the server restarts.
            Err(error) => {
                tracing::error!(activation = %id, %error, "a dead letter could not be kept");
                let released = self.let_go(held);
                self.come_back(released, counted == Some(true));
            }
        }
    }

    /// Makes a dead letter of a call whose record is appended.
    pub(super) async fn bury(
        &self,
        call: &QueuedCall,
        lease: Lease,
        reason: DeadLetterReason,
        failed: Option<Attempt>,
    ) -> Result<(), StoreError> {
        let id = call.activation;
        tracing::warn!(activation = %id, function = %call.path, reason = reason.as_str(), "accepted call given up");
        let bounds = self.config.dead_letters.bounds();
        let buried = self.stores.dead_letters.bury(lease, reason, failed, bounds).await?;
        self.metrics.dead_letter(reason.as_str(), buried.kept, buried.dropped as u64);
        self.metrics.async_exhausted();
        Ok(())
    }

    /// Whether the call's namespace has its maximum of waiting retries, divided by `part`.
    pub(super) async fn too_many_wait(&self, call: &QueuedCall, part: u32) -> bool {
        let config = &self.config.asynchronous;
        let calls = config.retries_waiting.div_ceil(part as usize);
        let bytes = config.retries_waiting_size.as_u64().div_ceil(u64::from(part));
        match self.stores.queue.waiting_again(Some(&call.namespace)).await {
            Ok(waiting) => waiting.calls >= calls || waiting.bytes + call.arguments.len() as u64 > bytes,
            Err(_) => false,
        }
    }

    /// Keeps the record of an attempt that is followed by another: it has an id of its own, and the call's id
    /// as its cause. It is on disk before the queue refers to it.
    async fn write_attempt(
        &self,
        held: &Held,
        recorded: bool,
        kind: FailureKind,
        mut record: Activation,
    ) -> Attempt {
        let mut attempt = Attempt::new(record.start, ended_by(kind, &record));
        // Of a namespace without records, a promise is of the call's only.
        if recorded && (!held.call.promised || self.keeps_records(&held.call.namespace).await) {
            let id = ActivationId::generate();
            record.id = id;
            record.cause = Some(held.call.activation);
            record.attempts.clear();
            record.annotations.set(ATTEMPT, held.attempt);
            let kept = self.keep(record).await;
            match self.stores.activations.flush().await {
                Ok(()) if kept => attempt.activation = Some(id),
                Ok(()) => {}
                // The error of the attempt is known all the same.
                Err(error) => {
                    tracing::error!(activation = %id, %error, "the record of an attempt is not written")
                }
            }
        }
        attempt
    }

    /// This server holds the call no longer; its key is kept for whoever leases it next. To be called before
    /// the queue may hand the call out again: that may be at once, and it would not be held then.
    pub(super) fn let_go(&self, held: Held) -> Released {
        let Held { call, lease, attempt, api_key, in_flight, room, .. } = held;
        self.keep_key(&call, api_key, in_flight.account());
        self.accepted.leased().remove(&lease);
        Released { lease, attempt, in_flight, room }
    }

    /// Leaves the call to the durable queue until its next attempt: it takes neither memory nor a place in
    /// flight.
    pub(super) fn let_wait(&self, released: Released) {
        drop(released);
        self.accepted.hungry.notify_one();
    }

    /// Leaves the call to the durable queue, which could not be told what has become of it: its lease expires,
    /// and it comes back. Without an attempt `counted` it comes as it was leased.
    fn come_back(&self, released: Released, counted: bool) {
        match counted {
            true => self.let_wait(released),
            false => self.left_to_queue(released),
        }
    }

    /// Leaves the call to the durable queue, as it was before it was leased.
    pub(super) fn leave_to_queue(&self, held: Held) {
        let released = self.let_go(held);
        self.left_to_queue(released);
    }

    pub(super) fn left_to_queue(&self, Released { attempt, in_flight, room, .. }: Released) {
        let first = attempt == 1;
        if first {
            self.accepted.leave_one();
        }
        in_flight.leave_to_queue(first);
        drop(room);
        self.accepted.hungry.notify_one();
    }

    /// Keeps a call's key, unless its namespace was deleted: the queue no longer hands that call out.
    fn keep_key(&self, call: &QueuedCall, api_key: Option<Arc<str>>, account: &Account) {
        self.accepted.keys.keep(call.activation, &call.namespace, api_key);
        // In this order: a namespace deleted from now on removes the key itself.
        if account.check_open().is_err() {
            self.accepted.keys.take(call.activation);
        }
    }

    /// Wakes the task that leases calls, since places have become free.
    fn look_for_more(&self, attempt: u32) {
        if self.accepted.left() > 0 || attempt > 1 {
            self.accepted.hungry.notify_one();
        }
    }
}

/// The cause of an attempt's failure, in one line.
fn ended_by(kind: FailureKind, record: &Activation) -> String {
    let result = record.response.result.as_ref().map_or("", |result| result.get());
    match kind {
        FailureKind::Platform => result.to_owned(),
        kind => format!("{}: {result}", kind.as_str()),
    }
}
