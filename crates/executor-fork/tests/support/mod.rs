//! An executor in a temporary folder, and functions for it.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "each test program uses a part, and fails by panicking"
)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{
    Body, Call, Executor, FunctionSource, Instance, Invoked, Prepared, Reply, RuntimeKind, SnapshotCounts,
    StartContext, Started,
    conformance::{Language, Subject},
};
use flint_executor_fork::{ForkConfig, ForkExecutor};
use flint_model::{
    ActivationId, Annotations, ByteSize, Code, CodeFormat, Contract, Digest, Function, FunctionLimits,
    InstanceId, Isolation, NamespaceName, Network, Parameters, Reuse, Start, Strategy, Timestamp, Version,
    WarmupEvent,
};
use flint_runtimes::{House as Shared, HouseConfig, Nursery, discover::Runtimes, stems::Stems};
use flint_sandbox::{Launcher, LauncherConfig};

/// An executor whose files go with it.
pub struct House {
    pub kinds: Vec<RuntimeKind>,
    /// Runtimes that are up; none, unless a test keeps some.
    pub stems: Arc<Stems>,
    pub nursery: Arc<Nursery>,
    pub executor: Arc<ForkExecutor>,
    pub launcher: Launcher,
    mark: String,
    pub folder: tempfile::TempDir,
}

impl House {
    pub async fn new() -> Self {
        Self::with(ForkConfig::default()).await
    }

    pub async fn with(fork: ForkConfig) -> Self {
        Self::with_gates(fork, None).await
    }

    pub async fn with_gates(fork: ForkConfig, gates: Option<flint_gate::Gates>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = folder
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "");
        let mark = format!("t{name}");
        let mut launcher = LauncherConfig::new(folder.path().join("sandboxes"), mark.clone());
        launcher.exe = Some(env!("CARGO_BIN_EXE_flint-executor-fork-test-launcher").into());
        let launcher = Launcher::spawn(launcher).await.unwrap();
        let (artefacts, runtimes) = (folder.path().join("artefacts"), folder.path().join("runtimes"));
        let mut config = HouseConfig::new(artefacts, runtimes, launcher.clone());
        config.gates = gates;
        config.found = Some(Runtimes::on_path());
        let house = Arc::new(Shared::open(config).await.unwrap());
        let kinds = house.kinds();
        let (stems, nursery) = (Arc::default(), Arc::new(Nursery { house: Arc::clone(&house) }));
        let executor = Arc::new(ForkExecutor::new(house, Arc::clone(&stems), fork));
        Self { kinds, stems, nursery, executor, launcher, mark, folder }
    }

    /// As after a restart of Flint: a new executor over the same folders.
    pub async fn restart(&mut self, fork: ForkConfig) {
        self.executor.shutdown().await;
        let mut config = HouseConfig::new(
            self.folder.path().join("artefacts"),
            self.folder.path().join("runtimes"),
            self.launcher.clone(),
        );
        config.found = Some(Runtimes::on_path());
        let house = Arc::new(Shared::open(config).await.unwrap());
        self.executor = Arc::new(ForkExecutor::new(house, Arc::clone(&self.stems), fork));
    }

    /// An instance of what was prepared.
    pub async fn start_prepared(&self, prepared: &Arc<Prepared>) -> Started {
        match self.executor.start(prepared, context()).await {
            Ok(started) => started,
            Err(failure) => panic!("{failure}; logs: {:#?}", failure.logs),
        }
    }

    /// The JSON answer of a new instance, which is stopped afterwards.
    pub async fn answer_of(&self, prepared: &Arc<Prepared>, body: &str) -> serde_json::Value {
        let instance = self.start_prepared(prepared).await.instance;
        let answer = serde_json::from_str(&text(instance.invoke(json(body)).await)).unwrap();
        instance.stop().await;
        answer
    }

    pub fn counts(&self) -> SnapshotCounts {
        self.executor.snapshots().unwrap()
    }

    /// The shims that run in this house's sandboxes, by process id, the eldest first.
    pub fn shims(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            if read("cgroup").contains(&self.mark) && read("cmdline").contains("/runtime/") {
                let stat = read("stat");
                // The 22nd field, of which two are before the name's end.
                let began =
                    stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(19)?.parse::<u64>().ok());
                found.push((began.unwrap_or(u64::MAX), pid));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, pid)| pid).collect()
    }

    /// For the conformance suite.
    pub fn subject(&self, kind: flint_model::Kind, language: Language) -> Subject {
        let folders = ["artefacts", "runtimes", "sandboxes"].map(|name| self.folder.path().join(name)).into();
        let (executor, mark) = (self.executor.clone(), self.mark.clone());
        Subject { executor, kind, language, strategy: strategy(), folders, mark }
    }

    pub fn artefacts(&self) -> std::path::PathBuf {
        self.folder.path().join("artefacts")
    }

    pub async fn prepare(&self, source: FunctionSource) -> Arc<Prepared> {
        self.executor.prepare(source, &|_| {}).await.unwrap()
    }

    pub async fn start(&self, source: FunctionSource) -> Arc<dyn Instance> {
        self.started(source).await.instance
    }

    pub async fn started(&self, source: FunctionSource) -> Started {
        let prepared = self.prepare(source).await;
        match self.executor.start(&prepared, context()).await {
            Ok(started) => started,
            Err(failure) => panic!("{failure}; logs: {:#?}", failure.logs),
        }
    }

    pub async fn end(self) {
        self.executor.shutdown().await;
        self.stems.end().await;
        self.launcher.clone().shutdown().await;
    }
}

