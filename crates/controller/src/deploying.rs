//! Functions between their code's being stored and the entity that refers to it.

use std::sync::{Arc, Mutex, PoisonError};

use flint_model::Function;
use tokio::sync::{RwLock, RwLockWriteGuard};

/// Which functions are being deployed.
#[derive(Default)]
pub(crate) struct Deploys {
    /// Held for reading while a deploy is noted, for writing while what nothing refers to is removed.
    doors: RwLock<()>,
    going_on: Mutex<Vec<Arc<Function>>>,
}

/// While it lives, what its function is made of stays.
pub(crate) struct Deploying {
    deploys: Arc<Deploys>,
    function: Arc<Function>,
}

impl Deploys {
    /// Notes a function whose code was just stored, or is still referred to. Waits for a removal, not for other deploys.
    pub(crate) async fn begin(self: &Arc<Self>, function: &Arc<Function>) -> Deploying {
        let _doors = self.doors.read().await;
        self.list(|list| list.push(Arc::clone(function)));
        Deploying { deploys: Arc::clone(self), function: Arc::clone(function) }
    }

    /// What is being deployed. Nothing else is until the guard is dropped: what it may need was not looked at.
    pub(crate) async fn shut(&self) -> (RwLockWriteGuard<'_, ()>, Vec<Arc<Function>>) {
        let doors = self.doors.write().await;
        (doors, self.list(|list| list.clone()))
    }

    fn list<T>(&self, what: impl FnOnce(&mut Vec<Arc<Function>>) -> T) -> T {
        what(&mut self.going_on.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Deploying {
    fn drop(&mut self) {
        self.deploys.list(|list| {
            if let Some(at) = list.iter().position(|function| Arc::ptr_eq(function, &self.function)) {
                list.swap_remove(at);
            }
        });
    }
}
