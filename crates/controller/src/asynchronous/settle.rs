//! What becomes of a call whose attempt has ended: it is over, it is attempted again, or it is a dead letter.
//!
//! The order of writes is that of durability: a record is on disk before the queue is told that there is one. A crash between the two repeats
//! the attempt, if the policy leaves one; it loses neither the call nor its count.

use std::sync::Arc;

use flint_model::{Activation, ActivationId, Attempt, DeadLetterReason, FailureKind};
use flint_store::{QueuedCall, StoreError};

use super::{
    policy::{self, Next},
    state::Held,
};
use crate::{Controller, account::Account};

/// The annotation of a record that says which attempt of a call it is.
const ATTEMPT: &str = "attempt";

/// The annotation of a record that says why its call is a dead letter.
pub(super) const DEAD_LETTER: &str = "deadLetter";

/// An attempt that came to an end.
pub(super) struct Ended {
    /// What came of it.
    pub(super) record: Activation,
    /// Whether it was that of a whole composition.
    pub(super) composition: bool,
    /// Flint could not even begin it: that is tried again whatever the policy says.
    pub(super) not_begun: bool,
    /// It is over, whatever its record says.
    pub(super) over: bool,
}

/// Why the call of this record is a dead letter.
pub(super) fn dead_letter_reason(record: &Activation) -> Option<DeadLetterReason> {
    record.annotations.get(DEAD_LETTER)?.as_str()?.parse().ok()
}

