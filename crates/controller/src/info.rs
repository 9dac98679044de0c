//! What the server reports about itself: limits, runtimes, capabilities, metrics, readiness.

use std::sync::Arc;

use flint_executor::{Capability, Prepared, RuntimeKind, SlotCounts, SnapshotCounts};
use flint_invoker::InvokerStats;
use flint_model::{Contract, Function, Kind, LimitBounds, Namespace, Start, Strategy};
use flint_scheduler::SchedulerStats;
use flint_telemetry::{InstanceState, LogSamples, Metrics, Samples, SnapshotSamples, WasmPoolSamples};

use crate::{
    Controller, ControllerError, LimitsConfig, kinds,
    strategy::{forks_by_default, missing},
};

/// The effective limits of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveLimits {
    /// Calls per wall-clock minute.
    pub invocations_per_minute: u32,
    /// Calls queued or running at once.
    pub concurrent_invocations: u32,
    /// Trigger firings per wall-clock minute.
    pub fires_per_minute: u32,
    /// Instances at once that one function may ask for.
    pub max_action_instances: u32,
    /// Kinds of functions it may have; `None` = all.
    pub allowed_kinds: Option<Vec<String>>,
    /// Whether activation records are kept.
    pub store_activations: bool,
    /// What functions may ask for, and what passes through the API.
    pub bounds: LimitBounds,
}

impl EffectiveLimits {
    /// The namespace's own limits where set, the server's otherwise.
    pub(crate) fn of(namespace: &Namespace, config: &LimitsConfig) -> Self {
        let own = &namespace.limits;
        let concurrent = own.concurrent_invocations.unwrap_or(config.concurrent_invocations);
        Self {
            invocations_per_minute: own.invocations_per_minute.unwrap_or(config.invocations_per_minute),
            concurrent_invocations: concurrent,
            max_action_instances: own.max_action_instances.unwrap_or(concurrent),
            fires_per_minute: own.fires_per_minute.unwrap_or(config.fires_per_minute),
            allowed_kinds: own.allowed_kinds.clone(),
            store_activations: own.store_activations.unwrap_or(true),
            bounds: own.bounds(&config.bounds),
        }
    }
}

/// The state of pool and queues.
#[derive(Clone, Debug)]
pub struct HostState {
    /// The pool.
    pub pool: InvokerStats,
    /// The queues.
    pub queues: SchedulerStats,
}

impl Controller {
    /// The runtimes, available or not.
    pub fn kinds(&self) -> Vec<RuntimeKind> {
        self.invoker.kinds()
    }

    /// The runtime that a text names: its full name, its family, or a prefix of its version.
    pub fn resolve_kind(&self, text: &str) -> Result<RuntimeKind, ControllerError> {
        kinds::resolve(text, &self.invoker.kinds()).cloned()
    }

    /// What the host offers and lacks; probed once, which takes some milliseconds.
    pub async fn capabilities(&self) -> &[Capability] {
        let look = || async {
            let invoker = Arc::clone(&self.invoker);
            tokio::task::spawn_blocking(move || invoker.capabilities()).await
        };
        match self.abilities.get_or_try_init(look).await {
            Ok(capabilities) => capabilities,
            Err(error) => {
                tracing::error!(%error, "looking at the host failed");
                &[]
            }
        }
    }

    /// Why a function that would start by fork by default does not, unless its user chose so.
    pub async fn why_not_forked(&self, function: &Function) -> Option<String> {
        let Function { strategy, contract, kind, .. } = function;
        if !forks_by_default(kind, *contract)
            || strategy.start == Start::Fork
            || function.asked.start.is_some()
        {
            return None;
        }
        let forked = Strategy { start: Start::Fork, ..*strategy };
        let why = match self.lacks(&forked, function).await {
            Some(missing) => format!("here is missing: {missing}"),
            None => "it was deployed before this host could: deploy it again".to_owned(),
        };
        Some(format!("start fork would be the default for {kind}; {why}"))
    }

    /// What this host lacks to run the function with this strategy; `None` = nothing.
    pub async fn lacks(&self, strategy: &Strategy, function: &Function) -> Option<String> {
        self.lacking(self.capabilities().await, strategy, function.contract, &function.kind)
    }

