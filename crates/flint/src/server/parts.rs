//! The composition root: creates every part of the server, connects them, and starts and stops them in order.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use async_trait::async_trait;
use axum::Router;
use flint_api_native::{ActivationFeed, Maintenance, NativeConfig};
use flint_api_openwhisk::{Arriving, Front, FrontConfig, Uploads};
use flint_controller::{Controller, ControllerConfig, ControllerError, Stores};
use flint_executor::Executor;
use flint_executor_fork::ForkExecutor;
use flint_executor_process::ProcessExecutor;
use flint_executor_wasm::{WasmExecutor, Workshop, host::Services};
use flint_gate::{GateConfig, Gates};
use flint_invoker::{Invoker, InvokerConfig};
use flint_runtimes::{House, HouseConfig, UnpackLimits};
use flint_sandbox::{Launcher, LauncherConfig, SweepReport};
use flint_scheduler::{Scheduler, SchedulerConfig};
use flint_store_sqlite::SqliteStore;
use flint_telemetry::MetricsConfig;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::{info, warn};

use super::{
    connections::{self, Fronts},
    data_dir::{Made, explain_store, open_store, open_to_others},
    operator::OperatorFile,
    secret_keys::KeptKeys,
    tap::TappedLog,
};
use crate::{
    allowance,
    config::{Config, Room},
    doctor,
    failure::{Exit, Failure},
};

/// A running server.
pub(super) struct Parts {
    pub(super) controller: Arc<Controller>,
    /// Its URL.
    pub(super) url: String,
    /// Whether the guest key is valid.
    pub(super) guest: bool,
    fronts: Arc<Fronts>,
    gates: Option<Gates>,
    feed: ActivationFeed,
    store: Arc<SqliteStore>,
    launcher: Launcher,
    data_dir: PathBuf,
    operator: OperatorFile,
}

impl Parts {
    /// Starts everything in order. After a failure, what was started is stopped again.
    pub(super) async fn start(config: &Config, bound: SocketAddr, made: &Made) -> anyhow::Result<Self> {
        let store = Arc::new(open_store(config, made).await?);
        let data_dir =
            std::fs::canonicalize(&config.server.data_dir).context("finding the data directory")?;
        if let Some(how) = open_to_others(&data_dir) {
            warn!("others can replace what this server runs: {how}");
        }
        let launcher = launch(config, &data_dir).await?;
        let started = Self::with_launcher(config, bound, store, data_dir, launcher.clone()).await;
        if started.is_err() {
            launcher.shutdown().await;
        }
        started
    }

    async fn with_launcher(
        config: &Config,
        bound: SocketAddr,
        store: Arc<SqliteStore>,
        data_dir: PathBuf,
        launcher: Launcher,
    ) -> anyhow::Result<Self> {
        let (guest, url) = (bound.ip().is_loopback(), url_of(bound));
        let gates = config
            .gate
            .config(&config.server)
            .map(|gate| Gates::new(GateConfig { max_connections: Room::of(config).gate, ..gate }));
        let in_house = house_config(config, &data_dir, &url, gates.clone(), launcher.clone());
        let house = Arc::new(House::open(in_house).await?);
        let process = Arc::new(ProcessExecutor::new(Arc::clone(&house)));
        let fork =
            ForkExecutor::new(Arc::clone(&house), Arc::clone(process.stems()), config.snapshot.config());
        let executors: Vec<Arc<dyn Executor>> =
            vec![process, Arc::new(fork), wasm(config, &data_dir, &store, gates.clone(), house).await?];
        let mut abilities = {
            let (executors, uid_base) = (executors.clone(), config.sandbox.uid_base);
            let looked = spawn_blocking(move || doctor::abilities(&executors, uid_base)).await;
            looked.context("looking at the host")?
        };
        abilities.extend(allowance::limited_space());
        abilities.extend(doctor::fewer_connections(config));
        abilities.extend(doctor::not_executable(&data_dir));
        for shortcoming in doctor::shortcomings(&abilities) {
            warn!("{shortcoming}; `flint doctor` says how to change that");
        }
        let invoker_config = InvokerConfig { pool: config.pool.clone() };
        let invoker = Invoker::new(invoker_config, executors.clone(), store.blobs());
        let scheduler = Scheduler::new(SchedulerConfig { queue: config.queue.clone() }, Arc::clone(&invoker));
        let feed = ActivationFeed::default();
        let stores = Stores {
            activations: Arc::new(TappedLog { log: store.activations(), feed: feed.clone() }),
            ..stores_of(&store)
        };
        let controller_config = ControllerConfig {
            gate: gates.as_ref().map(Gates::url),
            ..controller_config(config, guest, &url)
        };
        let controller = Controller::new(controller_config, stores, scheduler, invoker);
        let arriving = Arriving::new(arriving(config));
        if let Some(gates) = &gates {
            let front = front_config(Vec::new(), &arriving);
            gates.serve(flint_api_openwhisk::router_inside(Arc::clone(&controller), front));
        }
        let begun = begin(&controller, bound, &data_dir, &url).await;
        let operator = match begun {
            Ok(operator) => operator,
            Err(error) => {
                controller.shutdown(Duration::ZERO).await;
                close(gates).await;
                return Err(error);
            }
        };
        let web_hosts = config.server.web_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let front = front_config(web_hosts, &arriving);
        let native = flint_api_native::router(
            Arc::clone(&controller),
            NativeConfig {
                operator: operator.api_key(),
                open_metrics: guest,
                feed: feed.clone(),
                abilities,
                executors,
                maintenance: Some(Arc::new(Data(Arc::clone(&store)))),
                uploads: Arc::clone(&front.uploads),
            },
        );
        let web_hosts: Arc<[String]> = front.web_hosts.clone().into();
        let openwhisk = Front::new(Arc::clone(&controller), front);
        let controlled = Arc::clone(&controller);
        let max_header = config.server.max_header;
        let fronts =
            Arc::new(Fronts { max_header, web_hosts, native, openwhisk, controller: controlled, guest });
        Ok(Self { controller, url, guest, fronts, gates, feed, store, launcher, data_dir, operator })
    }

