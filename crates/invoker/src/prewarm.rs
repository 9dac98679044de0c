//! Prewarmed runtimes: kept started without a function, so that a first start need not wait for its runtime.

use std::{collections::HashMap, sync::Arc, time::Duration};

use flint_executor::{Executor, PrewarmTarget, PrewarmedMemory, RuntimeKind};
use flint_model::{ByteSize, FunctionPath, Kind};
use tokio::time::{Instant, sleep};

use crate::{PoolConfig, shared::Shared};

/// Families whose default kinds are kept when none are configured.
const DEFAULT_FAMILIES: [&str; 2] = ["nodejs", "python"];

/// Each executor with its targets. A kind is kept by the first executor that has it.
fn targets(
    executors: &[Arc<dyn Executor>],
    config: &PoolConfig,
) -> Vec<(Arc<dyn Executor>, Vec<PrewarmTarget>)> {
    let wanted = |runtime: &RuntimeKind| match &config.prewarm_kinds {
        Some(kinds) => kinds.iter().any(|kind| names(kind, runtime)),
        None => runtime.default && DEFAULT_FAMILIES.contains(&runtime.kind.family()),
    };
    let mut seen = Vec::new();
    let mut all = Vec::new();
    for executor in executors {
        let mut targets = Vec::new();
        for runtime in executor.kinds() {
            if config.prewarm > 0
                && runtime.state.is_ok()
                && wanted(&runtime)
                && !seen.contains(&runtime.kind)
            {
                seen.push(runtime.kind.clone());
                targets.push(PrewarmTarget {
                    kind: runtime.kind,
                    memory: config.prewarm_memory,
                    count: config.prewarm,
                });
            }
        }
        all.push((Arc::clone(executor), targets));
    }
    all
}

/// Whether `kind` is this runtime, or means it as the default one of its family.
fn names(kind: &Kind, runtime: &RuntimeKind) -> bool {
    *kind == runtime.kind
        || (runtime.default
            && kind.family() == runtime.kind.family()
            && kind.version().is_none_or(|version| version == "default"))
}

/// Says which configured kinds nothing is kept for: misspelt ones, and those that the host lacks.
fn warn_of_missing(executors: &[Arc<dyn Executor>], config: &PoolConfig) {
    let available: Vec<_> = executors
        .iter()
        .flat_map(|executor| executor.kinds())
        .filter(|runtime| runtime.state.is_ok())
        .collect();
    for kind in config.prewarm_kinds.iter().flatten() {
        if !available.iter().any(|runtime| names(kind, runtime)) {
            tracing::warn!(%kind, "not prewarmed: this host has no such runtime (pool.prewarm_kinds)");
        }
    }
}

/// Delay from setting the targets to measuring memory: the runtimes have to come up first.
const MEASURE_AFTER: Duration = Duration::from_secs(2);
/// Interval of further measurements: snapshots grow and shrink.
const MEASURE_EVERY: Duration = Duration::from_secs(10);
/// Interval at which it is looked whether there are more snapshots or other ones, which is cheap. They are
/// measured then: deploys make them without any call that would have to find room for an instance.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which further snapshots are reclaimed.
const RECLAIM_EVERY: Duration = Duration::from_millis(50);

/// Sets the executors' targets at the beginning and after every change: none while memory is short. Executors
/// replace runtimes that were taken by themselves. Memory that a start lacks is reclaimed from snapshots.
pub(crate) async fn keep_prewarmed(
    shared: Arc<Shared>,
    executors: Vec<Arc<dyn Executor>>,
    config: PoolConfig,
) {
    let all = targets(&executors, &config);
    warn_of_missing(&executors, &config);
    loop {
        if set(&shared, &all).await {
            tokio::select! {
                () = shared.closing.cancelled() => return,
                () = sleep(RECLAIM_EVERY) => {}
            }
        }
        let (mut due, mut known) = (Instant::now() + MEASURE_AFTER, snapshots(&all));
        loop {
            let news = shared.prewarm.notified();
            tokio::select! {
                () = shared.closing.cancelled() => return,
                () = news => break,
                () = sleep(LOOK_EVERY) => {}
            }
            let found = snapshots(&all);
            if found != known || Instant::now() >= due {
                measure_and_trim(&shared, &all).await;
                (due, known) = (Instant::now() + MEASURE_EVERY, found);
                if shared.pool().is_pressed() {
                    break;
                }
            }
        }
    }
}

type Targets = [(Arc<dyn Executor>, Vec<PrewarmTarget>)];

/// Sets all targets, or none while memory is short. Returns whether a start lacked memory.
async fn set(shared: &Shared, all: &Targets) -> bool {
    let (pressed, wanted, before) = {
        let mut pool = shared.pool();
        (pool.is_pressed(), pool.take_wanted(), pool.prewarmed())
    };
    for (executor, targets) in all {
        if !targets.is_empty() {
            executor.prewarm(if pressed { &[] } else { targets }).await;
        }
    }
    let Some((missing, function)) = &wanted else {
        measure_and_trim(shared, all).await;
        shared.capacity.notify_one();
        return false;
    };
    let tools = measure(shared, all).await;
    let (given_up, headroom) = {
        let pool = shared.pool();
        (before.saturating_sub(pool.prewarmed()), pool.headroom())
    };
    // What a start lacks includes what is too much already.
    let missing = missing.as_u64().saturating_sub(given_up);
    if missing > 0 {
        reclaim(shared, all, (missing + headroom).saturating_sub(tools), Some(function)).await;
    }
    shared.capacity.notify_one();
    true
}

/// How many snapshots there are, and how many were made again.
fn snapshots(all: &Targets) -> (u64, u64) {
    let counts = all.iter().filter_map(|(executor, _)| executor.snapshots());
    counts.fold((0, 0), |(zygotes, rebuilt), counts| (zygotes + counts.zygotes, rebuilt + counts.rebuilt))
}

/// Measures, and gives up the snapshots that are too much for the budget.
async fn measure_and_trim(shared: &Shared, all: &Targets) {
    let tools = measure(shared, all).await;
    let excess = shared.pool().excess();
    if excess > 0 {
        reclaim(shared, all, excess.saturating_sub(tools), None).await;
    }
}

/// Has build tools, and as much as this in snapshots, given up, and measures what is left.
async fn reclaim(shared: &Shared, all: &Targets, bytes: u64, spare: Option<&FunctionPath>) {
    for (executor, _) in all {
        executor.reclaim(ByteSize::bytes(bytes), spare).await;
    }
    measure(shared, all).await;
}

/// Measures all of it; returns the memory of build tools.
async fn measure(shared: &Shared, all: &Targets) -> u64 {
    let (mut memory, mut need, mut tools) = (0, 0, 0);
    let mut snapshots = HashMap::new();
    for (executor, targets) in all {
        let PrewarmedMemory { all, of_snapshots, of_tools } = executor.prewarmed_memory().await;
        memory += all.as_u64();
        tools += of_tools.as_u64();
        // Snapshots that were given up come back when they are called, and build tools with the next deploy,
        // not when there is room.
        need += if targets.is_empty() { 0 } else { all.as_u64().saturating_sub(of_tools.as_u64()) };
        for (namespace, bytes) in of_snapshots {
            *snapshots.entry(namespace).or_default() += bytes.as_u64();
        }
    }
    let mut pool = shared.pool();
    let wanted = all.iter().flat_map(|(_, targets)| targets).map(|target| target.count).sum();
    let kept = if pool.is_pressed() { 0 } else { wanted };
    pool.measured_prewarmed(ByteSize::bytes(memory), snapshots, ByteSize::bytes(need), kept);
    tools
}
