//! Memory accounting: what instances are charged, and which ones are evicted when memory is short.
//!
//! An instance is charged the peak last seen of its function's instances (before the first measurement a
//! fixed guess, at most the function's limit) until it is measured itself. When the budget is used up, a
//! start evicts idle instances: of the namespace with the largest charge first, and within it the longest
//! idle. What a namespace's snapshots use counts as its own there. A namespace may take from another one that would still have at least as much, or instances that have
//! been idle for a while; so no namespace loses its warm instances to one that already has more.

use std::{collections::HashMap, sync::Arc};

use flint_model::{ByteSize, FunctionLimits, FunctionPath, InstanceId, NamespaceName};
use tokio::time::Instant;

use super::{Function, Phase, Pool, Record};
use crate::InstanceKey;

/// The least an instance is charged.
const LEAST_CHARGE: u64 = 1 << 20;

/// Share of the budget by which instances that are being stopped may exceed it: one tenth.
const DYING_SHARE: u64 = 10;
/// Share of the budget that snapshots give up at a time beyond what a start lacks: one twentieth.
const HEADROOM_SHARE: u64 = 20;

/// What is missing to start an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Its function has as many instances as allowed.
    Instances {
        /// How many.
        limit: u32,
    },
    /// The memory is used by busy instances, or by those that must not be taken from their owner.
    Memory {
        /// How much is needed.
        needed: ByteSize,
        /// How much of the budget is in use.
        used: ByteSize,
    },
    /// Instances being stopped have to be gone first.
    Stopping {
        /// How many.
        instances: usize,
    },
    /// The pool is closed.
    Closed,
}

impl Pool {
    /// The charge of a new instance until it is measured.
    fn estimate(&self, key: &InstanceKey, limits: &FunctionLimits) -> u64 {
        let peak = self.functions.get(key).map_or(0, |function| function.peak);
        let guess = if peak > 0 { peak } else { self.start_charge };
        guess.min(limits.memory.as_u64()).max(LEAST_CHARGE)
    }

    /// Reserves memory for one more instance, evicting idle ones if needed; for a call on which `nested`
    /// callers wait, also beyond the budget. Returns how many are evicted, even if their memory has to be
    /// waited for, and the new instance's id.
    pub(crate) fn reserve(
        &mut self,
        key: &Arc<InstanceKey>,
        limits: &FunctionLimits,
        nested: u32,
        now: Instant,
    ) -> (usize, Result<InstanceId, Shortage>) {
        self.settle_levels();
        let reserved = match self.reserve_at(key, limits, 0, now) {
            (_, Err(Shortage::Memory { .. })) if nested > 0 => self.reserve_at(key, limits, nested, now),
            reserved => reserved,
        };
        if let (_, Err(Shortage::Memory { needed, used })) = &reserved {
            let missing = (needed.as_u64() + used.as_u64()).saturating_sub(self.budget);
            // If all prewarmed memory would not be enough, none of it is reclaimed.
            if missing <= self.prewarmed {
                self.wanted = Some((ByteSize::bytes(missing), key.path.clone()));
            }
        }
        reserved
    }

    fn reserve_at(
        &mut self,
        key: &Arc<InstanceKey>,
        limits: &FunctionLimits,
        level: u32,
        now: Instant,
    ) -> (usize, Result<InstanceId, Shortage>) {
        let charge = self.estimate(key, limits);
        let beyond = self.beyond_budget(level);
        match self.make_room(key, charge, limits, beyond, now) {
            Ok(evicted) if self.live + self.dying + self.prewarmed + charge > self.hard_limit() + beyond => {
                (evicted, Err(Shortage::Stopping { instances: self.dying_count }))
            }
            Ok(evicted) => {
                self.beyond |= level > 0;
                (evicted, Ok(self.insert(key, charge, level, now)))
            }
            Err(shortage) => (0, Err(shortage)),
        }
    }

    /// The budget plus the excess allowed to dying instances.
    fn hard_limit(&self) -> u64 {
        self.budget + self.budget / DYING_SHARE
    }

