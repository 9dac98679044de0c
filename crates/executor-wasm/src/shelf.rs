//! Code that is loaded on an engine: once for all functions that have it, so that its machine code is mapped
//! and its metadata is in memory once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use flint_model::Contract;

use crate::contracts::{Code, Compiled};

/// Loaded code by its key in the cache and its entry point. Keeps nothing alive.
pub(crate) struct Shelf<T = Linked>(Mutex<HashMap<(String, Contract), Weak<T>>>);

/// Code that can be instantiated on one engine. It contains nothing of a particular function; that comes with
/// the instance.
pub(crate) struct Linked {
    pub(crate) compiled: Compiled,
    pub(crate) code: Code,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Shelf<T> {
    /// The code, if some function has loaded it.
    pub(crate) fn find(&self, key: &str, contract: Contract) -> Option<Arc<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(key.to_owned(), contract))?.upgrade()
    }

    /// Adds code and returns what others will find: an earlier entry, if another was faster.
    pub(crate) fn put(&self, key: &str, contract: Contract, new: T) -> Arc<T> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, weak| weak.strong_count() > 0);
        let place = held.entry((key.to_owned(), contract)).or_default();
        place.upgrade().unwrap_or_else(|| {
            let new = Arc::new(new);
            *place = Arc::downgrade(&new);
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_is_found_until_nobody_has_it() {
        let shelf = Shelf::default();
        let first = shelf.put("a", Contract::WasmCore, 1);
        let second = shelf.put("a", Contract::WasmCore, 2);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(shelf.find("a", Contract::WasmCore).as_deref(), Some(&1));
        assert_eq!(shelf.find("a", Contract::WasiCommand), None);
        assert_eq!(shelf.find("b", Contract::WasmCore), None);
        drop((first, second));
        assert_eq!(shelf.find("a", Contract::WasmCore), None);
        assert_eq!(*shelf.put("a", Contract::WasmCore, 3), 3);
        assert_eq!(shelf.0.lock().unwrap().len(), 1);
    }
}
