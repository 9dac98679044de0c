//! The pool's state as numbers.

use std::collections::HashMap;

use flint_model::ByteSize;

use super::{Phase, Pool};
use crate::{FunctionInstances, InstanceCounts, InvokerStats};

impl Pool {
    /// The pool's present state, without the counters.
    pub(crate) fn stats(&self) -> InvokerStats {
        let mut instances = InstanceCounts::default();
        let mut functions = HashMap::new();
        for record in self.records.values() {
            let (of_function, memory): &mut (InstanceCounts, u64) = functions.entry(&record.key).or_default();
            for counts in [&mut instances, of_function] {
                *match &record.phase {
                    Phase::Starting { .. } => &mut counts.starting,
                    Phase::Live(_) if record.in_use > 0 => &mut counts.busy,
                    Phase::Live(entry) if entry.freeze.is_running() => &mut counts.idle,
                    Phase::Live(_) => &mut counts.paused,
                    Phase::Dying => &mut counts.stopping,
                } += 1;
            }
            *memory += record.charge;
        }
        let functions = functions.into_iter().map(|(key, (instances, memory))| FunctionInstances {
            namespace: key.namespace.clone(),
            path: key.path.clone(),
            revision: key.revision,
            instances,
            memory: ByteSize::bytes(memory),
        });
        InvokerStats {
            instances,
            memory_budget: ByteSize::bytes(self.budget),
            memory_charged: ByteSize::bytes(self.live + self.dying),
            memory_prewarmed: ByteSize::bytes(self.prewarmed),
            prewarmed: self.prewarm_target,
            functions: functions.collect(),
            ..InvokerStats::default()
        }
    }
}
