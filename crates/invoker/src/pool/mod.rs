//! The pool: which instances there are, which are free, and what they are charged. It only decides; work that
//! takes time is done elsewhere.
//!
//! An instance is *starting* (its memory is reserved), *live* (free or serving calls) or *dying* (its keeper
//! is stopping it). Its charge counts for its function and namespace in the first two phases, and for the
//! pool in all three.

mod memory;
mod nested;
mod stats;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod upkeep;

pub use memory::Shortage;
pub use nested::NESTED_LEVELS;

use std::{collections::HashMap, sync::Arc, time::Duration};

use flint_model::{ByteSize, FunctionPath, InstanceId, KeepWarm, NamespaceName};
use tokio::time::Instant;

use crate::{InstanceKey, PoolConfig, entry::Entry};

/// Default share of the budget that nested calls may use beyond it: a quarter.
const NESTED_SHARE: u64 = 4;

pub(crate) struct Pool {
    budget: u64,
    /// Memory beyond the budget for nested calls.
    nested_memory: u64,
    start_charge: u64,
    protected: Duration,
    stopping_limit: usize,
    records: HashMap<InstanceId, Record>,
    functions: HashMap<Arc<InstanceKey>, Function>,
    /// Charge of the starting and live instances of each namespace.
    namespaces: HashMap<NamespaceName, u64>,
    /// Instances were started beyond the budget.
    beyond: bool,
    /// Namespaces whose idle instances are kept longer.
    keep_warm: HashMap<NamespaceName, KeepWarm>,
    /// Forgotten revisions of each path.
    forgotten: HashMap<FunctionPath, Forgotten>,
    /// Charge of all starting and live instances.
    live: u64,
    /// Charge of all dying instances.
    dying: u64,
    dying_count: usize,
    /// Memory of prewarmed runtimes and snapshots.
    prewarmed: u64,
    /// Of that, the snapshots of each namespace.
    snapshots: HashMap<NamespaceName, u64>,
    /// Memory of the executors with targets, when runtimes were last kept.
    prewarm_need: u64,
    /// Number of prewarmed runtimes to keep.
    prewarm_target: usize,
    /// Memory was short recently: no prewarmed runtimes are kept.
    pressed: bool,
    /// The memory that a refused start lacks and that prewarmed runtimes and snapshots hold, and its
    /// function.
    wanted: Option<(ByteSize, FunctionPath)>,
    closed: bool,
    last_id: u64,
}

/// Revisions of a path that are not to be called any more.
struct Forgotten {
    /// This one and all older ones,
    newest: u64,
    /// except these.
    except: Vec<u64>,
    when: Instant,
}

struct Record {
    key: Arc<InstanceKey>,
    phase: Phase,
    charge: u64,
    /// If started beyond the budget, the least number of callers that have to wait for a call it serves;
    /// otherwise 0.
    level: u32,
    /// Calls it is serving.
    in_use: u32,
    /// When its last call ended.
    idle_since: Instant,
}

enum Phase {
    Starting { outdated: bool },
    Live(Arc<Entry>),
    Dying,
}

/// The instances of one key.
struct Function {
    /// Instances with a free slot, the most recently used last.
    available: Vec<InstanceId>,
    /// Number of starting and live instances.
    instances: u32,
    /// Their charge.
    charge: u64,
    /// The peak of the instance measured last; 0 before the first measurement.
    peak: u64,
    last_used: Instant,
}

impl Pool {
    pub(crate) fn new(budget: u64, config: &PoolConfig) -> Self {
        Self {
            budget,
            nested_memory: config.nested_memory.map_or(budget / NESTED_SHARE, flint_model::ByteSize::as_u64),
            start_charge: config.start_charge.as_u64(),
            protected: config.protected,
            stopping_limit: config.stopping.max(1),
            records: HashMap::new(),
            functions: HashMap::new(),
            namespaces: HashMap::new(),
            beyond: false,
            keep_warm: HashMap::new(),
            forgotten: HashMap::new(),
            live: 0,
            dying: 0,
            dying_count: 0,
            prewarmed: 0,
            snapshots: HashMap::new(),
            prewarm_need: 0,
            prewarm_target: 0,
            pressed: false,
            wanted: None,
            closed: false,
            last_id: 0,
        }
    }

