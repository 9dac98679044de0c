//! The invoker of one node: its executors, the functions they have prepared, and the pool of instances.

use std::{sync::Arc, time::Duration};

use flint_executor::{Capability, Executor, PrepareError, RuntimeKind, SlotCounts, SnapshotCounts};
use flint_model::{ByteSize, Contract, Function, FunctionPath, KeepWarm, NamespaceName, Strategy};
use flint_store::Blobs;
use tokio::time::{Instant, timeout};

use crate::{
    InstanceKey, InvokerConfig, InvokerStats, Lease, Permit, Shortage, host_memory, pool::Pool,
    preparing::Preparing, prewarm::keep_prewarmed, shared::Shared, upkeep::look_after,
};

/// How long an executor may take to shut down once all its instances are stopped.
const EXECUTOR_PATIENCE: Duration = Duration::from_secs(5);

/// The invoker of one node.
pub struct Invoker {
    executors: Vec<Arc<dyn Executor>>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) preparing: Preparing,
    pub(crate) shared: Arc<Shared>,
    budget: ByteSize,
}

impl Invoker {
    /// An invoker with an empty pool. Must be called within a Tokio runtime: it spawns the tasks that look
    /// after the pool, which [`Self::shutdown`] joins.
    pub fn new(config: InvokerConfig, executors: Vec<Arc<dyn Executor>>, blobs: Arc<dyn Blobs>) -> Arc<Self> {
        let budget = config.pool.memory.unwrap_or_else(host_memory::default_budget);
        let shared = Arc::new(Shared::new(Pool::new(budget.as_u64(), &config.pool)));
        shared.tasks.spawn(look_after(Arc::clone(&shared), config.pool.clone()));
        shared.tasks.spawn(keep_prewarmed(Arc::clone(&shared), executors.clone(), config.pool));
        Arc::new(Self { executors, blobs, preparing: Preparing::default(), shared, budget })
    }

    /// The runtimes of all executors, available or not.
    pub fn kinds(&self) -> Vec<RuntimeKind> {
        self.executors.iter().flat_map(|executor| executor.kinds()).collect()
    }

    /// What the host offers to all executors, and what it lacks.
    pub fn capabilities(&self) -> Vec<Capability> {
        self.executors.iter().flat_map(|executor| executor.capabilities()).collect()
    }