    /// Evicts idle instances until `charge` fits beside the starting and live ones. Returns how many.
    fn make_room(
        &mut self,
        key: &InstanceKey,
        charge: u64,
        limits: &FunctionLimits,
        beyond: u64,
        now: Instant,
    ) -> Result<usize, Shortage> {
        if self.closed {
            return Err(Shortage::Closed);
        }
        let instances = self.functions.get(key).map_or(0, |function| function.instances);
        if let Some(limit) = limits.instances
            && instances >= limit.get()
        {
            return Err(Shortage::Instances { limit: limit.get() });
        }
        if self.dying_count >= self.stopping_limit {
            return Err(Shortage::Stopping { instances: self.dying_count });
        }
        let missing = (self.live + self.prewarmed + charge).saturating_sub(self.budget + beyond);
        if missing == 0 {
            return Ok(0);
        }
        self.pressed = true;
        let Some(victims) = self.victims(missing, Some((&key.namespace, charge)), now) else {
            let used = ByteSize::bytes(self.live + self.prewarmed);
            return Err(Shortage::Memory { needed: ByteSize::bytes(charge), used });
        };
        for id in &victims {
            self.evict(*id);
        }
        Ok(victims.len())
    }

    /// Registers a starting instance with its charge.
    fn insert(&mut self, key: &Arc<InstanceKey>, charge: u64, level: u32, now: Instant) -> InstanceId {
        self.last_id += 1;
        let id = InstanceId(self.last_id);
        let phase = Phase::Starting { outdated: self.is_forgotten(key) };
        self.records
            .insert(id, Record { key: Arc::clone(key), phase, charge, level, in_use: 0, idle_since: now });
        let function = self.functions.entry(Arc::clone(key)).or_insert_with(|| Function {
            available: Vec::new(),
            instances: 0,
            charge: 0,
            peak: 0,
            last_used: now,
        });
        function.instances += 1;
        function.charge += charge;
        *self.namespaces.entry(key.namespace.clone()).or_default() += charge;
        self.live += charge;
        id
    }

    /// Whether `holder`, which has just finished a call, may lose its instance to `claimant`: if memory is
    /// short otherwise, and the claimant will not have more than the holder has now. Between two functions of
    /// one namespace the functions' charges count, otherwise the namespaces'.
    pub(crate) fn may_displace(
        &self,
        holder: &InstanceKey,
        claimant: &InstanceKey,
        limits: &FunctionLimits,
    ) -> bool {
        let charge = self.estimate(claimant, limits);
        let short = self.live + self.prewarmed + charge > self.budget;
        let (has, would_have) = if holder.namespace == claimant.namespace {
            (self.charge_of(holder), self.charge_of(claimant) + charge)
        } else {
            (
                self.charge_of_namespace(&holder.namespace),
                self.charge_of_namespace(&claimant.namespace) + charge,
            )
        };
        short && would_have <= has
    }

    /// The charge of a key's starting and live instances.
    pub(crate) fn charge_of(&self, key: &InstanceKey) -> u64 {
        self.functions.get(key).map_or(0, |function| function.charge)
    }

    /// The charge of a namespace's starting and live instances, and the memory of its snapshots.
    pub(crate) fn charge_of_namespace(&self, namespace: &NamespaceName) -> u64 {
        let of = |sums: &HashMap<NamespaceName, u64>| sums.get(namespace).copied().unwrap_or_default();
        of(&self.namespaces) + of(&self.snapshots)
    }

