//! A controller on the real store and the real scheduler, with an executor whose functions do what their code says.
//!
//! Also used by the tests of the fronts.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod alarms;
pub mod clock;
pub mod composing;
pub mod crowded;
pub mod gated;
pub mod late_journal;
pub mod retrying;
pub mod scripted;

use std::{
    path::Path,
    pin::pin,
    sync::{Arc, mpsc},
    time::Duration,
};

use flint_controller::{Caller, Controller, ControllerConfig, GUEST_KEY, Stores};
use flint_invoker::{Invoker, InvokerConfig};
use flint_scheduler::{Scheduler, SchedulerConfig};
use flint_store::{ActivationLog, Clock, SystemClock};
use flint_store_sqlite::{SqliteStore, StoreConfig, SyncMode};

pub use clock::ManualClock;
use crowded::Crowded;
use gated::Gated;
use late_journal::LateJournal;
pub use scripted::{Scripted, Seen};

/// One life of a server.
pub struct Server {
    pub controller: Arc<Controller>,
    pub executor: Arc<Scripted>,
    store: SqliteStore,
}

/// Limits that no test meets by accident, guest, and short waits.
pub fn config() -> ControllerConfig {
    let mut config = ControllerConfig { guest: true, ..ControllerConfig::default() };
    config.limits.invocations_per_minute = 100_000;
    config.limits.concurrent_invocations = 1000;
    config.asynchronous.retry_delay = Duration::from_millis(10);
    config
}

impl Server {
    /// Starts on `data_dir`.
    pub async fn start(data_dir: &Path, config: ControllerConfig) -> Self {
        Self::start_with(data_dir, config, SchedulerConfig::default()).await
    }

    /// The same, with queues of one's own.
    pub async fn start_with(data_dir: &Path, config: ControllerConfig, queues: SchedulerConfig) -> Self {
        Self::begin(data_dir, config, queues, SyncMode::ProcessOnly, Scripted::new(), system()).await
    }

    /// The same, by a clock of one's own.
    pub async fn start_by(data_dir: &Path, config: ControllerConfig, clock: Arc<dyn Clock>) -> Self {
        let queues = SchedulerConfig::default();
        Self::begin(data_dir, config, queues, SyncMode::ProcessOnly, Scripted::new(), clock).await
    }

    /// The same, on a host that has lost its runtimes.
    pub async fn start_without_runtimes(
        data_dir: &Path,
        config: ControllerConfig,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (queues, executor) = (SchedulerConfig::default(), Scripted::without_runtimes());
        Self::begin(data_dir, config, queues, SyncMode::ProcessOnly, executor, clock).await
    }

    /// The same, with something before its activation log.
    pub async fn start_crowded(data_dir: &Path, config: ControllerConfig, before: &Arc<Crowded>) -> Self {
        let store = SqliteStore::open(StoreConfig::new(data_dir)).unwrap();
        before.stand_before(store.activations());
        let log: Arc<dyn ActivationLog> = Arc::clone(before) as _;
        Self::on(store, log, config, SchedulerConfig::default(), Scripted::new()).await
    }

    /// The same, with something before its queue.
    pub async fn start_gated(data_dir: &Path, config: ControllerConfig, before: &Arc<Gated>) -> Self {
        let opening = StoreConfig { sync: SyncMode::ProcessOnly, ..StoreConfig::new(data_dir) };
        let store = SqliteStore::open(opening).unwrap();
        before.stand_before(store.queue());
        let stores = Stores { queue: Arc::clone(before) as _, ..stores(&store) };
        let memory = (SchedulerConfig::default(), pool(16 * 1024));
        Self::with_stores(store, stores, config, memory, Scripted::new()).await
    }

    /// The same, with something before its journal of compositions.
    pub async fn start_journalled(
        data_dir: &Path,
        config: ControllerConfig,
        before: &Arc<LateJournal>,
    ) -> Self {
        let opening = StoreConfig { sync: SyncMode::ProcessOnly, ..StoreConfig::new(data_dir) };
        let store = SqliteStore::open(opening).unwrap();
        before.stand_before(store.compositions());
        let stores = Stores { compositions: Arc::clone(before) as _, ..stores(&store) };
        let memory = (SchedulerConfig::default(), pool(16 * 1024));
        Self::with_stores(store, stores, config, memory, Scripted::new()).await
    }

    /// The same, with so much memory for instances, and beyond it for calls that others wait for.
    pub async fn start_small(
        data_dir: &Path,
        config: ControllerConfig,
        queues: SchedulerConfig,
        (memory, nested): (u64, u64),
    ) -> Self {
        let opening = StoreConfig { sync: SyncMode::ProcessOnly, ..StoreConfig::new(data_dir) };
        let store = SqliteStore::open(opening).unwrap();
        let log = store.activations();
        let mut pool = pool(memory);
        pool.pool.nested_memory = Some(flint_model::ByteSize::mib(nested));
        // What each is found to use.
        pool.pool.start_charge = flint_model::ByteSize::mib(30);
        Self::with_pool(store, log, config, (queues, pool), Scripted::new()).await
    }

