//! A cache of functions, so that a call does not read the catalog.
//!
//! The catalog is the truth. A write removes the entry after it is committed and before it is acknowledged,
//! and a load that began before the write cannot insert the old entry: a call that comes after an
//! acknowledged write meets the new function.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::{Arc, PoisonError, RwLock},
};

use flint_model::FunctionPath;

const SHARDS: usize = 16;

/// Entries per shard. A full shard is emptied, which costs one catalog read per function.
const PER_SHARD: usize = 1024;

/// Approximate bytes per shard. A larger entry is not cached.
const BYTES_PER_SHARD: usize = 16 << 20;

/// Approximate memory use of a cache entry.
pub(crate) trait Weigh {
    /// In bytes.
    fn weight(&self) -> usize;
}

/// A cache by path, sharded.
pub(crate) struct FunctionCache<T> {
    shards: [RwLock<Shard<T>>; SHARDS],
    hasher: RandomState,
}

struct Shard<T> {
    entries: HashMap<FunctionPath, Arc<T>>,
    /// Of all entries.
    weight: usize,
    /// Counts removals.
    epoch: u64,
}

/// The epoch at which a load began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadBegan(u64);

impl<T> Default for FunctionCache<T> {
    fn default() -> Self {
        let shard = |_| RwLock::new(Shard { entries: HashMap::new(), weight: 0, epoch: 0 });
        Self { shards: std::array::from_fn(shard), hasher: RandomState::new() }
    }
}

impl<T: Weigh> FunctionCache<T> {
    fn shard(&self, path: &FunctionPath) -> &RwLock<Shard<T>> {
        &self.shards[self.hasher.hash_one(path) as usize % SHARDS]
    }

    /// The entry, or the epoch to pass to [`Self::insert`] once it is loaded.
    pub(crate) fn get(&self, path: &FunctionPath) -> Result<Arc<T>, LoadBegan> {
        let shard = self.shard(path).read().unwrap_or_else(PoisonError::into_inner);
        shard.entries.get(path).cloned().ok_or(LoadBegan(shard.epoch))
    }

    /// Inserts a loaded entry, unless something was removed since the load began.
    pub(crate) fn insert(&self, path: FunctionPath, entry: Arc<T>, began: LoadBegan) {
        self.insert_current(path, entry, began, |_| ());
    }

    /// The same; `current` sees the entry first unless a removal has overtaken it. What it does comes before any
    /// later removal.
    pub(crate) fn insert_current(
        &self,
        path: FunctionPath,
        entry: Arc<T>,
        began: LoadBegan,
        current: impl FnOnce(&T),
    ) {
        let weight = entry.weight();
        let mut shard = self.shard(&path).write().unwrap_or_else(PoisonError::into_inner);
        if shard.epoch != began.0 {
            return;
        }
        current(&entry);
        if weight > BYTES_PER_SHARD {
            return;
        }
        // Two loads may have run concurrently.
        shard.remove(&path);
        if shard.entries.len() >= PER_SHARD || shard.weight + weight > BYTES_PER_SHARD {
            shard.entries.clear();
            shard.weight = 0;
        }
        shard.weight += weight;
        shard.entries.insert(path, entry);
    }

    /// Removes every entry made from something that was written.
    pub(crate) fn remove_where(&self, outdated: impl Fn(&FunctionPath, &T) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.epoch += 1;
            let mut removed = 0;
            shard.entries.retain(|path, entry| {
                let goes = outdated(path, entry);
                removed += if goes { entry.weight() } else { 0 };
                !goes
            });
            shard.weight -= removed;
        }
    }

    /// Removes an entry that was written.
    pub(crate) fn remove(&self, path: &FunctionPath) {
        let mut shard = self.shard(path).write().unwrap_or_else(PoisonError::into_inner);
        shard.epoch += 1;
        shard.remove(path);
    }
}