    /// Sets a live instance's charge to its measured memory.
    pub(crate) fn measured(&mut self, id: InstanceId, memory: ByteSize) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Phase::Live(entry) = &record.phase else { return };
        entry.note_memory(memory);
        let charge = memory.as_u64().max(LEAST_CHARGE);
        let before = std::mem::replace(&mut record.charge, charge);
        let adjust = |total: &mut u64| *total = (*total + charge).saturating_sub(before);
        adjust(&mut self.live);
        if let Some(function) = self.functions.get_mut(&record.key) {
            adjust(&mut function.charge);
            function.peak = entry.peak();
        }
        if let Some(total) = self.namespaces.get_mut(&record.key.namespace) {
            adjust(total);
        }
    }

    /// Records the memory of prewarmed runtimes and snapshots, that of each namespace's snapshots and that of
    /// the executors with targets alone, and the number of runtimes to be kept.
    pub(crate) fn measured_prewarmed(
        &mut self,
        memory: ByteSize,
        snapshots: HashMap<NamespaceName, u64>,
        need: ByteSize,
        target: usize,
    ) {
        self.prewarmed = memory.as_u64();
        self.snapshots = snapshots;
        self.prewarm_target = target;
        if target > 0 {
            self.prewarm_need = need.as_u64();
        }
    }

    /// Evicts idle instances until the others fit into the budget. Returns how many.
    pub(crate) fn trim(&mut self, now: Instant) -> usize {
        let mut evicted = 0;
        while self.live + self.prewarmed > self.budget
            && let Some(id) = self.victims(1, None, now).and_then(|victims| victims.first().copied())
        {
            self.evict(id);
            evicted += 1;
        }
        evicted
    }

    /// Whether prewarmed runtimes should make room: from a shortage of memory until a fifth of the budget
    /// would be free even with them.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed
    }

    /// Memory of prewarmed runtimes and snapshots, which only make starts faster.
    pub(crate) fn prewarmed(&self) -> u64 {
        self.prewarmed
    }

    /// How much of prewarmed runtimes and snapshots is too much beside the instances.
    pub(crate) fn excess(&self) -> u64 {
        (self.live + self.prewarmed).saturating_sub(self.budget).min(self.prewarmed)
    }

    /// Whether instances and what only makes starts faster leave at least half of the budget.
    pub(crate) fn has_half_its_memory(&self) -> bool {
        self.live + self.prewarmed <= self.budget / 2
    }

    /// What snapshots give up beyond the memory that a start lacks, so that not every start has to wait for
    /// room.
    pub(crate) fn headroom(&self) -> u64 {
        self.budget / HEADROOM_SHARE
    }

    /// Whether a start was refused that prewarmed runtimes and snapshots could make room for.
    pub(crate) fn wants(&self) -> bool {
        self.wanted.is_some()
    }

    /// The memory that this start lacks, and its function; reported once.
    pub(crate) fn take_wanted(&mut self) -> Option<(ByteSize, FunctionPath)> {
        self.wanted.take()
    }

    /// Ends the shortage of memory if it is over; `true` if it ended now.
    pub(crate) fn relax(&mut self) -> bool {
        let relaxes =
            self.pressed && self.live + self.dying + self.prewarm_need <= self.budget - self.budget / 5;
        self.pressed &= !relaxes;
        relaxes
    }

    /// Idle instances that together free `missing`; `None` when not enough may be taken.
    fn victims(
        &self,
        missing: u64,
        requester: Option<(&NamespaceName, u64)>,
        now: Instant,
    ) -> Option<Vec<InstanceId>> {
        let mut idle: HashMap<&NamespaceName, Vec<(Instant, InstanceId, u64)>> = HashMap::new();
        for (id, record) in &self.records {
            if matches!(record.phase, Phase::Live(_)) && record.in_use == 0 {
                idle.entry(&record.key.namespace).or_default().push((record.idle_since, *id, record.charge));
            }
        }
        for instances in idle.values_mut() {
            // The longest idle last, where it is popped; ids break ties.
            instances.sort_unstable_by_key(|(since, id, _)| std::cmp::Reverse((*since, *id)));
        }
        let mut charges: HashMap<&NamespaceName, u64> =
            idle.keys().map(|namespace| (*namespace, self.charge_of_namespace(namespace))).collect();
        let (mut freed, mut victims) = (0, Vec::new());
        while freed < missing {
            let may_take = |namespace: &NamespaceName, idle_since: Instant| match requester {
                None => true,
                Some((own, _)) if own == namespace => true,
                Some((own, charge)) => {
                    now.saturating_duration_since(idle_since) >= self.protected
                        || charges[namespace] >= self.charge_of_namespace(own) + charge
                }
            };
            let richest = idle
                .iter()
                .filter_map(|(namespace, instances)| {
                    let (idle_since, ..) = instances.last()?;
                    may_take(namespace, *idle_since).then_some((charges[*namespace], *namespace))
                })
                .max()?
                .1;
            let (_, id, charge) = idle.get_mut(richest)?.pop()?;
            if let Some(total) = charges.get_mut(richest) {
                *total = total.saturating_sub(charge);
            }
            freed += charge;
            victims.push(id);
        }
        Some(victims)
    }

    /// Stops an instance, even if it serves calls.
    pub(super) fn evict(&mut self, id: InstanceId) {
        if let Some(Record { phase: Phase::Live(entry), .. }) = self.records.get(&id) {
            entry.condemn();
        }
        self.stop(id);
    }

    /// Removes the charge of a starting or live instance from its function and namespace.
    pub(super) fn uncharge(&mut self, key: &Arc<InstanceKey>, charge: u64) {
        self.live -= charge;
        if let Some(function) = self.functions.get_mut(key) {
            function.instances -= 1;
            function.charge -= charge;
        }
        if let Some(total) = self.namespaces.get_mut(&key.namespace) {
            *total -= charge;
            if *total == 0 {
                self.namespaces.remove(&key.namespace);
            }
        }
    }
}