    pub(crate) fn lacking(
        &self,
        capabilities: &[Capability],
        strategy: &Strategy,
        contract: Contract,
        kind: &Kind,
    ) -> Option<String> {
        match self.invoker.executor_of(strategy, contract) {
            Some(_) => missing(capabilities, strategy.start, kind),
            None => Some(format!(
                "no executor of this server runs isolation {}, start {}, reuse {}, concurrency {} with the contract {contract}; \
                 see `flint doctor` for what this host can run",
                strategy.isolation, strategy.start, strategy.reuse, strategy.concurrency
            )),
        }
    }

    /// The function's preparation, if it was prepared since the server started.
    pub fn prepared(&self, function: &Function) -> Option<Arc<Prepared>> {
        self.invoker.prepared_already(function)
    }

    /// The effective limits of a namespace.
    pub fn effective_limits(&self, namespace: &Namespace) -> EffectiveLimits {
        EffectiveLimits::of(namespace, &self.config.limits)
    }

    /// The state of pool and queues.
    pub fn host_state(&self) -> HostState {
        HostState { pool: self.invoker.stats(), queues: self.scheduler.stats() }
    }

    /// Calls in flight of all namespaces.
    pub fn calls_in_flight(&self) -> u64 {
        self.accounts.in_flight()
    }

    /// The metrics, for fronts to count in.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// All metrics as OpenMetrics text.
    pub async fn render_metrics(&self) -> String {
        let HostState { pool, queues } = self.host_state();
        let log = self.stores.activations.stats();
        let count = |count: usize| count as u64;
        let letters = self.stores.dead_letters.usage(None).await.unwrap_or_default();
        self.metrics.render(&Samples {
            in_flight: self.accounts.in_flight(),
            // A store that does not answer is reported elsewhere; the other metrics must still be rendered.
            queue_depth: self.stores.queue.depth(None).await.map_or(0, count),
            retries_waiting: self
                .stores
                .queue
                .waiting_again(None)
                .await
                .map_or(0, |again| count(again.calls)),
            calls_damaged: self.stores.queue.unreadable().await.map_or(0, count),
            dead_letters: count(letters.letters),
            dead_letters_bytes: letters.bytes,
            waiting: count(queues.waiting),
            instances: vec![
                (InstanceState::Starting, count(pool.instances.starting)),
                (InstanceState::Busy, count(pool.instances.busy)),
                (InstanceState::Idle, count(pool.instances.idle)),
                (InstanceState::Paused, count(pool.instances.paused)),
                (InstanceState::Prewarmed, count(pool.prewarmed)),
            ],
            memory_committed: pool.memory_charged.as_u64(),
            memory_prewarmed: pool.memory_prewarmed.as_u64(),
            memory_budget: pool.memory_budget.as_u64(),
            snapshots: snapshot_samples(self.invoker.snapshots()),
            wasm_pool: self.invoker.slots().map(wasm_pool_samples),
            log: LogSamples {
                appended: log.appended,
                shed_logs: log.shed_logs,
                shed_records: log.shed_records,
                pending: log.pending,
                expired: log.expired,
                damaged_reads: log.damaged_reads,
            },
        })
    }

    /// Whether calls are admitted and the stores answer; the error says what is wrong.
    pub async fn ready(&self) -> Result<(), String> {
        if self.stopping.is_cancelled() {
            return Err("the server is shutting down".to_owned());
        }
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what} does not answer: {error}");
        self.stores.catalog.namespaces().await.map_err(|error| failed("the catalog", &error))?;
        self.stores.queue.depth(None).await.map_err(|error| failed("the queue", &error))?;
        if self.stores.activations.stats().closed {
            return Err("the activation log takes no records any more: restart the server".to_owned());
        }
        Ok(())
    }
}

fn snapshot_samples(counts: SnapshotCounts) -> SnapshotSamples {
    let SnapshotCounts { zygotes, standbys, from_standby, forked, fresh, tampered, rebuilt } = counts;
    SnapshotSamples { zygotes, standbys, from_standby, forked, fresh, tampered, rebuilt }
}

fn wasm_pool_samples(counts: SlotCounts) -> WasmPoolSamples {
    let SlotCounts { total, bound, live, in_use, warm, kept, waited, refused } = counts;
    WasmPoolSamples { total, bound, live, in_use, warm, kept_bytes: kept.as_u64(), waited, refused }
}
