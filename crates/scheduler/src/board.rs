//! All queues together, under the scheduler's one lock: which calls wait and run, and whose turn it is.

use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use flint_invoker::{InstanceKey, Refusal};
use flint_model::{Function, NamespaceName};
use tokio::time::Instant;

use crate::{
    CallTotals, WaitedHistogram,
    queue::{FunctionQueue, Ticket},
    waiting::Grant,
};

/// How long the averages of a function without calls are kept.
const REMEMBER: Duration = Duration::from_secs(3600);
/// Number of queues below which queues without recent calls are not looked for.
const MANY: usize = 256;

#[derive(Default)]
pub(crate) struct Board {
    pub(crate) queues: HashMap<Arc<InstanceKey>, FunctionQueue>,
    /// Namespaces with waiting calls, the next in turn first. May still list some whose calls have gone.
    ring: VecDeque<NamespaceName>,
    namespaces: HashMap<NamespaceName, Turns>,
    pub(crate) waiting: usize,
    pub(crate) running: usize,
    pub(crate) starting: usize,
    /// Start times of the starts in progress, ascending.
    begun: Vec<Instant>,
    /// Some function was short of memory when this was last evaluated.
    pub(crate) short: bool,
    /// The functions that receive the memory of the next instances which namespaces with larger charges give
    /// up, the one with the smallest charge first.
    pub(crate) claims: Vec<Arc<InstanceKey>>,
    /// Draining: admits only calls that running calls make.
    pub(crate) closed: bool,
    /// Drained: admits no calls at all.
    pub(crate) over: bool,
    /// Whether the time that calls have waited and run counts in the decision to start instances (see
    /// `estimate.rs`).
    pub(crate) by_the_clock: bool,
    /// How many cores of the host were idle when this was last looked at.
    pub(crate) idle_cores: f64,
    /// What [`Self::cores_in_use`] found, for the rest of the round.
    in_use: Cell<Option<f64>>,
    /// The tending task has been told that calls wait.
    pub(crate) tended: bool,
    pub(crate) totals: CallTotals,
    pub(crate) waited: WaitedHistogram,
    tickets: u64,
    clean_at: usize,
}

/// A namespace's functions with waiting calls, and its starts in progress.
#[derive(Default)]
struct Turns {
    /// Functions with waiting calls, the next in turn first.
    functions: VecDeque<Arc<InstanceKey>>,
    /// Starts in progress.
    starting: usize,
}

impl Board {
    /// A ticket for a call on which `nested` callers wait.
    pub(crate) fn ticket(&mut self, nested: u32) -> Ticket {
        self.tickets += 1;
        Ticket::new(nested, self.tickets)
    }

    /// A function's queue, created on first use.
    pub(crate) fn queue(
        &mut self,
        key: &Arc<InstanceKey>,
        function: &Arc<Function>,
        now: Instant,
    ) -> &mut FunctionQueue {
        if !self.queues.contains_key(key) {
            if self.queues.len() >= self.clean_at.max(MANY) {
                self.queues.retain(|_, queue| {
                    !queue.is_unused()
                        || queue.listed
                        || now.saturating_duration_since(queue.last_used) < REMEMBER
                });
                self.clean_at = 2 * self.queues.len();
            }
            let queue = FunctionQueue::new(Arc::clone(key), Arc::clone(function), now);
            self.queues.insert(Arc::clone(key), queue);
        }
        self.queues.get_mut(key).expect("it was there, or was just made")
    }

    /// Adds a function with waiting calls to its namespace's ring, and the namespace to the ring of
    /// namespaces.
    pub(crate) fn list(&mut self, key: &Arc<InstanceKey>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if std::mem::replace(&mut queue.listed, true) {
            return;
        }
        let turns = self.namespaces.entry(key.namespace.clone()).or_default();
        if turns.functions.is_empty() {
            self.ring.push_back(key.namespace.clone());
        }
        turns.functions.push_back(Arc::clone(key));
    }

    /// Whether a namespace may queue one more call, given `total` places. The calls of one namespace never
    /// hold more places than remain free, so that others can always queue.
    pub(crate) fn has_place(&self, namespace: &NamespaceName, total: usize) -> bool {
        if 2 * self.waiting < total {
            return true;
        }
        let waiting = self.namespaces.get(namespace).map_or(0, |turns| {
            turns
                .functions
                .iter()
                .filter_map(|key| self.queues.get(key))
                .map(|queue| queue.waiting.len())
                .sum()
        });
        self.waiting + waiting < total
    }

