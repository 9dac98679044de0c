//! Stem cells: prewarmed runtimes that wait for a function.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use flint_executor::{Fault, PrewarmTarget};
use flint_model::{ByteSize, Function, FunctionLimits, Network};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    handler::Cell,
    process::{ending, logs::Logs},
};

/// A runtime that was taken is replaced after this delay, so as not to disturb the call that took it.
const REFILL_AFTER: Duration = Duration::from_millis(20);
/// A runtime that ended by itself is replaced after this delay, since it may do so again.
const REPLACE_AFTER: Duration = Duration::from_secs(1);
/// How long a runtime may take to start.
const START_WITHIN: Duration = Duration::from_secs(30);
/// The pause after a failed start.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// What a prewarmed runtime and its function must have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StemKey {
    /// [`crate::discover::Runtime::identity`].
    pub runtime: String,
    /// Its memory limit.
    pub memory: ByteSize,
}

/// Starts prewarmed runtimes.
#[async_trait::async_trait]
pub trait Grow: Send + Sync + 'static {
    /// The key of a target; `None` if this host has no such runtime.
    fn key(&self, target: &PrewarmTarget) -> Option<StemKey>;
    /// Starts a runtime that waits for a function.
    async fn grow(
        &self,
        target: &PrewarmTarget,
        id: String,
        deadline: Instant,
        logs: &mut Logs,
    ) -> Result<Cell, Fault>;
}

/// The prewarmed runtimes of one executor.
#[derive(Debug, Default)]
pub struct Stems {
    state: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Kept>,
    changed: Notify,
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    targets: Vec<PrewarmTarget>,
    cells: Vec<(StemKey, Cell)>,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A prewarmed runtime's limits; only its memory limit is variable.
pub fn limits(memory: ByteSize) -> FunctionLimits {
    FunctionLimits { memory, ..FunctionLimits::default() }
}

/// Whether a prewarmed runtime's sandbox meets the function's limits and network.
pub fn fits(function: &Function) -> bool {
    let (asked, given) = (&function.limits, limits(function.limits.memory));
    function.network == Network::None
        && asked.cpu_millis == given.cpu_millis
        && asked.processes == given.processes
        && asked.tmp == given.tmp
}

impl Stems {
    /// Takes a living runtime, if there is one.
    pub fn take(&self, key: &StemKey) -> Option<Cell> {
        let mut kept = self.state.kept();
        while let Some(at) = kept.cells.iter().position(|(known, _)| known == key) {
            let (_, cell) = kept.cells.swap_remove(at);
            self.state.changed.notify_one();
            if cell.sandbox.wait().now_or_never().is_none() {
                return Some(cell);
            }
        }
        None
    }

    /// Replaces the targets. The first call starts the task that meets them.
    pub async fn keep(&self, targets: &[PrewarmTarget], grower: &Arc<impl Grow>) {
        self.state.kept().targets = targets.to_vec();
        self.state.changed.notify_one();
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.is_none() && !targets.is_empty() {
            *keeper = Some(tokio::spawn(keep(Arc::clone(&self.state), Arc::clone(grower))));
        }
    }

    /// Their memory.
    pub async fn memory(&self) -> ByteSize {
        let sandboxes: Vec<_> =
            self.state.kept().cells.iter().map(|(_, cell)| Arc::clone(&cell.sandbox)).collect();
        let mut bytes = 0;
        for sandbox in sandboxes {
            bytes += sandbox.usage().await.map_or(0, |usage| usage.memory_bytes);
        }
        ByteSize::bytes(bytes)
    }

    /// Ends all and keeps none.
    pub async fn end(&self) {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            keeper.abort();
            let _ = keeper.await;
        }
        let cells = std::mem::take(&mut self.state.kept().cells);
        for (_, cell) in cells {
            ending::completely(&cell.sandbox).await;
        }
    }
}

impl Drop for Stems {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner) {
            keeper.abort();
        }
    }
}

/// Starts and ends runtimes to meet the targets, one at a time, whenever something has changed.
async fn keep(shared: Arc<Shared>, grower: Arc<impl Grow>) {
    loop {
        let surplus = surplus(&shared, grower.as_ref());
        for cell in surplus {
            ending::completely(&cell.sandbox).await;
        }
        let Some((target, key)) = missing(&shared, grower.as_ref()) else {
            let pause = tokio::select! {
                () = shared.changed.notified() => REFILL_AFTER,
                () = one_ends(&shared) => REPLACE_AFTER,
            };
            tokio::time::sleep(pause).await;
            continue;
        };
        let id = format!("stem{}", shared.count.fetch_add(1, Ordering::Relaxed));
        let mut logs = Logs::new(ByteSize::kib(16));
        match grower.grow(&target, id, Instant::now() + START_WITHIN, &mut logs).await {
            Ok(cell) => shared.kept().cells.push((key, cell)),
            Err(fault) => {
                let said = logs.last_error_line().unwrap_or_default();
                tracing::warn!(kind = %target.kind, %fault, said, "a prewarmed runtime did not start");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Resolves when one of the present runtimes has ended.
async fn one_ends(shared: &Shared) {
    let mut ends: FuturesUnordered<_> =
        shared.kept().cells.iter().map(|(_, cell)| cell.sandbox.end()).collect();
    if ends.next().await.is_none() {
        std::future::pending().await
    }
}

/// Removes and returns the runtimes that no target asks for, and those that have ended.
fn surplus(shared: &Shared, grower: &impl Grow) -> Vec<Cell> {
    let mut kept = shared.kept();
    let mut wanted: Vec<(StemKey, usize)> =
        kept.targets.iter().filter_map(|target| Some((grower.key(target)?, target.count))).collect();
    let mut surplus = Vec::new();
    for (key, cell) in std::mem::take(&mut kept.cells) {
        let is_wanted = |(known, count): &&mut (StemKey, usize)| *known == key && *count > 0;
        match wanted.iter_mut().find(is_wanted).filter(|_| cell.sandbox.exited().is_none()) {
            Some((_, count)) => {
                *count -= 1;
                kept.cells.push((key, cell));
            }
            None => surplus.push(cell),
        }
    }
    surplus
}

fn missing(shared: &Shared, grower: &impl Grow) -> Option<(PrewarmTarget, StemKey)> {
    let kept = shared.kept();
    kept.targets.iter().find_map(|target| {
        let key = grower.key(target)?;
        let present = kept.cells.iter().filter(|(known, _)| *known == key).count();
        (present < target.count).then(|| (target.clone(), key))
    })
}