impl Controller {
    /// Ends the attempt: writes down what it came to.
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
        // One that failed before the call had an instance was an attempt too, and so was that of a whole composition. What is counted already stays as it is.
        if let Err(error) = self.stores.queue.begin(&self.accepted.owner, held.call.activation).await {
            tracing::error!(activation = %held.call.activation, %error, "an attempt could not be counted");
        }
        let now = self.stores.clock.now();
        let next = match policy::next(&held.call, held.attempt, now) {
            Next::Again(_) if self.too_many_wait(&held.call).await => {
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
                match self.stores.queue.retry(id, failed, delay, composition).await {
                    Ok(true) => self.let_wait(held),
                    // It could not be counted: its lease ends by itself, and the call comes back as one that nothing was tried with.
                    Ok(false) => self.leave_to_queue(held),
                    // Its lease ends by itself, and the call comes back then.
                    Err(error) => {
                        tracing::error!(activation = %id, %error, "a failed attempt could not be written down");
                        self.let_wait(held);
                    }
                }
            }
            Next::Dead(reason) => self.give_up_call(held, recorded, record, reason, true).await,
        }
    }

    /// The call is over, and this is its record.
    pub(super) async fn over(&self, held: Held, recorded: bool, record: Activation) {
        if recorded && !self.keep(record).await {
            // The next life runs it again.
            self.accepted.leased().remove(&held.call.activation);
            return;
        }
        let Held { call, attempt, in_flight, room, .. } = held;
        drop((in_flight, room));
        self.finish(call.activation).await;
        self.look_for_more(attempt);
    }

    /// No attempt is made at the call any more; `record` says what it came to, of an attempt or without one.
    pub(super) async fn give_up_call(
        &self,
        held: Held,
        recorded: bool,
        mut record: Activation,
        reason: DeadLetterReason,
        attempted: bool,
    ) {
        let Held { call, attempt, in_flight, room, .. } = held;
        record.cause = record.cause.or(call.cause);
        let kind = policy::failure(record.response.status, record.timed_out).unwrap_or(FailureKind::Platform);
        let failed = attempted.then(|| Attempt::new(record.start, ended_by(kind, &record)));
        record.annotations.set(DEAD_LETTER, reason.as_str());
        if recorded && !self.keep(record).await {
            self.accepted.leased().remove(&call.activation);
            return;
        }
        if let Err(error) = self.bury(&call, reason, failed).await {
            // It stays in the queue, where the end of its lease, or the next server, finds it.
            tracing::error!(activation = %call.activation, %error, "a dead letter could not be kept");
        }
        self.accepted.leased().remove(&call.activation);
        drop((in_flight, room));
        self.look_for_more(attempt);
    }

    /// Makes a dead letter of a call whose record is appended.
    pub(super) async fn bury(
        &self,
        call: &QueuedCall,
        reason: DeadLetterReason,
        failed: Option<Attempt>,
    ) -> Result<(), StoreError> {
        let id = call.activation;
        tracing::warn!(activation = %id, function = %call.path, reason = reason.as_str(), "accepted call given up");
        let bounds = self.config.dead_letters.bounds();
        let buried = self.stores.dead_letters.bury(id, reason, failed, bounds).await?;
        self.metrics.dead_letter(reason.as_str(), buried.kept, buried.dropped as u64);
        self.metrics.async_exhausted();
        Ok(())
    }

    /// Whether the call's namespace has as many waiting as may wait.
    async fn too_many_wait(&self, call: &QueuedCall) -> bool {
        let config = &self.config.asynchronous;
        match self.stores.queue.waiting_again(Some(&call.namespace)).await {
            Ok(waiting) => {
                waiting.calls >= config.retries_waiting
                    || waiting.bytes + call.arguments.len() as u64 > config.retries_waiting_size.as_u64()
            }
            Err(_) => false,
        }
    }

    /// Writes the record of an attempt that is followed by another: it has an id of its own, and the call's own id as its cause. It is on disk
    /// before the queue names it.
    async fn write_attempt(
        &self,
        held: &Held,
        recorded: bool,
        kind: FailureKind,
        mut record: Activation,
    ) -> Attempt {
        let mut attempt = Attempt::new(record.start, ended_by(kind, &record));
        if recorded {
            let id = ActivationId::generate();
            record.id = id;
            record.cause = Some(held.call.activation);
            record.attempts.clear();
            record.annotations.set(ATTEMPT, held.attempt);
            let kept = self.keep(record).await;
            match self.stores.activations.flush().await {
                Ok(()) if kept => attempt.activation = Some(id),
                Ok(()) => {}
                // What ended it is known all the same.
                Err(error) => {
                    tracing::error!(activation = %id, %error, "the record of an attempt is not written")
                }
            }
        }
        attempt
    }

    /// The call waits for its next attempt in the durable queue alone: it takes neither memory nor a place among its namespace's calls.
    fn let_wait(&self, held: Held) {
        let Held { call, api_key, in_flight, room, .. } = held;
        self.accepted.leased().remove(&call.activation);
        self.keep_key(&call, api_key, in_flight.account());
        drop((in_flight, room));
        self.accepted.hungry.notify_one();
    }

    /// The call is in the durable queue alone from now on, as it was before it was leased.
    pub(super) fn leave_to_queue(&self, held: Held) {
        let Held { call, attempt, api_key, in_flight, room, .. } = held;
        self.accepted.leased().remove(&call.activation);
        self.keep_key(&call, api_key, in_flight.account());
        if attempt == 1 {
            self.accepted.leave_one();
        }
        in_flight.leave_to_queue();
        drop(room);
        self.accepted.hungry.notify_one();
    }

    /// Of a call of a namespace that was deleted meanwhile no key is kept: the queue hands it out to nobody.
    fn keep_key(&self, call: &QueuedCall, api_key: Option<Arc<str>>, account: &Account) {
        self.accepted.keys.keep(call.activation, &call.namespace, api_key);
        // In this order: a namespace that is deleted from now on takes the key along.
        if account.check_open().is_err() {
            self.accepted.keys.take(call.activation);
        }
    }

    /// A call's places are free.
    fn look_for_more(&self, attempt: u32) {
        if self.accepted.left() > 0 || attempt > 1 {
            self.accepted.hungry.notify_one();
        }
    }
}

/// What ended an attempt, in a line.
fn ended_by(kind: FailureKind, record: &Activation) -> String {
    let result = record.response.result.as_ref().map_or("", |result| result.get());
    match kind {
        FailureKind::Platform => result.to_owned(),
        kind => format!("{}: {result}", kind.as_str()),
    }
}
