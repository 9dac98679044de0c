//! What a namespace may take of what all share: three quarters, so that it leaves others something.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use flint_executor::PrepareError;
use flint_model::NamespaceName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{budget::Budget, loading};

/// A namespace with functions.
pub(crate) struct Tenant {
    pub(crate) namespace: NamespaceName,
    /// The memory of its instances.
    pub(crate) memory: Budget,
    /// Its share of each engine.
    places: Box<[Share]>,
}

/// A namespace's share of the places of one engine's pool, and of the turns to load code there.
#[repr(align(128))]
pub(crate) struct Share {
    all: u32,
    /// Free ones.
    pub(crate) slots: Semaphore,
    loads: Arc<Semaphore>,
}

/// The namespaces with functions. Keeps nothing of others.
pub(crate) struct Tenants {
    memory: usize,
    places: Box<[u32]>,
    held: Mutex<HashMap<NamespaceName, Weak<Tenant>>>,
}

impl Tenant {
    pub(crate) fn places(&self, engine: usize) -> &Share {
        &self.places[engine]
    }

    /// Waits until it is one of the namespace's turns to load code on this engine.
    pub(crate) async fn turn_to_load(&self, engine: usize) -> Result<OwnedSemaphorePermit, PrepareError> {
        let turn = Arc::clone(&self.places(engine).loads).acquire_owned().await;
        turn.map_err(|_| loading::closed())
    }
}

impl Share {
    fn new(all: u32) -> Self {
        Self { all, slots: Semaphore::new(all as usize), loads: Arc::new(Semaphore::new(loading::OWN_LOADS)) }
    }

    /// What a call for these places takes of the share. Who needs more than the share takes all of it.
    pub(crate) fn of(&self, places: u32) -> u32 {
        places.min(self.all)
    }
}

impl Tenants {
    /// With so much memory for all of them, and so many places on each engine.
    pub(crate) fn new(memory: usize, places: Box<[u32]>) -> Self {
        Self { memory, places, held: Mutex::default() }
    }

    pub(crate) fn of(&self, namespace: &NamespaceName) -> Arc<Tenant> {
        let mut held = self.held();
        if let Some(tenant) = held.get(namespace).and_then(Weak::upgrade) {
            return tenant;
        }
        held.retain(|_, tenant| tenant.strong_count() > 0);
        let memory = Budget::new(self.memory - self.memory / 4, self.places.len());
        let places = self.places.iter().map(|places| Share::new(places - places / 4)).collect();
        let tenant = Arc::new(Tenant { namespace: namespace.clone(), memory, places });
        held.insert(namespace.clone(), Arc::downgrade(&tenant));
        tenant
    }

    /// Nobody waits any more.
    pub(crate) fn close(&self) {
        for tenant in self.held().values().filter_map(Weak::upgrade) {
            for share in &tenant.places {
                share.slots.close();
                share.loads.close();
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<NamespaceName, Weak<Tenant>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_kept_while_they_have_functions() {
        let tenants = Tenants::new(800, [1, 8].into());
        let [a, b] = ["a", "b"].map(|name| name.parse().unwrap());
        let first = tenants.of(&a);
        assert!(Arc::ptr_eq(&first, &tenants.of(&a)) && !Arc::ptr_eq(&first, &tenants.of(&b)));
        assert!(first.memory.take(0, 500) && !first.memory.take(0, 101));
        let [small, large] = [0, 1].map(|engine| first.places(engine));
        assert_eq!((small.slots.available_permits(), small.of(1)), (1, 1));
        assert_eq!((large.slots.available_permits(), large.of(5), large.of(8)), (6, 5, 6));
        drop(first);
        drop(tenants.of(&b));
        assert_eq!(tenants.held().len(), 1);
    }
}
