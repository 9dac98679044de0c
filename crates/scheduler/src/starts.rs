//! Starting instances: for whom next, and what comes of it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use flint_executor::{Fault, StartFailure};
use flint_invoker::{InstanceKey, Lease, Permit, Refusal, Shortage, StartError, StartFor};
use tokio::time::Instant;

use crate::{
    Scheduler,
    board::Board,
    queue::{FunctionQueue, Ticket},
    waiting::Grant,
};

/// How often a start that fails by Flint's or the host's fault is tried for one call.
const PLATFORM_TRIES: u32 = 3;

/// A function without any instance whose starts failed so often is broken: the next failure answers everybody who waited when
/// that start began.
const BROKEN_AFTER: u32 = 3;

/// A start that takes longer mostly waits for something: it keeps no namespace, and no function, from its first one. Its memory is charged like any other's.
const LONG_START: Duration = Duration::from_secs(1);

/// A start in progress. Reports a failure when its task dies.
struct Attempt {
    scheduler: Arc<Scheduler>,
    key: Arc<InstanceKey>,
    /// For whom.
    ticket: Ticket,
    began: Instant,
    over: bool,
}

impl Attempt {
    async fn run(mut self, permit: Permit, call: StartFor) {
        let outcome = self.scheduler.invoker.start(permit, call).await;
        self.over = true;
        self.scheduler.start_ended(&self.key, self.ticket, self.began, outcome);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.over {
            let fault =
                Fault::Platform { cause: "the executor failed while it started an instance".to_owned() };
            let failure = StartFailure { fault, took: self.began.elapsed(), logs: Vec::new() };
            self.scheduler.start_ended(&self.key, self.ticket, self.began, Err(StartError::Failed(failure)));
        }
    }
}

impl Scheduler {
    /// Starts what is worth it and fits.
    ///
    /// Namespaces take turns, and so do the functions of one. When memory is short, who has least of it comes first, and
    /// nobody overtakes: what comes free is for the poorest.
    pub(crate) fn start_where_needed(self: &Arc<Self>, board: &mut Board, now: Instant) {
        loop {
            let mut order = board.in_turn();
            order.retain(|key| self.may_start(board, key, now));
            let memory_is_short =
                order.iter().any(|key| board.queues.get(key).is_some_and(FunctionQueue::is_short_of_memory));
            if memory_is_short {
                order.sort_by_cached_key(|key| self.invoker.charges(key));
            }
            let mut any = false;
            let mut newly_short = false;
            for key in order {
                // The last start may have used up the right to the next one.
                if !self.may_start(board, &key, now) {
                    continue;
                }
                match self.start_for(board, &key, false, now) {
                    Ok(()) => any = true,
                    Err(Shortage::Instances { .. }) => {}
                    Err(Shortage::Memory { .. }) => {
                        newly_short = !memory_is_short;
                        any &= !memory_is_short;
                        break;
                    }
                    Err(Shortage::Stopping { .. } | Shortage::Closed) => return,
                }
            }
            if !any && !newly_short {
                break;
            }
        }
        if board.short {
            self.start_beyond(board, now);
        }
    }

    /// Starts beyond the memory budget what calls wait for that other calls wait for: else these, which have the memory, would never end.
    fn start_beyond(self: &Arc<Self>, board: &mut Board, now: Instant) {
        for key in board.in_turn() {
            let is_waited_for =
                |queue: &FunctionQueue| queue.to_start_for().is_some_and(|waiter| waiter.ticket.nested() > 0);
            while board.queues.get(&key).is_some_and(is_waited_for)
                && self.may_start(board, &key, now)
                && self.start_for(board, &key, true, now).is_ok()
            {}
        }
    }

    /// Whether a start for this function is worth it and allowed now.
    pub(crate) fn may_start(&self, board: &Board, key: &Arc<InstanceKey>, now: Instant) -> bool {
        let Some(queue) = board.queues.get(key) else { return false };
        // A namespace for which nothing is being started may always begin one, so that slow starts of others do not block it. When theirs
        // have become long ones is seen by the task that tends the queues, which comes by for as long as a call waits.
        let short = || board.starting_for_less_than(LONG_START, now);
        let room = match board.starting_for(&key.namespace) {
            0 => short() < 2 * self.most_starting,
            // Nor do long ones of some functions keep the others of their namespace from theirs, within the same bound.
            _ if queue.starting == 0 && board.starting >= self.most_starting => {
                board.starting < 2 * self.most_starting && short() < self.most_starting
            }
            _ => board.starting < self.most_starting,
        };
        room && queue.wants_start(self.cores, self.most_starting_per_function, board.by_the_clock, now)
            // One start prepares the function; the others would only wait for it.
            && (queue.starting == 0 || self.invoker.is_prepared(&queue.function))
    }

