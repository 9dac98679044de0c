//! The executor: what the rest of Flint sees of this crate.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use flint_executor::{
    Capability, Executor, Fault, FunctionSource, Instance, PrepareError, Prepared, PrewarmTarget, Progress,
    RuntimeKind, StartContext, StartFailure, Started,
};
use flint_model::{ByteSize, Contract, Function, Isolation, LogLine, Start, Strategy};
use flint_runtimes::{
    House, Nursery,
    discover::Engine,
    handler::{BringUp, HandlerInstance},
    prepare::artefact::SharedArtefact,
    process::{command, logs::Logs},
    stems::Stems,
};
use flint_sandbox::{Launcher, ProbeState};

use crate::{server, stdio::StdioInstance};

/// Beside an artefact's code once it is known to load.
const LOADS: &str = "loads";

/// Runs functions as sandboxed processes.
pub struct ProcessExecutor {
    house: Arc<House>,
    stems: Stems,
    nursery: Arc<Nursery>,
}

impl ProcessExecutor {
    /// Over a house that other executors may share.
    pub fn new(house: Arc<House>) -> Self {
        let nursery = Arc::new(Nursery { house: Arc::clone(&house), zygotes: false });
        Self { house, stems: Stems::default(), nursery }
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
        self.house.kinds()
    }

    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        let (artefact, took) = self.house.prepare(&source, progress).await?;
        let loads = artefact.folder.join(LOADS);
        let (steps, function) = (artefact.record.steps.clone(), source.function);
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
        self.stems.keep(targets, &self.nursery).await;
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
                let (house, stems) = (&*self.house, &self.stems);
                let bring_up = BringUp { house, stems, function, artefact, runtime, zygote: false };
                let (cell, started) = bring_up.run(&context, logs).await?;
                let instance = HandlerInstance::new(context.id, cell, Arc::clone(artefact)).await;
                Ok((Arc::new(instance), started))
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

    fn launcher(&self) -> &Launcher {
        self.house.launcher()
    }
}

fn finish(logs: Logs) -> Vec<LogLine> {
    logs.finish().0
}
