//! The executor `wasm`, this crate's interface to the rest of Flint.

use std::{
    collections::HashSet,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use flint_executor::{
    Capability, Executor, Fault, FunctionSource, PrepareError, Prepared, PrewarmedMemory, Progress,
    RuntimeKind, SlotCounts, StartContext, StartFailure, Started,
};
use flint_model::{ByteSize, Contract, Function, Isolation, Kind, NamespaceName, Reuse, Start, Strategy};
use flint_shares::Shares;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;
use wasmtime::Engine;

use crate::{
    WasmConfig,
    account::Accounts,
    budget::Budget,
    cache::Cache,
    compile::Compiler,
    contracts::Linkers,
    drive::LongWork,
    engine,
    host::Services,
    instance::WasmInstance,
    key,
    loading::{self, LOADS, OWN_LOADS},
    packages::Packages,
    pool::{self, PoolSize},
    prepare::{self, Artefact},
    shelf::{self, Shelf},
    tenant::Tenants,
    ticker::Ticker,
    wasi::Wasi,
    workshop::Workshop,
};

/// The kind of Wasm functions, whatever language they were written in.
pub const KIND: &str = "wasm";

/// The status of wasmtime's WASI 0.3.
pub(crate) const EXPERIMENTAL: &str =
    "wasmtime's implementation is experimental and gets no security patches";

const THREADS: &str = "starting the threads of Wasm functions";

/// Runs functions as WebAssembly, each call in an instance of its own.
///
/// The pool is made when the first function is prepared: it takes most of a second and thousands of mappings,
/// which a server without Wasm functions does not need.
pub struct WasmExecutor {
    config: WasmConfig,
    folder: PathBuf,
    services: Arc<Services>,
    workshop: Workshop,
    packages: Arc<Packages>,
    accounts: Arc<Accounts>,
    house: OnceCell<Arc<House>>,
}

/// What all functions share.
pub(crate) struct House {
    pub(crate) config: WasmConfig,
    /// One per CPU.
    pub(crate) grounds: Vec<Arc<Ground>>,
    /// For components of WASI 0.3, if the operator has enabled them.
    pub(crate) ground_0_3: Option<Arc<Ground>>,
    pub(crate) tenants: Tenants,
    pub(crate) crowd: Crowd,
    pub(crate) compiler: Compiler,
    pub(crate) long: LongWork,
    pub(crate) packages: Arc<Packages>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) services: Arc<Services>,
}

/// An engine with its pool and everything that calls on it update. Each has its own cache lines (`align`), so
/// that calls on different engines do not contend.
#[repr(align(128))]
pub(crate) struct Ground {
    /// Its place among the engines.
    pub(crate) number: usize,
    pub(crate) engine: Engine,
    pub(crate) size: PoolSize,
    /// Free places in the pool.
    pub(crate) slots: Semaphore,
    /// The memory of the instances of all engines together.
    pub(crate) memory: Arc<Budget>,
    pub(crate) services: Arc<Services>,
    pub(crate) ticker: Ticker,
    pub(crate) linkers: Linkers,
    pub(crate) cache: Cache,
    pub(crate) shelf: Shelf,
    /// How many more may load code.
    loads: Arc<Semaphore>,
    /// Those who look whether an entry of the cache is whole.
    pub(crate) looks: Shares<NamespaceName>,
}

/// Counts calls that found the pool full.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    pub(crate) waited: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// Why the executor is not available.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {error}")]
pub struct WasmError {
    doing: &'static str,
    error: String,
}

impl Ground {
    fn open(
        number: usize,
        (engine, size): (Engine, PoolSize),
        wasi: Wasi,
        folder: &Path,
        (services, memory, room): (&Services, &Arc<Budget>, usize),
    ) -> Result<Arc<Self>, WasmError> {
        let failed = |doing| move |error: String| WasmError { doing, error };
        let linkers = Linkers::new(&engine, wasi)
            .map_err(|error| failed("linking the host's functions")(format!("{error:#}")))?;
        let cache = Cache::open(folder, &engine)
            .map_err(|error| failed("opening the folder of compiled code")(error.to_string()))?;
        let ticker = Ticker::start(&engine).map_err(|error| failed(THREADS)(error.to_string()))?;
        let (slots, services) = (Semaphore::new(size.instances as usize), Arc::new(services.clone()));
        let (memory, shelf, loads) = (Arc::clone(memory), Shelf::new(room), Arc::new(Semaphore::new(LOADS)));
        let looks = Shares::new(LOADS as u32, OWN_LOADS as u32);
        Ok(Arc::new(Self {
            number,
            engine,
            size,
            slots,
            memory,
            services,
            ticker,
            linkers,
            cache,
            shelf,
            loads,
            looks,
        }))
    }

