//! Loads compiled code on an engine: when a deploy looks whether that goes well, and when a call needs it there.

use std::{sync::Arc, time::Duration};

use flint_executor::PrepareError;
use flint_model::Contract;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{sleep, timeout},
};
use wasmtime::Engine;

use crate::{
    cache::{Shape, Unread},
    contracts::Compiled,
    executor::Ground,
    shelf::{Linked, Loaded, Place, Spot},
    tenant::Tenant,
    wasi::Wasi,
};

/// Most loads at once on an engine. Code is read as a whole, and may have hundreds of megabytes.
pub(crate) const LOADS: usize = 3;
/// Most of one namespace. It leaves others one.
pub(crate) const OWN_LOADS: usize = 2;
/// How often a call looks whether there is room by now.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a deploy waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// The cache entry of compiled code, and its entry point.
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) shape: Shape,
    pub(crate) wasi: Wasi,
    pub(crate) contract: Contract,
}

/// Code on an engine whose imports are not resolved yet.
pub(crate) struct Read {
    pub(crate) compiled: Compiled,
    place: Place,
}

/// Loads code that was deployed before, unless another call just did. Waits for room in the share of the
/// namespace that it is for. It goes on if its caller gives up, so that code whose loading takes longer than a
/// call may take is loaded for the next.
pub(crate) async fn load(
    ground: &Arc<Ground>,
    entry: &Arc<Entry>,
    spot: &Arc<Spot>,
    tenant: &Arc<Tenant>,
) -> Result<Arc<Loaded>, PrepareError> {
    // Kept while it waits for room, since others of its namespace would wait for the same.
    let mut own = tenant.turn_to_load(ground.number).await?;
    loop {
        // Not kept: other namespaces may have room, also for the same code.
        let turn = Arc::clone(&spot.turn).lock_owned().await;
        if let Some(loaded) = ground.shelf.find(spot) {
            return Ok(loaded);
        }
        let turns = (turn, ground.turn_to_load().await?);
        let (spot, tenant) = (Arc::clone(spot), Arc::clone(tenant));
        let tried = aside(ground, entry, move |ground, entry| {
            let Some(place) = ground.shelf.make_room(&tenant.namespace) else { return Err(own) };
            let loaded = match ground.cache.read(&ground.engine, &entry.key, entry.shape) {
                Ok(Some(compiled)) => link(ground, entry, &spot, Read { compiled, place }),
                Ok(None) => Err(failed("its file is missing or damaged: deploy the function again")),
                Err(error) => Err(failed(&error.to_string())),
            };
            drop((own, turns)); // not before
            Ok(loaded)
        });
        match tried.await? {
            Ok(loaded) => return loaded,
            Err(back) => own = back,
        }
        sleep(PAUSE).await;
    }
}

/// Whether its cache entry is there and undamaged, as whoever loads it next needs it. Its turn is none of those to load:
/// those a namespace keeps while its calls wait for room, and this needs none.
pub(crate) async fn is_whole(
    ground: &Arc<Ground>,
    entry: &Arc<Entry>,
    tenant: &Tenant,
) -> Result<bool, PrepareError> {
    let turn = timeout(PATIENCE, ground.looks.take(&tenant.namespace, 1)).await;
    let turn = turn.map_err(|_| {
        PrepareError::Busy(
            "too many deploys look whether their compiled code is whole; try again later".into(),
        )
    })?;
    let compared = aside(ground, entry, move |ground, entry| {
        let _turn = turn;
        ground.cache.is_whole(&entry.key)
    });
    compared.await?.map_err(|error| failed(&error.to_string()))
}

/// Takes code out of its cache entry for a namespace's deploy, if that is there and undamaged; the inner error
/// says why the engine refuses it.
pub(crate) async fn read(
    ground: &Arc<Ground>,
    entry: &Arc<Entry>,
    tenant: &Arc<Tenant>,
) -> Result<wasmtime::Result<Option<Read>>, PrepareError> {
    let busy =
        || PrepareError::Busy("calls of too many different functions are running; try again later".into());
    let turns = timeout(PATIENCE, turns_to_load(ground, tenant)).await.map_err(|_| busy())??;
    let tenant = Arc::clone(tenant);
    aside(ground, entry, move |ground, entry| {
        let _turns = turns;
        let place = ground.shelf.make_room(&tenant.namespace).ok_or_else(busy)?;
        let found = read_on(&ground.engine, ground, entry)?;
        Ok(found.map(|found| found.map(|compiled| Read { compiled, place })))
    })
    .await?
}

/// The namespace's turn first: who waits for its own stands in nobody's way.
async fn turns_to_load(ground: &Ground, tenant: &Tenant) -> Result<[OwnedSemaphorePermit; 2], PrepareError> {
    Ok([tenant.turn_to_load(ground.number).await?, ground.turn_to_load().await?])
}

/// The same on any engine, and not to stay. Blocking.
pub(crate) fn read_on(
    engine: &Engine,
    ground: &Ground,
    entry: &Entry,
) -> Result<wasmtime::Result<Option<Compiled>>, PrepareError> {
    match ground.cache.read(engine, &entry.key, entry.shape) {
        Ok(found) => Ok(Ok(found)),
        Err(Unread::Refused(error)) => Ok(Err(error)),
        Err(error @ Unread::Host(_)) => Err(failed(&error.to_string())),
    }
}

/// Resolves its imports, and keeps it for others.
pub(crate) fn link(
    ground: &Ground,
    entry: &Entry,
    spot: &Arc<Spot>,
    read: Read,
) -> Result<Arc<Loaded>, PrepareError> {
    let Read { compiled, place } = read;
    let code = ground.linkers.link(&compiled, entry.contract)?;
    Ok(ground.shelf.put(spot, place, Linked { compiled, code }))
}

/// Accesses the cache on the blocking thread pool.
pub(crate) async fn aside<T: Send + 'static>(
    ground: &Arc<Ground>,
    entry: &Arc<Entry>,
    work: impl FnOnce(&Ground, &Entry) -> T + Send + 'static,
) -> Result<T, PrepareError> {
    let (ground, entry) = (Arc::clone(ground), Arc::clone(entry));
    let done = tokio::task::spawn_blocking(move || work(&ground, &entry)).await;
    done.map_err(|died| failed(&died.to_string()))
}

/// Why code is not loaded once the server shuts down.
pub(crate) fn closed() -> PrepareError {
    failed("the server is shutting down")
}

pub(crate) fn failed(detail: &str) -> PrepareError {
    PrepareError::Failed { operation: "loading compiled code".to_owned(), detail: detail.to_owned() }
}
