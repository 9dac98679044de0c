//! One node: executors, what they prepared, and the pool of instances.

use std::{sync::Arc, time::Duration};

use flint_executor::{Capability, Executor, PrepareError, RuntimeKind, SlotCounts, SnapshotCounts};
use flint_model::{ByteSize, Contract, Function, FunctionPath, KeepWarm, NamespaceName, Strategy};
use flint_store::Blobs;
use tokio::time::{Instant, timeout};

use crate::{
    InstanceKey, InvokerConfig, InvokerStats, Lease, Permit, Shortage, host_memory, pool::Pool,
    preparing::Preparing, prewarm::keep_prewarmed, shared::Shared, upkeep::look_after,
};

/// How long an executor may take to shut down when all its instances are stopped.
const EXECUTOR_PATIENCE: Duration = Duration::from_secs(5);

/// One node.
pub struct Invoker {
    executors: Vec<Arc<dyn Executor>>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) preparing: Preparing,
    pub(crate) shared: Arc<Shared>,
    budget: ByteSize,
}

impl Invoker {
    /// An invoker with an empty pool. Must be called within a Tokio runtime: the pool is looked after by tasks, which
    /// [`Self::shutdown`] joins.
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

    /// What the host offers to all executors and what it lacks.
    pub fn capabilities(&self) -> Vec<Capability> {
        self.executors.iter().flat_map(|executor| executor.capabilities()).collect()
    }

    /// The name of the executor that runs functions of this strategy and contract; `None` when there is none.
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

    /// A slot of the instance that served this key last, is free and may serve a call that `nested` others wait for; `None` when all are busy.
    pub fn take(&self, key: &InstanceKey, nested: u32) -> Option<Lease> {
        let entry = self.shared.pool().take(key, nested)?;
        Some(Lease::new(Arc::clone(&self.shared), entry))
    }

    /// Takes the memory for one more instance, if need be by stopping idle ones; for a call that `nested` others wait for also
    /// [beyond the budget](crate::NESTED_LEVELS).
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

    /// Whether it is fair that `holder` loses an instance which has just finished a call, so that `claimant`, for which memory is
    /// short, can have one.
    pub fn may_displace(&self, holder: &InstanceKey, claimant: &InstanceKey, function: &Function) -> bool {
        self.shared.pool().may_displace(holder, claimant, &function.limits)
    }

    /// What the instances of the key's namespace, and those of the key itself, are charged: who has less comes first when memory is
    /// short.
    pub fn charges(&self, key: &InstanceKey) -> (ByteSize, ByteSize) {
        let pool = self.shared.pool();
        (ByteSize::bytes(pool.charge_of_namespace(&key.namespace)), ByteSize::bytes(pool.charge_of(key)))
    }

    /// Returns when memory came free or an instance went. For one listener; news while nobody listens is kept.
    pub async fn capacity_changed(&self) {
        self.shared.capacity.notified().await;
    }

    /// To be called when a function was updated or deleted: instances of `revision` and of older ones are found by no further call, except
    /// those of the revisions in `keep`. Idle ones are stopped now, busy ones after the calls that wait for them already.
    pub fn forget(&self, path: &FunctionPath, revision: u64, keep: &[u64]) {
        let idle = self.shared.pool().forget(path, revision, keep, Instant::now());
        self.shared.totals.forgotten.add(idle);
        self.preparing.forget(path, revision, keep);
    }

    /// To be called when something changed that instances of functions of `owner` were given in their environment: they are found by no
    /// further call, and others are started.
    pub fn renew(&self, owner: &NamespaceName) {
        let is_old = |key: &InstanceKey| key.variant != 0 && key.path.namespace == *owner;
        let idle = self.shared.pool().withdraw_all(is_old);
        self.shared.totals.forgotten.add(idle);
    }

    /// To be called when a namespace was deleted: instances on its account, also of others' functions, are found by no further call.
    pub fn leave(&self, account: &NamespaceName) {
        let idle = self.shared.pool().withdraw_all(|key| key.namespace == *account);
        self.shared.totals.forgotten.add(idle);
    }

    /// How many instances of functions on that account stay longer than others when nobody calls them, and how long, from now on; memory that
    /// is needed elsewhere is taken from them as from others.
    pub fn keep_warm(&self, owner: &NamespaceName, kept: Option<KeepWarm>) {
        self.shared.pool().keep_warm(owner, kept);
    }

    /// To be called before an old revision that was perhaps forgotten is called again: its instances stay like those of any other, until
    /// the next [`Self::forget`].
    pub fn want(&self, path: &FunctionPath, revision: u64) {
        self.shared.pool().want(path, revision);
    }

    /// Does what may take long about the next [`Self::collect`].
    pub async fn measure(&self) {
        for executor in &self.executors {
            executor.measure().await;
        }
    }

    /// Removes prepared artefacts of functions other than `keep` from disk.
    pub async fn collect(&self, keep: &[Arc<Function>]) {
        self.preparing.keep_only(keep);
        for executor in &self.executors {
            executor.collect(keep).await;
        }
    }

    /// What executors keep of snapshots, and what became of them.
    pub fn snapshots(&self) -> SnapshotCounts {
        self.executors.iter().find_map(|executor| executor.snapshots()).unwrap_or_default()
    }

    /// What the executor whose instances come from slots has of them; `None` until there is such a pool.
    pub fn slots(&self) -> Option<SlotCounts> {
        self.executors.iter().find_map(|executor| executor.slots())
    }

    /// The pool now.
    pub fn stats(&self) -> InvokerStats {
        let stats = self.shared.pool().stats();
        InvokerStats { totals: self.shared.totals.read(), ..stats }
    }

    /// Stops every instance, busy or not, all at once, within that time, and then the executors. A start in progress has a moment
    /// to get done, and is given up then.
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