    /// Waits until it is one's turn to load code.
    pub(crate) async fn turn_to_load(&self) -> Result<OwnedSemaphorePermit, PrepareError> {
        let turn = Arc::clone(&self.loads).acquire_owned().await;
        turn.map_err(|_| loading::closed())
    }

    /// Nobody waits for places or code any more.
    fn close(&self) {
        self.slots.close();
        self.loads.close();
    }

    /// Present number of instances.
    fn live(&self) -> usize {
        self.ticker.running()
    }
}

impl House {
    fn all_grounds(&self) -> impl Iterator<Item = &Arc<Ground>> {
        self.grounds.iter().chain(&self.ground_0_3)
    }

    /// Whether the function is compiled. Its assets are kept for as long as it is.
    fn has(&self, function: &Function) -> bool {
        let keys = key::all(function);
        self.all_grounds().any(|ground| keys.iter().any(|key| ground.cache.size(key).is_some()))
    }

    /// The number of instances for WASI 0.2, and what limits it.
    fn size(&self) -> PoolSize {
        let instances = self.grounds.iter().map(|ground| ground.size.instances).sum();
        PoolSize { instances, ..self.grounds[0].size.clone() }
    }

    /// The engines for code of this WASI version; empty if it is disabled.
    pub(crate) fn grounds(&self, wasi: Wasi) -> &[Arc<Ground>] {
        match wasi {
            Wasi::V0_2 => &self.grounds,
            Wasi::V0_3 => self.ground_0_3.as_slice(),
        }
    }

    /// Blocks while the pool is made.
    fn open(
        config: WasmConfig,
        folder: &Path,
        services: Arc<Services>,
        workshop: Workshop,
        (packages, accounts): (Arc<Packages>, Arc<Accounts>),
    ) -> Result<Self, WasmError> {
        let failed = |doing| move |error: String| WasmError { doing, error };
        let engine_failed = |error: wasmtime::Error| failed("making the Wasm engine")(format!("{error:#}"));
        let built = engine::build(&config).map_err(engine_failed)?;
        let engines = built.len() + usize::from(config.http_0_3);
        let memory = config.memory.map_or(u64::MAX, ByteSize::as_u64);
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        let budget = Arc::new(Budget::new(memory, engines));
        let shared = (&*services, &budget, shelf::room(engines));
        let open = |number, built, wasi| Ground::open(number, built, wasi, folder, shared);
        let grounds = built.into_iter().enumerate().map(|(number, built)| open(number, built, Wasi::V0_2));
        let grounds = grounds.collect::<Result<Vec<_>, _>>()?;
        let ground_0_3 = match config.http_0_3 {
            true => {
                let built = engine::build_0_3(&config, &grounds[0].size).map_err(engine_failed)?;
                Some(open(grounds.len(), built, Wasi::V0_3)?)
            }
            false => None,
        };
        packages.tidy().map_err(|error| failed("opening the folder of assets")(error.to_string()))?;
        let long = LongWork::start(config.threads).map_err(|error| failed(THREADS)(error.to_string()))?;
        let compiler = Compiler::new(workshop, config.clone());
        let crowd = Crowd::default();
        let places = grounds.iter().chain(&ground_0_3).map(|ground| ground.size.instances).collect();
        let tenants = Tenants::new(memory, places);
        Ok(Self { config, grounds, ground_0_3, tenants, crowd, compiler, long, packages, accounts, services })
    }
}

impl WasmExecutor {
    /// Keeps compiled code in `folder`, which nobody else may write to. `workshop` compiles it.
    pub fn new(config: WasmConfig, folder: &Path, services: Arc<Services>, workshop: Workshop) -> Self {
        let packages = Arc::new(Packages::new(folder.join("assets"), config.max_module, workshop.clone()));
        let accounts = Arc::new(Accounts::new(folder, workshop.clone()));
        Self {
            config,
            folder: folder.to_owned(),
            services,
            workshop,
            packages,
            accounts,
            house: OnceCell::new(),
        }
    }

    /// Makes the pool now, unless it exists.
    pub async fn open(&self) -> Result<(), WasmError> {
        self.house().await.map(|_| ())
    }

