//! The executor `fork`, this crate's interface to the rest of Flint.

use std::{
    collections::HashMap,
    future::ready,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use flint_executor::{
    Anticipation, Capability, Executor, Fault, FunctionSource, Instance, PrepareError, Prepared,
    PrewarmedMemory, Progress, RuntimeKind, SnapshotCounts, StartContext, StartFailure, Started,
};
use flint_model::{
    ByteSize, Contract, Function, FunctionPath, Isolation, LogLine, NamespaceName, Reuse, Start, Strategy,
};
use flint_runtimes::{
    House,
    discover::{Engine, Family},
    handler::{BringUp, HandlerInstance, NotFrozen},
    process::logs::Logs,
    stems::Stems,
};
use flint_sandbox::ProbeState;
use tokio::task::JoinSet;

use crate::{
    ForkConfig,
    record::Record,
    tree::{Ground, Tree},
    zygote::Zygote,
};

/// How often idle zygotes are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Runtimes whose shims can be frozen.
const FORKABLE: [Family; 2] = [Family::Node, Family::Python];
const NOT_FORKABLE: &str = "only Node.js and Python can be forked: choose the start spawn";
/// Added to a report that was recorded at an earlier preparation.
const KNOWN: &str =
    "it was frozen before, and these are the figures of then: the snapshot is made again in the background";
/// The probe for the separation of clones.
const WALL: &str = "fork-call-wall";

/// Runs functions as forks of a snapshot.
pub struct ForkExecutor {
    ground: Arc<Ground>,
    forest: Arc<Forest>,
}

/// All trees in use.
#[derive(Default)]
struct Forest(Mutex<Vec<Weak<Tree>>>);

impl Forest {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Tree>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, tree: &Arc<Tree>) {
        let mut trees = self.lock();
        trees.retain(|tree| tree.strong_count() > 0);
        trees.push(Arc::downgrade(tree));
    }

    fn trees(&self) -> Vec<Arc<Tree>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn prune(&self, idle: Duration) {
        let trees = self.trees();
        trees.iter().for_each(|tree| tree.look_after());
        let pruned = trees.iter().filter(|tree| tree.prune(idle)).count();
        if pruned > 0 {
            tracing::debug!(pruned, "snapshots that nobody called were let go");
        }
    }

    /// Releases zygotes without clones until this much memory is free: each time one of the namespace that has
    /// the most, so that nobody's functions cost others theirs, its least recently used. Memory is as last
    /// measured.
    async fn reclaim(&self, wanted: ByteSize, spare: Option<&FunctionPath>) {
        let mut holdings = HashMap::<NamespaceName, Holding>::new();
        for tree in self.trees() {
            let memory = tree.known_memory().await.as_u64();
            let holding = holdings.entry(tree.function.path.namespace.clone()).or_default();
            holding.memory += memory;
            if spare != Some(&tree.function.path)
                && let Some((idle, zygote)) = tree.unused()
            {
                holding.unused.push((idle, zygote, tree));
            }
        }
        let mut holdings: Vec<_> = holdings.into_values().collect();
        for holding in &mut holdings {
            holding.unused.sort_by_key(|(idle, ..)| *idle);
        }
        let (mut freed, mut gone) = (0, 0);
        while freed < wanted.as_u64() {
            let givers = holdings.iter_mut().filter(|holding| !holding.unused.is_empty());
            let Some(holding) = givers.max_by_key(|holding| holding.memory) else { break };
            // Only the serving zygote's: former ones stay as long as their clones.
            let Some((_, zygote, tree)) = holding.unused.pop() else { break };
            let Some(zygote) = zygote.upgrade() else { continue };
            let memory = zygote.known_memory().await.as_u64();
            drop(zygote);
            if tree.prune(Duration::ZERO) {
                holding.memory = holding.memory.saturating_sub(memory);
                freed += memory;
                gone += 1;
            }
        }
        tracing::debug!(wanted = wanted.as_u64(), freed, gone, "snapshots were let go for want of memory");
    }
}

/// The zygotes of one namespace.
#[derive(Default)]
struct Holding {
    /// The memory of all of them.
    memory: u64,
    /// Those without clones, with their trees and how long nobody has called them.
    unused: Vec<(Duration, Weak<Zygote>, Arc<Tree>)>,
}

/// How a function is started.
enum Plan {
    /// By forking a zygote.
    Fork(Arc<Tree>),
    /// As fresh processes, because it cannot be frozen.
    Spawn(Arc<Tree>),
}

impl ForkExecutor {
    /// Uses a house that other executors may share. Functions without a snapshot start from the prewarmed
    /// runtimes in `stems`, which another executor keeps.
    pub fn new(house: Arc<House>, stems: Arc<Stems>, config: ForkConfig) -> Self {
        let forest = Arc::<Forest>::default();
        tokio::spawn(prune(Arc::downgrade(&forest), config.idle));
        Self { ground: Arc::new(Ground::new(house, stems, config)), forest }
    }

