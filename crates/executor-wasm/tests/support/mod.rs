//! An executor with a folder of its own, and functions for it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test program uses a part, and fails by panicking"
)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use flint_executor::{
    Body, Call, CallEnd, Executor, Fault, FunctionSource, Instance, Invoked, PrepareError, Prepared, Reply,
    StartContext,
};
use flint_executor_wasm::{WasmConfig, WasmExecutor, Workshop, host::Services};
use flint_model::{
    ActivationId, Annotations, ByteSize, Code, CodeFormat, Contract, Digest, Function, FunctionLimits,
    InstanceId, Isolation, Network, Parameters, Reuse, Start, Strategy, Timestamp, Version,
};
use flint_runtimes::{HouseConfig, discover::Runtimes};
use flint_sandbox::{Launcher, LauncherConfig};
use serde_json::Value;

/// The time limit of calls that are to succeed.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);
/// The time limit of calls that are to exceed it.
pub(crate) const SHORT: Duration = Duration::from_millis(1000);

/// It compiles in this process; [`Sandboxed`] as a server does.
pub(crate) struct House {
    pub(crate) executor: Arc<WasmExecutor>,
    pub(crate) folder: tempfile::TempDir,
}

/// A house whose code is compiled and initialised in sandboxes. To be ended with [`Self::end`].
pub(crate) struct Sandboxed {
    pub(crate) house: Arc<House>,
    pub(crate) launcher: Launcher,
}

impl Sandboxed {
    pub(crate) async fn new() -> Self {
        Self::with(WasmConfig::default(), 1).await
    }

    pub(crate) async fn with(config: WasmConfig, concurrent_builds: usize) -> Self {
        Self::over(None, config, |builds| builds.concurrent_builds = concurrent_builds).await
    }

