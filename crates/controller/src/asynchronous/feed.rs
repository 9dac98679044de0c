//! Leases calls from the durable queue, and extends the leases of those held.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use flint_model::{DeadLetterReason, Timestamp};
use flint_store::{LeasedCall, Places};

use super::{
    settle,
    state::{Held, Room},
};
use crate::{
    Controller, ControllerError, EffectiveLimits, account::Account, in_flight::InFlight, outcome::Verdict,
    record::of_nothing,
};

/// Maximum number of calls leased, or given up, at once.
const BATCH: usize = 64;

/// Polling interval when calls are known to be queued, and otherwise. The time of retries is known; that of
/// calls held by an earlier run of the server is not.
const LOOK: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Delay of a retry whose namespace has no place for it.
const NO_PLACE: Duration = Duration::from_millis(500);

impl Controller {
    /// On start: releases the leases of earlier runs, records calls without attempts left, and counts queued
    /// calls against their namespaces.
    pub(crate) async fn take_over(&self) -> Result<(), ControllerError> {
        let queue = &self.stores.queue;
        queue.keep_while(&self.accepted.owner, self.accepted.holds());
        let released = queue.release_all_except(&self.accepted.owner).await?;
        self.try_to_give_up_exhausted().await;
        let mut left = 0;
        for namespace in self.stores.catalog.namespaces().await? {
            let account = self.accounts.of(&namespace.name);
            account.allow(EffectiveLimits::of(&namespace, &self.config.limits).concurrent_invocations);
            // Retries take their places when they are leased, and exhausted calls need none.
            let first = queue.waiting_first(Some(&namespace.name)).await?;
            account.inherit(u32::try_from(first).unwrap_or(u32::MAX));
            left += first;
        }
        self.accepted.leave(left);
        let depth = queue.depth(None).await?;
        if depth > 0 {
            tracing::info!(calls = depth, released, "accepted calls of an earlier life are taken over");
        }
        self.accepted.hungry.notify_one();
        Ok(())
    }

