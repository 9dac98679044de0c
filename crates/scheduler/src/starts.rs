//! Starts instances: whose turn it is, and what happens when a start succeeds or fails.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use flint_executor::{Fault, StartFailure};
use flint_invoker::{InstanceKey, Lease, Permit, Refusal, Shortage, StartError, StartFor};
use tokio::time::Instant;

use crate::{
    Scheduler,
    board::Board,
    estimate::{Worth, are_idle},
    queue::{FunctionQueue, Ticket},
    waiting::Grant,
};

/// Starts tried for one call when they fail through the fault of Flint or the host.
const PLATFORM_TRIES: u32 = 3;

/// Consecutive failures from which on a function without any instance counts as broken: its failure then
/// answers all calls that waited when the start began, unless Flint or the host is at fault.
const BROKEN_AFTER: u32 = 3;

/// A start that takes longer mostly waits for something. It no longer blocks the first start of another
/// namespace or function; its memory stays charged.
const LONG_START: Duration = Duration::from_secs(1);

/// A start in progress. Reports a failure if its task panics or is dropped.
struct Attempt {
    scheduler: Arc<Scheduler>,
    key: Arc<InstanceKey>,
    /// The call that it is for.
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
    /// Starts every instance that is worth it and fits.
    ///
    /// Namespaces take turns, and so do the functions of one. When memory is short, the smallest charge comes
    /// first, and for some time nobody overtakes it, so that what becomes free is not taken by others.
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
                // The previous start may have used up the allowance.
                if !self.may_start(board, &key, now) {
                    continue;
                }
                match self.start_for(board, &key, false, now) {
                    Ok(()) => any = true,
                    Err(Shortage::Instances { .. }) => {}
                    // By turns it keeps the others waiting and lets them pass: it may wait for more than will
                    // ever be free.
                    Err(Shortage::Memory { .. })
                        if memory_is_short
                            && board.queues.get(&key).is_some_and(|queue| queue.lets_others_pass(now)) => {}
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

    /// Starts instances beyond the memory budget for calls on which running callers wait: otherwise these
    /// callers would hold the memory for ever.
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

    /// Whether a start of this function is worth it and allowed now.
    pub(crate) fn may_start(&self, board: &Board, key: &Arc<InstanceKey>, now: Instant) -> bool {
        let Some(queue) = board.queues.get(key) else { return false };
        // A namespace without a start in progress may begin one beyond the limit, up to twice the limit, so
        // that slow starts of others do not block it. The tending task notices when starts have become long
        // ones; it runs for as long as a call waits.
        let short = || board.starting_for_less_than(LONG_START, now);
        let of_one = board.starting_for(&key.namespace);
        let room = match of_one {
            0 => short() < 2 * self.most_starting,
            // Likewise, within the same bound, long starts of some functions do not block the first start of
            // another one of their namespace, which leaves others half of what is beyond the limit.
            _ if queue.starting == 0 && board.starting >= self.most_starting => {
                board.starting < 2 * self.most_starting
                    && short() < self.most_starting
                    && of_one < self.most_starting + self.most_starting / 2
            }
            // Where others wait too, half is theirs.
            _ if board.others_wait(&key.namespace) => {
                board.starting < self.most_starting && of_one < self.most_starting.div_ceil(2)
            }
            _ => board.starting < self.most_starting,
        };
        room && self.is_worth_it(board, queue, board.by_the_clock, now)
            // The first start prepares the function; others would only wait for that.
            && (queue.starting == 0 || self.invoker.is_prepared(&queue.function))
    }

    /// Whether another instance of this function is worth its start.
    pub(crate) fn is_worth_it(
        &self,
        board: &Board,
        queue: &FunctionQueue,
        by_the_clock: bool,
        now: Instant,
    ) -> bool {
        match queue.worth_of_start(self.cores, self.most_starting_per_function, by_the_clock, now) {
            Worth::No => false,
            Worth::Yes => true,
            // It takes memory from nobody. Flint itself and other programs use cores too.
            Worth::IfIdle => {
                !board.short
                    && self.invoker.has_half_its_memory()
                    && are_idle(self.cores, self.cores as f64 - board.idle_cores)
                    && are_idle(self.cores, board.cores_in_use())
            }
        }
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

    /// Ends a start: its instance goes to the first waiting call, its failure to the call it was for.
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
                    // A prewarmed runtime hides the cost of a start, which its replacement pays.
                    if let Some(report) = lease.report().filter(|report| !report.started.is_zero()) {
                        queue.seen.start.add(report.cost_of_another());
                    }
                }
                // A new instance serves one call before its memory can be claimed.
                self.grant(&mut board, key, lease, now);
                self.hand_over_idle(&mut board, key, now);
            }
            Err(error) => start_failed(&mut board, key, ticket, began, error, now),
        }
        self.start_where_needed(&mut board, now);
        self.note_quiet(&board);
    }

    /// The functions that have been short of memory for long enough, those with the smallest charge first.
    pub(crate) fn claimants(
        &self,
        board: &Board,
        among: &[Arc<InstanceKey>],
        now: Instant,
    ) -> Vec<Arc<InstanceKey>> {
        let claims =
            |key: &&Arc<InstanceKey>| board.queues.get(*key).is_some_and(|queue| queue.claims_memory(now));
        let mut claimants: Vec<_> = among.iter().filter(claims).cloned().collect();
        claimants.sort_by_cached_key(|key| self.invoker.charges(key));
        claimants
    }

    /// Whether `holder`, which has just finished a call, has to give up its instance to a claimant; if so, the
    /// claim is settled.
    pub(crate) fn takes_the_claim(&self, board: &mut Board, holder: &InstanceKey) -> bool {
        let takes = board.claims.iter().position(|claim| {
            **claim != *holder
                && board.queues.get(claim).is_some_and(|queue| {
                    queue.is_short_of_memory() && self.invoker.may_displace(holder, claim, &queue.function)
                })
        });
        if let Some(at) = takes {
            board.claims.remove(at);
        }
        takes.is_some()
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
        // Lack of room to prepare is a shortage like any other: the call waits for it as long as a call may.
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