    /// Functions with waiting calls in round-robin order: the first function of each namespace, then the
    /// second of each, and so on. Drops functions and namespaces without waiting calls from the rings.
    pub(crate) fn in_turn(&mut self) -> Vec<Arc<InstanceKey>> {
        let queues = &mut self.queues;
        let namespaces = &mut self.namespaces;
        self.ring.retain(|namespace| {
            let Some(turns) = namespaces.get_mut(namespace) else { return false };
            turns.functions.retain(|key| {
                let Some(queue) = queues.get_mut(key) else { return false };
                queue.listed = !queue.waiting.is_empty();
                if !queue.listed {
                    queue.short = None;
                }
                queue.listed
            });
            !turns.functions.is_empty()
        });
        namespaces.retain(|_, turns| !turns.functions.is_empty() || turns.starting > 0);
        let deepest =
            self.ring.iter().filter_map(|namespace| Some(namespaces.get(namespace)?.functions.len())).max();
        let mut order = Vec::new();
        for depth in 0..deepest.unwrap_or_default() {
            let nth =
                |namespace| namespaces.get(namespace).and_then(|turns: &Turns| turns.functions.get(depth));
            order.extend(self.ring.iter().filter_map(nth).cloned());
        }
        order
    }

    /// Counts a start as begun, and moves its function and namespace to the end of their rings.
    pub(crate) fn begin_start(&mut self, key: &Arc<InstanceKey>, now: Instant) {
        self.starting += 1;
        self.in_use.set(None);
        let at = self.begun.partition_point(|began| *began <= now);
        self.begun.insert(at, now);
        let turns = self.namespaces.entry(key.namespace.clone()).or_default();
        turns.starting += 1;
        if let Some(at) = turns.functions.iter().position(|listed| listed == key)
            && let Some(key) = turns.functions.remove(at)
        {
            turns.functions.push_back(key);
        }
        if let Some(at) = self.ring.iter().position(|listed| *listed == key.namespace)
            && let Some(namespace) = self.ring.remove(at)
        {
            self.ring.push_back(namespace);
        }
        if let Some(queue) = self.queues.get_mut(key) {
            queue.starting += 1;
            queue.short = None;
            // Rule 4 of `estimate.rs` measures anew: first the effect of this instance on the backlog has to
            // show.
            queue.backlog_since = None;
        }
    }

    /// Counts a start as over; `began` is the time given to [`Self::begin_start`].
    pub(crate) fn end_start(&mut self, key: &InstanceKey, began: Instant) {
        self.starting -= 1;
        if let Ok(at) = self.begun.binary_search(&began) {
            self.begun.remove(at);
        }
        if let Some(turns) = self.namespaces.get_mut(&key.namespace) {
            turns.starting -= 1;
        }
        if let Some(queue) = self.queues.get_mut(key) {
            queue.starting -= 1;
        }
    }

    /// Starts in progress that are younger than `age`.
    pub(crate) fn starting_for_less_than(&self, age: Duration, now: Instant) -> usize {
        let older = self.begun.partition_point(|began| now.saturating_duration_since(*began) >= age);
        self.begun.len() - older
    }

    /// How many cores the calls and starts of all functions use. There may be thousands: they are added up once
    /// a round, and after a start.
    pub(crate) fn cores_in_use(&self) -> f64 {
        self.in_use.get().unwrap_or_else(|| {
            let in_use = self.queues.values().map(FunctionQueue::cores_in_use).sum();
            self.in_use.set(Some(in_use));
            in_use
        })
    }

    /// Begins a round of the tending task.
    pub(crate) fn begin_round(&mut self, by_the_clock: bool, idle_cores: f64) {
        self.by_the_clock = by_the_clock;
        self.idle_cores = idle_cores;
        self.in_use.set(None);
    }

    /// Whether another namespace has waiting calls.
    pub(crate) fn others_wait(&self, namespace: &NamespaceName) -> bool {
        self.ring.iter().any(|listed| listed != namespace)
    }

    /// Starts in progress of a namespace.
    pub(crate) fn starting_for(&self, namespace: &NamespaceName) -> usize {
        self.namespaces.get(namespace).map_or(0, |turns| turns.starting)
    }

    /// Refuses calls that have waited for `max_wait`.
    pub(crate) fn expire(&mut self, max_wait: Duration, now: Instant) {
        for key in self.in_turn() {
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            while let Some(waiter) = queue.pop_overdue(max_wait, now) {
                self.waiting -= 1;
                self.totals.waited_too_long += 1;
                let refusal = Refusal::WaitedTooLong {
                    function: queue.function.path.clone(),
                    waited_ms: now.saturating_duration_since(waiter.since).as_millis() as u64,
                    why: queue.why(),
                };
                let _ = waiter.grant.send(Grant::Refused(refusal));
            }
        }
    }

    /// Refuses all waiting and all further calls.
    pub(crate) fn refuse_all(&mut self) {
        self.over = true;
        for queue in self.queues.values_mut() {
            for waiter in queue.waiting.drain(..) {
                self.totals.shutting_down += 1;
                let _ = waiter.grant.send(Grant::Refused(Refusal::ShuttingDown));
            }
        }
        self.waiting = 0;
    }
}