    /// The service that answers requests.
    pub(super) fn service(&self) -> Arc<Fronts> {
        Arc::clone(&self.fronts)
    }

    /// Stops everything in order: admission, running calls (at most `within`), connections, records,
    /// sandboxes.
    pub(super) async fn shutdown(self, within: Duration, serving: JoinHandle<()>) {
        let Self { controller, fronts, gates, feed, store, launcher, data_dir, mut operator, .. } = self;
        feed.close();
        controller.shutdown(within).await;
        close(gates).await;
        connections::join(serving).await;
        drop((fronts, controller));
        // While this server still owns the directory: the next one writes the file once it is closed.
        operator.url = None;
        if let Err(error) = operator.write(&data_dir) {
            warn!(%error, "operator.json still says where the server was");
        }
        let closed = match Arc::into_inner(store) {
            Some(store) => store.close().await,
            // Still in use; dropping the last handle closes it.
            None => Ok(()),
        };
        if let Err(error) = closed {
            warn!(%error, "the last records may not be written");
        }
        launcher.shutdown().await;
    }
}

/// Takes over the data: a server reachable from outside needs a key of its own first.
async fn begin(
    controller: &Arc<Controller>,
    bound: SocketAddr,
    data_dir: &Path,
    url: &str,
) -> anyhow::Result<OperatorFile> {
    if !bound.ip().is_loopback() && !controller.has_own_keys().await? {
        return Err(Failure::new(
            Exit::Usage,
            "no_keys",
            format!("others can reach {bound}, and no key exists yet: the guest key is public and works on loopback only"),
        )
        .hint(format!("flint namespace create NAME --data-dir {}", data_dir.display()))
        .into());
    }
    let mut operator = OperatorFile::read_or_make(data_dir)?;
    // Nothing is written needlessly: the disk may be full.
    if operator.url.as_deref() != Some(url) {
        operator.url = Some(url.to_owned());
        operator.write(data_dir)?;
    }
    controller.start().await.map_err(explain_start)?;
    Ok(operator)
}

/// A failure of the store says what to do, unlike what a caller would be told.
fn explain_start(error: ControllerError) -> anyhow::Error {
    match error {
        ControllerError::Full(error) | ControllerError::Store(error) => explain_store(error).into(),
        other => other.into(),
    }
}

/// The launcher of this data directory's sandboxes, after those of an earlier run are removed.
async fn launch(config: &Config, data_dir: &Path) -> anyhow::Result<Launcher> {
    let state_dir = data_dir.join("sandbox");
    let swept = {
        let state_dir = state_dir.clone();
        spawn_blocking(move || flint_sandbox::sweep(&state_dir)).await.context("sweeping")?
    };
    for problem in &swept.problems {
        warn!("left behind by an earlier server and not removed: {problem}");
    }
    if (SweepReport { problems: Vec::new(), ..swept.clone() }) != SweepReport::default() {
        info!(?swept, "removed what an earlier server left behind");
    }
    // Derived from the directory, so that a later run finds the remains of an earlier one.
    let mut name = DefaultHasher::new();
    data_dir.hash(&mut name);
    let launcher = LauncherConfig {
        dns: config.network.dns.clone(),
        allow_private: config.network.allow_private,
        spare_networks: config.sandbox.spare_networks,
        recycle_limit: config.sandbox.recycle,
        favor_cgroup_moves: config.sandbox.favor_cgroup_moves,
        uid_base: config.sandbox.uid_base,
        ..LauncherConfig::new(state_dir, format!("{:016x}", name.finish()))
    };
    Launcher::spawn(launcher).await.map_err(|error| {
        let hint = match &error {
            flint_sandbox::Error::LauncherStart { source, .. }
                if source.kind() == std::io::ErrorKind::StorageFull =>
            {
                format!("free space on the volume of {}", data_dir.display())
            }
            _ => "`flint doctor` shows what this host lacks".to_owned(),
        };
        Failure::new(Exit::Local, "no_sandbox", error.to_string()).hint(hint).into()
    })
}

