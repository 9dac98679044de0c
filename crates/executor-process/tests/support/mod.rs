//! An executor in a temporary folder, and functions for it.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "each test program uses a part, and fails by panicking"
)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{
    Body, Call, CallHead, Executor, FunctionSource, Instance, Invoked, Prepared, Reply, StartContext,
    Started,
    conformance::{Language, Subject},
};
use flint_executor_process::ProcessExecutor;
use flint_model::{
    ActivationId, Annotations, ByteSize, Code, CodeFormat, Contract, Digest, Function, FunctionLimits,
    InstanceId, Isolation, NamespaceName, Network, Parameters, Reuse, Start, Strategy, Timestamp, Version,
};
use flint_runtimes::{House as Shared, HouseConfig, discover::Runtimes};
use flint_sandbox::{Launcher, LauncherConfig};

/// An executor whose files go with it.
pub struct House {
    pub executor: Arc<ProcessExecutor>,
    pub launcher: Launcher,
    mark: String,
    pub folder: tempfile::TempDir,
}

impl House {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(adjust: impl FnOnce(&mut HouseConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = folder
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "");
        let mark = format!("t{name}");
        let mut launcher = LauncherConfig::new(folder.path().join("sandboxes"), mark.clone());
        launcher.exe = Some(env!("CARGO_BIN_EXE_flint-executor-process-test-launcher").into());
        let launcher = Launcher::spawn(launcher).await.unwrap();
        let (artefacts, runtimes) = (folder.path().join("artefacts"), folder.path().join("runtimes"));
        let mut config = HouseConfig::new(artefacts, runtimes, launcher.clone());
        config.found = Some(Runtimes::on_path());
        adjust(&mut config);
        let executor = Arc::new(ProcessExecutor::new(Arc::new(Shared::open(config).await.unwrap())));
        Self { executor, launcher, mark, folder }
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
    Strategy { isolation: Isolation::Process, start: Start::Spawn, reuse: Reuse::Warm, concurrency }
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

/// The same with other limits or another entry point.
pub fn adjusted(source: FunctionSource, adjust: impl FnOnce(&mut Function)) -> FunctionSource {
    let mut function = (*source.function).clone();
    adjust(&mut function);
    FunctionSource { function: Arc::new(function), code: source.code }
}

/// Calls that [`side_by_side`] allows at once.
pub const AT_ONCE: u32 = 8;

/// The same, for calls that run side by side in one instance.
pub fn side_by_side(source: FunctionSource, main: &str) -> FunctionSource {
    adjusted(source, |function| {
        function.strategy.concurrency = std::num::NonZeroU32::new(AT_ONCE).unwrap();
        function.limits.concurrency = function.strategy.concurrency;
        function.main = Some(main.to_owned());
    })
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

/// Every process below `parent`.
pub fn descendants(parent: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|line| line.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>())
        .collect();
    children.iter().flat_map(|&child| [vec![child], descendants(child)].concat()).collect()
}

/// What `get` finds once there is something.
pub async fn eventually<T>(what: &str, get: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(got) = get() {
            return got;
        }
        assert!(Instant::now() < until, "{what} did not come within a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A zip of these files.
pub fn zipped(files: &[(&str, &str)]) -> Vec<u8> {
    use std::io::Write;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(0o755);
        writer.start_file(*name, options).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

pub fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// A server of contract `http`, in Python.
pub const SERVER: &str = include_str!("../fixtures/server.py");

/// A program of contract `stdio`.
pub fn stdio(script: &str) -> FunctionSource {
    function("native", Contract::Stdio, CodeFormat::Executable, script.to_owned())
}

/// A call that brings a request with the header `x-test`.
pub fn request(method: &str, path: &str, body: impl Into<Body>) -> Call {
    let mut call = call(body);
    let mut headers = http::HeaderMap::new();
    headers.insert("x-test", "1".parse().unwrap());
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let head = CallHead { method: method.parse().unwrap(), path: path.into(), query: query.into(), headers };
    call.head = Some(Box::new(head));
    call
}
