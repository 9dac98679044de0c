//! The queue of one function on one namespace's account.

use std::{cmp::Reverse, collections::VecDeque, sync::Arc, time::Duration};

use flint_executor::Fault;
use flint_invoker::{InstanceKey, NESTED_LEVELS, Shortage, StartFor};
use flint_model::{Function, Reuse, Strategy};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    estimate::{Load, Seen, Worth},
    waiting::Grant,
};

/// Consecutive failed starts before the next one is delayed.
const FREE_FAILURES: u32 = 2;
/// The first delay; it doubles with each further failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
/// The longest delay.
const LONGEST_BACKOFF: Duration = Duration::from_millis(500);
/// A failure after this time without one counts as the first again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(10);
/// Minimum time that a function is short of memory before another function gives up an instance for it.
const LEAST_CLAIM: Duration = Duration::from_millis(100);

/// The same minimum as a multiple of the function's start time, which bounds the share of time spent on
/// exchanging instances.
const STARTS_PER_CLAIM: u32 = 4;

/// How long a function that is short of memory keeps others waiting at a time, and then lets them pass.
const KEEPS_OTHERS: Duration = Duration::from_millis(500);

/// Margin by which a call's age has to exceed a start's time.
const JUST_AFTER: Duration = Duration::from_micros(1);

/// The queue of one function on one namespace's account.
pub(crate) struct FunctionQueue {
    pub(crate) key: Arc<InstanceKey>,
    pub(crate) function: Arc<Function>,
    /// The function's declared strategy, until an instance has fallen back to another.
    pub(crate) strategy: Strategy,
    /// In ascending order of tickets.
    pub(crate) waiting: VecDeque<Waiter>,
    running: Vec<(Ticket, Instant)>,
    pub(crate) starting: usize,
    pub(crate) seen: Seen,
    /// Since when every call has had to wait.
    pub(crate) backlog_since: Option<Instant>,
    /// What the last wanted start lacked, and since when.
    pub(crate) short: Option<(Shortage, Instant)>,
    pub(crate) failures: Failures,
    /// Whether its namespace's ring contains it.
    pub(crate) listed: bool,
    pub(crate) last_used: Instant,
}

/// A call's identity and order of service: the calls on which most callers wait come first, then the
/// earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    nested: Reverse<u32>,
    number: u64,
}

impl Ticket {
    /// The ticket of a call on which `nested` callers wait.
    pub(crate) fn new(nested: u32, number: u64) -> Self {
        Self { nested: Reverse(nested.min(NESTED_LEVELS)), number }
    }

    /// How many callers wait for this call, at most [`NESTED_LEVELS`].
    pub(crate) fn nested(self) -> u32 {
        self.nested.0
    }
}

/// A call that waits.
pub(crate) struct Waiter {
    pub(crate) ticket: Ticket,
    pub(crate) since: Instant,
    pub(crate) grant: oneshot::Sender<Grant>,
    pub(crate) start_for: StartFor,
    /// Starts for it that failed through the fault of Flint or the host.
    pub(crate) platform_failures: u32,
}

/// Consecutive failed starts.
#[derive(Default)]
pub(crate) struct Failures {
    pub(crate) count: u32,
    last: Option<(Instant, Fault)>,
}

impl Failures {
    pub(crate) fn add(&mut self, fault: &Fault, now: Instant) {
        let old =
            self.last.as_ref().is_none_or(|(when, _)| now.saturating_duration_since(*when) > FORGIVEN_AFTER);
        self.count = if old { 1 } else { self.count.saturating_add(1) };
        self.last = Some((now, fault.clone()));
    }

    /// Whether the next start is delayed.
    fn delay(&self, now: Instant) -> bool {
        let Some((last, _)) = &self.last else { return false };
        let doublings = match self.count.checked_sub(FREE_FAILURES + 1) {
            Some(doublings) => doublings.min(10),
            None => return false,
        };
        now.saturating_duration_since(*last) < (FIRST_BACKOFF * (1 << doublings)).min(LONGEST_BACKOFF)
    }
}

