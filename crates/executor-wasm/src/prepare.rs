//! Prepares a function's code for calls: compiles and links it.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{FunctionSource, PrepareError, Progress};
use flint_gate::Gates;
use flint_model::{ByteSize, Function, NamespaceName};

use crate::{
    account,
    cache::Shape,
    contracts::{Code, Compiled},
    cut::cut,
    engine,
    executor::{EXPERIMENTAL, Ground, House},
    host::Grants,
    key,
    packages::{Assets, Package},
    pool::MOST_PLACES,
    preinit,
    shelf::Linked,
    tenant::Tenant,
    wasi::Wasi,
};

/// The size of a Wasm page.
const PAGE: u64 = 64 << 10;

/// A function that can be called.
pub(crate) struct Artefact {
    /// The function on each engine that it may run on; never empty.
    pub(crate) settled: Vec<Arc<Settled>>,
    /// Limit on the total size of an instance's memories, in bytes.
    pub(crate) memory: usize,
    /// Whose function it is.
    pub(crate) namespace: NamespaceName,
    /// The gates that give its instances access to the API, if it has a key and can send requests.
    pub(crate) gates: Option<Gates>,
    /// Keeps the namespace charged for its machine code for as long as that is used.
    _account: Arc<account::Key>,
}

/// A function on one engine.
#[repr(align(128))]
pub(crate) struct Settled {
    pub(crate) code: Code,
    /// Held so that other functions with the same code find it.
    _linked: Arc<Linked>,
    /// Without it no environment is made.
    pub(crate) reads_environment: bool,
    /// How many of its engine's places an instance takes.
    pub(crate) places: u32,
    pub(crate) ground: Arc<Ground>,
    /// The function's namespace.
    tenant: Arc<Tenant>,
    pub(crate) grants: Arc<Grants>,
    /// Held so that a collection does not remove them.
    _assets: Option<Arc<Assets>>,
}

impl Settled {
    /// The namespace that a call is charged to; `guest` is the caller's, if the function is another's.
    pub(crate) fn tenant<'a>(&'a self, guest: Option<&'a Arc<Tenant>>) -> &'a Tenant {
        guest.unwrap_or(&self.tenant)
    }

    /// Whether the engine has free places, but the namespace that a call is charged to too few left of its share.
    pub(crate) fn is_short_of_share(&self, guest: Option<&Arc<Tenant>>) -> bool {
        let share = self.tenant(guest).places(self.ground.number);
        let free = |slots: &tokio::sync::Semaphore| slots.available_permits();
        free(&self.ground.slots) > 0 && free(&share.slots) < share.of(self.places) as usize
    }
}

/// The result of preparing a function.
pub(crate) struct Made {
    pub(crate) artefact: Artefact,
    pub(crate) steps: Vec<String>,
    /// Zero if the code had been compiled already.
    pub(crate) took: Duration,
}