    fn start_for(
        self: &Arc<Self>,
        board: &mut Board,
        key: &Arc<InstanceKey>,
        beyond: bool,
        now: Instant,
    ) -> Result<(), Shortage> {
        let Some(queue) = board.queues.get_mut(key) else { return Ok(()) };
        let Some(waiter) = queue.to_start_for() else { return Ok(()) };
        let (ticket, call) = (waiter.ticket, waiter.start_for.clone());
        let nested = if beyond { ticket.nested() } else { 0 };
        let permit = match self.invoker.reserve(key, &queue.function, nested) {
            Ok(permit) => permit,
            Err(shortage) => {
                let since = match queue.short {
                    Some((before, since))
                        if std::mem::discriminant(&before) == std::mem::discriminant(&shortage) =>
                    {
                        since
                    }
                    _ => now,
                };
                queue.short = Some((shortage, since));
                board.short |= matches!(shortage, Shortage::Memory { .. });
                return Err(shortage);
            }
        };
        board.begin_start(key, now);
        let attempt =
            Attempt { scheduler: Arc::clone(self), key: Arc::clone(key), ticket, began: now, over: false };
        self.tasks.spawn(attempt.run(permit, call));
        Ok(())
    }

    /// A start is over: the instance goes to the first one who waits, or a failure to the one it was for.
    fn start_ended(
        self: &Arc<Self>,
        key: &Arc<InstanceKey>,
        ticket: Ticket,
        began: Instant,
        outcome: Result<Lease, StartError>,
    ) {
        let now = Instant::now();
        let mut board = self.board();
        board.end_start(key, began);
        match outcome {
            Ok(lease) => {
                if let Some(queue) = board.queues.get_mut(key) {
                    queue.failures.count = 0;
                    queue.strategy = lease.strategy();
                    // A prewarmed runtime only hides what the start has cost, and its successor will cost.
                    if let Some(report) = lease.report().filter(|report| !report.started.is_zero()) {
                        queue.seen.start.add(report.cost_of_another());
                    }
                }
                // A new instance serves one call before others may claim its memory.
                self.grant(&mut board, key, lease, now);
                self.hand_over_idle(&mut board, key, now);
            }
            Err(error) => start_failed(&mut board, key, ticket, began, error, now),
        }
        self.start_where_needed(&mut board, now);
        self.note_quiet(&board);
    }

    /// The function that has waited for memory long enough and whose namespace has least of it.
    pub(crate) fn claimant(
        &self,
        board: &Board,
        among: &[Arc<InstanceKey>],
        now: Instant,
    ) -> Option<Arc<InstanceKey>> {
        let claims =
            |key: &&Arc<InstanceKey>| board.queues.get(*key).is_some_and(|queue| queue.claims_memory(now));
        among.iter().filter(claims).min_by_key(|key| self.invoker.charges(key)).cloned()
    }

    /// Whether `holder`, which has just finished a call, has to give up its instance for the one who claims memory.
    pub(crate) fn takes_the_claim(&self, board: &mut Board, holder: &InstanceKey) -> bool {
        let Some(claim) = &board.claim else { return false };
        let Some(queue) = board.queues.get(claim) else { return false };
        let takes = **claim != *holder
            && queue.is_short_of_memory()
            && self.invoker.may_displace(holder, claim, &queue.function);
        if takes {
            board.claim = None;
        }
        takes
    }
}

fn start_failed(
    board: &mut Board,
    key: &Arc<InstanceKey>,
    ticket: Ticket,
    began: Instant,
    error: StartError,
    now: Instant,
) {
    let Some(queue) = board.queues.get_mut(key) else { return };
    let busy = matches!(error, StartError::Busy(_));
    let (failure, hopeless) = match error {
        StartError::Unavailable(reason) => {
            for waiter in queue.waiting.drain(..) {
                board.waiting -= 1;
                board.totals.unavailable += 1;
                let function = queue.function.path.clone();
                let refusal = Refusal::Unavailable { function, reason: reason.clone() };
                let _ = waiter.grant.send(Grant::Refused(refusal));
            }
            return;
        }
        StartError::Code(failure) => (failure, true),
        StartError::Failed(failure) | StartError::Busy(failure) => (failure, false),
    };
    queue.failures.add(&failure.fault, now);
    let broken =
        hopeless || (queue.failures.count >= BROKEN_AFTER && queue.running() == 0 && queue.starting == 0);
    let platform = matches!(failure.fault, Fault::Platform { .. });
    let mut answered = VecDeque::new();
    if broken && !platform {
        let (those, later) =
            std::mem::take(&mut queue.waiting).into_iter().partition(|waiter| waiter.since <= began);
        (answered, queue.waiting) = (those, later);
    } else if let Some(mut waiter) = queue.remove(ticket) {
        // Room to prepare is a shortage like another: the call waits for it as long as a call may.
        waiter.platform_failures += u32::from(platform && !busy);
        if platform && waiter.platform_failures < PLATFORM_TRIES {
            queue.add(waiter);
        } else {
            answered.push_back(waiter);
        }
    }
    for waiter in answered {
        board.waiting -= 1;
        board.totals.not_started += 1;
        let _ = waiter.grant.send(Grant::NotStarted(copy(&failure)));
    }
}

fn copy(failure: &StartFailure) -> StartFailure {
    StartFailure {
        fault: failure.fault.clone(),
        took: Duration::from_nanos(failure.took.as_nanos() as u64),
        logs: failure.logs.clone(),
    }
}