/// The executor of Wasm functions. Its pool is sized for the memory of all instances.
async fn wasm(
    config: &Config,
    data_dir: &Path,
    store: &SqliteStore,
    gates: Option<Gates>,
    house: Arc<House>,
) -> anyhow::Result<Arc<dyn Executor>> {
    let settings = config.wasm.config(config.pool.memory);
    let services = Services::new(Some(store.values())).context("preparing outbound requests")?;
    let services = Arc::new(Services { quota: config.wasm.quota(), gates, ..services });
    let folder = data_dir.join("wasm");
    let is_used = folder.exists();
    let executor = Arc::new(WasmExecutor::new(settings, &folder, services, Workshop::Sandboxes(house)));
    if is_used {
        // Prewarmed, so that a function's first call does not wait for it.
        let executor = Arc::clone(&executor);
        tokio::spawn(async move {
            if let Err(error) = executor.open().await {
                tracing::warn!(%error, "Wasm functions cannot run");
            }
        });
    }
    Ok(executor)
}

/// Ends the gates, and drops their references to the server.
async fn close(gates: Option<Gates>) {
    if let Some(gates) = gates {
        gates.close().await;
    }
}

fn house_config(
    config: &Config,
    data_dir: &Path,
    url: &str,
    gates: Option<Gates>,
    launcher: Launcher,
) -> HouseConfig {
    let prepare = &config.prepare;
    let built_in = HouseConfig::new(data_dir.join("prepared"), data_dir.join("runtimes"), launcher);
    HouseConfig {
        search: config.runtimes.search.clone(),
        api_host: Some(url.to_owned()),
        gates,
        unpack: UnpackLimits { entries: prepare.max_files, bytes: prepare.max_unpacked },
        min_free: prepare.min_free,
        per_namespace: prepare.per_namespace,
        build_timeout: prepare.build_timeout,
        build_memory: prepare.build_memory,
        build_size: prepare.build_size,
        concurrent_builds: prepare.concurrent_builds.map_or(built_in.concurrent_builds, NonZeroUsize::get),
        compile_ahead: config.pool.prewarm > 0,
        ..built_in
    }
}

fn controller_config(config: &Config, guest: bool, url: &str) -> ControllerConfig {
    ControllerConfig {
        limits: config.limits.config(),
        defaults: config.defaults.limits(),
        asynchronous: config.asynchronous.clone(),
        dead_letters: config.dead_letters.clone(),
        guest,
        api_host: url.to_owned(),
        gate: None,
        credential_ttl: config.server.credential_ttl,
        collect_every: config.server.collect_every,
        rewarm: config.server.rewarm,
        metrics: MetricsConfig { max_functions: config.metrics.functions },
        feeds: config.feeds.clone(),
        versions: config.versions.clone(),
        secrets: config.secrets.config(),
        secret_keys: Arc::new(KeptKeys::of(config)),
    }
}

/// The build shown by OpenWhisk's clients.
/// The bytes for bodies that arrive: some of the largest that a call may have find room side by side.
fn arriving(config: &Config) -> usize {
    let largest = usize::try_from(config.limits.max_payload.as_u64()).unwrap_or(usize::MAX);
    Arriving::DEFAULT.max(largest.saturating_mul(16))
}

fn front_config(web_hosts: Vec<String>, arriving: &Arc<Arriving>) -> FrontConfig {
    let default = FrontConfig::default();
    FrontConfig {
        build_number: option_env!("FLINT_COMMIT").map_or(default.build_number, str::to_owned),
        web_hosts,
        // Rooms of its own: functions' uploads and those from outside do not wait for each other.
        uploads: Arc::new(Uploads::new(Arc::clone(arriving))),
        ..default
    }
}

fn stores_of(store: &SqliteStore) -> Stores {
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

/// The URL for clients; an unspecified address is replaced by a loopback one.
fn url_of(bound: SocketAddr) -> String {
    match bound.ip().is_unspecified() {
        true => format!("http://127.0.0.1:{}", bound.port()),
        false => format!("http://{bound}"),
    }
}

/// Maintenance operations on the data as a whole.
struct Data(Arc<SqliteStore>);

#[async_trait]
impl Maintenance for Data {
    async fn backup(&self, to: PathBuf) -> Result<(usize, u64), String> {
        let copied = self.0.backup(&to, |_| {}).await.map_err(|error| error.to_string())?;
        Ok((copied.files, copied.bytes))
    }
}

/// The API on data without a server, for administration before the first start. It runs no functions.
pub(crate) fn offline_api(config: &Config, store: &SqliteStore, operator: &OperatorFile) -> Router {
    let invoker = Invoker::new(InvokerConfig::default(), Vec::new(), store.blobs());
    let scheduler = Scheduler::new(SchedulerConfig::default(), Arc::clone(&invoker));
    let controller =
        Controller::new(controller_config(config, false, ""), stores_of(store), scheduler, invoker);
    let native = NativeConfig {
        operator: operator.api_key(),
        open_metrics: false,
        feed: ActivationFeed::default(),
        abilities: Vec::new(),
        executors: Vec::new(),
        maintenance: None,
        uploads: Arc::default(),
    };
    flint_api_native::router(controller, native)
}