    /// The name of the executor for this strategy and contract, if there is one.
    pub fn executor_of(&self, strategy: &Strategy, contract: Contract) -> Option<&'static str> {
        self.executors
            .iter()
            .find(|executor| executor.handles(strategy, contract))
            .map(|executor| executor.name())
    }

    pub(crate) fn executor_for(&self, function: &Function) -> Result<&Arc<dyn Executor>, PrepareError> {
        let handles = |executor: &&Arc<dyn Executor>| executor.handles(&function.strategy, function.contract);
        self.executors.iter().find(handles).ok_or_else(|| PrepareError::Unavailable {
            what: format!("strategy {} with contract {}", function.strategy, function.contract),
            reason: format!(
                "none of the executors here ({}) runs it: choose another strategy, `flint doctor` lists them",
                self.executors.iter().map(|executor| executor.name()).collect::<Vec<_>>().join(", ")
            ),
        })
    }

    /// Memory that all instances together may use.
    pub fn memory_budget(&self) -> ByteSize {
        self.budget
    }

    /// A free slot of the most recently used instance of this key that may serve a call on which `nested`
    /// callers wait; `None` when there is none.
    pub fn take(&self, key: &InstanceKey, nested: u32) -> Option<Lease> {
        let entry = self.shared.pool().take(key, nested)?;
        Some(Lease::new(Arc::clone(&self.shared), entry))
    }

    /// Reserves memory for one more instance, stopping idle ones if needed. For a call on which `nested`
    /// callers wait, the reservation may exceed [the budget](crate::NESTED_LEVELS).
    pub fn reserve(
        &self,
        key: &Arc<InstanceKey>,
        function: &Arc<Function>,
        nested: u32,
    ) -> Result<Permit, Shortage> {
        let ((evicted, reserved), news) = {
            let mut pool = self.shared.pool();
            let before = (pool.is_pressed(), pool.wants());
            let reserved = pool.reserve(key, &function.limits, nested, Instant::now());
            (reserved, before != (pool.is_pressed(), pool.wants()))
        };
        if news {
            self.shared.prewarm.notify_one();
        }
        self.shared.totals.evicted.add(evicted);
        Ok(Permit::new(Arc::clone(&self.shared), Arc::clone(key), Arc::clone(function), reserved?))
    }

    /// Whether fairness lets `holder`, which has just finished a call, lose its instance to `claimant`, which
    /// is short of memory.
    pub fn may_displace(&self, holder: &InstanceKey, claimant: &InstanceKey, function: &Function) -> bool {
        self.shared.pool().may_displace(holder, claimant, &function.limits)
    }

    /// The charges of the key's namespace and of the key itself; when memory is short, the smallest comes
    /// first.
    pub fn charges(&self, key: &InstanceKey) -> (ByteSize, ByteSize) {
        let pool = self.shared.pool();
        (ByteSize::bytes(pool.charge_of_namespace(&key.namespace)), ByteSize::bytes(pool.charge_of(key)))
    }

    /// Returns when memory became free or an instance went. For one listener; a notification without a
    /// listener is kept.
    pub async fn capacity_changed(&self) {
        self.shared.capacity.notified().await;
    }

    /// To be called after a function was updated or deleted: further calls find no instance of `revision` or
    /// an older one, except those of revisions in `keep`. Idle instances are stopped now, busy ones after the
    /// calls that already wait for them.
    pub fn forget(&self, path: &FunctionPath, revision: u64, keep: &[u64]) {
        let idle = self.shared.pool().forget(path, revision, keep, Instant::now());
        self.shared.totals.forgotten.add(idle);
        self.preparing.forget(path, revision, keep);
    }

    /// To be called after a change to the environment given to instances of functions of `owner`: further
    /// calls find none of them, and start others.
    pub fn renew(&self, owner: &NamespaceName) {
        let is_old = |key: &InstanceKey| key.variant != 0 && key.path.namespace == *owner;
        let idle = self.shared.pool().withdraw_all(is_old);
        self.shared.totals.forgotten.add(idle);
    }

    /// To be called after a namespace was deleted: further calls find no instance on its account, including
    /// those of other owners' functions.
    pub fn leave(&self, account: &NamespaceName) {
        let idle = self.shared.pool().withdraw_all(|key| key.namespace == *account);
        self.shared.totals.forgotten.add(idle);
    }

    /// Sets how many instances on that account are kept longer than others while idle, and for how long.
    /// Memory needed elsewhere is taken from them as from any others.
    pub fn keep_warm(&self, owner: &NamespaceName, kept: Option<KeepWarm>) {
        self.shared.pool().keep_warm(owner, kept);
    }

    /// To be called before an old revision, perhaps forgotten, is called again: its instances are kept like
    /// any other until the next [`Self::forget`].
    pub fn want(&self, path: &FunctionPath, revision: u64) {
        self.shared.pool().want(path, revision);
    }

    /// Does the slow part of the next [`Self::collect`] in advance.
    pub async fn measure(&self) {
        for executor in &self.executors {
            executor.measure().await;
        }
    }

    /// Removes the prepared artefacts of functions other than `keep` from disk.
    pub async fn collect(&self, keep: &[Arc<Function>]) {
        self.preparing.keep_only(keep);
        for executor in &self.executors {
            executor.collect(keep).await;
        }
    }

    /// Counts of the executors' snapshots.
    pub fn snapshots(&self) -> SnapshotCounts {
        self.executors.iter().find_map(|executor| executor.snapshots()).unwrap_or_default()
    }

    /// Counts of the slot pool; `None` until an executor has one.
    pub fn slots(&self) -> Option<SlotCounts> {
        self.executors.iter().find_map(|executor| executor.slots())
    }

    /// Whether instances, prewarmed runtimes and snapshots, as last measured, leave at least half of the
    /// memory to calls.
    pub fn has_half_its_memory(&self) -> bool {
        self.shared.pool().has_half_its_memory()
    }

    /// The state of the pool.
    pub fn stats(&self) -> InvokerStats {
        let stats = self.shared.pool().stats();
        InvokerStats { totals: self.shared.totals.read(), ..stats }
    }

    /// Stops every instance at once, busy or not, within that time, and then the executors. A start in
    /// progress has a moment to finish and is then given up.
    pub async fn shutdown(&self, within: Duration) {
        self.shared.pool().close();
        self.shared.closing.cancel();
        self.shared.tasks.close();
        if timeout(within, self.shared.tasks.wait()).await.is_err() {
            tracing::error!(instances = ?self.shared.pool().stats().instances, "some instances did not stop in time");
        }
        for executor in &self.executors {
            if timeout(EXECUTOR_PATIENCE, executor.shutdown()).await.is_err() {
                tracing::error!(executor = executor.name(), "the executor did not shut down in time");
            }
        }
    }
}

impl Drop for Invoker {
    fn drop(&mut self) {
        self.shared.pool().close();
        self.shared.closing.cancel();
    }
}
