//! Code that is loaded on an engine: once for all functions that have it, and no more than there is room for.
//!
//! Loaded code takes three of the process's mappings and a descriptor, and stays loaded for the next call. If
//! there is no room, the code that nobody has run for longest goes.

use std::{
    collections::HashMap,
    fs,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use flint_model::Contract;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::contracts::{Code, Compiled};

/// Mappings of loaded code: what is before its machine code, that, and what is after it.
const MAPPINGS: u64 = 3;
/// Loaded code gets this fraction of the mappings that a process may have; the pool has most of them.
const MAPPINGS_PART: u64 = 10;
/// The same of its descriptors.
const DESCRIPTORS_PART: u64 = 16;
/// The kernel's default of mappings.
const DEFAULT_MAP_COUNT: u64 = 65_530;
/// The least for an engine.
const LEAST: u64 = 8;

/// The code of an engine's functions, loaded or not. Keeps none of it alive.
pub(crate) struct Shelf<T = Linked> {
    places: Arc<Semaphore>,
    spots: Mutex<HashMap<Label, Weak<Spot<T>>>>,
    /// The spots with loaded code.
    taken: Mutex<Vec<Weak<Spot<T>>>>,
    /// Counts what was loaded, which is the clock for what was used last: nothing has to go in between.
    clock: AtomicU64,
}

/// The code's key in the cache and its entry point.
type Label = (String, Contract);

/// Where code is if it is loaded. Belongs to the functions that have this code: it is unloaded with the last.
#[repr(align(128))]
pub(crate) struct Spot<T = Linked> {
    loaded: Mutex<Option<Arc<Loaded<T>>>>,
    used: AtomicU64,
    /// Held by who loads it.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

/// Loaded code. It takes room for as long as somebody has it.
#[repr(align(128))]
pub(crate) struct Loaded<T = Linked> {
    content: T,
    /// Given back once the content is gone.
    _place: Place,
}

/// Room for code that is being loaded.
pub(crate) struct Place(#[allow(dead_code, reason = "it is only held")] OwnedSemaphorePermit);

/// Code that can be instantiated on one engine. It contains nothing of a particular function; that comes with
/// the instance.
pub(crate) struct Linked {
    pub(crate) compiled: Compiled,
    pub(crate) code: Code,
}

impl<T> Deref for Loaded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

/// How much code may be loaded on each of so many engines.
pub(crate) fn room(engines: usize) -> usize {
    let mappings = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let mappings = mappings.and_then(|number| number.trim().parse().ok()).unwrap_or(DEFAULT_MAP_COUNT);
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let all = (mappings / MAPPINGS_PART / MAPPINGS).min(descriptors / DESCRIPTORS_PART);
    (all / engines.max(1) as u64).max(LEAST) as usize
}

impl<T> Shelf<T> {
    /// With room for so much.
    pub(crate) fn new(room: usize) -> Self {
        let places = Arc::new(Semaphore::new(room.min(Semaphore::MAX_PERMITS)));
        Self { places, spots: Mutex::default(), taken: Mutex::default(), clock: AtomicU64::new(0) }
    }

    /// The spot of code with this key in the cache and this entry point.
    pub(crate) fn spot(&self, key: &str, contract: Contract) -> Arc<Spot<T>> {
        let mut spots = lock(&self.spots);
        let label = (key.to_owned(), contract);
        if let Some(spot) = spots.get(&label).and_then(Weak::upgrade) {
            return spot;
        }
        if spots.len() == spots.capacity() {
            spots.retain(|_, spot| spot.strong_count() > 0);
        }
        let spot = Arc::new(Spot::default());
        spots.insert(label, Arc::downgrade(&spot));
        spot
    }

    /// The spot's code, if it is loaded. Every call asks.
    pub(crate) fn find(&self, spot: &Spot<T>) -> Option<Arc<Loaded<T>>> {
        let found = lock(&spot.loaded).clone()?;
        spot.used.store(self.clock.load(Relaxed), Relaxed);
        Some(found)
    }

    /// Whether room for more can be made at present.
    pub(crate) fn has_room(&self) -> bool {
        let idle = |spot: &Weak<Spot<T>>| spot.upgrade().is_some_and(|spot| is_idle(&lock(&spot.loaded)));
        self.places.available_permits() > 0 || lock(&self.taken).iter().any(idle)
    }

    /// Makes room for more; `None` if all that is loaded is in use. May unload something, which blocks.
    pub(crate) fn make_room(&self) -> Option<Place> {
        loop {
            if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
                return Some(Place(permit));
            }
            drop(self.take_oldest()?);
        }
    }

    /// Loads code into its spot and returns what others will find: what is there, if another was faster.
    pub(crate) fn put(&self, spot: &Arc<Spot<T>>, place: Place, content: T) -> Arc<Loaded<T>> {
        let new = Arc::new(Loaded { content, _place: place });
        {
            let mut loaded = lock(&spot.loaded);
            if let Some(earlier) = &*loaded {
                return Arc::clone(earlier);
            }
            *loaded = Some(Arc::clone(&new));
        }
        spot.used.store(self.clock.fetch_add(1, Relaxed) + 1, Relaxed);
        let mut taken = lock(&self.taken);
        if taken.len() == taken.capacity() {
            taken.retain(|spot| spot.strong_count() > 0);
        }
        taken.push(Arc::downgrade(spot));
        new
    }

    /// Takes away what has not been used for longest and is not in use.
    fn take_oldest(&self) -> Option<Arc<Loaded<T>>> {
        let mut taken = lock(&self.taken);
        taken.retain(|spot| spot.strong_count() > 0);
        let idle = |spot: &Weak<Spot<T>>| spot.upgrade().filter(|spot| is_idle(&lock(&spot.loaded)));
        loop {
            let ages =
                taken.iter().enumerate().filter_map(|(at, spot)| Some((idle(spot)?.used.load(Relaxed), at)));
            let (_, at) = ages.min()?;
            let Some(spot) = taken[at].upgrade() else { continue };
            let mut loaded = lock(&spot.loaded);
            // A call may have come in between.
            if is_idle(&loaded) {
                taken.swap_remove(at);
                return loaded.take();
            }
        }
    }
}

/// Whether it is loaded and nobody has it. Who wants it needs the lock.
fn is_idle<T>(loaded: &Option<Arc<Loaded<T>>>) -> bool {
    loaded.as_ref().is_some_and(|loaded| Arc::strong_count(loaded) == 1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Default for Spot<T> {
    fn default() -> Self {
        Self { loaded: Mutex::default(), used: AtomicU64::new(0), turn: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(shelf: &Shelf<u32>, number: u32) -> Arc<Spot<u32>> {
        shelf.spot(&number.to_string(), Contract::WasmCore)
    }

    /// Loads a number into its spot.
    fn load(shelf: &Shelf<u32>, spot: &Arc<Spot<u32>>, number: u32) -> Option<Arc<Loaded<u32>>> {
        Some(shelf.put(spot, shelf.make_room()?, number))
    }

    fn is_loaded(spot: &Spot<u32>) -> bool {
        lock(&spot.loaded).is_some()
    }

    #[test]
    fn what_is_loaded_is_found_by_all_who_have_it_until_nobody_has() {
        let shelf = Shelf::new(4);
        let [one, same, two] = [1, 1, 2].map(|number| spot(&shelf, number));
        assert!(shelf.find(&one).is_none());
        let first = load(&shelf, &one, 1).unwrap();
        let again = load(&shelf, &same, 2).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && Arc::ptr_eq(&first, &shelf.find(&same).unwrap()));
        assert_eq!(shelf.places.available_permits(), 3, "what was loaded twice is unloaded");
        let other = shelf.spot("1", Contract::WasiCommand);
        assert!(shelf.find(&two).is_none() && shelf.find(&other).is_none());
        drop((one, same));
        assert_eq!((**first, shelf.places.available_permits()), (1, 3), "a call still runs");
        drop((first, again));
        assert_eq!(shelf.places.available_permits(), 4);
        assert!(shelf.find(&spot(&shelf, 1)).is_none());
    }

    #[test]
    fn what_nobody_uses_makes_room_and_the_oldest_first() {
        let shelf = Shelf::new(3);
        let spots: Vec<_> = (0..6).map(|number| spot(&shelf, number)).collect();
        let loaded = || spots.iter().map(|spot| is_loaded(spot)).collect::<Vec<_>>();
        let used = load(&shelf, &spots[1], 1).unwrap();
        load(&shelf, &spots[2], 2).unwrap();
        load(&shelf, &spots[3], 3).unwrap();
        load(&shelf, &spots[4], 4).unwrap();
        assert_eq!(loaded(), [false, true, false, true, true, false]);
        assert!(shelf.find(&spots[3]).is_some());
        load(&shelf, &spots[5], 5).unwrap();
        // The fourth and the third were used last at the same time, by this clock.
        assert!(loaded()[1] && loaded()[5] && loaded()[3] != loaded()[4]);
        let rest: Vec<_> = spots.iter().filter_map(|spot| shelf.find(spot)).collect();
        assert!(!shelf.has_room() && load(&shelf, &spots[0], 0).is_none(), "all of it is in use");
        drop(rest);
        assert!(shelf.has_room());
        assert!(load(&shelf, &spots[0], 0).is_some() && loaded()[1]);
        drop(used);
        assert_eq!(lock(&shelf.taken).len(), 3);
    }

    #[test]
    fn what_is_gone_leaves_nothing_behind() {
        let shelf = Shelf::new(3);
        for number in 0..1000 {
            load(&shelf, &spot(&shelf, number), number).unwrap();
        }
        assert_eq!(shelf.places.available_permits(), 3);
        assert!(lock(&shelf.taken).len() < 10 && lock(&shelf.spots).len() < 10);
    }

    #[test]
    fn who_loads_and_runs_at_once_finds_what_is_its_own() {
        let shelf = Shelf::new(4);
        let spots: Vec<_> = (0..8).map(|number| spot(&shelf, number)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (shelf, spots) = (&shelf, &spots);
                scope.spawn(move || {
                    for turn in 0..5000_usize {
                        let number = (turn * (2 * thread + 1)) % spots.len();
                        let loaded = loop {
                            let found = shelf.find(&spots[number]);
                            // Others may have all of it for a moment.
                            if let Some(loaded) = found.or_else(|| load(shelf, &spots[number], number as u32))
                            {
                                break loaded;
                            }
                        };
                        assert_eq!(**loaded, number as u32);
                    }
                });
            }
        });
        assert!(spots.iter().filter(|spot| is_loaded(spot)).count() <= 4);
    }

    #[test]
    fn there_is_room_for_some_code_everywhere() {
        assert!(room(1) >= 2 * room(2) && room(2) >= LEAST as usize);
        assert_eq!(room(usize::MAX), LEAST as usize);
    }
}
