//! The simulated executor.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{
    Anticipation, Capability, Executor, FunctionSource, PrepareError, Prepared, PrewarmTarget,
    PrewarmedMemory, Progress, RuntimeKind, StartContext, StartFailure, Started,
};
use flint_model::{ByteSize, Contract, Digest, Function, FunctionPath, LogLine, LogStream, Strategy};
use flint_store::{Blobs, StoreError};
use tokio::time::{Instant, sleep};

use super::{Script, instance::SimInstance};

/// The simulated executor.
#[derive(Default)]
pub struct Sim {
    pub(super) seen: Arc<Mutex<Seen>>,
    scripts: Mutex<HashMap<String, Script>>,
    prepare_time: Mutex<Duration>,
    unavailable: Mutex<Option<String>>,
    /// How many further preparations find it busy.
    busy: Mutex<usize>,
    /// Memory of snapshots.
    snapshots: Mutex<ByteSize>,
}

/// What the executor was asked for.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Prepared, by path.
    pub prepared: Vec<String>,
    /// Starts that were begun, by path.
    pub starts: Vec<String>,
    /// Starts in progress.
    pub starting: usize,
    /// The most starts that were in progress at once.
    pub most_starting: usize,
    /// Instances that are there, by path.
    pub live: HashMap<String, usize>,
    /// The most instances of each path that were there at once.
    pub most_live: HashMap<String, usize>,
    /// Calls that ran to their end, by path.
    pub served: HashMap<String, usize>,
    /// Pauses and resumes.
    pub pauses: (usize, usize),
    /// Instances that are being paused, by path.
    pub pausing: Vec<String>,
    /// Anticipated, by path.
    pub anticipated: Vec<String>,
    /// The last targets.
    pub prewarm: Vec<Vec<PrewarmTarget>>,
    /// Whether it was shut down.
    pub shut_down: bool,
    /// Broken promises.
    pub violations: Vec<String>,
}

impl Seen {
    /// Instances that are there.
    pub fn live_instances(&self) -> usize {
        self.live.values().sum()
    }

    /// How often the function was started.
    pub fn starts_of(&self, path: &str) -> usize {
        self.starts.iter().filter(|started| *started == path).count()
    }
}

impl Sim {
    /// An executor whose functions follow [`Script::default`].
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on the function follows `script`; calls in progress go on as they were.
    pub fn script(&self, path: &str, script: Script) {
        lock(&self.scripts).insert(path.to_owned(), script);
    }

    /// How long preparing takes.
    pub fn prepare_time(&self, time: Duration) {
        *lock(&self.prepare_time) = time;
    }

    /// Nothing can be prepared any more.
    pub fn make_unavailable(&self, reason: &str) {
        *lock(&self.unavailable) = Some(reason.to_owned());
    }

    /// Refuses that many further preparations as busy.
    pub fn make_busy(&self, preparations: usize) {
        *lock(&self.busy) = preparations;
    }

    /// Keeps snapshots of this much memory, until some of it is reclaimed.
    pub fn keep_snapshots(&self, memory: ByteSize) {
        *lock(&self.snapshots) = memory;
    }

    /// What it was asked for.
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Violations of the executor contract by its users.
    pub fn violations(&self) -> Vec<String> {
        lock(&self.seen).violations.clone()
    }

    pub(super) fn script_of(&self, path: &str) -> Script {
        lock(&self.scripts).get(path).cloned().unwrap_or_default()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a start in progress.
struct Starting<'a>(&'a Mutex<Seen>);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        lock(self.0).starting -= 1;
    }
}

