//! The executor: what the rest of Flint sees of this crate.

use std::{
    num::NonZeroU32,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use flint_executor::{
    Capability, Executor, Fault, FunctionSource, Instance, PrepareError, Prepared, PrewarmTarget, Progress,
    RuntimeKind, StartContext, StartFailure, Started, link::Init,
};
use flint_model::{ByteSize, Contract, Function, Isolation, LogLine, Start, Strategy};
use flint_sandbox::{Launcher, ProbeState};
use serde_json::Value;

use crate::{
    config::{ProcessConfig, ProcessError},
    handler::{self, Cell, HandlerInstance},
    house::House,
    prepare::{
        CODE,
        artefact::{Artefact, SharedArtefact, Shelf},
    },
    process::{command, logs::Logs},
    runtimes::{Engine, Runtime, Runtimes},
    server,
    shims::Shims,
    stdio::StdioInstance,
    stems::{self, StemKey, Stems},
};

/// Beside an artefact's code once it is known to load.
const LOADS: &str = "loads";

/// Runs functions as sandboxed processes.
pub struct ProcessExecutor {
    house: Arc<House>,
    stems: Stems,
}

impl ProcessExecutor {
    /// Finds the host's runtimes and lays out the shims. Takes some tenths of a second.
    pub async fn new(config: ProcessConfig) -> Result<Self, ProcessError> {
        let (artefacts, shims) = (config.artefacts_dir.clone(), config.runtimes_dir.clone());
        let set_up = tokio::task::spawn_blocking(move || {
            let no_shelf =
                |error| ProcessError::new("cannot use the folder for prepared functions", &artefacts, error);
            let shelf = Shelf::open(&artefacts).map_err(no_shelf)?;
            let no_shims = |error| ProcessError::new("cannot lay out the runtime shims in", &shims, error);
            let shims = Shims::lay_out(&shims).map_err(no_shims)?;
            Ok((shelf, shims, Runtimes::discover()))
        });
        let (shelf, shims, runtimes) = set_up.await.map_err(|error| {
            ProcessError::new("cannot look for runtimes on", Path::new("PATH"), error.into())
        })??;
        let house = House::new(config, shims, runtimes, shelf);
        Ok(Self { house: Arc::new(house), stems: Stems::new() })
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
            && strategy.concurrency == NonZeroU32::MIN
            && matches!(contract, Contract::Handler | Contract::Stdio | Contract::Http | Contract::OpenWhisk)
    }

    fn capabilities(&self) -> Vec<Capability> {
        let isolation = flint_sandbox::probe().into_iter().map(|probe| Capability {
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
        self.house.runtimes.kinds()
    }

    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        let (artefact, took) = self.house.workshop().prepare(&source, progress).await?;
        self.house.hold(&artefact);
        let loads = artefact.folder.join(LOADS);
        let (steps, function) = (artefact.record.steps.clone(), source.function);
        let prepared = Arc::new(Prepared::plain(function, steps, took, Box::new(artefact)));
        if self.house.config.validate && !loads.exists() {
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
        self.stems.keep(targets, &self.house).await;
    }

    async fn prewarmed_memory(&self) -> ByteSize {
        self.stems.memory().await
    }

    async fn collect(&self, keep: &[Arc<Function>]) {
        self.house.collect(keep).await;
    }

    async fn shutdown(&self) {
        self.stems.end().await;
    }
}

impl ProcessExecutor {
    /// Loads the code once and throws the instance away: finds syntax errors and a missing entry point, at the price of a cold
    /// start. What the code does when it is loaded, it does.
    pub async fn validate(&self, prepared: &Arc<Prepared>) -> Result<(), PrepareError> {
        if prepared.function.contract != Contract::Handler {
            return Ok(());
        }
        let environment = prepared.function.parameters.environment().collect();
        let context = StartContext {
            id: flint_model::InstanceId(0),
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
        match (function.contract, &artefact.engine) {
            (Contract::Handler, Engine::Language(runtime)) => {
                self.bring_up_handler(function, artefact, runtime, context, began, logs).await
            }
            (Contract::Stdio, _) => {
                let mut spec = command::for_program(context.id.to_string(), function, artefact);
                command::set_all(&mut spec.env, self.house.environment(&context));
                let instance =
                    StdioInstance::new(context.id, self.launcher().clone(), spec, Arc::clone(artefact));
                Ok((Arc::new(instance), began.elapsed()))
            }
            (Contract::Http | Contract::OpenWhisk, _) => {
                let environment: Vec<_> = self.house.environment(&context).collect();
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
                let (instance, started) = server.bring_up(self.launcher(), began, logs).await?;
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

    async fn bring_up_handler(
        &self,
        function: &Function,
        artefact: &SharedArtefact,
        runtime: &Arc<Runtime>,
        context: StartContext,
        began: Instant,
        logs: &mut Logs,
    ) -> Result<(Arc<dyn Instance>, Duration), Fault> {
        let (cell, started) = match self.stem(function, artefact, runtime).await {
            Some(cell) => (cell, Duration::ZERO),
            None => {
                let command = self.house.command(runtime, function.limits.memory);
                let command = tokio::time::timeout_at(context.deadline.into(), command).await;
                let command = command.map_err(|_| Fault::Deadline)??;
                let spec = command.for_function(context.id.to_string(), function, artefact);
                let cell = handler::launch(self.launcher(), &spec, context.deadline, logs).await?;
                (cell, began.elapsed())
            }
        };
        let path = &function.path;
        let name = path.local();
        let version = function.version.to_string();
        let init = Init {
            code: &artefact.record.code,
            main: function.main.as_deref().or(artefact.record.main.as_deref()),
            env: self.house.environment(&context).map(|(key, value)| (key, Value::String(value))).collect(),
            namespace: path.namespace.as_str(),
            name: &name,
            version: &version,
        };
        let cell = handler::load(cell, &init, context.deadline, logs).await?;
        Ok((Arc::new(HandlerInstance::new(context.id, cell, Arc::clone(artefact)).await), started))
    }

    /// A runtime that is up already, with the function's code attached.
    async fn stem(&self, function: &Function, artefact: &Artefact, runtime: &Runtime) -> Option<Cell> {
        // A function's own archive of classes is worth more than a runtime that is up without it.
        if !stems::fits(function) {
            return None;
        }
        let key = StemKey { runtime: runtime.identity(), memory: function.limits.memory };
        let cell = self.stems.take(&key)?;
        match cell.sandbox.attach(&artefact.code_folder(), CODE).await {
            Ok(()) => Some(cell),
            Err(error) => {
                tracing::warn!(%error, "a prewarmed runtime could not take the function's code");
                None
            }
        }
    }

    fn launcher(&self) -> &Launcher {
        &self.house.config.launcher
    }
}

fn finish(logs: Logs) -> Vec<LogLine> {
    logs.finish().0
}
