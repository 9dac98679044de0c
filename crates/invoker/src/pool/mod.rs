//! Which instances there are, which of them are free, and what they cost. Decides; does nothing that takes time.
//!
//! An instance is in one of three phases: *starting* (its memory is reserved), *live* (free or serving calls) and *dying* (its
//! keeper is stopping it). Its charge counts for its function and namespace in the first two, and for the pool in all three.

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

/// What part of the budget calls that others wait for may use beyond it, unless the configuration says otherwise.
const NESTED_SHARE: u64 = 4;

pub(crate) struct Pool {
    budget: u64,
    /// How far calls that others wait for may take the pool beyond it.
    nested_memory: u64,
    start_charge: u64,
    protected: Duration,
    stopping_limit: usize,
    records: HashMap<InstanceId, Record>,
    functions: HashMap<Arc<InstanceKey>, Function>,
    /// What the starting and live instances of each namespace are charged.
    namespaces: HashMap<NamespaceName, u64>,
    /// Instances were started beyond the budget.
    beyond: bool,
    /// Whose instances stay longer.
    keep_warm: HashMap<NamespaceName, KeepWarm>,
    /// Revisions of each path that were forgotten.
    forgotten: HashMap<FunctionPath, Forgotten>,
    /// Charge of all starting and live instances.
    live: u64,
    /// Charge of all dying instances.
    dying: u64,
    dying_count: usize,
    /// Memory of runtimes without a function.
    prewarmed: u64,
    /// What that was when they were kept last.
    prewarm_need: u64,
    /// How many of them are to be kept.
    prewarm_target: usize,
    /// Memory was short lately: runtimes without a function are not to be kept.
    pressed: bool,
    /// What a start lacks that was refused, and what is only there to make starts quicker has; and of which function it was.
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
    /// How many calls have to wait for one that it serves: it was started beyond the budget, for such a one.
    level: u32,
    /// Calls it serves now.
    in_use: u32,
    /// Since when it serves none.
    idle_since: Instant,
}

enum Phase {
    Starting { outdated: bool },
    Live(Arc<Entry>),
    Dying,
}

/// The instances of one key.
struct Function {
    /// Those with a free slot, the most recently used last.
    available: Vec<InstanceId>,
    /// How many are starting or live.
    instances: u32,
    /// Their charge.
    charge: u64,
    /// The most memory that the instance measured last was seen to use; 0 before the first measurement.
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

    /// A free slot of the instance that was used last, for a call that `nested` others wait for.
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

    /// The other half of [`Self::take`]. An instance that is not to be used again is stopped when its last call is over.
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

    /// A start has worked. One slot of the new instance is taken, by its starter.
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

    /// A start has not worked, or was given up: its reservation is free again.
    pub(crate) fn not_started(&mut self, id: InstanceId) {
        if let Some(Record { phase: Phase::Starting { .. }, .. }) = self.records.get(&id)
            && let Some(record) = self.records.remove(&id)
        {
            self.uncharge(&record.key, record.charge);
        }
    }

    /// An instance has ended. `true`: by itself while it was idle, and is cleared away now; otherwise it is being stopped
    /// anyway, or will be when its last call is over.
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

    /// Nothing is left of an instance.
    pub(crate) fn gone(&mut self, id: InstanceId) {
        self.stop(id);
        if let Some(record) = self.records.remove(&id) {
            self.dying -= record.charge;
            self.dying_count -= 1;
        }
    }

    /// Takes no further instance, and stops all of them, busy or not.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        let all: Vec<_> = self.records.keys().copied().collect();
        all.into_iter().for_each(|id| self.evict(id));
    }

    /// Nobody can take `id` any more.
    fn withdraw(&mut self, id: InstanceId) {
        if let Some(record) = self.records.get(&id)
            && let Some(function) = self.functions.get_mut(&record.key)
        {
            function.available.retain(|available| *available != id);
        }
    }

    /// Live → dying: its keeper stops it, and nobody can take it any more.
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