    /// Why this host cannot fork, if it cannot.
    fn lacking(&self) -> Option<String> {
        self.ground
            .house
            .launcher()
            .probe()
            .into_iter()
            .find(|probe| probe.name == WALL && probe.state == ProbeState::Missing)
            .map(|probe| format!("{}: {}", probe.detail, probe.remedy))
    }

    fn prepared(&self, tree: Arc<Tree>, steps: Vec<String>, took: Duration, record: Record) -> Prepared {
        let function = Arc::clone(&tree.function);
        let mut strategy = function.strategy;
        let (plan, fallback, snapshot) = match record {
            Record::Frozen(report) => (Plan::Fork(tree), None, Some(report)),
            Record::Refused(why) => {
                strategy.start = Start::Spawn;
                if function.asked.reuse.is_none() {
                    strategy.reuse = Reuse::Warm;
                }
                (Plan::Spawn(tree), Some(why), None)
            }
        };
        Prepared { function, steps, took, strategy, fallback, snapshot, artefact: Box::new(plan) }
    }
}

async fn prune(forest: Weak<Forest>, idle: Duration) {
    loop {
        tokio::time::sleep(LOOK_EVERY.min(idle)).await;
        let Some(forest) = forest.upgrade() else { return };
        forest.prune(idle);
    }
}

#[async_trait]
impl Executor for ForkExecutor {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn handles(&self, strategy: &Strategy, contract: Contract) -> bool {
        strategy.isolation == Isolation::Process
            && strategy.start == Start::Fork
            && strategy.concurrency == NonZeroU32::MIN
            && contract == Contract::Handler
    }

    fn capabilities(&self) -> Vec<Capability> {
        let state = match self.lacking() {
            None => Ok("clones are separated by Landlock, cgroups and file systems of their own".to_owned()),
            Some(why) => Err(why),
        };
        let fork = Capability { name: "start fork".to_owned(), state };
        let kinds = self.ground.house.kinds().into_iter().map(|kind| Capability {
            name: format!("start fork {}", kind.kind),
            state: match kind.kind.family() {
                family if FORKABLE.iter().any(|forkable| forkable.as_str() == family) => kind.state,
                _ => Err(NOT_FORKABLE.to_owned()),
            },
        });
        std::iter::once(fork).chain(kinds).collect()
    }

    /// The process executor lists them.
    fn kinds(&self) -> Vec<RuntimeKind> {
        Vec::new()
    }