    pub(crate) async fn feed(self: Arc<Self>) {
        let (mut look_for_exhausted, mut looked) = (true, Instant::now());
        loop {
            let fed = async {
                // Under load there may never be a moment without something else to do.
                if look_for_exhausted || looked.elapsed() >= LOOK.1 {
                    self.try_to_give_up_exhausted().await;
                    looked = Instant::now();
                }
                self.lease_some().await?;
                Ok::<_, ControllerError>(self.stores.queue.next_due().await?)
            };
            let due = fed.await.unwrap_or_else(|error| {
                let detail = error.detail().unwrap_or_else(|| error.to_string());
                tracing::error!(detail, "accepted calls cannot be taken out of the queue; trying again");
                Some(Timestamp::default())
            });
            // A retry that is due already is waiting for a place.
            let ahead = due.filter(|due| *due > self.stores.clock.now());
            let known = self.accepted.left() > 0 || due.is_some() && ahead.is_none();
            let look = if known { LOOK.0 } else { LOOK.1 };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.accepted.hungry.notified() => {
                    look_for_exhausted = false;
                    // Several calls that end together wake it once.
                    tokio::select! {
                        () = self.stopping.cancelled() => return,
                        () = tokio::time::sleep(Duration::from_millis(5)) => {}
                    }
                }
                () = self.stores.clock.until(ahead.unwrap_or_default()), if ahead.is_some() => {
                    look_for_exhausted = false;
                }
                () = tokio::time::sleep(look) => look_for_exhausted = true,
            }
        }
    }

    /// Leases calls while there is room for them, shared between retries and first attempts, and between
    /// namespaces.
    async fn lease_some(self: &Arc<Self>) -> Result<(), ControllerError> {
        loop {
            // Reserved for the largest arguments allowed, since theirs are not known yet.
            let mut rooms: Vec<_> = std::iter::from_fn(|| self.accepted.room_for_any()).take(BATCH).collect();
            if rooms.is_empty() || self.stopping.is_cancelled() {
                return Ok(());
            }
            let (all, half) = (rooms.len(), rooms.len().div_ceil(2));
            let again_first = self.accepted.again_first.fetch_xor(true, Ordering::Relaxed);
            let one = self.lease_line(again_first, &mut rooms, half).await?;
            let other = self.lease_line(!again_first, &mut rooms, all).await?;
            let rest = match one < half {
                true => 0,
                false => self.lease_line(again_first, &mut rooms, all).await?,
            };
            if one + other + rest < all {
                return Ok(());
            }
        }
    }

    /// Leases calls of one line, retries or first attempts, into at most `limit` of the room; returns how
    /// many.
    async fn lease_line(
        self: &Arc<Self>,
        again: bool,
        rooms: &mut Vec<Room>,
        limit: usize,
    ) -> Result<usize, ControllerError> {
        match (limit.min(rooms.len()), again) {
            (0, _) => Ok(0),
            (limit, false) => self.lease_first(rooms, limit).await,
            (limit, true) => self.lease_again(rooms, limit).await,
        }
    }

    async fn lease_first(
        self: &Arc<Self>,
        rooms: &mut Vec<Room>,
        limit: usize,
    ) -> Result<usize, ControllerError> {
        let (owner, lease) = (&self.accepted.owner, self.config.asynchronous.lease);
        let known = self.accepted.left();
        let withheld = Arc::new(AtomicBool::new(false));
        let (controller, some_withheld) = (Arc::clone(self), Arc::clone(&withheld));
        let places: Places = Arc::new(move |namespace| {
            let rooms = controller.accepted.rooms_of(namespace);
            some_withheld.fetch_or(rooms < limit, Ordering::Relaxed);
            rooms
        });
        let leased = self.stores.queue.lease(owner, limit, lease, places).await?;
        let count = leased.len();
        // Fewer calls than room: all known ones have been fetched, but those of namespaces that have their
        // share of it. Calls accepted since are not counted here.
        let all = count < limit && !withheld.load(Ordering::Relaxed);
        self.accepted.fetched(if all { known } else { known.min(count) });
        for leased in leased {
            self.hold_leased(leased, rooms, |account| Some(account.adopt()));
        }
        Ok(count)
    }

    /// Leases retries as far as their namespaces have places, and room, for them.
    async fn lease_again(
        self: &Arc<Self>,
        rooms: &mut Vec<Room>,
        limit: usize,
    ) -> Result<usize, ControllerError> {
        if self.stores.queue.waiting_again(None).await?.calls == 0 {
            return Ok(0);
        }
        let (owner, lease) = (&self.accepted.owner, self.config.asynchronous.lease);
        let at_once = self.config.asynchronous.retries_running;
        let controller = Arc::clone(self);
        let places: Places = Arc::new(move |namespace| {
            let places = controller.accounts.of(namespace).places_again(at_once) as usize;
            places.min(controller.accepted.rooms_of(namespace))
        });
        let leased = self.stores.queue.lease_again(owner, limit, lease, places).await?;
        let count = leased.len();
        for leased in leased {
            let (without_place, is_first) = (leased.lease, leased.attempt == 1);
            let account = self.accounts.of(&leased.call.namespace);
            if !self.hold_leased(leased, rooms, |account| account.admit_again(at_once)) {
                // Another call has taken the place meanwhile.
                if let Err(error) = self.stores.queue.give_back(without_place, NO_PLACE).await {
                    let id = without_place.activation;
                    tracing::error!(activation = %id, %error, "a retry comes back only when its lease expires");
                    // One that was put off before any attempt comes back as one that has its place.
                    if is_first {
                        account.inherit(1);
                        self.accepted.leave_one();
                    }
                }
            }
        }
        Ok(count)
    }

    /// Holds a leased call, if its namespace has a place for it.
    fn hold_leased(
        self: &Arc<Self>,
        leased: LeasedCall,
        rooms: &mut Vec<Room>,
        place: impl FnOnce(&Arc<Account>) -> Option<InFlight>,
    ) -> bool {
        let LeasedCall { call, lease, attempt, earlier } = leased;
        let Some(in_flight) = place(&self.accounts.of(&call.namespace)) else { return false };
        let Some(mut room) = rooms.pop() else { return false };
        room.give_to(&call.namespace);
        self.accepted.leased().insert(lease);
        let waited = self.stores.clock.now().as_millis().saturating_sub(call.accepted.as_millis());
        let now = Instant::now();
        let arrived = now.checked_sub(Duration::from_millis(waited)).unwrap_or(now);
        let api_key = self.accepted.keys.take(call.activation);
        self.hold(Held {
            call,
            lease,
            attempt,
            begun: Arc::default(),
            earlier,
            arrived,
            api_key,
            recorded: None,
            in_flight,
            room,
            running: None,
        });
        true
    }

    /// Calls that cannot be given up now are kept for the next time; others do not wait for them.
    async fn try_to_give_up_exhausted(&self) {
        if let Err(error) = self.give_up_exhausted().await {
            let detail = error.detail().unwrap_or_else(|| error.to_string());
            tracing::error!(detail, "calls without attempts left cannot be given up; trying again");
        }
    }

    /// Records the failure of calls whose attempts are used up.
    async fn give_up_exhausted(&self) -> Result<(), ControllerError> {
        loop {
            let next = self.accepted.exhausted().last().cloned();
            let Some(exhausted) = next else {
                let handed_out = self.stores.queue.take_exhausted(BATCH).await?;
                if handed_out.is_empty() {
                    return Ok(());
                }
                self.accepted.exhausted().extend(handed_out.into_iter().rev());
                continue;
            };
            let id = exhausted.call.activation;
            // The queue hands each out only once, so one that fails stays in the list for the next time.
            if !self.give_up_one(exhausted).await? {
                return Ok(());
            }
            // Removed by id: the list may have changed when a namespace was deleted.
            self.accepted.exhausted().retain(|left| left.call.activation != id);
        }
    }

    /// `false` if the server stops before the record is kept.
    async fn give_up_one(&self, exhausted: LeasedCall) -> Result<bool, ControllerError> {
        let LeasedCall { call, lease, earlier: attempts, .. } = exhausted;
        self.accepted.keys.take(call.activation);
        let reason = DeadLetterReason::AttemptsUsed;
        let recorded = self.record_of(&call).await;
        // The last attempt may have ended with a record, without the queue being told.
        if recorded.as_ref().is_some_and(|record| settle::dead_letter_reason(record).is_none()) {
            self.stores.queue.complete(lease).await?;
            return Ok(true);
        }
        let last = attempts.last().map_or("unknown", |attempt| attempt.ended_by.as_str());
        let verdict = Verdict::given_up(attempts.len() as u32, last);
        // Present already if only the letter could not be kept last time.
        if recorded.is_none() && (call.promised || self.keeps_records(&call.namespace).await) {
            let (namespace, subject) = (call.namespace.clone(), call.subject.clone());
            let (path, created) = (call.path.clone(), self.accounts.of(&call.namespace).created());
            let mut record =
                of_nothing(call.activation, namespace, subject, path, verdict, attempts, created);
            record.cause = call.cause;
            record.annotations.set(settle::DEAD_LETTER, reason.as_str());
            if !self.keep(record).await {
                return Ok(false);
            }
        }
        self.bury(&call, lease, reason, None).await?;
        Ok(true)
    }

    /// Extends the leases of held calls while the server runs.
    pub(crate) async fn extend_leases(self: Arc<Self>) {
        let lease = self.config.asynchronous.lease;
        loop {
            tokio::select! {
                () = self.stopped.cancelled() => return,
                () = tokio::time::sleep(lease / 3) => {}
            }
            let held: Vec<_> = self.accepted.leased().iter().copied().collect();
            if held.is_empty() {
                continue;
            }
            if let Err(error) = self.stores.queue.extend(&held, lease).await {
                tracing::error!(%error, calls = held.len(), "leases could not be extended; these calls may run twice");
            }
        }
    }
}