/// Compiles the code unless that was done before, and links it.
pub(crate) async fn prepare(
    house: &House,
    source: &FunctionSource,
    progress: Progress<'_>,
) -> Result<Made, PrepareError> {
    let (began, function) = (Instant::now(), &source.function);
    let Package { module, assets } = house.packages.module(source, progress).await?;
    let folder = || assets.as_ref().map(|assets| assets.folder.clone());
    let shape = house.compiler.shape(&module)?;
    let wasi = Wasi::of(&module, shape);
    let grounds = house.grounds(wasi);
    let ground = grounds.first().ok_or_else(|| {
        PrepareError::Code(format!(
            "the component is for wasi:http 0.3, which is switched off here, because {EXPERIMENTAL}: build it for wasi:http 0.2 (wasi:http/incoming-handler), or have the server's operator set wasm.http_0_3 = true"
        ))
    })?;
    let initialiser = preinit::initialiser(&module, shape).filter(|_| function.wasm.preinit);
    let key = if initialiser.is_some() { key::initialised(function) } else { key::as_deployed(function) };
    let entry = Entry { key: key.clone(), shape, wasi };
    let contract = function.contract;
    // If the cached file has been collected, the code is compiled again, so that the next server start finds
    // it.
    let held = ground.cache.size(&key).and_then(|_| ground.shelf.find(&key, contract));
    let found = match held {
        Some(linked) => Some(linked.compiled.clone()),
        None => load(ground, &entry).await?,
    };
    let charged = || (function.path.namespace.clone(), key.clone());
    let (compiled, took) = match found {
        Some(compiled) => (compiled, Duration::ZERO),
        None => {
            house.accounts.recall(&charged())?;
            let raw = Raw { module, entry: entry.clone(), initialiser, assets: folder() };
            let make = make(house, ground, function, raw, progress);
            // With a larger memory limit code may fit that failed before.
            let address = format!("wasm {key} {}", function.limits.memory);
            (house.compiler.workshop.in_turn(function, &address, progress, make).await?, began.elapsed())
        }
    };
    let machine_code = ground.cache.size(&key).unwrap_or_default();
    let account = house.accounts.charge(charged(), machine_code.as_u64())?;
    let begun = initialiser.map_or_else(String::new, |name| format!("ran {name}, "));
    let step = format!("{begun}compiled {} of Wasm to {machine_code} of machine code", function.code.size);
    fits(&compiled, function, house.config.table_elements)?;
    let namespace = function.path.namespace.clone();
    let tenant = house.tenants.of(&namespace);
    let mut settled = Vec::with_capacity(grounds.len());
    for ground in grounds {
        let linked = match ground.shelf.find(&key, contract) {
            Some(linked) => linked,
            None => {
                let compiled = match settled.is_empty() {
                    true => compiled.clone(),
                    false => read_again(house, function, ground, &entry).await?,
                };
                let code = ground.linkers.link(&compiled, contract)?;
                ground.shelf.put(&key, contract, Linked { compiled, code })
            }
        };
        settled.push(Arc::new(Settled {
            code: linked.code.clone(),
            reads_environment: linked.compiled.reads_environment(),
            places: linked.compiled.places().min(ground.size.instances),
            _linked: linked,
            ground: Arc::clone(ground),
            tenant: Arc::clone(&tenant),
            grants: Arc::new(Grants::of(function, folder())),
            _assets: assets.clone(),
        }));
    }
    let memory = usize::try_from(function.limits.memory.as_u64()).unwrap_or(usize::MAX);
    let has_gate = function.wants_api_key() && compiled.sends_requests();
    let gates = house.services.gates.clone().filter(|_| has_gate);
    let artefact = Artefact { settled, memory, namespace, gates, _account: account };
    Ok(Made { artefact, steps: vec![step], took })
}

/// Code on its way to the compiler.
struct Raw {
    module: Bytes,
    entry: Entry,
    initialiser: Option<&'static str>,
    assets: Option<PathBuf>,
}

/// The cache entry of compiled code.
#[derive(Clone)]
struct Entry {
    key: String,
    shape: Shape,
    wasi: Wasi,
}

/// Accesses the cache on the blocking thread pool: code is read, hashed and written as a whole, and may have
/// hundreds of megabytes.
async fn aside<T: Send + 'static>(
    ground: &Arc<Ground>,
    entry: &Entry,
    work: impl FnOnce(&Ground, &Entry) -> T + Send + 'static,
) -> Result<T, PrepareError> {
    let (ground, entry) = (Arc::clone(ground), entry.clone());
    let done = tokio::task::spawn_blocking(move || work(&ground, &entry)).await;
    done.map_err(|died| not_kept(died.to_string()))
}

/// The code if it was compiled before.
async fn load(ground: &Arc<Ground>, entry: &Entry) -> Result<Option<Compiled>, PrepareError> {
    aside(ground, entry, |ground, entry| ground.cache.load(&ground.engine, &entry.key, entry.shape)).await
}

