//! The executor `process`, this crate's interface to the rest of Flint.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use flint_executor::{
    BRING_UP, Capability, Executor, Fault, FunctionSource, Instance, PrepareError, Prepared, PrewarmTarget,
    PrewarmedMemory, Progress, RuntimeKind, StartContext, StartFailure, Started,
};
use flint_model::{ByteSize, Contract, Function, FunctionPath, Isolation, LogLine, Reuse, Start, Strategy};
use flint_runtimes::{
    House, Nursery,
    discover::Engine,
    handler::{BringUp, HandlerInstance, SharedInstance},
    prepare::artefact::SharedArtefact,
    process::{command, logs::Logs},
    stems::Stems,
};
use flint_sandbox::ProbeState;

use crate::{
    actionloop,
    gated::Gated,
    run_request, server,
    stdio::{Place, StdioInstance, Style},
};

/// The name of a file beside an artefact's code, there once the code is known to load.
const LOADS: &str = "loads";

/// Runs functions as sandboxed processes.
pub struct ProcessExecutor {
    house: Arc<House>,
    stems: Arc<Stems>,
    nursery: Arc<Nursery>,
}

impl ProcessExecutor {
    /// Uses a house that other executors may share.
    pub fn new(house: Arc<House>) -> Self {
        let nursery = Arc::new(Nursery { house: Arc::clone(&house) });
        Self { house, stems: Arc::default(), nursery }
    }

    /// The prewarmed runtimes, from which other executors may take too.
    pub fn stems(&self) -> &Arc<Stems> {
        &self.stems
    }
}

#[async_trait]
impl Executor for ProcessExecutor {
    fn name(&self) -> &'static str {
        "process"
    }

    fn handles(&self, strategy: &Strategy, contract: Contract) -> bool {
        strategy.isolation == Isolation::Process
            && strategy.start == Start::Spawn
            && (strategy.concurrency == NonZeroU32::MIN
                || (contract == Contract::Handler && strategy.reuse == Reuse::Warm))
            && matches!(
                contract,
                Contract::Handler
                    | Contract::Stdio
                    | Contract::Skeleton
                    | Contract::ActionLoop
                    | Contract::Http
                    | Contract::OpenWhisk
            )
    }

    fn capabilities(&self) -> Vec<Capability> {
        let isolation = self.house.launcher().probe().into_iter().map(|probe| Capability {
            name: probe.name.to_owned(),
            state: match probe.state {
                ProbeState::Available => Ok(probe.detail),
                ProbeState::Limited => Ok(format!("{} (limited: {})", probe.detail, probe.remedy)),
                ProbeState::Missing => Err(format!("{}: {}", probe.detail, probe.remedy)),
            },
        });
        let runtimes = self
            .kinds()
            .into_iter()
            .map(|kind| Capability { name: format!("runtime {}", kind.kind), state: kind.state });
        isolation.chain(runtimes).collect()
    }

    fn kinds(&self) -> Vec<RuntimeKind> {
        self.house.kinds()
    }

    fn admits(&self, function: &Function) -> Result<(), PrepareError> {
        environment_fits(function)?;
        self.house.admits(function)
    }

    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        let (artefact, took) = self.house.prepare(&source, progress).await?;
        let FunctionSource { function, code } = source;
        // Its files are there: it takes no memory while user code is loaded.
        drop(code);
        let loads = artefact.folder.join(LOADS);
        let steps = artefact.record.steps.clone();
        let prepared = Arc::new(Prepared::plain(function, steps, took, Box::new(artefact)));
        if self.house.config().validate && !loads.exists() {
            progress("loading it once");
            self.validate(&prepared).await?;
            let noted = std::fs::write(&loads, b"");
            noted.map_err(|error| PrepareError::Failed {
                operation: "noting that the function loads".into(),
                detail: error.to_string(),
            })?;
        }
        Ok(prepared)
    }

    async fn start(&self, prepared: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure> {
        let began = Instant::now();
        let mut logs = Logs::new(context.max_logs);
        match self.bring_up(prepared, context, began, &mut logs).await {
            Ok((instance, started)) => Ok(Started {
                instance,
                started,
                restored: None,
                initialised: began.elapsed(),
                logs: finish(logs),
            }),
            Err(fault) => Err(StartFailure { fault, took: began.elapsed(), logs: finish(logs) }),
        }
    }

    async fn prewarm(&self, targets: &[PrewarmTarget]) {
        // Without it, a function's code could not be mounted into a running runtime's sandbox.
        let targets = if self.house.launcher().can_attach() { targets } else { &[] };
        self.stems.keep(targets, &self.nursery).await;
    }

    async fn reclaim(&self, _wanted: ByteSize, _spare: Option<&FunctionPath>) {
        self.house.end_tools().await;
    }

    async fn prewarmed_memory(&self) -> PrewarmedMemory {
        let (stems, of_tools) = (self.stems.memory().await, self.house.tools_memory().await);
        let all = ByteSize::bytes(stems.as_u64() + of_tools.as_u64());
        PrewarmedMemory { all, of_tools, ..PrewarmedMemory::default() }
    }

    async fn measure(&self) {
        self.house.measure().await;
    }

    async fn collect(&self, keep: &[Arc<Function>]) {
        self.house.collect(keep).await;
    }

    async fn shutdown(&self) {
        self.stems.end().await;
        self.house.close_tools().await;
    }
}

