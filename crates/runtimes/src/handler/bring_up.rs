//! A function in a runtime of its own: a prewarmed one where one fits, else a fresh one.

use std::time::{Duration, Instant};

use flint_executor::{BRING_UP, Fault, StartContext, link::Init};
use flint_model::Function;
use serde_json::Value;

use super::{Cell, launch, load};
use crate::{
    House,
    discover::Runtime,
    prepare::{CODE, artefact::Artefact},
    process::logs::Logs,
    stems::{self, StemKey, Stems},
};

/// What is to be brought up.
#[derive(Clone, Copy)]
pub struct BringUp<'a> {
    /// What is the same for all functions.
    pub house: &'a House,
    /// Prewarmed runtimes.
    pub stems: &'a Stems,
    /// The function.
    pub function: &'a Function,
    /// Its code.
    pub artefact: &'a Artefact,
    /// What runs it.
    pub runtime: &'a Runtime,
    /// The runtime is to become a snapshot.
    pub zygote: bool,
    /// No call waits for it: for how long at most it is made in the background.
    pub background: Option<Duration>,
}

impl BringUp<'_> {
    /// A runtime with the function loaded, and how long the runtime itself took.
    ///
    /// # Errors
    /// Why it does not come up; nothing of it is left then.
    pub async fn run(self, context: &StartContext, logs: &mut Logs) -> Result<(Cell, Duration), Fault> {
        if let Some(cell) = self.run_prewarmed(context, logs).await? {
            return Ok((cell, Duration::ZERO));
        }
        let began = Instant::now();
        // What the runtime takes to come up is not the function's time.
        let (up_by, to_load) =
            (context.deadline + BRING_UP, context.deadline.saturating_duration_since(began));
        let Self { house, function, artefact, runtime, .. } = self;
        let command = house.command(runtime, function.limits.memory, self.zygote);
        let command = tokio::time::timeout_at(up_by.into(), command).await;
        let command = command.map_err(|_| Fault::Deadline)??;
        let mut spec = command.for_function(context.id.to_string(), function, artefact);
        // What happens before the snapshot happens once, for whatever calls will come: it is to change nothing outside.
        spec.network_closed = self.zygote && !function.snapshot.warmup_network;
        spec.background = self.background;
        let starter = house.starter(function, context);
        let cell = launch(&starter, &spec, command.image, up_by, logs).await?;
        let started = began.elapsed();
        // Not beyond what the start has in all: nobody waits for it then.
        let load_by = (Instant::now() + to_load).min(up_by);
        Ok((self.load(cell, context, load_by, logs).await?, started))
    }

    /// The same in a runtime that is up already; `None` when there is none that fits.
    ///
    /// # Errors
    /// Why the function does not load; nothing of it is left then.
    pub async fn run_prewarmed(self, context: &StartContext, logs: &mut Logs) -> Result<Option<Cell>, Fault> {
        match self.stem(context).await {
            Some(cell) => self.load(cell, context, context.deadline, logs).await.map(Some),
            None => Ok(None),
        }
    }

    async fn load(
        self,
        cell: Cell,
        context: &StartContext,
        deadline: Instant,
        logs: &mut Logs,
    ) -> Result<Cell, Fault> {
        let Self { house, function, artefact, .. } = self;
        let path = &function.path;
        let name = path.local();
        let version = function.version.to_string();
        let init = Init {
            code: &artefact.record.code,
            main: function.main.as_deref().or(artefact.record.main.as_deref()),
            env: house
                .environment(function, context)
                .map(|(key, value)| (key, Value::String(value)))
                .collect(),
            namespace: path.namespace.as_str(),
            name: &name,
            version: &version,
            concurrency: Some(function.strategy.concurrency.get()).filter(|calls| *calls > 1 && !self.zygote),
        };
        load(cell, &init, deadline, logs).await
    }

    /// A runtime that is up already, with the function's code attached.
    async fn stem(self, context: &StartContext) -> Option<Cell> {
        // What becomes a snapshot is started for it.
        if self.zygote || !stems::fits(self.function) {
            return None;
        }
        let key = StemKey { runtime: self.runtime.identity(), memory: self.function.limits.memory };
        let mut cell = self.stems.take(&key)?;
        // Before the code, which could take the port.
        match self.house.starter(self.function, context).add_gate(&cell.sandbox).await {
            Ok(gate) => cell.gate = gate,
            Err(error) => {
                tracing::warn!(%error, "a prewarmed runtime could not be given a way to the API");
                return None;
            }
        }
        match cell.sandbox.attach(&self.artefact.code_folder(), CODE).await {
            Ok(()) => Some(cell),
            Err(error) => {
                tracing::warn!(%error, "a prewarmed runtime could not take the function's code");
                None
            }
        }
    }
}
