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
    contracts::Compiled,
    cut::cut,
    engine,
    executor::{EXPERIMENTAL, Ground, House},
    host::Grants,
    key, lane,
    loading::{self, Entry, Read},
    packages::Package,
    pool::MOST_PLACES,
    preinit,
    settled::Settled,
    shelf::{Loaded, Spot},
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
    /// Keeps the machine code on disk, where calls find it, and the namespace charged for it.
    _account: Arc<account::Key>,
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
    house: &Arc<House>,
    source: FunctionSource,
    progress: Progress<'_>,
) -> Result<Made, PrepareError> {
    let began = Instant::now();
    let Package { module, assets } = house.packages.module(&source, progress).await?;
    let FunctionSource { function, code } = source;
    // An archive is unpacked: it takes no memory while its module is compiled.
    drop(code);
    let function = &function;
    let folder = || assets.as_ref().map(|assets| assets.folder.clone());
    let Nature { shape, wasi, initialiser } = nature(house, &module).await?;
    let grounds = house.grounds(wasi);
    // Where its first call is likely to run. Other engines load it when a call needs it there.
    let own = lane::of_this_thread() % grounds.len().max(1);
    let ground = grounds.get(own).ok_or_else(|| {
        PrepareError::Code(format!(
            "the component is for wasi:http 0.3, which is switched off here, because {EXPERIMENTAL}: build it for wasi:http 0.2 (wasi:http/incoming-handler), or have the server's operator set wasm.http_0_3 = true"
        ))
    })?;
    let initialiser = initialiser.filter(|_| function.wasm.preinit);
    let key = if initialiser.is_some() { key::initialised(function) } else { key::as_deployed(function) };
    let entry = Arc::new(Entry { key: key.clone(), shape, wasi, contract: function.contract });
    let namespace = function.path.namespace.clone();
    let tenant = house.tenants.of(&namespace);
    // Before it is looked for, so that a collection does not remove what is found.
    let account = house.accounts.hold((namespace.clone(), key.clone()));
    let spot = ground.shelf.spot(&key, function.contract);
    // Other engines and later calls load it from the cache: if its entry is gone or damaged, it is made again.
    let held = match ground.shelf.find(&spot) {
        Some(loaded) => loading::is_whole(ground, &entry, &tenant).await?.then_some(loaded),
        None => None,
    };
    let (found, took) = match held {
        Some(loaded) => (Found::Loaded(loaded), Duration::ZERO),
        None => match look(ground, &entry, &tenant).await? {
            Some(read) => (Found::Read(read), Duration::ZERO),
            None => {
                house.accounts.recall(&account)?;
                let raw = Raw { module, entry: Arc::clone(&entry), initialiser, assets: folder() };
                let make = make(house, ground, function, &tenant, raw, &account, progress);
                // With a larger memory limit code may fit that failed before.
                let address = format!("wasm {key} {}", function.limits.memory);
                let made = house.compiler.workshop.in_turn(function, &address, progress, make).await?;
                (Found::Read(made), began.elapsed())
            }
        },
    };
    let machine_code = ground.cache.size(&key).unwrap_or_default();
    house.accounts.charge(&account, machine_code.as_u64())?;
    let begun = initialiser.map_or_else(String::new, |name| format!("ran {name}, "));
    let step = format!("{begun}compiled {} of Wasm to {machine_code} of machine code", function.code.size);
    let loaded = found.fitting(house, ground, function, &entry, &spot)?;
    let compiled = &loaded.compiled;
    let settle = |ground| {
        let grants = Grants::of(function, folder());
        Arc::new(Settled::new(ground, &entry, compiled, &tenant, grants, assets.clone()))
    };
    let settled = grounds.iter().map(settle).collect();
    let memory = usize::try_from(function.limits.memory.as_u64()).unwrap_or(usize::MAX);
    let has_gate = function.wants_api_key() && compiled.sends_requests();
    let gates = house.services.gates.clone().filter(|_| has_gate);
    let artefact = Artefact { settled, memory, namespace, gates, _account: account };
    Ok(Made { artefact, steps: vec![step], took })
}

/// What a module or component is, by what it says of itself.
struct Nature {
    shape: Shape,
    wasi: Wasi,
    /// The name of the initialiser that it exports.
    initialiser: Option<&'static str>,
}