impl ProcessExecutor {
    /// Loads the code once and discards the instance, which finds syntax errors and a missing entry point at
    /// the price of a cold start. Side effects of loading do happen.
    pub async fn validate(&self, prepared: &Arc<Prepared>) -> Result<(), PrepareError> {
        if prepared.function.contract != Contract::Handler {
            return Ok(());
        }
        let environment = prepared.function.parameters.environment().collect();
        let context = StartContext {
            id: flint_model::InstanceId(0),
            namespace: None,
            activation: None,
            transaction: "deploy".into(),
            deadline: Instant::now() + prepared.function.limits.timeout,
            environment,
            max_logs: ByteSize::kib(64),
        };
        match self.start(prepared, context).await {
            Ok(started) => {
                started.instance.stop().await;
                Ok(())
            }
            Err(StartFailure { fault: Fault::Platform { cause }, .. }) => {
                Err(PrepareError::Failed { operation: "loading the function once".into(), detail: cause })
            }
            Err(StartFailure { fault: Fault::Developer { message }, .. }) => Err(PrepareError::Code(message)),
            Err(failure) => {
                let last = failure.logs.last().map(|line| format!(" (its last words: {})", line.text));
                Err(PrepareError::Code(format!(
                    "loading the function failed: {}{}",
                    failure.fault,
                    last.unwrap_or_default()
                )))
            }
        }
    }

    async fn bring_up(
        &self,
        prepared: &Arc<Prepared>,
        context: StartContext,
        began: Instant,
        logs: &mut Logs,
    ) -> Result<(Arc<dyn Instance>, Duration), Fault> {
        let Some(artefact) = prepared.artefact.downcast_ref::<SharedArtefact>() else {
            return Err(Fault::Platform { cause: "the function was prepared by another executor".into() });
        };
        let function = &prepared.function;
        let starter = self.house.starter(function, &context);
        match (function.contract, &artefact.engine) {
            (Contract::Handler, Engine::Language(runtime)) => {
                let (house, stems) = (&*self.house, &self.stems);
                let bring_up =
                    BringUp { house, stems, function, artefact, runtime, zygote: false, background: None };
                let (cell, started) = bring_up.run(&context, logs).await?;
                if function.strategy.concurrency > NonZeroU32::MIN {
                    let gate = cell.gate.clone();
                    let instance = SharedInstance::new(context.id, cell, Arc::clone(artefact));
                    let instance: Arc<dyn Instance> = match gate {
                        Some(gate) => Arc::new(Gated { instance, gate }),
                        None => Arc::new(instance),
                    };
                    return Ok((instance, started));
                }
                let instance = HandlerInstance::new(context.id, cell, Arc::clone(artefact)).await;
                Ok((Arc::new(instance), started))
            }
            (Contract::Stdio | Contract::Skeleton, _) => {
                let mut spec = command::for_program(context.id.to_string(), function, artefact);
                command::set_all(&mut spec.env, self.house.environment(function, &context));
                let style = match function.contract {
                    Contract::Skeleton => {
                        command::set_all(&mut spec.env, run_request::identity(function));
                        Style::Skeleton
                    }
                    _ => Style::Stdio,
                };
                let place = match function.strategy.reuse {
                    Reuse::Never => Place::fresh(starter, spec),
                    Reuse::Warm => Place::kept(&starter, spec, context.deadline + BRING_UP).await?,
                };
                let instance = StdioInstance::new(context.id, place, style, Arc::clone(artefact));
                Ok((Arc::new(instance), began.elapsed()))
            }
            (Contract::ActionLoop, _) => {
                let launchers = self.house.launchers();
                let mut spec =
                    command::for_action_loop(context.id.to_string(), function, artefact, launchers);
                command::set_all(&mut spec.env, run_request::identity(function));
                command::set_all(&mut spec.env, self.house.environment(function, &context));
                let (id, deadline) = (context.id, context.deadline);
                let start = actionloop::Start { function, artefact, spec, id, deadline };
                let (instance, started) = start.bring_up(&starter, began, logs).await?;
                Ok((Arc::new(instance), started))
            }
            (Contract::Http | Contract::OpenWhisk, _) => {
                let environment: Vec<_> = self.house.environment(function, &context).collect();
                let mut spec = command::for_program(context.id.to_string(), function, artefact);
                command::set_all(&mut spec.env, environment.clone());
                let server = server::Start {
                    function,
                    artefact,
                    spec,
                    environment,
                    id: context.id,
                    deadline: context.deadline,
                };
                let (instance, started) = server.bring_up(&starter, began, logs).await?;
                Ok((Arc::new(instance), started))
            }
            (contract, _) => Err(Fault::Platform {
                cause: format!(
                    "the executor 'process' does not run contract {contract} with kind {}",
                    function.kind
                ),
            }),
        }
    }
}

/// How many bytes a call may add to a program's arguments and environment: the longest argument, its headers,
/// its secrets.
const BESIDE: usize = 256 << 10;

/// Checks that the function's parameters fit into its environment, for contracts where they are set at the
/// program's start. Shims receive theirs over the link.
fn environment_fits(function: &Function) -> Result<(), PrepareError> {
    if function.contract == Contract::Handler {
        return Ok(());
    }
    let environment: Vec<_> = function.parameters.environment().collect();
    let env = environment.iter().map(|(name, value)| (&**name, &**value));
    flint_sandbox::check_text([], env, BESIDE).map_err(|why| {
        PrepareError::Code(format!(
            "with contract {} parameters for the start are environment variables: {why}",
            function.contract
        ))
    })
}

fn finish(logs: Logs) -> Vec<LogLine> {
    logs.finish().0
}
