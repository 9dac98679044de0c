//! Measures the executor alone, without a server: instantiate, call, drop.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{Body, Call, Executor, FunctionSource, Invoked, Prepared, StartContext};
use flint_executor_wasm::{KIND, WasmConfig, WasmExecutor, Workshop, host::Services};
use flint_lab::{Arm, ArmError, ArmPlan, ArmRounds, Connection, Load, NoiseWatch, RunFolder, run_rounds};
use flint_model::{
    ActivationId, Annotations, ByteSize, Code, CodeFormat, Contract, Digest, Function, FunctionLimits,
    InstanceId, Isolation, Network, Parameters, Reuse, SnapshotOptions, Start, Strategy, StrategyRequest,
    Timestamp, Version, WasmOptions,
};

/// Longer than any of these calls.
const AMPLE: Duration = Duration::from_secs(60);

/// An executor of the benchmark's own.
pub(super) fn open(folder: &Path, instances: u32) -> anyhow::Result<Arc<WasmExecutor>> {
    let config = WasmConfig { instances: Some(instances), ..WasmConfig::default() };
    let services = Arc::new(Services::new(None)?);
    Ok(Arc::new(WasmExecutor::new(config, folder, services, Workshop::Here)))
}

/// Compiles a function.
pub(super) async fn prepare(
    executor: &WasmExecutor,
    name: &str,
    contract: Contract,
    code: Vec<u8>,
) -> anyhow::Result<Arc<Prepared>> {
    let function = Function {
        path: format!("guest/{name}").parse().context("naming the function")?,
        version: Version::FIRST,
        revision: 1,
        kind: KIND.parse().context("naming the runtime")?,
        code: Code {
            digest: Digest::from_bytes(*blake3::hash(&code).as_bytes()),
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
        limits: FunctionLimits::default(),
        parameters: Parameters::default(),
        annotations: Annotations::default(),
        publish: false,
        restored: None,
        asked: StrategyRequest::default(),
        snapshot: SnapshotOptions::default(),
        wasm: WasmOptions::default(),
        updated: Timestamp::now(),
    };
    let source = FunctionSource { function: Arc::new(function), code: code.into() };
    Ok(executor.prepare(source, &|_| {}).await?)
}

/// A call with this body.
pub(super) fn call(body: &Bytes) -> Call {
    Call {
        activation: ActivationId::generate(),
        transaction: "bench".into(),
        deadline: Instant::now() + AMPLE,
        deadline_at: Timestamp::from(SystemTime::now() + AMPLE),
        head: None,
        body: Body::Full(body.clone()),
        api_key: None,
        max_result: ByteSize::mib(1),
        max_logs: ByteSize::mib(1),
    }
}

/// The context of a start.
pub(super) fn context() -> StartContext {
    StartContext {
        id: InstanceId(1),
        namespace: None,
        activation: None,
        transaction: "bench".into(),
        deadline: Instant::now() + AMPLE,
        environment: Vec::new(),
        max_logs: ByteSize::mib(1),
    }
}

/// A prepared function, called without a server.
#[derive(Clone)]
pub(super) struct EngineArm {
    pub(super) executor: Arc<WasmExecutor>,
    pub(super) prepared: Arc<Prepared>,
    pub(super) body: Bytes,
    pub(super) answer: Bytes,
}

impl EngineArm {
    /// Its response, verified or not.
    pub(super) async fn answered(&self) -> Result<Bytes, ArmError> {
        let started = self.executor.start(&self.prepared, context()).await;
        let instance = started.map_err(|failure| ArmError::WrongAnswer(failure.to_string()))?.instance;
        match instance.invoke(call(&self.body)).await {
            Invoked::Done { result: Ok(reply), .. } => Ok(reply.body),
            Invoked::Done { result, end } => {
                Err(ArmError::WrongAnswer(format!("{result:?}; logs: {:?}", end.logs)))
            }
            Invoked::Streaming { .. } => Err(ArmError::WrongAnswer("it streams".into())),
        }
    }
}

#[async_trait]
impl Arm for EngineArm {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Connection for EngineArm {
    async fn call(&mut self) -> Result<(), ArmError> {
        let answer = self.answered().await?;
        match answer == self.answer {
            true => Ok(()),
            false => Err(ArmError::WrongAnswer(String::from_utf8_lossy(&answer).chars().take(300).collect())),
        }
    }
}

/// An arm of the engine alone, and by how many callers it is driven.
pub(super) struct Driven {
    pub(super) name: String,
    pub(super) function: String,
    pub(super) arm: EngineArm,
    pub(super) callers: &'static [usize],
}

/// Threads of the callers; a lone caller leaves the others idle.
const THREADS: usize = 2;

/// Drives arms with each of their numbers of callers in turn, round by round.
pub(super) fn drive(
    arms: &[Driven],
    (rounds, round): (usize, Duration),
    folder: &RunFolder,
    noise: &mut NoiseWatch,
) -> anyhow::Result<Vec<ArmRounds>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("starting the threads of the callers")?;
    let plan = |driven: &Driven, concurrency| ArmPlan {
        name: driven.name.clone(),
        function: Some(driven.function.clone()),
        arm: Box::new(driven.arm.clone()),
        load: Load { concurrency, duration: round, warm_up: 20 },
        process: None,
    };
    let plans = arms
        .iter()
        .flat_map(|driven| driven.callers.iter().map(|&callers| plan(driven, callers)))
        .collect();
    let how = (rounds, Duration::from_millis(50));
    Ok(runtime.block_on(run_rounds("the engine", plans, how, folder, noise, &|_, _, _| {}))?)
}