/// Compiles the code, after its initialiser if it has one, and caches it.
async fn make(
    house: &House,
    ground: &Arc<Ground>,
    function: &Function,
    raw: Raw,
    progress: Progress<'_>,
) -> Result<Compiled, PrepareError> {
    let Raw { mut module, entry, initialiser, assets } = raw;
    let (shape, wasi) = (entry.shape, entry.wasi);
    // Another deploy may have done it while this one waited for its turn.
    if let Some(compiled) = load(ground, &entry).await? {
        return Ok(compiled);
    }
    if let Some(name) = initialiser {
        progress("running its initialiser");
        module = house.compiler.initialise(function, module, (shape, wasi), name, assets).await?;
        house.compiler.shape(&module)?; // it has grown
    }
    house.compiler.workshop.go_on()?;
    progress("compiling");
    let machine_code = house.compiler.compile(module, shape, wasi).await?;
    let charged = (function.path.namespace.clone(), entry.key.clone());
    let _account = house.accounts.charge(charged, machine_code.len() as u64)?;
    // Stored and loaded, so that the code that runs is what a restart will find.
    let stored = aside(ground, &entry, move |ground, entry| ground.cache.store(&entry.key, &machine_code));
    stored.await?.map_err(|error| not_kept(error.to_string()))?;
    read_again(house, function, ground, &entry).await
}

/// Takes compiled code out of its cache entry, which was written or read just now.
async fn read_again(
    house: &House,
    function: &Function,
    ground: &Arc<Ground>,
    entry: &Entry,
) -> Result<Compiled, PrepareError> {
    let read = |ground: &Ground, entry: &Entry| ground.cache.read(&ground.engine, &entry.key, entry.shape);
    let error = match aside(ground, entry, read).await? {
        Some(Ok(compiled)) => return Ok(compiled),
        Some(Err(error)) => error,
        None => {
            return Err(not_kept(
                "what was written cannot be read again; check the data directory's disk".into(),
            ));
        }
    };
    // The engine refuses code that could never be instantiated in its pool, without figures. An engine
    // without a pool reports them.
    let config = house.config.clone();
    let without_pool = move |ground: &Ground, entry: &Entry| {
        let engine = engine::without_pool(&config, entry.wasi).ok()?;
        ground.cache.read(&engine, &entry.key, entry.shape)?.ok()
    };
    if let Some(compiled) = aside(ground, entry, without_pool).await? {
        fits(&compiled, function, house.config.table_elements)?;
    }
    Err(PrepareError::Code(format!(
        "the code needs more than an instance may have: {} (docs/configuration.md, wasm)",
        cut(error.root_cause())
    )))
}

fn not_kept(detail: String) -> PrepareError {
    PrepareError::Failed { operation: "keeping compiled code".into(), detail }
}

/// Checks the needs that are known before it runs against the limits.
fn fits(compiled: &Compiled, function: &Function, table_elements: u32) -> Result<(), PrepareError> {
    let Some(needs) = compiled.needs() else { return Ok(()) };
    let places = compiled.places();
    if places > MOST_PLACES {
        let (memories, tables) = (needs.num_memories, needs.num_tables);
        return Err(PrepareError::Code(format!(
            "the code has {memories} memories and {tables} tables, for which an instance takes {places} places of the pool, more than the {MOST_PLACES} allowed: build it of fewer modules or components"
        )));
    }
    let memory = needs.max_initial_memory_size.unwrap_or_default().saturating_mul(PAGE);
    let allowed = function.limits.memory;
    if memory > allowed.as_u64() {
        return Err(PrepareError::Code(format!(
            "the code begins with {} of memory, more than the function's limit of {allowed}: deploy it with a larger --memory",
            ByteSize::bytes(memory)
        )));
    }
    let elements = needs.max_initial_table_size.unwrap_or_default();
    if elements > u64::from(table_elements) {
        return Err(PrepareError::Code(format!(
            "the code's table of functions begins with {elements} elements, more than the {table_elements} allowed (wasm.table_elements)"
        )));
    }
    Ok(())
}
