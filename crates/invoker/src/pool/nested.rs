//! Memory beyond the budget for nested calls, so that callers waiting for them cannot deadlock.
//!
//! A call that waits for another one keeps its instance. If such callers held all memory, the calls they wait
//! for would find none, and none of them would end. Memory beyond the budget is therefore divided into
//! [levels](NESTED_LEVELS), one for each step of a chain of callers. An instance started for a call on which
//! n callers wait may take the pool n levels beyond the budget, and while the pool is beyond it, serves no
//! call with fewer callers. So instances up to level n never take more than n levels, and the next level has
//! room for the call they all wait for, unless calls deeper in the chain use it, and those end.

use flint_model::InstanceId;

use super::Pool;

/// Length of a chain of waiting callers, each with its instance, whose last call still finds memory, provided
/// that its instance is charged at most this fraction of `pool.nested_memory`.
pub const NESTED_LEVELS: u32 = 4;

impl Pool {
    /// How far a call on which `nested` callers wait may take the pool beyond the budget.
    pub(super) fn beyond_budget(&self, nested: u32) -> u64 {
        self.nested_memory / u64::from(NESTED_LEVELS) * u64::from(nested.min(NESTED_LEVELS))
    }

    /// Once the pool is within its budget again, lets every instance serve any call.
    pub(super) fn settle_levels(&mut self) {
        if self.beyond && self.live + self.prewarmed <= self.budget {
            self.beyond = false;
            self.records.values_mut().for_each(|record| record.level = 0);
        }
    }

    /// Whether an instance may serve a call on which `nested` callers wait.
    pub(crate) fn may_serve(&mut self, id: InstanceId, nested: u32) -> bool {
        self.settle_levels();
        !self.beyond || self.records.get(&id).is_none_or(|record| record.level <= nested)
    }
}
