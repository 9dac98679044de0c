//! The controller: the state shared by the use cases, and the server's start and shutdown.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use flint_executor::Capability;
use flint_invoker::Invoker;
use flint_model::ApiKey;
use flint_scheduler::Scheduler;
use flint_store::{
    ActivationLog, Apis, Blobs, Catalog, Clock, Compositions, DeadLetters, Feeds, Queue, Secrets, Versions,
};
use flint_telemetry::Metrics;
use tokio::{
    runtime::Handle,
    sync::{Mutex, Notify, OnceCell, RwLock},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Caller, ControllerConfig, ControllerError, account::Accounts, aside::Aside, asynchronous::AcceptedCalls,
    background::BackgroundPreparation, credentials::Credentials, deploying::Deploys, detached::Detached,
    feeds::Feeding, function_cache::FunctionCache, gateway::Tables, nested::Callers, resolve::Resolved,
    secrets::Keyring, system::WithSystem, triggers::ReadyTrigger,
};

/// How long calls may take to write their records once the scheduler has ended them.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The stores.
#[derive(Clone)]
pub struct Stores {
    /// Entities.
    pub catalog: Arc<dyn Catalog>,
    /// Earlier versions of functions, and aliases.
    pub versions: Arc<dyn Versions>,
    /// Encrypted secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Activation records.
    pub activations: Arc<dyn ActivationLog>,
    /// Accepted asynchronous calls.
    pub queue: Arc<dyn Queue>,
    /// Calls that failed for good.
    pub dead_letters: Arc<dyn DeadLetters>,
    /// The journal of compositions.
    pub compositions: Arc<dyn Compositions>,
    /// Function code.
    pub blobs: Arc<dyn Blobs>,
    /// APIs of the gateway.
    pub apis: Arc<dyn Apis>,
    /// The clock for retries.
    pub clock: Arc<dyn Clock>,
    /// Feeds, which fire triggers.
    pub feeds: Arc<dyn Feeds>,
}

/// The use cases.
pub struct Controller {
    pub(crate) config: ControllerConfig,
    pub(crate) stores: Stores,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) invoker: Arc<Invoker>,
    pub(crate) metrics: Metrics,
    pub(crate) credentials: Credentials,
    pub(crate) accounts: Accounts,
    /// Running activations that may call back.
    pub(crate) callers: Arc<Callers>,
    pub(crate) functions: FunctionCache<Resolved>,
    pub(crate) tables: Tables,
    pub(crate) keyring: Keyring,
    /// Recently fired triggers, with their rules.
    pub(crate) triggers: FunctionCache<ReadyTrigger>,
    pub(crate) accepted: AcceptedCalls,
    pub(crate) feeding: Feeding,
    pub(crate) deploys: Arc<Deploys>,
    /// Notified when a deploy is refused for want of room that leftovers of deleted functions may take.
    pub(crate) leftovers: Notify,
    /// Read lock while an action is written into an existing package, write lock while a package is deleted.
    pub(crate) structure: RwLock<()>,
    /// Held while a namespace is created, changed or deleted, so that read-modify-write cycles do not
    /// interleave.
    pub(crate) namespaces: Mutex<()>,
    /// Held while the versions to be kept in memory are determined.
    pub(crate) versioning: Mutex<()>,
    pub(crate) background: BackgroundPreparation,
    pub(crate) aside: Aside,
    /// The host's capabilities, once determined.
    pub(crate) abilities: OnceCell<Vec<Capability>>,
    /// Tasks of calls and writes.
    pub(crate) calls: TaskTracker,
    /// All other tasks of the controller.
    pub(crate) tasks: TaskTracker,
    pub(crate) runtime: Handle,
    /// Cancelled when no further calls are admitted.
    pub(crate) stopping: CancellationToken,
    /// The same as a flag for calls: each one checks it, and would contend for the token's lock.
    pub(crate) closed: AtomicBool,
    /// Cancelled when no call runs any more.
    pub(crate) stopped: CancellationToken,
}

