//! Deploys in progress: their code is stored, but no entity refers to it yet, and it must not be collected as
//! garbage.

use std::sync::{Arc, Mutex, PoisonError};

use flint_model::Function;
use tokio::sync::{RwLock, RwLockWriteGuard};

/// The deploys in progress.
#[derive(Default)]
pub(crate) struct Deploys {
    /// Read lock while a deploy is registered, write lock while unreferenced code is removed.
    doors: RwLock<()>,
    going_on: Mutex<Vec<Arc<Function>>>,
}

/// A guard that keeps its function's code and preparation from being removed.
pub(crate) struct Deploying {
    deploys: Arc<Deploys>,
    function: Arc<Function>,
}

impl Deploys {
    /// Registers a function whose code was just stored or is still referred to. Waits for a removal, not for
    /// other deploys.
    pub(crate) async fn begin(self: &Arc<Self>, function: &Arc<Function>) -> Deploying {
        let _doors = self.doors.read().await;
        self.list(|list| list.push(Arc::clone(function)));
        Deploying { deploys: Arc::clone(self), function: Arc::clone(function) }
    }

    /// The deploys in progress. No other can register until the guard is dropped, since its code would not be
    /// among those kept.
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
