//! Starts a runtime with a function loaded: takes a prewarmed runtime if one fits, or starts a fresh one.

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

/// The parameters of a start.
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
    /// The runtime to start.
    pub runtime: &'a Runtime,
    /// Whether the runtime is to become a snapshot.
    pub zygote: bool,
    /// How long the start may stay in the background, if no call waits for it.
    pub background: Option<Duration>,
}

impl BringUp<'_> {
    /// Starts a runtime and loads the function; also returns how long the runtime itself took.
    ///
    /// # Errors
    /// Why it failed; nothing is left of it then.
    pub async fn run(self, context: &StartContext, logs: &mut Logs) -> Result<(Cell, Duration), Fault> {
        if let Some(cell) = self.run_prewarmed(context, logs).await? {
            return Ok((cell, Duration::ZERO));
        }
        let began = Instant::now();
        // The start of the runtime does not count towards the function's time limit.
        let (up_by, to_load) =
            (context.deadline + BRING_UP, context.deadline.saturating_duration_since(began));
        let Self { house, function, artefact, runtime, .. } = self;
        let command = house.command(runtime, function.limits.memory, self.zygote);
        let command = tokio::time::timeout_at(up_by.into(), command).await;
        let command = command.map_err(|_| Fault::Deadline)??;
        let mut spec = command.for_function(context.id.to_string(), function, artefact);
        // Warm-up happens once for all later calls, so it must not change anything outside.
        spec.network_closed = self.zygote && !function.snapshot.warmup_network;
        spec.background = self.background;
        let starter = house.starter(function, context);
        let cell = launch(&starter, &spec, command.image, up_by, logs).await?;
        let started = began.elapsed();
        // Not beyond the start's deadline, after which nobody waits for it.
        let load_by = (Instant::now() + to_load).min(up_by);
        Ok((self.load(cell, context, load_by, logs).await?, started))
    }

    /// The same with a prewarmed runtime; `None` if no runtime fits.
    ///
    /// # Errors
    /// Why the function does not load; nothing is left of the runtime then.
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

    /// Takes a prewarmed runtime and mounts the function's code into its sandbox.
    async fn stem(self, context: &StartContext) -> Option<Cell> {
        // A runtime that becomes a snapshot is started with other flags.
        if self.zygote || !stems::fits(self.function) {
            return None;
        }
        let key = StemKey { runtime: self.runtime.identity(), memory: self.function.limits.memory };
        let mut cell = self.stems.take(&key)?;
        // Before the code is loaded, which could take the port.
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