#[async_trait]
impl Executor for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn handles(&self, _: &Strategy, contract: Contract) -> bool {
        contract == Contract::Handler
    }

    fn capabilities(&self) -> Vec<Capability> {
        Vec::new()
    }

    fn kinds(&self) -> Vec<RuntimeKind> {
        ["nodejs:20", "python:3", "java:21"]
            .into_iter()
            .filter_map(|kind| kind.parse().ok())
            .map(|kind| RuntimeKind {
                kind,
                default: true,
                requires_main: false,
                state: Ok("simulated".to_owned()),
            })
            .collect()
    }

    async fn prepare(&self, source: FunctionSource, _: Progress<'_>) -> Result<Arc<Prepared>, PrepareError> {
        let time = *lock(&self.prepare_time);
        lock(&self.seen).prepared.push(source.function.path.to_string());
        sleep(time).await;
        if let Some(reason) = lock(&self.unavailable).clone() {
            return Err(PrepareError::Unavailable { what: source.function.kind.to_string(), reason });
        }
        let mut busy = lock(&self.busy);
        if let Some(left) = busy.checked_sub(1) {
            *busy = left;
            return Err(PrepareError::Busy("32 builds are waiting already".to_owned()));
        }
        drop(busy);
        Ok(Arc::new(Prepared::plain(source.function, Vec::new(), time, Box::new(()))))
    }

    fn anticipate(&self, prepared: &Prepared) -> Anticipation {
        lock(&self.seen).anticipated.push(prepared.function.path.to_string());
        Box::pin(ready(()))
    }

    async fn start(&self, prepared: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure> {
        let path = prepared.function.path.to_string();
        let script = self.script_of(&path);
        let attempt = {
            let mut seen = lock(&self.seen);
            seen.starts.push(path.clone());
            seen.starting += 1;
            seen.most_starting = seen.most_starting.max(seen.starting);
            seen.starts_of(&path)
        };
        let _starting = Starting(&self.seen);
        let began = Instant::now();
        if script.restore.is_none() || attempt == 1 {
            sleep(script.start).await;
        }
        let up = began.elapsed();
        if let Some(restore) = script.restore {
            sleep(restore).await;
        }
        let took = began.elapsed();
        let log = |text: &str| LogLine { time_us: 0, stream: LogStream::Stdout, text: text.to_owned() };
        if attempt <= script.failing_starts {
            return Err(StartFailure { fault: script.start_fault, took, logs: vec![log("failing")] });
        }
        let restored = script.restore.map(|_| took);
        let started = match restored {
            _ if script.prewarmed => Duration::ZERO,
            Some(_) if attempt == 1 => up,
            Some(_) => took,
            None => took / 2,
        };
        Ok(Started {
            instance: SimInstance::create(context.id, &prepared.function, script, Arc::clone(&self.seen)),
            started,
            restored,
            initialised: took,
            logs: vec![log("loading")],
        })
    }

    async fn prewarm(&self, targets: &[PrewarmTarget]) {
        lock(&self.seen).prewarm.push(targets.to_vec());
    }

    async fn reclaim(&self, wanted: ByteSize, _spare: Option<&FunctionPath>) {
        let mut snapshots = lock(&self.snapshots);
        *snapshots = ByteSize::bytes(snapshots.as_u64().saturating_sub(wanted.as_u64()));
    }

    async fn prewarmed_memory(&self) -> PrewarmedMemory {
        let kept = lock(&self.seen)
            .prewarm
            .last()
            .map_or(0, |targets| targets.iter().map(|target| target.count).sum());
        let snapshots = lock(&self.snapshots).as_u64();
        let all = ByteSize::bytes(ByteSize::mib(40 * kept as u64).as_u64() + snapshots);
        PrewarmedMemory { all, ..PrewarmedMemory::default() }
    }

    async fn collect(&self, _: &[Arc<Function>]) {}

    async fn shutdown(&self) {
        lock(&self.seen).shut_down = true;
    }
}

/// A store in which every address has one byte.
#[derive(Debug, Default)]
pub struct SimBlobs;

#[async_trait]
impl Blobs for SimBlobs {
    async fn put(&self, _: Bytes) -> Result<Digest, StoreError> {
        Ok(Digest::from_bytes([0; 32]))
    }

    async fn get(&self, _: Digest) -> Result<Option<Bytes>, StoreError> {
        Ok(Some(Bytes::from_static(b"x")))
    }

    async fn collect(&self, _: &[Digest], _: Duration) -> Result<usize, StoreError> {
        Ok(0)
    }
}