impl FunctionQueue {
    pub(crate) fn new(key: Arc<InstanceKey>, function: Arc<Function>, now: Instant) -> Self {
        Self {
            key,
            strategy: function.strategy,
            function,
            waiting: VecDeque::new(),
            running: Vec::new(),
            starting: 0,
            seen: Seen::default(),
            backlog_since: None,
            short: None,
            failures: Failures::default(),
            listed: false,
            last_used: now,
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.starting == 0
    }

    pub(crate) fn slots(&self) -> usize {
        match self.strategy.reuse {
            Reuse::Never => 1,
            Reuse::Warm => self.function.limits.concurrency.min(self.strategy.concurrency).get() as usize,
        }
    }

    /// Counts a call as running.
    pub(crate) fn begin(&mut self, ticket: Ticket, now: Instant) {
        self.running.push((ticket, now));
        self.last_used = now;
    }

    /// Counts a running call as over.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        if let Some(at) = self.running.iter().position(|(running, _)| *running == ticket) {
            self.running.swap_remove(at);
        }
        if self.waiting.is_empty() && self.running.is_empty() {
            self.backlog_since = None;
        }
    }

    /// Queues a call.
    pub(crate) fn add(&mut self, waiter: Waiter) {
        let at = self.waiting.partition_point(|other| other.ticket < waiter.ticket);
        self.waiting.insert(at, waiter);
    }

    /// Removes a waiting call.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let at = self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()?;
        self.waiting.remove(at)
    }

    /// Whether another instance is worth its start and within the function's own bounds. With `by_the_clock`,
    /// the ages of waiting and running calls count too.
    pub(crate) fn worth_of_start(
        &self,
        cores: usize,
        most_starting: usize,
        by_the_clock: bool,
        now: Instant,
    ) -> Worth {
        let Some(first) = self.waiting.front() else { return Worth::No };
        let failing = self.failures.count > 0;
        if self.starting >= if failing { 1 } else { most_starting } || self.failures.delay(now) {
            return Worth::No;
        }
        let since =
            |then: Instant| if by_the_clock { now.saturating_duration_since(then) } else { Duration::ZERO };
        Load {
            waiting: self.waiting.len(),
            first_waits: since(first.since),
            backlog: self.backlog_since.map(since).unwrap_or_default(),
            ages: self.running.iter().map(|(_, began)| since(*began)),
            running: self.running.len(),
            starting: self.starting,
            slots: self.slots(),
            single_use: self.strategy.is_single_use(),
            seen: &self.seen,
            cores,
        }
        .worth_of_another()
    }

    /// How many cores its calls and starts use; of calls of which that is not known, one an instance.
    pub(crate) fn cores_in_use(&self) -> f64 {
        let running = self.running.len();
        let calls = match self.seen.share_of_core() {
            Some(share) => running as f64 * share,
            None => running.div_ceil(self.slots()) as f64,
        };
        calls + self.starting as f64
    }

    /// Whether a call has been running for longer than a start takes, so that its instance is not to be
    /// relied upon.
    pub(crate) fn runs_long(&self, now: Instant) -> bool {
        let start = self.seen.expected_start();
        self.running.iter().any(|(_, began)| now.saturating_duration_since(*began) > start)
    }

    /// When ages may next change the decision: when the first waiting call or a running one comes to be older
    /// than a start takes.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let first = self.waiting.front()?.since;
        let long = self.seen.expected_start() + JUST_AFTER;
        let begun = self.running.iter().map(|(_, began)| *began).chain([first]);
        begun.map(|since| since + long).filter(|due| *due > now).min()
    }

    /// Removes the next call that has waited for at least `max_wait`. Calls on which equally many callers
    /// wait are in order of arrival, so only the first of each level is looked at.
    pub(crate) fn pop_overdue(&mut self, max_wait: Duration, now: Instant) -> Option<Waiter> {
        let overdue = |waiter: &Waiter| now.saturating_duration_since(waiter.since) >= max_wait;
        let mut at = 0;
        while let Some(first) = self.waiting.get(at) {
            if overdue(first) {
                return self.waiting.remove(at);
            }
            let nested = first.ticket.nested();
            at = self.waiting.partition_point(|waiter| waiter.ticket.nested() >= nested);
        }
        None
    }

    /// The call that the next start is for: the first one for which no start is in progress.
    pub(crate) fn to_start_for(&self) -> Option<&Waiter> {
        self.waiting.get(self.starting).or_else(|| self.waiting.back())
    }

    /// Whether it has been short of memory for long enough that another function gives up an instance for it.
    pub(crate) fn claims_memory(&self, now: Instant) -> bool {
        let long = LEAST_CLAIM.max(STARTS_PER_CLAIM * self.seen.expected_start());
        match self.short {
            Some((Shortage::Memory { .. }, since)) => now.saturating_duration_since(since) >= long,
            _ => false,
        }
    }

    /// Whether others may start before it although it has been short of memory for longer.
    pub(crate) fn lets_others_pass(&self, now: Instant) -> bool {
        self.short.is_some_and(|(_, since)| {
            let turns = now.saturating_duration_since(since).as_millis() / KEEPS_OTHERS.as_millis();
            turns % 2 == 1
        })
    }

    pub(crate) fn is_short_of_memory(&self) -> bool {
        !self.waiting.is_empty() && matches!(self.short, Some((Shortage::Memory { .. }, _)))
    }

    /// Why calls of this function have to wait, as a sentence for people.
    pub(crate) fn why(&self) -> String {
        if let Some((_, fault)) = &self.failures.last
            && self.failures.count > 0
        {
            return format!("its last {} starts failed: {fault}", self.failures.count);
        }
        match &self.short {
            Some((Shortage::Memory { needed, used }, _)) => {
                format!(
                    "there was no memory for another one, {needed} needed, {used} in use: raise pool.memory"
                )
            }
            Some((Shortage::Instances { limit }, _)) => {
                format!("its limit is {limit} instances, and they were busy: raise its limit, or slow down")
            }
            Some((Shortage::Stopping { instances }, _)) => {
                format!("{instances} instances were still being stopped")
            }
            Some((Shortage::Closed, _)) => "the server is shutting down".to_owned(),
            None if self.starting > 0 => format!("{} were still being started", self.starting),
            None => format!("all {} were busy", self.running.len()),
        }
    }
}
