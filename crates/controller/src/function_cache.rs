//! Functions in memory, so that a call does not read the catalog.
//!
//! The catalog is the truth. A write removes the entry after it is committed and before it is acknowledged, and a load that
//! began before the write does not bring the old entry back: a call that comes after an acknowledged write meets the new function.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::{Arc, PoisonError, RwLock},
};

use flint_model::FunctionPath;

const SHARDS: usize = 16;

/// Entries of one shard; a shard that is full is emptied, which costs its functions one catalog read each.
const PER_SHARD: usize = 1024;

/// Something by path, loaded when it is missing.
pub(crate) struct FunctionCache<T> {
    shards: [RwLock<Shard<T>>; SHARDS],
    hasher: RandomState,
}

struct Shard<T> {
    entries: HashMap<FunctionPath, Arc<T>>,
    /// Counts removals.
    epoch: u64,
}

/// The moment at which a load began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadBegan(u64);

impl<T> Default for FunctionCache<T> {
    fn default() -> Self {
        let shard = |_| RwLock::new(Shard { entries: HashMap::new(), epoch: 0 });
        Self { shards: std::array::from_fn(shard), hasher: RandomState::new() }
    }
}

impl<T> FunctionCache<T> {
    fn shard(&self, path: &FunctionPath) -> &RwLock<Shard<T>> {
        &self.shards[self.hasher.hash_one(path) as usize % SHARDS]
    }

    /// The entry, or the moment to give to [`Self::insert`] when it is loaded.
    pub(crate) fn get(&self, path: &FunctionPath) -> Result<Arc<T>, LoadBegan> {
        let shard = self.shard(path).read().unwrap_or_else(PoisonError::into_inner);
        shard.entries.get(path).cloned().ok_or(LoadBegan(shard.epoch))
    }

    /// Keeps what was loaded, unless something was removed since the load began.
    pub(crate) fn insert(&self, path: FunctionPath, entry: Arc<T>, began: LoadBegan) {
        let mut shard = self.shard(&path).write().unwrap_or_else(PoisonError::into_inner);
        if shard.epoch == began.0 {
            if shard.entries.len() >= PER_SHARD {
                shard.entries.clear();
            }
            shard.entries.insert(path, entry);
        }
    }

    /// Forgets an entry that was written.
    pub(crate) fn remove(&self, path: &FunctionPath) {
        let mut shard = self.shard(path).write().unwrap_or_else(PoisonError::into_inner);
        shard.epoch += 1;
        shard.entries.remove(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_a_write_overtook_is_not_kept() {
        let cache = FunctionCache::<u32>::default();
        let path: FunctionPath = "guest/f".parse().unwrap();
        let began = cache.get(&path).unwrap_err();
        cache.remove(&path);
        cache.insert(path.clone(), Arc::new(1), began);
        let began = cache.get(&path).unwrap_err();
        cache.insert(path.clone(), Arc::new(2), began);
        assert_eq!(*cache.get(&path).unwrap(), 2);
        cache.remove(&path);
        assert!(cache.get(&path).is_err());
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let cache = FunctionCache::<usize>::default();
        for number in 0..2 * SHARDS * PER_SHARD {
            let path: FunctionPath = format!("guest/f{number}").parse().unwrap();
            let began = cache.get(&path).unwrap_err();
            cache.insert(path, Arc::new(number), began);
        }
        let kept: usize = cache.shards.iter().map(|shard| shard.read().unwrap().entries.len()).sum();
        assert!(kept <= SHARDS * PER_SHARD && kept > 0);
    }
}