    fn admits(&self, function: &Function) -> Result<(), PrepareError> {
        self.ground.house.admits(function)
    }

    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        if let Some(reason) = self.lacking() {
            return Err(PrepareError::Unavailable { what: "start fork".to_owned(), reason });
        }
        let house = &self.ground.house;
        let (artefact, took) = house.prepare(&source, progress).await?;
        let FunctionSource { function, code } = source;
        // Its files are there: it takes no memory while user code is loaded.
        drop(code);
        let began = Instant::now();
        let runtime = match &artefact.engine {
            Engine::Language(runtime) if FORKABLE.contains(&runtime.family) => Arc::clone(runtime),
            _ => {
                return Err(PrepareError::Unavailable {
                    what: format!("start fork for {}", function.kind),
                    reason: NOT_FORKABLE.to_owned(),
                });
            }
        };
        let steps = artefact.record.steps.clone();
        let tree = Tree::new(Arc::clone(&self.ground), Arc::clone(&function), artefact, runtime);
        self.forest.add(&tree);
        if let Some(mut record) = Record::read(&tree.artefact, &function) {
            if let Record::Frozen(report) = &mut record {
                report.kept = true;
                report.notes.push(KNOWN.to_owned());
            }
            return Ok(Arc::new(self.prepared(tree, steps, took, record)));
        }
        let record = match tree.grow(progress).await {
            Ok(report) => Record::Frozen(report),
            Err(NotFrozen::Refused(why)) => Record::Refused(why),
            Err(NotFrozen::Broken(Fault::Developer { message })) => return Err(PrepareError::Code(message)),
            Err(NotFrozen::Broken(Fault::Platform { cause })) => {
                return Err(PrepareError::Failed {
                    operation: "freezing the function".to_owned(),
                    detail: cause,
                });
            }
            Err(NotFrozen::Broken(fault)) => {
                // The cause may be the host's load or something outside Flint, so it is not recorded and
                // tried again next time.
                let why = Record::Refused(format!("it did not come to be frozen: {fault}"));
                return Ok(Arc::new(self.prepared(tree, steps, took + began.elapsed(), why)));
            }
        };
        if let Err(error) = record.write(&tree.artefact, &function) {
            tracing::warn!(%error, "what a snapshot was found to be could not be noted; it is found out again after a restart");
        }
        Ok(Arc::new(self.prepared(tree, steps, took + began.elapsed(), record)))
    }

    fn anticipate(&self, prepared: &Prepared) -> Anticipation {
        match prepared.artefact.downcast_ref() {
            Some(Plan::Fork(tree)) => Box::pin(tree.anticipate()),
            _ => Box::pin(ready(())),
        }
    }

    async fn start(&self, prepared: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure> {
        let began = Instant::now();
        let failed = |fault, logs| StartFailure { fault, took: began.elapsed(), logs };
        let Some(plan) = prepared.artefact.downcast_ref::<Plan>() else {
            let cause = "the function was prepared by another executor".to_owned();
            return Err(failed(Fault::Platform { cause }, Vec::new()));
        };
        if let Plan::Fork(tree) = plan {
            tree.look_after();
        }
        let tree = match plan {
            Plan::Fork(tree) if !tree.is_given_up() => {
                if tree.lacks_zygote()
                    && let Some(started) = self.prewarmed(tree, &context, began).await
                {
                    return started;
                }
                match tree.start(&context).await {
                    Ok((instance, made)) => {
                        let took = began.elapsed();
                        return Ok(Started {
                            instance,
                            started: made.map_or(took, |made| made.saturating_duration_since(began)),
                            restored: Some(took),
                            initialised: took,
                            logs: Vec::new(),
                        });
                    }
                    Err(_) if tree.is_given_up() => tree,
                    Err(fault) => return Err(failed(fault, Vec::new())),
                }
            }
            Plan::Fork(tree) | Plan::Spawn(tree) => tree,
        };
        self.ground.tally.fresh.one();
        let mut logs = Logs::new(context.max_logs);
        match self.spawn(tree, &context, &mut logs).await {
            Ok((instance, started)) => Ok(Started {
                instance,
                started,
                restored: None,
                initialised: began.elapsed(),
                logs: finish(logs),
            }),
            Err(fault) => Err(failed(fault, finish(logs))),
        }
    }

    async fn reclaim(&self, wanted: ByteSize, spare: Option<&FunctionPath>) {
        self.forest.reclaim(wanted, spare).await;
    }

    async fn prewarmed_memory(&self) -> PrewarmedMemory {
        let mut memory = PrewarmedMemory::default();
        for tree in self.forest.trees() {
            let bytes = tree.memory().await.as_u64();
            let of_one = memory.of_snapshots.entry(tree.function.path.namespace.clone()).or_default();
            for sum in [&mut memory.all, of_one] {
                *sum = ByteSize::bytes(sum.as_u64() + bytes);
            }
        }
        memory
    }

    fn snapshots(&self) -> Option<SnapshotCounts> {
        let mut counts = self.ground.tally.counts();
        for standbys in self.forest.trees().iter().filter_map(|tree| tree.standbys()) {
            counts.zygotes += 1;
            counts.standbys += standbys as u64;
        }
        Some(counts)
    }

    async fn measure(&self) {
        self.ground.house.measure().await;
    }

    async fn collect(&self, keep: &[Arc<Function>]) {
        self.ground.house.collect(keep).await;
    }

    async fn shutdown(&self) {
        // Concurrently: hundreds of snapshots in sequence would take longer than the invoker waits.
        let mut ending = JoinSet::new();
        for tree in self.forest.trees() {
            ending.spawn(async move { tree.end().await });
        }
        ending.join_all().await;
    }
}

impl ForkExecutor {
    /// Starts a fresh process, for a function that cannot be frozen.
    async fn spawn(
        &self,
        tree: &Tree,
        context: &StartContext,
        logs: &mut Logs,
    ) -> Result<(Arc<dyn Instance>, Duration), Fault> {
        let (cell, started) = self.bring_up(tree).run(context, logs).await?;
        let instance = HandlerInstance::new(context.id, cell, Arc::clone(&tree.artefact)).await;
        Ok((Arc::new(instance), started))
    }

    /// Takes a prewarmed runtime for a function whose snapshot was released: that is faster than making a
    /// snapshot. `None` if no runtime fits.
    async fn prewarmed(
        &self,
        tree: &Arc<Tree>,
        context: &StartContext,
        began: Instant,
    ) -> Option<Result<Started, StartFailure>> {
        let mut logs = Logs::new(context.max_logs);
        let cell = match self.bring_up(tree).run_prewarmed(context, &mut logs).await {
            Ok(cell) => cell?,
            Err(fault) => {
                tree.not_started(&fault);
                return Some(Err(StartFailure { fault, took: began.elapsed(), logs: finish(logs) }));
            }
        };
        self.ground.tally.fresh.one();
        tree.started_fresh();
        let instance = HandlerInstance::new(context.id, cell, Arc::clone(&tree.artefact)).await;
        Some(Ok(Started {
            instance: Arc::new(instance),
            started: Duration::ZERO,
            restored: None,
            initialised: began.elapsed(),
            logs: finish(logs),
        }))
    }

    fn bring_up<'a>(&'a self, tree: &'a Tree) -> BringUp<'a> {
        let Ground { house, stems, .. } = &*self.ground;
        let (function, artefact, runtime) = (&*tree.function, &*tree.artefact, &*tree.runtime);
        BringUp { house, stems, function, artefact, runtime, zygote: false, background: None }
    }
}

fn finish(logs: Logs) -> Vec<LogLine> {
    logs.finish().0
}
