//! Placement: which instance serves a call, and who gets an instance that becomes free.

use std::{sync::Arc, time::Duration};

use flint_invoker::{InstanceKey, Job, Lease, Refusal, StartFor};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    Scheduler,
    board::Board,
    queue::{Ticket, Waiter},
    waiting::{Grant, Placed, Shown, Waiting},
};

/// The immediate outcome of placing a call.
pub(crate) enum Placement {
    Placed(Placed),
    Waiting(Waiting),
    Refused(Refusal),
}

impl Scheduler {
    /// Gives a call an idle instance or a place in its queue. `again` is the ticket of a call whose instance has
    /// ended before it got the call: it is not refused for want of a place, and goes before those that came
    /// after it.
    pub(crate) fn place(self: &Arc<Self>, job: &Job, again: Option<Ticket>) -> Placement {
        let now = Instant::now();
        let function = &job.function;
        let mut board = self.board();
        // A draining scheduler still admits calls that running ones wait for, so that these can end.
        if board.over || board.closed && job.nested == 0 {
            board.totals.shutting_down += 1;
            return Placement::Refused(Refusal::ShuttingDown);
        }
        let budget = self.invoker.memory_budget();
        if function.limits.memory > budget {
            board.totals.too_large += 1;
            let (function, needed) = (function.path.clone(), function.limits.memory);
            return Placement::Refused(Refusal::TooLarge { function, needed, budget });
        }
        let ticket = again.unwrap_or_else(|| board.ticket(job.nested));
        let queue = board.queue(&job.key, function, now);
        let key = Arc::clone(&queue.key);
        if queue.waiting.is_empty()
            && let Some(lease) = self.invoker.take(&key, ticket.nested())
        {
            queue.backlog_since = None;
            queue.begin(ticket, now);
            board.running += 1;
            board.totals.placed += 1;
            board.waited.record(Duration::ZERO);
            return Placement::Placed(Placed {
                scheduler: Arc::clone(self),
                key,
                ticket,
                since: now,
                lease: Some(lease),
            });
        }
        let waiting = queue.waiting.len();
        if again.is_none() && waiting >= self.config.per_function {
            let (function, why) = (function.path.clone(), queue.why());
            board.totals.queue_full += 1;
            return Placement::Refused(Refusal::QueueFull { function, waiting, why });
        }
        if again.is_none() && !board.has_place(&key.namespace, self.config.total) {
            board.totals.queue_full += 1;
            let (namespace, waiting) = (key.namespace.clone(), board.waiting);
            return Placement::Refused(Refusal::QueuesFull { namespace, waiting });
        }
        let (grant, granted) = oneshot::channel();
        let start_for = StartFor {
            activation: job.call.activation,
            transaction: Arc::clone(&job.call.transaction),
            environment: Arc::clone(&job.environment),
        };
        let queue = board.queue(&key, function, now);
        queue.backlog_since.get_or_insert(now);
        queue.add(Waiter { ticket, since: now, grant, start_for, platform_failures: 0 });
        // Averages of few calls are left to the tending task: the first calls may be unlike the others.
        let evaluate = queue.seen.service.is_settled() || queue.running() == 0;
        let look = queue.runs_long(now);
        board.waiting += 1;
        board.list(&key);
        // While memory is short, only the tending task hands out what becomes free, to the smallest charge
        // first.
        if evaluate && !board.short && self.may_start(&board, &key, now) {
            self.start_where_needed(&mut board, now);
        }
        if !std::mem::replace(&mut board.tended, true) || look {
            self.wake.notify_one();
        }
        Placement::Waiting(Waiting { scheduler: Arc::clone(self), key, ticket, grant: granted, over: false })
    }

    /// Removes a waiting call whose caller has gone.
    pub(crate) fn leave(&self, key: &InstanceKey, ticket: Ticket) {
        let mut board = self.board();
        let left = board.queues.get_mut(key).and_then(|queue| queue.remove(ticket));
        if left.is_some() {
            board.waiting -= 1;
            board.totals.gone += 1;
            self.note_quiet(&board);
        }
    }

    /// Takes an instance back after a call and passes it on: to the next waiting call, to a function with a
    /// better claim to its memory, or to the pool.
    pub(crate) fn finish(
        self: &Arc<Self>,
        key: &Arc<InstanceKey>,
        ticket: Ticket,
        lease: Lease,
        shown: Option<Shown>,
    ) {
        let now = Instant::now();
        let mut board = self.board();
        board.running -= 1;
        if let Some(queue) = board.queues.get_mut(key) {
            queue.end(ticket);
            if let Some(shown) = shown {
                queue.seen.add(shown);
            }
        }
        if board.waiting > 0 {
            self.hand_over(&mut board, key, lease, now);
        } else {
            // Under the board's lock: the next call has to find the instance in the pool, or it would start
            // another one.
            drop(lease);
        }
        self.note_quiet(&board);
    }

    /// Passes a free instance on to whoever is next entitled to it.
    fn hand_over(self: &Arc<Self>, board: &mut Board, key: &Arc<InstanceKey>, lease: Lease, now: Instant) {
        let someone_waits = board.queues.get(key).is_some_and(|queue| !queue.waiting.is_empty());
        if !someone_waits {
            return; // the lease goes back to the pool
        }
        if lease.is_usable() && !self.takes_the_claim(board, key) {
            self.grant(board, key, lease, now);
            return;
        }
        lease.condemn();
        drop(lease);
        if !board.short && self.may_start(board, key, now) {
            self.start_where_needed(board, now);
        }
    }

    /// Gives idle instances to a function's waiting calls.
    pub(crate) fn hand_over_idle(&self, board: &mut Board, key: &Arc<InstanceKey>, now: Instant) {
        while let Some(first) = board.queues.get(key).and_then(|queue| queue.waiting.front())
            && let Some(lease) = self.invoker.take(key, first.ticket.nested())
        {
            self.grant(board, key, lease, now);
        }
    }

    /// Gives an instance to the first waiting call, or to the pool when none waits. An instance started
    /// beyond the memory budget that may not serve that call is stopped.
    pub(crate) fn grant(&self, board: &mut Board, key: &Arc<InstanceKey>, mut lease: Lease, now: Instant) {
        let Some(queue) = board.queues.get_mut(key) else { return };
        if queue.waiting.front().is_some_and(|first| !lease.may_serve(first.ticket.nested())) {
            lease.condemn();
            return;
        }
        while let Some(waiter) = queue.waiting.pop_front() {
            board.waiting -= 1;
            match waiter.grant.send(Grant::Instance(lease)) {
                Ok(()) => {
                    queue.begin(waiter.ticket, now);
                    board.running += 1;
                    board.totals.placed += 1;
                    board.waited.record(now.saturating_duration_since(waiter.since));
                    return;
                }
                Err(Grant::Instance(returned)) => lease = returned,
                Err(_) => return,
            }
        }
    }
}