pub fn context() -> StartContext {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    StartContext {
        id: InstanceId(NEXT.fetch_add(1, Ordering::Relaxed)),
        namespace: NamespaceName::parse("guest").ok(),
        activation: Some(ActivationId::generate()),
        transaction: "test".into(),
        deadline: Instant::now() + Duration::from_secs(120),
        environment: vec![],
        max_logs: ByteSize::mib(1),
    }
}

pub fn strategy() -> Strategy {
    let concurrency = std::num::NonZeroU32::MIN;
    Strategy { isolation: Isolation::Process, start: Start::Fork, reuse: Reuse::Warm, concurrency }
}

/// A function of this code.
pub fn function(
    kind: &str,
    contract: Contract,
    format: CodeFormat,
    code: impl Into<Bytes>,
) -> FunctionSource {
    let code = code.into();
    let digest = Digest::from_bytes(*blake3::hash(&code).as_bytes());
    let function = Function {
        path: "guest/test".parse().unwrap(),
        version: Version::FIRST,
        revision: 1,
        kind: kind.parse().unwrap(),
        code: Code { digest, size: ByteSize::bytes(code.len() as u64), format },
        main: None,
        image: None,
        contract,
        strategy: strategy(),
        network: Network::None,
        limits: FunctionLimits::default(),
        parameters: Parameters::default(),
        annotations: Annotations::default(),
        publish: false,
        restored: None,
        asked: flint_model::StrategyRequest::default(),
        snapshot: flint_model::SnapshotOptions::default(),
        wasm: flint_model::WasmOptions::default(),
        updated: Timestamp::now(),
    };
    FunctionSource { function: Arc::new(function), code }
}

pub fn handler(kind: &str, code: &str) -> FunctionSource {
    function(kind, Contract::Handler, CodeFormat::Source, code.to_owned())
}

/// A function that is warmed up with these arguments.
pub fn warmed(source: FunctionSource, events: &[&str]) -> FunctionSource {
    adjusted(source, |function| {
        let events = events.iter().map(|event| WarmupEvent::Params(serde_json::from_str(event).unwrap()));
        function.snapshot.warmup = events.collect();
    })
}

/// Waits (up to a minute) until `condition` holds.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The same with other limits or another entry point.
pub fn adjusted(source: FunctionSource, adjust: impl FnOnce(&mut Function)) -> FunctionSource {
    let mut function = (*source.function).clone();
    adjust(&mut function);
    FunctionSource { function: Arc::new(function), code: source.code }
}

pub fn call(body: impl Into<Body>) -> Call {
    let limit = Duration::from_secs(120);
    Call {
        activation: ActivationId::generate(),
        transaction: "test".into(),
        deadline: Instant::now() + limit,
        deadline_at: Timestamp::from(std::time::SystemTime::now() + limit),
        head: None,
        body: body.into(),
        api_key: None,
        max_result: ByteSize::mib(1),
        max_logs: ByteSize::mib(10),
    }
}

pub fn json(text: &str) -> Call {
    call(Bytes::copy_from_slice(text.as_bytes()))
}

/// The complete answer of a call that went well.
pub fn answer(invoked: Invoked) -> Reply {
    match invoked {
        Invoked::Done { result: Ok(reply), .. } => reply,
        Invoked::Done { result: Err(fault), end } => panic!("{fault:?}; logs: {:#?}", end.logs),
        Invoked::Streaming { .. } => panic!("a stream"),
    }
}

pub fn text(invoked: Invoked) -> String {
    String::from_utf8(answer(invoked).body.to_vec()).unwrap()
}