/// Looks through the code on the blocking thread pool, which takes a while if it is large.
async fn nature(house: &Arc<House>, module: &Bytes) -> Result<Nature, PrepareError> {
    let (house, module) = (Arc::clone(house), module.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let shape = house.compiler.shape(&module)?;
        let (wasi, initialiser) = (Wasi::of(&module, shape), preinit::initialiser(&module, shape));
        Ok(Nature { shape, wasi, initialiser })
    });
    looking.await.map_err(|died| PrepareError::Failed {
        operation: "looking through the code".to_owned(),
        detail: died.to_string(),
    })?
}

/// Compiled code that was loaded before, or just now.
enum Found {
    Loaded(Arc<Loaded>),
    Read(Read),
}

impl Found {
    /// Resolves its imports, unless that was done, if the function may have what the code needs.
    fn fitting(
        self,
        house: &House,
        ground: &Ground,
        function: &Function,
        entry: &Entry,
        spot: &Arc<Spot>,
    ) -> Result<Arc<Loaded>, PrepareError> {
        let compiled = match &self {
            Self::Loaded(loaded) => &loaded.compiled,
            Self::Read(read) => &read.compiled,
        };
        fits(compiled, function, house.config.table_elements)?;
        match self {
            Self::Loaded(loaded) => Ok(loaded),
            Self::Read(read) => loading::link(ground, entry, spot, read),
        }
    }
}

/// Code on its way to the compiler.
struct Raw {
    module: Bytes,
    entry: Arc<Entry>,
    initialiser: Option<&'static str>,
    assets: Option<PathBuf>,
}

/// The code if it was compiled before, for this engine.
async fn look(
    ground: &Arc<Ground>,
    entry: &Arc<Entry>,
    tenant: &Arc<Tenant>,
) -> Result<Option<Read>, PrepareError> {
    if ground.cache.size(&entry.key).is_none() {
        return Ok(None); // and nothing has to make room for it
    }
    match loading::read(ground, entry, tenant).await? {
        Ok(found) => Ok(found),
        Err(error) => {
            tracing::info!(key = entry.key, %error, "compiled Wasm code is of another engine; compiling it again");
            let given_up = loading::aside(ground, entry, |ground, entry| ground.cache.give_up(&entry.key));
            given_up.await?.map_err(|error| not_kept(error.to_string()))?;
            Ok(None)
        }
    }
}

/// Compiles the code, after its initialiser if it has one, and caches it.
async fn make(
    house: &House,
    ground: &Arc<Ground>,
    function: &Function,
    tenant: &Arc<Tenant>,
    raw: Raw,
    account: &Arc<account::Key>,
    progress: Progress<'_>,
) -> Result<Read, PrepareError> {
    let Raw { mut module, entry, initialiser, assets } = raw;
    let (shape, wasi) = (entry.shape, entry.wasi);
    // Another deploy may have done it while this one waited for its turn.
    if let Some(read) = look(ground, &entry, tenant).await? {
        return Ok(read);
    }
    if let Some(name) = initialiser {
        progress("running its initialiser");
        module = house.compiler.initialise(function, module, (shape, wasi), name, assets).await?;
        house.compiler.shape(&module)?; // it has grown
    }
    house.compiler.workshop.go_on()?;
    progress("compiling");
    let machine_code = house.compiler.compile(module, shape, wasi).await?;
    house.accounts.charge(account, machine_code.len() as u64)?;
    // Stored and loaded, so that the code that runs is what a restart will find.
    let stored =
        loading::aside(ground, &entry, move |ground, entry| ground.cache.store(&entry.key, &machine_code));
    stored.await?.map_err(|error| not_kept(error.to_string()))?;
    read_again(house, function, ground, &entry, tenant).await
}

/// Takes compiled code out of its cache entry, which was written just now.
async fn read_again(
    house: &House,
    function: &Function,
    ground: &Arc<Ground>,
    entry: &Arc<Entry>,
    tenant: &Arc<Tenant>,
) -> Result<Read, PrepareError> {
    let error = match loading::read(ground, entry, tenant).await? {
        Ok(Some(read)) => return Ok(read),
        Ok(None) => {
            return Err(not_kept(
                "what was written cannot be read again; check the data directory's disk".into(),
            ));
        }
        Err(error) => error,
    };
    // The engine refuses code that could never be instantiated in its pool, without figures. An engine
    // without a pool reports them.
    let config = house.config.clone();
    let without_pool = move |ground: &Ground, entry: &Entry| {
        let engine = engine::without_pool(&config, entry.wasi).ok()?;
        loading::read_on(&engine, ground, entry).ok()?.ok()?
    };
    if let Some(compiled) = loading::aside(ground, entry, without_pool).await? {
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
