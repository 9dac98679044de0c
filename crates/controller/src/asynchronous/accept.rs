//! Accepts calls durably, and dispatches those that wait in memory.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_model::Feed;
use flint_store::{Lease, QueuedCall, StoreError};

use super::state::{Done, Held};
use crate::{Answer, Controller, ControllerError, in_flight::InFlight};

/// A call to be accepted together with others.
pub(crate) struct Accepting {
    pub(crate) call: QueuedCall,
    pub(crate) arrived: Instant,
    pub(crate) api_key: Option<Arc<str>>,
    /// Whether its record is kept.
    pub(crate) recorded: bool,
    pub(crate) in_flight: InFlight,
}

impl Controller {
    /// Returns when the call is durable. It is then held by this server, or left to the queue if there is no
    /// room.
    pub(crate) async fn accept(
        self: Arc<Self>,
        queued: QueuedCall,
        arrived: Instant,
        api_key: Option<Arc<str>>,
        recorded: bool,
        in_flight: InFlight,
    ) -> Result<Answer, ControllerError> {
        let id = queued.activation;
        let _namespace = self.hold_namespace(in_flight.account()).await?;
        let room = self.accepted.room(&queued.namespace, queued.arguments.len());
        match room {
            Some(room) => {
                let lease = self.take(queued.clone()).await?;
                self.hold(Held {
                    call: queued,
                    lease,
                    attempt: 1,
                    begun: Arc::default(),
                    earlier: Vec::new(),
                    arrived,
                    api_key,
                    recorded: Some(recorded),
                    in_flight,
                    room,
                    running: None,
                });
            }
            None => {
                // Kept first: the call may be leased at once, and needs its key.
                self.accepted.keys.keep(id, &queued.namespace, api_key);
                if let Err(error) = self.stores.queue.enqueue_due(queued).await {
                    self.accepted.keys.take(id);
                    return Err(error.into());
                }
                in_flight.leave_to_queue(true);
                self.accepted.leave_one();
                self.accepted.hungry.notify_one();
            }
        }
        self.metrics.async_accepted();
        Ok(Answer::Accepted(id))
    }

    /// Notes a call that was made durable elsewhere; its key is kept already.
    pub(crate) fn accept_redriven(&self, in_flight: InFlight) {
        in_flight.leave_to_queue(true);
        self.accepted.leave_one();
        self.accepted.hungry.notify_one();
        self.metrics.dead_letter_redriven();
    }

    /// Accepts a call that this server holds from the beginning.
    pub(crate) async fn take(&self, call: QueuedCall) -> Result<Lease, ControllerError> {
        let lease = Lease::first(call.activation);
        self.accepted.leased().insert(lease);
        let time = self.config.asynchronous.lease;
        if let Err(error) = self.stores.queue.enqueue(call, &self.accepted.owner, time).await {
            self.accepted.leased().remove(&lease);
            return Err(error.into());
        }
        Ok(lease)
    }

    /// A call's record is written: the call can be removed from the queue.
    pub(crate) async fn finish(&self, done: Done) {
        // This fails only if the server has stopped; the call is then run again.
        let _ = self.accepted.finished.send(done).await;
    }

    /// Accepts several calls in one commit: when this returns, all of them are durable, or none is. The same
    /// commit advances the feed that caused them.
    pub(crate) async fn accept_all(
        self: &Arc<Self>,
        calls: Vec<Accepting>,
        goes_on: Option<&Feed>,
    ) -> Result<(), ControllerError> {
        let count = calls.len();
        let _namespace = match calls.first() {
            Some(first) => self.hold_namespace(first.in_flight.account()).await?,
            // Without calls the feed must advance all the same, or it would be due again at once.
            None => return Ok(self.commit_all(Vec::new(), None, goes_on).await?),
        };
        let queued: Vec<_> = calls.iter().map(|accepting| accepting.call.clone()).collect();
        let rooms: Option<Vec<_>> =
            queued.iter().map(|call| self.accepted.room(&call.namespace, call.arguments.len())).collect();
        let accepted = &self.accepted;
        match rooms {
            Some(rooms) => {
                let leases: Vec<_> = queued.iter().map(|call| Lease::first(call.activation)).collect();
                accepted.leased().extend(&leases);
                let holder = (accepted.owner.as_str(), self.config.asynchronous.lease);
                if let Err(error) = self.commit_all(queued, Some(holder), goes_on).await {
                    let mut leased = accepted.leased();
                    leased.retain(|lease| !leases.contains(lease));
                    return Err(error.into());
                }
                for (Accepting { call, arrived, api_key, recorded, in_flight }, room) in
                    calls.into_iter().zip(rooms)
                {
                    let (lease, recorded) = (Lease::first(call.activation), Some(recorded));
                    let (attempt, earlier, running) = (1, Vec::new(), None);
                    self.hold(Held {
                        call,
                        lease,
                        attempt,
                        begun: Arc::default(),
                        earlier,
                        arrived,
                        api_key,
                        recorded,
                        in_flight,
                        room,
                        running,
                    });
                }
            }
            None => {
                for Accepting { call, api_key, .. } in &calls {
                    accepted.keys.keep(call.activation, &call.namespace, api_key.clone());
                }
                if let Err(error) = self.commit_all(queued, None, goes_on).await {
                    for Accepting { call, .. } in &calls {
                        accepted.keys.take(call.activation);
                    }
                    return Err(error.into());
                }
                for Accepting { in_flight, .. } in calls {
                    in_flight.leave_to_queue(true);
                    accepted.leave_one();
                }
                accepted.hungry.notify_one();
            }
        }
        (0..count).for_each(|_| self.metrics.async_accepted());
        Ok(())
    }

    async fn commit_all(
        &self,
        calls: Vec<QueuedCall>,
        holder: Option<(&str, Duration)>,
        goes_on: Option<&Feed>,
    ) -> Result<(), StoreError> {
        match goes_on {
            Some(feed) => self.stores.feeds.go_on(feed, calls, holder).await.map(drop),
            None if calls.is_empty() => Ok(()),
            None => self.stores.queue.enqueue_all(calls, holder).await,
        }
    }

    /// Puts a call into its namespace's line, and dispatches.
    pub(super) fn hold(self: &Arc<Self>, held: Held) {
        self.accepted.waiting().push(held.call.namespace.clone(), held);
        self.dispatch();
    }

    /// Starts waiting calls while there is room. Called whenever a call comes or ends, so that no task has to
    /// wait for either.
    pub(super) fn dispatch(self: &Arc<Self>) {
        while !self.stopping.is_cancelled()
            && let Some(held) = self.accepted.next_to_run()
        {
            let controller = Arc::clone(self);
            self.calls.spawn(async move {
                controller.run_accepted(held).await;
                controller.dispatch();
            });
        }
    }
}
