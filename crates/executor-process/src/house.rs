//! What is the same for all functions: the host's runtimes, the shims, the prepared functions.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Instant, SystemTime},
};

use async_trait::async_trait;
use flint_executor::{Fault, PrewarmTarget, StartContext};
use flint_model::{ByteSize, Function, Timestamp};

use crate::{
    config::ProcessConfig,
    handler::{self, Cell},
    java::JavaShims,
    prepare::{
        Workshop,
        artefact::{Artefact, SharedArtefact, Shelf},
    },
    process::{command::ShimCommand, logs::Logs},
    python::PythonShims,
    runtimes::{Engine, Family, Runtime, Runtimes},
    shims::Shims,
    stems::{self, Grow, StemKey},
};

/// What is the same for all functions.
pub(crate) struct House {
    pub(crate) config: ProcessConfig,
    pub(crate) shims: Shims,
    pub(crate) runtimes: Arc<Runtimes>,
    pub(crate) shelf: Arc<Shelf>,
    java: JavaShims,
    python: PythonShims,
    /// Artefacts that someone holds.
    held: Mutex<Vec<Weak<Artefact>>>,
}

impl House {
    pub(crate) fn new(config: ProcessConfig, shims: Shims, runtimes: Runtimes, shelf: Shelf) -> Self {
        let (shelf, runtimes, held) = (Arc::new(shelf), Arc::new(runtimes), Mutex::default());
        Self {
            config,
            shims,
            runtimes,
            shelf,
            java: JavaShims::default(),
            python: PythonShims::default(),
            held,
        }
    }

    pub(crate) fn workshop(&self) -> Workshop<'_> {
        Workshop {
            shelf: &self.shelf,
            shims: &self.shims,
            java: &self.java,
            python: &self.python,
            runtimes: &self.runtimes,
            config: &self.config,
        }
    }

    pub(crate) async fn command<'a>(
        &'a self,
        runtime: &'a Runtime,
        memory: ByteSize,
    ) -> Result<ShimCommand<'a>, Fault> {
        let java = match runtime.family {
            Family::Java => {
                let made = self.java.get(runtime, &self.shims, &self.config.launcher).await;
                Some(made.map_err(|cause| Fault::Platform { cause })?)
            }
            Family::Python => {
                self.python.make_ready(runtime, &self.shims).await;
                None
            }
            Family::Node => None,
        };
        Ok(ShimCommand { runtime, shims: &self.shims, java, memory })
    }

    /// What is set before the code is loaded.
    pub(crate) fn environment(&self, context: &StartContext) -> impl Iterator<Item = (String, String)> {
        let deadline = SystemTime::now() + context.deadline.saturating_duration_since(Instant::now());
        let own = [
            ("__OW_API_HOST", self.config.api_host.clone()),
            ("__OW_ACTIVATION_ID", context.activation.map(|id| id.to_string())),
            ("__OW_TRANSACTION_ID", Some(context.transaction.to_string())),
            ("__OW_DEADLINE", Some(Timestamp::from(deadline).as_millis().to_string())),
        ];
        let own = own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        own.chain(context.environment.clone())
    }

    pub(crate) fn hold(&self, artefact: &SharedArtefact) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|artefact| artefact.strong_count() > 0);
        held.push(Arc::downgrade(artefact));
    }

    pub(crate) async fn collect(&self, keep: &[Arc<Function>]) {
        let mut addresses: Vec<String> = keep
            .iter()
            .filter_map(|function| {
                let engine = self.runtimes.resolve(&function.kind).ok()?;
                Some(Shelf::address(function, &engine, &self.shims))
            })
            .collect();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        addresses.extend(held.iter().filter_map(Weak::upgrade).map(|artefact| artefact.address.clone()));
        let shelf = Arc::clone(&self.shelf);
        let collected = tokio::task::spawn_blocking(move || {
            shelf.collect(|name| addresses.iter().any(|address| address == name))
        });
        match collected.await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(removed)) => {
                tracing::info!(removed, "removed prepared functions that are not deployed any more")
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "prepared functions that are not deployed any more could not be removed")
            }
        }
    }
}

#[async_trait]
impl Grow for House {
    fn key(&self, target: &PrewarmTarget) -> Option<StemKey> {
        match self.runtimes.resolve(&target.kind).ok()? {
            Engine::Language(runtime) => Some(StemKey { runtime: runtime.identity(), memory: target.memory }),
            Engine::Native => None,
        }
    }

    async fn grow(
        &self,
        target: &PrewarmTarget,
        id: String,
        deadline: Instant,
        logs: &mut Logs,
    ) -> Result<Cell, Fault> {
        let runtime = match self.runtimes.resolve(&target.kind) {
            Ok(Engine::Language(runtime)) => runtime,
            Ok(Engine::Native) => {
                return Err(Fault::Platform { cause: format!("{} has no runtime to prewarm", target.kind) });
            }
            Err(cause) => return Err(Fault::Platform { cause }),
        };
        let spec = self.command(&runtime, target.memory).await?.for_stem(id, &stems::limits(target.memory));
        handler::launch(&self.config.launcher, &spec, deadline, logs).await
    }
}