    /// Whether there is nothing to look after.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.records.is_empty() && !self.pressed
    }

    /// A free slot of the most recently used instance that may serve a call on which `nested` callers wait.
    pub(crate) fn take(&mut self, key: &InstanceKey, nested: u32) -> Option<Arc<Entry>> {
        self.settle_levels();
        let function = self.functions.get_mut(key)?;
        let records = &mut self.records;
        let serves = |id: &InstanceId| records.get(id).is_some_and(|record| record.level <= nested);
        let at = match self.beyond {
            false => function.available.len().checked_sub(1)?,
            true => function.available.iter().rposition(serves)?,
        };
        let record = records.get_mut(function.available.get(at)?)?;
        let Phase::Live(entry) = &record.phase else { return None };
        record.in_use += 1;
        if record.in_use == entry.slots {
            function.available.remove(at);
        }
        Some(Arc::clone(entry))
    }

    /// Returns a slot taken by [`Self::take`]. An instance that is not to be reused is stopped when its last
    /// call is over.
    pub(crate) fn give_back(&mut self, id: InstanceId, reuse: bool, now: Instant) {
        let Some(record) = self.records.get_mut(&id) else { return };
        record.in_use = record.in_use.saturating_sub(1);
        let Phase::Live(entry) = &record.phase else { return };
        entry.mark_used();
        if !reuse {
            entry.condemn();
        }
        if entry.is_condemned() || entry.is_outdated() {
            match record.in_use {
                0 => self.stop(id),
                _ => self.withdraw(id),
            }
            return;
        }
        let was_full = record.in_use + 1 == entry.slots;
        record.idle_since = now;
        if let Some(function) = self.functions.get_mut(&record.key) {
            function.last_used = now;
            if was_full {
                function.available.push(id);
            }
        }
    }

    /// Makes a starting instance live; its starter holds one slot.
    pub(crate) fn started(&mut self, entry: &Arc<Entry>, now: Instant) {
        let Some(record) = self.records.get_mut(&entry.id) else { return };
        let outdated = matches!(record.phase, Phase::Starting { outdated: true });
        record.phase = Phase::Live(Arc::clone(entry));
        record.in_use = 1;
        record.idle_since = now;
        if self.closed {
            entry.condemn();
            self.stop(entry.id);
        } else if outdated {
            entry.mark_outdated();
        } else if entry.slots > 1
            && let Some(function) = self.functions.get_mut(&record.key)
        {
            function.available.push(entry.id);
        }
    }

    /// Releases the reservation of a start that failed or was given up.
    pub(crate) fn not_started(&mut self, id: InstanceId) {
        if let Some(Record { phase: Phase::Starting { .. }, .. }) = self.records.get(&id)
            && let Some(record) = self.records.remove(&id)
        {
            self.uncharge(&record.key, record.charge);
        }
    }

    /// An instance has ended. `true` if it did so while idle, and is stopped now; otherwise it is being
    /// stopped anyway, or will be when its last call is over.
    pub(crate) fn ended(&mut self, id: InstanceId) -> bool {
        let Some(record) = self.records.get(&id) else { return false };
        let Phase::Live(entry) = &record.phase else { return false };
        entry.condemn();
        let idle = record.in_use == 0;
        match idle {
            true => self.stop(id),
            false => self.withdraw(id),
        }
        idle
    }

    /// Removes a stopped instance and its charge.
    pub(crate) fn gone(&mut self, id: InstanceId) {
        self.stop(id);
        if let Some(record) = self.records.remove(&id) {
            self.dying -= record.charge;
            self.dying_count -= 1;
        }
    }

    /// Closes the pool to starts, and stops all instances, busy or not.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        let all: Vec<_> = self.records.keys().copied().collect();
        all.into_iter().for_each(|id| self.evict(id));
    }

    /// Makes `id` unavailable to further calls.
    fn withdraw(&mut self, id: InstanceId) {
        if let Some(record) = self.records.get(&id)
            && let Some(function) = self.functions.get_mut(&record.key)
        {
            function.available.retain(|available| *available != id);
        }
    }

    /// Live → dying: makes it unavailable and has its keeper stop it.
    fn stop(&mut self, id: InstanceId) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Phase::Live(entry) = &record.phase else { return };
        let (entry, key, charge) = (Arc::clone(entry), Arc::clone(&record.key), record.charge);
        record.phase = Phase::Dying;
        self.withdraw(id);
        self.uncharge(&key, charge);
        self.dying += charge;
        self.dying_count += 1;
        if entry.peak() > 0
            && let Some(function) = self.functions.get_mut(&key)
        {
            function.peak = entry.peak();
        }
        entry.retire.notify_one();
    }
}