    /// The same, with an executor of one's own.
    pub async fn start_on(data_dir: &Path, executor: Arc<Scripted>) -> Self {
        Self::begin(data_dir, config(), SchedulerConfig::default(), SyncMode::ProcessOnly, executor, system())
            .await
    }

    /// The same, with writes that survive what `sync` says.
    pub async fn start_synced(data_dir: &Path, config: ControllerConfig, sync: SyncMode) -> Self {
        Self::begin(data_dir, config, SchedulerConfig::default(), sync, Scripted::new(), system()).await
    }

    async fn begin(
        data_dir: &Path,
        config: ControllerConfig,
        queues: SchedulerConfig,
        sync: SyncMode,
        executor: Arc<Scripted>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let opening = StoreConfig { sync, clock, ..StoreConfig::new(data_dir) };
        let store = SqliteStore::open(opening).unwrap();
        let log = store.activations();
        Self::on(store, log, config, queues, executor).await
    }

    async fn on(
        store: SqliteStore,
        log: Arc<dyn ActivationLog>,
        config: ControllerConfig,
        queues: SchedulerConfig,
        executor: Arc<Scripted>,
    ) -> Self {
        Self::with_pool(store, log, config, (queues, pool(16 * 1024)), executor).await
    }

    async fn with_pool(
        store: SqliteStore,
        log: Arc<dyn ActivationLog>,
        config: ControllerConfig,
        (queues, pool): (SchedulerConfig, InvokerConfig),
        executor: Arc<Scripted>,
    ) -> Self {
        let stores = Stores { activations: log, ..stores(&store) };
        Self::with_stores(store, stores, config, (queues, pool), executor).await
    }

    async fn with_stores(
        store: SqliteStore,
        stores: Stores,
        config: ControllerConfig,
        (queues, pool): (SchedulerConfig, InvokerConfig),
        executor: Arc<Scripted>,
    ) -> Self {
        let invoker = Invoker::new(pool, vec![executor.clone()], store.blobs());
        let scheduler = Scheduler::new(queues, Arc::clone(&invoker));
        let controller = Controller::new(config, stores, scheduler, invoker);
        controller.start().await.unwrap();
        executor.serves(&controller);
        Self { controller, executor, store }
    }

    /// Who calls with the well-known key.
    pub async fn guest(&self) -> Caller {
        self.controller.authenticate(GUEST_KEY).await.unwrap()
    }

    /// Does guest's `work`, and fails if it needs nothing that is done off the async threads: guest has all of that
    /// that it may have until `work` waits.
    pub async fn aside<T>(&self, work: impl Future<Output = T>) -> T {
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (end, ended) = mpsc::channel::<()>();
            let (begin, began) = tokio::sync::oneshot::channel();
            let controller = Arc::clone(&self.controller);
            tokio::spawn(async move {
                let work = move || (begin.send(()), ended.recv());
                controller.aside(&"guest".parse().unwrap(), work).await.map(drop)
            });
            began.await.unwrap();
            ends.push(end);
        }
        let mut work = pin!(work);
        let early = tokio::time::timeout(Duration::from_millis(100), &mut work).await;
        assert!(early.is_err(), "it was not done aside");
        drop(ends);
        work.await
    }

    /// The encrypted secrets, past the use cases.
    pub fn secrets(&self) -> Arc<dyn flint_store::Secrets> {
        self.store.secrets()
    }

    /// Code, past the use cases.
    pub fn blobs(&self) -> Arc<dyn flint_store::Blobs> {
        self.store.blobs()
    }

    /// The accepted calls, past the use cases.
    pub fn queue(&self) -> Arc<dyn flint_store::Queue> {
        self.store.queue()
    }

    /// Copies the store while it is in use.
    pub async fn back_up(&self, to: &Path) {
        self.store.backup(to, |_| {}).await.unwrap();
    }

    /// Stops as a server does.
    pub async fn stop(self) {
        self.controller.shutdown(Duration::from_secs(10)).await;
        drop(self.controller);
        self.store.close().await.unwrap();
    }

    /// Stops as a killed server does: nothing is told to anybody, and what was not written is lost.
    pub fn die(self) {
        drop(self.store);
    }
}

fn stores(store: &SqliteStore) -> Stores {
    Stores {
        catalog: store.catalog(),
        activations: store.activations(),
        queue: store.queue(),
        dead_letters: store.dead_letters(),
        compositions: store.compositions(),
        blobs: store.blobs(),
        apis: store.apis(),
        clock: store.clock(),
        feeds: store.feeds(),
        versions: store.versions(),
        secrets: store.secrets(),
    }
}

/// A pool of so many MB, without runtimes that nobody asked for.
fn pool(memory: u64) -> InvokerConfig {
    let mut pool = InvokerConfig::default();
    pool.pool.memory = Some(flint_model::ByteSize::mib(memory));
    pool.pool.prewarm = 0;
    pool
}

fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// Waits until `condition` holds; fails after a time that is only reached when it never will.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut condition: impl FnMut() -> F) -> T {
    for _ in 0..12_000 {
        if let Some(found) = condition().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come about");
}

/// Waits until no call holds a place: it is given back a moment after the queue and the record tell of the call's end.
pub async fn places_are_free(server: &Server) {
    eventually("all places are free", || async { (server.controller.calls_in_flight() == 0).then_some(()) })
        .await;
}
