//! Taking calls out of the durable queue, and keeping the leases of those that were taken.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_model::Timestamp;
use flint_store::LeasedCall;

use super::state::Held;
use crate::{Controller, ControllerError, outcome::Verdict, record::of_nothing};

/// Calls leased, and given up, at once.
const BATCH: usize = 64;

/// How often to look when calls are known to be there, and when not: a repeated call becomes due by itself.
const LOOK: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl Controller {
    /// At the start: what earlier lives held is free again, calls without attempts left get their record, and what is
    /// there counts against its namespace.
    pub(crate) async fn take_over(&self) -> Result<(), ControllerError> {
        let queue = &self.stores.queue;
        let released = queue.release_all_except(&self.accepted.owner).await?;
        self.give_up_exhausted().await?;
        for namespace in self.stores.catalog.namespaces().await? {
            let depth = queue.depth(Some(&namespace.name)).await?;
            self.accounts.of(&namespace.name).inherit(u32::try_from(depth).unwrap_or(u32::MAX));
        }
        let depth = queue.depth(None).await?;
        self.accepted.leave(depth);
        if depth > 0 {
            tracing::info!(calls = depth, released, "accepted calls of an earlier life are taken over");
        }
        self.accepted.hungry.notify_one();
        Ok(())
    }

    pub(crate) async fn feed(self: Arc<Self>) {
        let mut look_for_exhausted = true;
        loop {
            let fed = async {
                if look_for_exhausted {
                    self.give_up_exhausted().await?;
                }
                self.lease_some().await
            };
            if let Err(error) = fed.await {
                let detail = error.detail().unwrap_or_else(|| error.to_string());
                tracing::error!(detail, "accepted calls cannot be taken out of the queue; trying again");
            }
            let look = if self.accepted.left() > 0 { LOOK.0 } else { LOOK.1 };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.accepted.hungry.notified() => {
                    look_for_exhausted = false;
                    // Several calls that end together are one reason to look.
                    tokio::select! {
                        () = self.stopping.cancelled() => return,
                        () = tokio::time::sleep(Duration::from_millis(5)) => {}
                    }
                }
                () = tokio::time::sleep(look) => look_for_exhausted = true,
            }
        }
    }

    /// Leases while there are calls and room for them.
    async fn lease_some(self: &Arc<Self>) -> Result<(), ControllerError> {
        loop {
            // Each may bring the largest arguments there are; so many must fit.
            let largest = self.config.limits.bounds.max_payload.as_u64() as usize;
            let mut rooms: Vec<_> = std::iter::from_fn(|| self.accepted.room(largest)).take(BATCH).collect();
            if rooms.is_empty() || self.stopping.is_cancelled() {
                return Ok(());
            }
            let (owner, lease) = (&self.accepted.owner, self.config.asynchronous.lease);
            let leased = self.stores.queue.lease(owner, rooms.len(), lease).await?;
            let all = leased.len() < rooms.len();
            for leased in leased {
                self.accepted.fetch_one();
                // A call whose lease could not be extended is still in this server's hands.
                if !self.accepted.leased().insert(leased.call.activation) {
                    continue;
                }
                let Some(room) = rooms.pop() else { break };
                let LeasedCall { call, attempt, earlier } = leased;
                let waited = Timestamp::now().as_millis().saturating_sub(call.accepted.as_millis());
                let now = Instant::now();
                let arrived = now.checked_sub(Duration::from_millis(waited)).unwrap_or(now);
                let in_flight = self.accounts.of(&call.namespace).adopt();
                self.hold(Held {
                    call,
                    attempt,
                    earlier,
                    arrived,
                    api_key: None,
                    recorded: None,
                    in_flight,
                    room,
                    running: None,
                });
            }
            if all {
                return Ok(());
            }
        }
    }

    /// Writes down the failure of calls that had all their attempts without an end.
    async fn give_up_exhausted(&self) -> Result<(), ControllerError> {
        loop {
            let exhausted = self.stores.queue.take_exhausted(BATCH).await?;
            if exhausted.is_empty() {
                return Ok(());
            }
            for LeasedCall { call, earlier: attempts, .. } in exhausted {
                let last = attempts.last().map_or("unknown", |attempt| attempt.ended_by.as_str());
                let verdict = Verdict::given_up(attempts.len() as u32, last);
                tracing::warn!(activation = %call.activation, function = %call.path, "accepted call given up");
                drop(self.accounts.of(&call.namespace).adopt());
                self.accepted.fetch_one();
                let id = call.activation;
                let record = of_nothing(id, call.namespace, call.subject, call.path, verdict, attempts);
                self.stores.activations.append(record);
                self.metrics.async_exhausted();
                self.stores.activations.flush().await?;
                self.stores.queue.complete(id).await?;
            }
        }
    }

    /// Keeps what this server holds from others for as long as it lives.
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
            if let Err(error) = self.stores.queue.extend(&self.accepted.owner, &held, lease).await {
                tracing::error!(%error, calls = held.len(), "leases could not be extended; these calls may run twice");
            }
        }
    }
}