    /// What it compiles and unpacks outlives it where it has a folder for that.
    pub(crate) async fn over(
        wasm: Option<&Path>,
        config: WasmConfig,
        adjust: impl FnOnce(&mut HouseConfig),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().file_name().unwrap().to_string_lossy();
        let mark = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "");
        let mut settings = LauncherConfig::new(folder.path().join("sandboxes"), format!("w{mark}"));
        settings.exe = Some(env!("CARGO_BIN_EXE_flint-executor-wasm-test-launcher").into());
        let launcher = Launcher::spawn(settings).await.unwrap();
        let within = |name: &str| folder.path().join(name);
        let mut builds = HouseConfig::new(within("artefacts"), within("runtimes"), launcher.clone());
        builds.found = Some(Runtimes::on_path());
        adjust(&mut builds);
        let builds = Arc::new(flint_runtimes::House::open(builds).await.unwrap());
        let config = WasmConfig { instances: config.instances.or(Some(16)), ..config };
        let services = Arc::new(Services::new(None).unwrap());
        let workshop = Workshop::Sandboxes(builds);
        let wasm = wasm.map_or_else(|| within("wasm"), Path::to_owned);
        let executor = Arc::new(WasmExecutor::new(config, &wasm, services, workshop));
        Self { house: Arc::new(House { executor, folder }), launcher }
    }

    /// Sandboxes at this moment.
    pub(crate) async fn sandboxes(&self) -> usize {
        let launcher = self.launcher.pid().await.unwrap();
        let is_its_own = |entry: std::fs::DirEntry| -> Option<()> {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name, which may contain anything, is in parentheses.
            let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
            let (state, parent) = (rest.next()?, rest.next()?);
            (state != "Z" && parent.parse() == Ok(launcher)).then_some(())
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(is_its_own).count()
    }

    /// Waits until there are that many.
    pub(crate) async fn until_sandboxes(&self, wanted: usize) {
        let patience = Instant::now() + AMPLE;
        while self.sandboxes().await != wanted {
            assert!(Instant::now() < patience, "{} sandboxes, not {wanted}", self.sandboxes().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn end(self) {
        self.until_sandboxes(0).await;
        self.house.executor.shutdown().await;
        self.launcher.shutdown().await;
    }
}

impl std::ops::Deref for Sandboxed {
    type Target = House;

    fn deref(&self) -> &House {
        &self.house
    }
}

impl House {
    pub(crate) fn new() -> Self {
        Self::with(WasmConfig::default())
    }

    /// A small pool: address space is dear where tests run side by side.
    pub(crate) fn with(config: WasmConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = WasmConfig { instances: config.instances.or(Some(64)), ..config };
        let executor = open(config, folder.path());
        Self { executor, folder }
    }

    pub(crate) async fn prepare(&self, source: FunctionSource) -> Result<Arc<Prepared>, PrepareError> {
        self.executor.prepare(source, &|_| {}).await
    }

    pub(crate) async fn start(&self, contract: Contract, code: &[u8]) -> Arc<dyn Instance> {
        self.start_with(contract, code, FunctionLimits::default()).await
    }

    pub(crate) async fn start_with(
        &self,
        contract: Contract,
        code: &[u8],
        limits: FunctionLimits,
    ) -> Arc<dyn Instance> {
        let prepared = self.prepare(function(contract, code, limits)).await.unwrap();
        self.executor.start(&prepared, context()).await.map(|started| started.instance).unwrap()
    }

    /// A function of another namespace.
    pub(crate) async fn start_elsewhere(&self, contract: Contract, code: &[u8]) -> Arc<dyn Instance> {
        let mut source = function(contract, code, limits());
        Arc::get_mut(&mut source.function).unwrap().path = "other/wasm".parse().unwrap();
        let prepared = self.prepare(source).await.unwrap();
        self.executor.start(&prepared, context()).await.map(|started| started.instance).unwrap()
    }

    /// Waits until no guest is left: one that was computing at its deadline goes as soon as it gives way, which
    /// may be after its call's end.
    pub(crate) async fn until_no_guest(&self) {
        let patience = Instant::now() + AMPLE;
        while self.executor.live() > 0 {
            assert!(Instant::now() < patience, "{} places were not given back", self.executor.live());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) async fn refused(&self, contract: Contract, code: &[u8]) -> String {
        let source = function(contract, code, FunctionLimits::default());
        match self.prepare(source).await {
            Err(PrepareError::Code(why)) => why,
            other => panic!("not refused as code: {other:?}"),
        }
    }
}

pub(crate) fn open(config: WasmConfig, folder: &Path) -> Arc<WasmExecutor> {
    let services = Arc::new(Services::new(None).unwrap());
    Arc::new(WasmExecutor::new(config, folder, services, Workshop::Here))
}

/// An executor whose functions have these services.
pub(crate) fn with_services(services: Services) -> House {
    with_config(WasmConfig::default(), services)
}

pub(crate) fn with_config(config: WasmConfig, services: Services) -> House {
    let folder = tempfile::tempdir().unwrap();
    let config = WasmConfig { instances: config.instances.or(Some(8)), ..config };
    let executor = Arc::new(WasmExecutor::new(config, folder.path(), Arc::new(services), Workshop::Here));
    House { executor, folder }
}

pub(crate) fn function(contract: Contract, code: &[u8], limits: FunctionLimits) -> FunctionSource {
    let function = Function {
        path: "guest/wasm".parse().unwrap(),
        version: Version::FIRST,
        revision: 1,
        kind: "wasm".parse().unwrap(),
        code: Code {
            digest: Digest::from_bytes(*blake3::hash(code).as_bytes()),
            size: ByteSize::bytes(code.len() as u64),
            format: CodeFormat::Executable,
        },
        main: None,
        image: None,
        contract,
        strategy: Strategy {
            isolation: Isolation::Wasm,
            start: Start::Instantiate,
            reuse: Reuse::Never,
            concurrency: std::num::NonZeroU32::MIN,
        },
        network: Network::None,
        limits,
        parameters: Parameters::default(),
        annotations: Annotations::default(),
        publish: false,
        restored: None,
        asked: flint_model::StrategyRequest::default(),
        snapshot: flint_model::SnapshotOptions::default(),
        wasm: flint_model::WasmOptions::default(),
        updated: Timestamp::now(),
    };
    FunctionSource { function: Arc::new(function), code: Bytes::copy_from_slice(code) }
}

pub(crate) fn context() -> StartContext {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    StartContext {
        id: InstanceId(NEXT.fetch_add(1, Ordering::Relaxed)),
        namespace: None,
        activation: None,
        transaction: "test".into(),
        deadline: Instant::now() + AMPLE,
        environment: vec![("GREETING".into(), "hé".into())],
        max_logs: ByteSize::mib(1),
    }
}

pub(crate) fn json_call(body: impl Into<Bytes>, limit: Duration) -> Call {
    Call {
        activation: ActivationId::generate(),
        transaction: "test".into(),
        deadline: Instant::now() + limit,
        deadline_at: Timestamp::from(SystemTime::now() + limit),
        head: None,
        body: Body::Full(body.into()),
        api_key: None,
        max_result: ByteSize::mib(1),
        max_logs: ByteSize::mib(1),
    }
}

/// A call that is over.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) result: Result<Reply, Fault>,
    pub(crate) end: CallEnd,
}

impl Done {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match &self.result {
            Ok(reply) => serde_json::from_slice(&reply.body).expect("JSON"),
            Err(fault) => panic!("{fault:?}; logs: {:#?}", self.end.logs),
        }
    }

    #[track_caller]
    pub(crate) fn fault(&self) -> &Fault {
        self.result.as_ref().expect_err("the call was to fail")
    }

    /// What its developer is told.
    #[track_caller]
    pub(crate) fn told(&self) -> &str {
        match self.fault() {
            Fault::Developer { message } => message,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.end.logs.iter().map(|line| format!("{:?} {}", line.stream, line.text)).collect()
    }
}

#[track_caller]
pub(crate) fn done(invoked: Invoked) -> Done {
    match invoked {
        Invoked::Done { result, end } => Done { result, end },
        Invoked::Streaming { head, .. } => panic!("a stream came: {head:?}"),
    }
}

pub(crate) async fn call(instance: &Arc<dyn Instance>, op: &str) -> Done {
    done(instance.invoke(json_call(format!(r#"{{"op":"{op}"}}"#), AMPLE)).await)
}

/// What is in `tests/modules`, as the bytes that a toolchain would make.
pub(crate) fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// Memory for calls that ask for more.
pub(crate) const LITTLE: ByteSize = ByteSize::mib(32);

pub(crate) fn limits() -> FunctionLimits {
    FunctionLimits { memory: LITTLE, ..FunctionLimits::default() }
}

/// A module of contract `wasm-core` with `more` at its top level, that answers `{}` after its call has run `during`.
pub(crate) fn core(more: &str, during: &str) -> Vec<u8> {
    wat(&format!(
        r#"(module
            (memory (export "memory") 1)
            (data (i32.const 16) "{{}}")
            {more}
            (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
            (func $the_call (export "flint_call") (param i32 i32) (result i64)
                {during}
                (i64.const 0x1000000002)))"#
    ))
}

/// Something that goes well, to see that it still does.
pub(crate) async fn all_is_well(house: &House) {
    let instance = house.start_with(Contract::WasmCore, &core("", ""), limits()).await;
    assert_eq!(done(instance.invoke(json_call("{}", AMPLE)).await).json(), serde_json::json!({}));
}

/// A command that does nothing.
pub(crate) const HELLO_COMPONENT: &str = r#"(component
    (core module $m (func (export "run") (result i32) (i32.const 0)))
    (core instance $i (instantiate $m))
    (func $run (result (result)) (canon lift (core func $i "run")))
    (instance $exported (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $exported)))"#;
