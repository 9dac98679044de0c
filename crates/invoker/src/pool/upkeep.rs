//! Upkeep of idle and outdated instances.

use std::{cmp::Reverse, collections::HashMap, sync::Arc, time::Duration};

use flint_model::{FunctionPath, InstanceId, KeepWarm, NamespaceName, Start};
use tokio::time::Instant;

use super::{Forgotten, Phase, Pool, Record};
use crate::{InstanceKey, entry::Entry};

/// How long the memory need of a function without instances, and its forgotten revisions, are remembered.
const REMEMBER: Duration = Duration::from_secs(3600);

/// Whether it has been idle for `grace`.
fn is_quiet(record: &Record, grace: Duration, now: Instant) -> bool {
    record.in_use == 0 && now.saturating_duration_since(record.idle_since) >= grace
}

impl Pool {
    /// Stops instances that were idle for `keep_alive`, or `forked` for clones of a snapshot, except those
    /// that their namespaces keep longer. Returns how many.
    pub(crate) fn expire(&mut self, keep_alive: Duration, forked: Duration, now: Instant) -> usize {
        let idle_too_long = |record: &Record| {
            let kept = match &record.phase {
                Phase::Live(entry) if entry.strategy.start == Start::Fork => forked,
                _ => keep_alive,
            };
            now.saturating_duration_since(record.idle_since) >= kept
        };
        let expired = self.without_kept(self.idle(idle_too_long, |entry| entry.id), now);
        expired.iter().for_each(|id| self.evict(*id));
        self.functions.retain(|_, function| {
            function.instances > 0 || now.saturating_duration_since(function.last_used) < REMEMBER
        });
        self.forgotten.retain(|_, forgotten| now.saturating_duration_since(forgotten.when) < REMEMBER);
        expired.len()
    }

    /// Sets how many idle instances on that account are kept longer; `None` keeps none longer.
    pub(crate) fn keep_warm(&mut self, owner: &NamespaceName, kept: Option<KeepWarm>) {
        match kept {
            Some(kept) => drop(self.keep_warm.insert(owner.clone(), kept)),
            None => drop(self.keep_warm.remove(owner)),
        }
    }

    /// `expired` without those that their namespace keeps: per key the most recently used, up to the
    /// namespace's count together with the instances that have not expired.
    fn without_kept(&self, mut expired: Vec<InstanceId>, now: Instant) -> Vec<InstanceId> {
        if self.keep_warm.is_empty() {
            return expired;
        }
        let mut staying: HashMap<&InstanceKey, u32> = HashMap::new();
        for record in expired.iter().filter_map(|id| self.records.get(id)) {
            let all = self.functions.get(&*record.key).map_or(0, |function| function.instances);
            let staying = staying.entry(&*record.key).or_insert(all);
            *staying = staying.saturating_sub(1);
        }
        expired.sort_by_key(|id| Reverse(self.records.get(id).map(|record| record.idle_since)));
        expired.retain(|id| {
            let Some(record) = self.records.get(id) else { return true };
            let Some(kept) = self.keep_warm.get(&record.key.namespace) else { return true };
            let idle = now.saturating_duration_since(record.idle_since);
            match staying.get_mut(&*record.key) {
                Some(staying) if *staying < kept.count && idle < kept.timeout => {
                    *staying += 1;
                    false
                }
                _ => true,
            }
        });
        expired
    }

    /// Running instances that have been idle for `grace`, the least recently used first. Each may be given a
    /// call before [`Self::begin_pause`].
    pub(crate) fn quiet(&self, grace: Duration, now: Instant) -> Vec<InstanceId> {
        let is_running =
            |record: &Record| matches!(&record.phase, Phase::Live(entry) if entry.freeze.is_running());
        let mut quiet =
            self.idle(|record| is_quiet(record, grace, now) && is_running(record), |entry| entry.id);
        quiet.sort_by_key(|id| self.records.get(id).map(|record| record.idle_since));
        quiet
    }

    /// Claims an instance for the caller to pause now; calls that take it from here on wait for that. `None`
    /// if it was used since [`Self::quiet`] found it.
    pub(crate) fn begin_pause(
        &mut self,
        id: InstanceId,
        grace: Duration,
        now: Instant,
    ) -> Option<Arc<Entry>> {
        let record = self.records.get(&id)?;
        let Phase::Live(entry) = &record.phase else { return None };
        (is_quiet(record, grace, now) && entry.freeze.begin_pause()).then(|| Arc::clone(entry))
    }

    /// Instances whose memory may have changed since this was last asked.
    pub(crate) fn to_measure(&self) -> Vec<Arc<Entry>> {
        self.records
            .values()
            .filter_map(|record| match &record.phase {
                Phase::Live(entry) if entry.take_used() || record.in_use > 0 => Some(Arc::clone(entry)),
                _ => None,
            })
            .collect()
    }

    /// Hides instances of `revision` of `path` and of older ones from further calls, except those of
    /// revisions in `keep`. Returns how many idle ones are stopped.
    pub(crate) fn forget(&mut self, path: &FunctionPath, revision: u64, keep: &[u64], now: Instant) -> usize {
        let before = self.forgotten.get(path).map_or(0, |forgotten| forgotten.newest);
        let newest = before.max(revision);
        self.forgotten.insert(path.clone(), Forgotten { newest, except: keep.to_vec(), when: now });
        self.withdraw_all(|key| {
            key.path == *path && key.revision <= revision && !keep.contains(&key.revision)
        })
    }

    /// Hides the instances of these keys from further calls. Returns how many idle ones are stopped.
    pub(crate) fn withdraw_all(&mut self, gone: impl Fn(&InstanceKey) -> bool) -> usize {
        let mut idle = Vec::new();
        for (id, record) in &mut self.records {
            if !gone(&record.key) {
                continue;
            }
            match &mut record.phase {
                Phase::Starting { outdated } => *outdated = true,
                Phase::Live(entry) => {
                    entry.mark_outdated();
                    if record.in_use == 0 {
                        idle.push(*id);
                    }
                }
                Phase::Dying => {}
            }
        }
        self.functions
            .iter_mut()
            .filter(|(key, _)| gone(key))
            .for_each(|(_, function)| function.available.clear());
        idle.iter().for_each(|id| self.evict(*id));
        idle.len()
    }

    /// Lets new instances of an old revision serve further calls.
    pub(crate) fn want(&mut self, path: &FunctionPath, revision: u64) {
        if let Some(forgotten) = self.forgotten.get_mut(path)
            && !forgotten.except.contains(&revision)
        {
            forgotten.except.push(revision);
        }
    }

    /// Whether a newer revision has replaced this one, and it is not kept.
    pub(super) fn is_forgotten(&self, key: &InstanceKey) -> bool {
        self.forgotten.get(&key.path).is_some_and(|forgotten| {
            key.revision <= forgotten.newest && !forgotten.except.contains(&key.revision)
        })
    }

    fn idle<T>(&self, which: impl Fn(&Record) -> bool, what: impl Fn(&Arc<Entry>) -> T) -> Vec<T> {
        self.records
            .values()
            .filter(|record| record.in_use == 0 && which(record))
            .filter_map(|record| match &record.phase {
                Phase::Live(entry) => Some(what(entry)),
                _ => None,
            })
            .collect()
    }
}
