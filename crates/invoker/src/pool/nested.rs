//! Memory for calls that other calls wait for.
//!
//! A call that waits for another one keeps its instance. When such calls have all the memory, what they wait for finds none, and none of them ends. So
//! the memory beyond the budget is in [levels](NESTED_LEVELS), one for each call on the way from the first that waits: an instance that is started
//! for a call which n others wait for may take the pool n levels beyond, and serves, as long as the pool is beyond, no call for which fewer
//! wait. Instances of up to level n therefore never take more than n levels, and the next level always has room for the call that all of them
//! wait for, unless calls deeper down are at work there, which end.

use flint_model::InstanceId;

use super::Pool;

/// So many calls may wait for each other, each with its instance, and the last one still finds memory: if its instance is charged at most that part
/// of `pool.nested_memory`.
pub const NESTED_LEVELS: u32 = 4;

impl Pool {
    /// How far a call that `nested` others wait for may take the pool beyond the budget.
    pub(super) fn beyond_budget(&self, nested: u32) -> u64 {
        self.nested_memory / u64::from(NESTED_LEVELS) * u64::from(nested.min(NESTED_LEVELS))
    }

    /// Notices that the pool is within its budget again: every instance serves whom it can.
    pub(super) fn settle_levels(&mut self) {
        if self.beyond && self.live + self.prewarmed <= self.budget {
            self.beyond = false;
            self.records.values_mut().for_each(|record| record.level = 0);
        }
    }

    /// Whether an instance may serve a call that `nested` others wait for.
    pub(crate) fn may_serve(&mut self, id: InstanceId, nested: u32) -> bool {
        self.settle_levels();
        !self.beyond || self.records.get(&id).is_none_or(|record| record.level <= nested)
    }
}