impl<T: Weigh> Shard<T> {
    fn remove(&mut self, path: &FunctionPath) {
        if let Some(entry) = self.entries.remove(path) {
            self.weight -= entry.weight();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    #[test]
    fn a_load_that_a_write_overtook_is_not_kept() {
        let cache = FunctionCache::<usize>::default();
        let path: FunctionPath = "guest/f".parse().unwrap();
        let began = cache.get(&path).unwrap_err();
        cache.remove(&path);
        cache.insert(path.clone(), Arc::new(1), began);
        let overtaken = began;
        let began = cache.get(&path).unwrap_err();
        let mut seen = Vec::new();
        for (value, began) in [(1, overtaken), (2, began), (BYTES_PER_SHARD + 1, began), (3, overtaken)] {
            cache.insert_current(path.clone(), Arc::new(value), began, |current| seen.push(*current));
        }
        assert_eq!((*cache.get(&path).unwrap(), seen), (2, vec![2, BYTES_PER_SHARD + 1]));
        cache.remove(&path);
        assert!(cache.get(&path).is_err());
    }

    #[test]
    fn what_was_made_from_something_written_goes_and_so_does_a_load_of_it() {
        let cache = FunctionCache::<usize>::default();
        let paths: Vec<FunctionPath> =
            (0..64).map(|number| format!("guest/f{number}").parse().unwrap()).collect();
        let put = |value: usize| {
            for path in &paths {
                if let Err(began) = cache.get(path) {
                    cache.insert(path.clone(), Arc::new(value), began);
                }
            }
        };
        put(1);
        cache.remove_where(|path, value| *value == 1 && path.name.as_str().ends_with('7'));
        let loading: FunctionPath = "guest/loading".parse().unwrap();
        let began = cache.get(&loading).unwrap_err();
        put(2);
        for path in &paths {
            let expected = if path.name.as_str().ends_with('7') { 2 } else { 1 };
            assert_eq!(*cache.get(path).unwrap(), expected, "{path}");
        }
        cache.remove_where(|_, _| false);
        cache.insert(loading.clone(), Arc::new(1), began);
        assert!(cache.get(&loading).is_err(), "it was loaded before the write");
    }

    #[test]
    fn the_memory_of_entries_is_bounded() {
        let cache = FunctionCache::<usize>::default();
        let path = |number: usize| -> FunctionPath { format!("guest/f{number}").parse().unwrap() };
        let put = |number: usize, weight: usize| {
            if let Err(began) = cache.get(&path(number)) {
                cache.insert(path(number), Arc::new(weight), began);
            }
        };
        let check = || -> usize {
            let sums = cache.shards.iter().map(|shard| {
                let shard = shard.read().unwrap();
                let sum: usize = shard.entries.values().map(|entry| **entry).sum();
                assert!(sum == shard.weight && sum <= BYTES_PER_SHARD);
                sum
            });
            sums.sum()
        };
        (0..64 * SHARDS).for_each(|number| put(number, BYTES_PER_SHARD / 5));
        assert!(check() > 0, "a full shard goes on");
        (0..32 * SHARDS).for_each(|number| cache.remove(&path(number)));
        check();
        cache.remove_where(|path, _| path.name.as_str().ends_with('7'));
        check();
        let began = cache.get(&path(0)).unwrap_err();
        for weight in [1, BYTES_PER_SHARD, 2] {
            cache.insert(path(0), Arc::new(weight), began);
            check();
        }
        assert_eq!(*cache.get(&path(0)).unwrap(), 2);
        cache.remove_where(|_, _| true);
        assert_eq!(check(), 0);
        put(1, BYTES_PER_SHARD + 1);
        assert!(cache.get(&path(1)).is_err(), "too large by itself");
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let cache = FunctionCache::<usize>::default();
        for number in 0..2 * SHARDS * PER_SHARD {
            let path: FunctionPath = format!("guest/f{number}").parse().unwrap();
            let began = cache.get(&path).unwrap_err();
            cache.insert(path, Arc::new(1), began);
        }
        let kept: usize = cache.shards.iter().map(|shard| shard.read().unwrap().entries.len()).sum();
        assert!(kept <= SHARDS * PER_SHARD && kept > 0);
    }
}
