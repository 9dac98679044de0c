//! Measures the executor alone, without a server: instantiate, call, drop.

use std::{
    future::poll_fn,
    io::{self, ErrorKind},
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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
use tokio::runtime::Runtime;

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
    /// See [`Callers`].
    pub(super) is_over: Arc<AtomicBool>,
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
        // Nothing in a quick call waits, and so nothing but this ends a loop of them early.
        if self.is_over.load(Ordering::Relaxed) {
            return Err(io::Error::from(ErrorKind::Interrupted).into());
        }
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

/// Threads of the callers, which end with it; a lone caller leaves the others idle.
pub(super) struct Callers {
    /// `Some` until it is dropped.
    runtime: Option<Runtime>,
    /// Seen by every arm: no more calls.
    is_over: Arc<AtomicBool>,
}

impl Callers {
    pub(super) fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("starting the threads of the callers")?;
        Ok(Self { runtime: Some(runtime), is_over: Arc::default() })
    }

    pub(super) fn is_over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_over)
    }

    /// Drives arms with each of their numbers of callers in turn, round by round.
    pub(super) async fn drive(
        &self,
        arms: &[Driven],
        (rounds, round): (usize, Duration),
        folder: &RunFolder,
        noise: &mut NoiseWatch,
    ) -> anyhow::Result<Vec<ArmRounds>> {
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
        let quietly = |_: &str, _: usize, _: usize| {};
        let mut driven = pin!(run_rounds("the engine", plans, how, folder, noise, &quietly));
        // What it spawns, the callers, runs on these threads.
        let driven = poll_fn(|cx| {
            let _here = self.runtime.as_ref().map(Runtime::enter);
            driven.as_mut().poll(cx)
        });
        Ok(driven.await?)
    }
}

/// Waits for the calls that are being made: the executor's folder may be removed next.
impl Drop for Callers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let runtime = self.runtime.take();
        // A runtime cannot be waited for within another one's task.
        let _ = std::thread::spawn(move || drop(runtime)).join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::wasm::modules::SAMPLES;

    #[tokio::test]
    async fn a_run_that_is_interrupted_makes_no_more_calls() {
        let scratch = tempfile::tempdir().unwrap();
        let executor = open(scratch.path(), 8).unwrap();
        let sample = &SAMPLES[0];
        let code = sample.code().unwrap();
        let prepared = prepare(&executor, sample.name, sample.contract, code).await.unwrap();
        let callers = Callers::start().unwrap();
        let arm = EngineArm {
            executor,
            prepared,
            body: Bytes::from_static(sample.body),
            answer: Bytes::from_static(sample.answer),
            is_over: callers.is_over(),
        };
        let arms = [Driven { name: "a".into(), function: "f".into(), arm, callers: &[2] }];
        let (folder, mut noise) = (RunFolder::none(), NoiseWatch::start());
        // Longer than any test may take.
        let how = (1, AMPLE * 60);
        let driven = callers.drive(&arms, how, &folder, &mut noise);
        assert!(tokio::time::timeout(Duration::from_millis(500), driven).await.is_err());
        drop(callers);
        assert_eq!(Arc::strong_count(&arms[0].arm.executor), 1, "a caller is left");
    }
}
