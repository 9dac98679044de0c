//! A function on one engine.

use std::sync::Arc;

use flint_executor::PrepareError;
use tokio::sync::Semaphore;

use crate::{
    contracts::Compiled,
    executor::Ground,
    host::Grants,
    loading::{self, Entry},
    packages::Assets,
    shelf::{Loaded, Spot},
    tenant::Tenant,
};

/// A function on one engine, where its code is loaded when a call needs it.
#[repr(align(128))]
pub(crate) struct Settled {
    entry: Arc<Entry>,
    spot: Arc<Spot>,
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
    /// A function whose code is this wherever it is loaded.
    pub(crate) fn new(
        ground: &Arc<Ground>,
        entry: &Arc<Entry>,
        compiled: &Compiled,
        tenant: &Arc<Tenant>,
        grants: Grants,
        assets: Option<Arc<Assets>>,
    ) -> Self {
        Self {
            entry: Arc::clone(entry),
            spot: ground.shelf.spot(&entry.key, entry.contract),
            reads_environment: compiled.reads_environment(),
            places: compiled.places().min(ground.size.instances),
            ground: Arc::clone(ground),
            tenant: Arc::clone(tenant),
            grants: Arc::new(grants),
            _assets: assets,
        }
    }

    /// Its code, if it is loaded.
    pub(crate) fn loaded(&self) -> Option<Arc<Loaded>> {
        self.ground.shelf.find(&self.spot)
    }

    /// Whether loading it would not have to wait for room.
    pub(crate) fn has_room(&self, guest: Option<&Arc<Tenant>>) -> bool {
        self.ground.shelf.has_room(&self.tenant(guest).namespace)
    }

    /// Its code, loaded now if need be.
    pub(crate) async fn load(&self, guest: Option<&Arc<Tenant>>) -> Result<Arc<Loaded>, PrepareError> {
        loading::load(&self.ground, &self.entry, &self.spot, self.tenant(guest)).await
    }

    /// The namespace that a call is charged to; `guest` is the caller's, if the function is another's.
    pub(crate) fn tenant<'a>(&'a self, guest: Option<&'a Arc<Tenant>>) -> &'a Arc<Tenant> {
        guest.unwrap_or(&self.tenant)
    }

    /// Whether the engine has free places, but the namespace that a call is charged to too few left of its share.
    pub(crate) fn is_short_of_share(&self, guest: Option<&Arc<Tenant>>) -> bool {
        let share = self.tenant(guest).places(self.ground.number);
        let free = |slots: &Semaphore| slots.available_permits();
        free(&self.ground.slots) > 0 && free(&share.slots) < share.of(self.places) as usize
    }
}