    async fn house(&self) -> Result<&Arc<House>, WasmError> {
        let open = || async {
            let (config, folder) = (self.config.clone(), self.folder.clone());
            let (services, workshop) = (Arc::clone(&self.services), self.workshop.clone());
            let kept = (Arc::clone(&self.packages), Arc::clone(&self.accounts));
            let opening =
                tokio::task::spawn_blocking(move || House::open(config, &folder, services, workshop, kept));
            let panicked =
                |error: JoinError| WasmError { doing: "making the Wasm engine", error: error.to_string() };
            opening.await.map_err(panicked)?.map(Arc::new)
        };
        self.house.get_or_try_init(open).await
    }

    /// The number of instances, and what limits it.
    pub fn pool_size(&self) -> PoolSize {
        self.house.get().map_or_else(|| PoolSize::of(&self.config), |house| house.size())
    }

    /// Present number of instances.
    pub fn live(&self) -> usize {
        self.house.get().map_or(0, |house| house.all_grounds().map(|ground| ground.live()).sum())
    }
}

#[async_trait]
impl Executor for WasmExecutor {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn handles(&self, strategy: &Strategy, contract: Contract) -> bool {
        strategy.isolation == Isolation::Wasm
            && strategy.start == Start::Instantiate
            && strategy.reuse == Reuse::Never
            && strategy.concurrency == NonZeroU32::MIN
            && matches!(contract, Contract::WasmCore | Contract::WasiCommand | Contract::WasiHttp)
    }

    fn capabilities(&self) -> Vec<Capability> {
        let PoolSize { instances, by, bound } = self.pool_size();
        let at_once = match by.is_the_hosts() {
            // The kernel's limit applies, rather than the amount of memory.
            true => format!("{instances} at once (limited: {bound})"),
            false => format!("{instances} at once, bounded by {bound}"),
        };
        let scan = match pool::scans_pages() {
            true => Ok("the kernel tells which pages were written (PAGEMAP_SCAN)".to_owned()),
            false => Ok(
                "memory is given back to the kernel after each call (limited: Linux 6.7 or newer clears it several times quicker, with PAGEMAP_SCAN)"
                    .to_owned(),
            ),
        };
        let name = |name: &str| name.to_owned();
        let http_0_3 = match self.config.http_0_3 {
            true => format!("on (limited: {EXPERIMENTAL}: wasm.http_0_3 = false switches it off)"),
            false => format!("off, because {EXPERIMENTAL}: wasm.http_0_3 = true switches it on"),
        };
        vec![
            Capability {
                name: name("isolation wasm"),
                state: Ok("wasmtime, in the server's process".into()),
            },
            Capability { name: name("wasm instances"), state: Ok(at_once) },
            Capability { name: name("wasm memory reuse"), state: scan },
            Capability { name: name("wasi:http 0.3"), state: Ok(http_0_3) },
        ]
    }

    fn kinds(&self) -> Vec<RuntimeKind> {
        // A word without a colon is a valid kind.
        let Ok(kind) = KIND.parse::<Kind>() else { return Vec::new() };
        let state = Ok("wasmtime 48, built in".to_owned());
        vec![RuntimeKind { kind, default: true, requires_main: false, state }]
    }