impl Controller {
    /// Must be called within a Tokio runtime; [`Self::start`] has to be called before the first request.
    pub fn new(
        config: ControllerConfig,
        mut stores: Stores,
        scheduler: Arc<Scheduler>,
        invoker: Arc<Invoker>,
    ) -> Arc<Self> {
        stores.catalog = Arc::new(WithSystem::new(stores.catalog, Arc::clone(&invoker)));
        Arc::new(Self {
            metrics: Metrics::new(config.metrics),
            credentials: Credentials::new(config.credential_ttl),
            accounts: Accounts::default(),
            callers: Arc::default(),
            functions: FunctionCache::default(),
            tables: Tables::default(),
            keyring: Keyring::new(Arc::clone(&config.secret_keys)),
            triggers: FunctionCache::default(),
            accepted: AcceptedCalls::new(&config.asynchronous),
            feeding: Feeding::default(),
            deploys: Arc::default(),
            leftovers: Notify::new(),
            structure: RwLock::default(),
            namespaces: Mutex::default(),
            versioning: Mutex::default(),
            background: BackgroundPreparation::default(),
            aside: Aside::default(),
            abilities: OnceCell::new(),
            calls: TaskTracker::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            closed: AtomicBool::new(false),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            config,
            stores,
            scheduler,
            invoker,
        })
    }

    /// Creates the guest namespace and its key (or removes the key), loads the keys of secrets, takes over
    /// the asynchronous calls left by earlier runs of the server, and starts maintenance and feeds.
    pub async fn start(self: &Arc<Self>) -> Result<(), ControllerError> {
        self.bring_guest().await?;
        self.look_at_namespaces().await?;
        self.take_up_keys().await?;
        self.take_over().await?;
        self.tasks.spawn(Arc::clone(self).feed());
        self.tasks.spawn(Arc::clone(self).complete());
        self.tasks.spawn(Arc::clone(self).extend_leases());
        self.tasks.spawn(Arc::clone(self).expire_dead_letters());
        self.tasks.spawn(Arc::clone(self).collect_periodically());
        self.tasks.spawn(Arc::clone(self).rewarm());
        self.tasks.spawn(Arc::clone(self).ring());
        self.tasks.spawn(Arc::clone(self).listen());
        Ok(())
    }

    /// Refuses further calls, waits for running ones (at most `within`), stops instances and writes all
    /// records.
    pub async fn shutdown(&self, within: Duration) {
        self.closed.store(true, Ordering::Release);
        self.stopping.cancel();
        self.scheduler.drain(within).await;
        // The scheduler has ended all calls; only their records are left to write.
        for (tasks, what) in [(&self.calls, "calls"), (&self.tasks, "tasks")] {
            tasks.close();
            if timeout(LAST_WORDS, tasks.wait()).await.is_err() {
                tracing::warn!(left = tasks.len(), what, "did not end in time");
            }
            self.stopped.cancel();
        }
        if let Err(error) = self.stores.activations.flush().await {
            tracing::error!(%error, "the last activation records are not written");
        }
    }

    /// Runs work to its end even if its caller goes away; shutdown waits for it.
    pub(crate) fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Detached<'_, T> {
        Detached::new(work, &self.calls, &self.runtime)
    }

    /// Its configuration.
    pub fn config(&self) -> &ControllerConfig {
        &self.config
    }

    /// Authenticates a key, `uuid:secret`, with or without the activation it was given to.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, ControllerError> {
        let (key, _) = ApiKey::without_activation(key);
        self.credentials.check(key, &*self.stores.catalog, &self.config.limits, &self.accounts).await
    }

    /// Whether a key is one of this server's, even if it opens nothing because its namespace is blocked.
    pub async fn is_key(&self, key: &str) -> Result<bool, ControllerError> {
        let (key, _) = ApiKey::without_activation(key);
        crate::credentials::is_there(key, &*self.stores.catalog).await
    }
}
