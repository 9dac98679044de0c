//! Prepared functions in use, which a collection must not remove.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use flint_model::NamespaceName;

use crate::prepare::artefact::{Artefact, SharedArtefact};

/// An artefact and a namespace for which it was prepared.
type Holding = (NamespaceName, Weak<Artefact>);

/// The artefacts in use.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<Vec<Holding>>);

impl Held {
    /// Protects an artefact from collection until it is dropped. The caller must check that no collection was
    /// faster.
    pub(crate) fn add(&self, namespace: &NamespaceName, artefact: &SharedArtefact) {
        let mut held = self.lock();
        held.retain(|(_, artefact)| artefact.strong_count() > 0);
        held.push((namespace.clone(), Arc::downgrade(artefact)));
    }

    /// The addresses in use, with their namespaces.
    pub(crate) fn all(&self) -> Vec<(NamespaceName, String)> {
        let address =
            |(namespace, artefact): &Holding| Some((namespace.clone(), artefact.upgrade()?.address.clone()));
        self.lock().iter().filter_map(address).collect()
    }

    /// Permission to remove an artefact that is not in use. It holds the lock, so that none can come into use
    /// before it is dropped.
    pub(crate) fn leave(&self, address: &str) -> Option<MutexGuard<'_, Vec<Holding>>> {
        let held = self.lock();
        let is_held = held
            .iter()
            .any(|(_, artefact)| artefact.upgrade().is_some_and(|artefact| artefact.address == address));
        (!is_held).then_some(held)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fs};

    use super::*;
    use crate::{
        discover::Engine,
        prepare::artefact::{Record, Shelf},
    };

    #[test]
    fn what_somebody_comes_to_hold_while_others_are_removed_stays() {
        let root = tempfile::tempdir().unwrap();
        let (shelf, held) = (Shelf::open(root.path()).unwrap(), Held::default());
        let hold = |address: &str| {
            let (engine, record) = (Engine::Native, Record::default());
            let (address, folder) = (address.to_owned(), root.path().join(address));
            let artefact = Arc::new(Artefact { address, folder, engine, record });
            held.add(&"guest".parse().unwrap(), &artefact);
            artefact
        };
        let addresses = ["a", "b", "c"];
        for address in addresses {
            fs::create_dir(root.path().join(address)).unwrap();
        }
        let holders = RefCell::new(Vec::new());
        let removed = shelf.collect(|address| {
            if holders.borrow().is_empty() {
                holders
                    .borrow_mut()
                    .extend(addresses.into_iter().filter(|other| *other != address).map(hold));
            }
            held.leave(address)
        });
        assert_eq!(removed.unwrap(), 1);
        assert!(holders.borrow().iter().all(|artefact| artefact.folder.is_dir()));
        assert_eq!(held.all().len(), 2);
        holders.borrow_mut().clear();
        assert!(held.all().is_empty());
        assert_eq!(shelf.collect(|address| held.leave(address)).unwrap(), 2);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