    fn admits(&self, function: &Function) -> Result<(), PrepareError> {
        let Workshop::Sandboxes(workshop) = &self.workshop else { return Ok(()) };
        let Err(full) = workshop.has_room() else { return Ok(()) };
        if self.house.get().is_some_and(|house| house.has(function)) { Ok(()) } else { Err(full) }
    }

    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        let house = self
            .house()
            .await
            .map_err(|error| PrepareError::Unavailable { what: KIND.into(), reason: error.to_string() })?;
        let function = Arc::clone(&source.function);
        let made = prepare::prepare(house, source, progress).await?;
        let artefact = Box::new(Arc::new(made.artefact));
        Ok(Arc::new(Prepared::plain(function, made.steps, made.took, artefact)))
    }

    async fn start(&self, prepared: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure> {
        let (Some(artefact), Some(house)) =
            (prepared.artefact.downcast_ref::<Arc<Artefact>>(), self.house.get())
        else {
            let cause = "the function was prepared by another executor".to_owned();
            return Err(StartFailure {
                fault: Fault::Platform { cause },
                took: Duration::ZERO,
                logs: Vec::new(),
            });
        };
        let began = Instant::now();
        let (house, artefact) = (Arc::clone(house), Arc::clone(artefact));
        // The caller's namespace, if the function is from another namespace's published package.
        let guest = context.namespace.as_ref().filter(|namespace| **namespace != artefact.namespace);
        let guest = guest.map(|namespace| house.tenants.of(namespace));
        let gates = artefact.gates.as_ref().zip(context.namespace);
        let gate = gates.map(|(gates, namespace)| Arc::new(gates.direct(namespace)));
        let (id, environment) = (context.id, context.environment);
        let instance = Arc::new(WasmInstance::new(id, house, artefact, environment, gate, guest));
        // Zero would mean that a prewarmed instance was taken; the record has µs.
        let started = began.elapsed().max(Duration::from_micros(1));
        Ok(Started { instance, started, restored: None, initialised: started, logs: Vec::new() })
    }

    async fn prewarmed_memory(&self) -> PrewarmedMemory {
        PrewarmedMemory::default()
    }

    fn slots(&self) -> Option<SlotCounts> {
        let house = self.house.get()?;
        let size = house.size();
        let pools = || house.grounds.iter().filter_map(|ground| ground.engine.pooling_allocator_metrics());
        Some(SlotCounts {
            total: u64::from(size.instances),
            bound: size.by.as_str(),
            live: self.live() as u64,
            in_use: pools().map(|pool| pool.memories() as u64).sum(),
            warm: pools().map(|pool| u64::from(pool.unused_warm_memories())).sum(),
            kept: ByteSize::bytes(pools().map(|pool| pool.unused_memory_bytes_resident() as u64).sum()),
            waited: house.crowd.waited.load(Ordering::Relaxed),
            refused: house.crowd.refused.load(Ordering::Relaxed),
        })
    }

    async fn collect(&self, keep: &[Arc<Function>]) {
        let (packages, house) = (Arc::clone(&self.packages), self.house.get().map(Arc::clone));
        let accounts = Arc::clone(&self.accounts);
        let own = || keep.iter().filter(|function| function.strategy.isolation == Isolation::Wasm);
        let kept: HashSet<_> =
            own().map(|function| (function.path.namespace.clone(), function.code.digest)).collect();
        let charged: HashSet<_> = own()
            .flat_map(|function| key::all(function).map(|key| (function.path.namespace.clone(), key)))
            .collect();
        let keys: HashSet<_> = keep.iter().flat_map(|function| key::all(function)).collect();
        let collected = tokio::task::spawn_blocking(move || {
            packages.collect(&kept)?;
            // Compiled code of earlier servers is examined once the pool exists.
            let removed = house.map_or(Ok(0), |house| {
                let beside = house.ground_0_3.as_ref().map(|ground| &ground.cache);
                let first = house.grounds.first();
                first.map_or(Ok(0), |ground| ground.cache.collect(&keys, beside, &house.accounts))
            });
            // The quota is released once the files are gone.
            accounts.count(&charged)?;
            removed
        })
        .await;
        if let Ok(Err(error)) = collected {
            tracing::warn!(%error, "compiled Wasm code that nothing uses was not removed");
        }
    }

    async fn shutdown(&self) {
        if let Some(house) = self.house.get() {
            house.all_grounds().for_each(|ground| ground.close());
            house.tenants.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{cache::Shape, loading::Entry};

    #[tokio::test]
    async fn who_looks_at_much_of_the_cache_keeps_nobody_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let config = WasmConfig { instances: Some(1), ..WasmConfig::default() };
        let built = engine::build(&config).unwrap().remove(0);
        let (services, memory) = (Services::new(None).unwrap(), Arc::new(Budget::new(usize::MAX, 1)));
        let ground = Ground::open(0, built, Wasi::V0_2, folder.path(), (&services, &memory, 8)).unwrap();
        let tenants = Tenants::new(usize::MAX, [1].into());
        let [greedy, other] = ["greedy", "other"].map(|name| tenants.of(&name.parse().unwrap()));
        let (key, contract) = ("key".to_owned(), Contract::WasmCore);
        let entry = Arc::new(Entry { key, shape: Shape::Module, wasi: Wasi::V0_2, contract });
        let looking: Vec<_> = (0..OWN_LOADS).map(|_| ground.looks.try_take(&greedy.namespace)).collect();
        assert!(looking.iter().all(Option::is_some));
        assert!(loading::is_whole(&ground, &entry, &greedy).now_or_never().is_none());
        assert!(!loading::is_whole(&ground, &entry, &other).await.unwrap());
        drop(looking);
        assert!(!loading::is_whole(&ground, &entry, &greedy).await.unwrap());
    }
}
