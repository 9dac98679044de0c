//! Code that is loaded on an engine: once for all functions that have it, and no more than there is room for.
//!
//! Loaded code takes three of the process's mappings and a descriptor, and stays loaded for the next call. It
//! counts for the namespace whose deploy or call loaded it, and each leaves room to the next ([`Portions`]). Who
//! finds no room, or has its share, has code unloaded: of the namespace that has most, which is its own if no
//! other has more, what nobody has run for longest. Only who has all of its own in use takes from those that have
//! less, and leaves them their part.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fs,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use flint_model::{Contract, NamespaceName};
use flint_shares::Portions;
use rustix::process::{Resource, getrlimit};

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
    room: Room,
    spots: Mutex<HashMap<Label, Weak<Spot<T>>>>,
    /// The spots with loaded code.
    taken: Mutex<Vec<Weak<Spot<T>>>>,
    /// Counts what was loaded, which is the clock for what was used last: nothing has to go in between.
    clock: AtomicU64,
}

/// How much code each namespace has loaded. Nothing else is locked by who has it.
type Room = Arc<Mutex<Portions<NamespaceName>>>;

/// What makes room for code.
enum Next {
    /// A place that nobody has.
    Free,
    /// Code that goes, by the place of its spot among those with loaded code.
    Oldest(usize),
}

/// How soon code goes for a namespace's: the least first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// It is another's that has no more than this one.
    has_no_more: bool,
    /// How much its namespace has.
    has: Reverse<usize>,
    used: u64,
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
    place: Place,
}

/// Room for code, until it is dropped.
pub(crate) struct Place {
    room: Room,
    whose: NamespaceName,
}

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

impl Place {
    /// The same for another namespace's code.
    fn pass_to(mut self, who: &NamespaceName) -> Self {
        {
            let mut room = lock(&self.room);
            room.remove(&self.whose, 1);
            room.add(who, 1);
        }
        self.whose = who.clone();
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.room).remove(&self.whose, 1);
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
        let room = Arc::new(Mutex::new(Portions::new(room)));
        Self { room, spots: Mutex::default(), taken: Mutex::default(), clock: AtomicU64::new(0) }
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

    /// Whether room for more of a namespace's can be made at present.
    pub(crate) fn has_room(&self, who: &NamespaceName) -> bool {
        self.next(&lock(&self.taken), who).is_some()
    }

    /// Makes room for more of a namespace's; `None` if all that could go for it is in use. May unload something,
    /// which blocks.
    pub(crate) fn make_room(&self, who: &NamespaceName) -> Option<Place> {
        let Loaded { content, place } = loop {
            let mut taken = lock(&self.taken);
            match self.next(&taken, who)? {
                Next::Free => return Some(self.free_place(who)),
                Next::Oldest(at) => {
                    // A call may have come in between.
                    if let Some(loaded) = take_idle(&mut taken, at) {
                        break loaded;
                    }
                }
            }
        };
        drop(content);
        Some(place.pass_to(who))
    }

    /// Loads code into its spot and returns what others will find: what is there, if another was faster.
    pub(crate) fn put(&self, spot: &Arc<Spot<T>>, place: Place, content: T) -> Arc<Loaded<T>> {
        let new = Arc::new(Loaded { content, place });
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

    /// What makes room for a namespace's code.
    fn next(&self, taken: &[Weak<Spot<T>>], who: &NamespaceName) -> Option<Next> {
        if is_free(&lock(&self.room), who) {
            return Some(Next::Free);
        }
        let ranks = taken.iter().enumerate().filter_map(|(at, spot)| Some((self.rank(spot, who)?, at)));
        let ranks: Vec<_> = ranks.collect();
        let (rank, at) = ranks.iter().min()?;
        if !rank.has_no_more {
            return Some(Next::Oldest(*at));
        }
        // All of its own is in use, and nobody has more.
        let room = lock(&self.room);
        match room.may_take_over(who, 1, ranks.len()) {
            true if room.rest() > 0 => Some(Next::Free),
            true => Some(Next::Oldest(*at)),
            false => None,
        }
    }

    /// A place that nobody has: while those taken are locked, others give places back, and take none.
    fn free_place(&self, who: &NamespaceName) -> Place {
        lock(&self.room).add(who, 1);
        Place { room: Arc::clone(&self.room), whose: who.clone() }
    }

    /// `None` if it is in use, or not loaded.
    fn rank(&self, spot: &Weak<Spot<T>>, who: &NamespaceName) -> Option<Rank> {
        let spot = spot.upgrade()?;
        let loaded = lock(&spot.loaded);
        let whose = &idle(&loaded)?.place.whose;
        let room = lock(&self.room);
        let has = room.has(whose);
        let has_no_more = whose != who && has <= room.has(who);
        Some(Rank { has_no_more, has: Reverse(has), used: spot.used.load(Relaxed) })
    }
}

/// Whether there is a place that the namespace may have.
fn is_free(room: &Portions<NamespaceName>, who: &NamespaceName) -> bool {
    room.rest() > 0 && room.allows(who, 1) > 0
}

/// Takes code away, if nobody has it.
fn take_idle<T>(taken: &mut Vec<Weak<Spot<T>>>, at: usize) -> Option<Loaded<T>> {
    let spot = taken[at].upgrade()?;
    let mut loaded = lock(&spot.loaded);
    idle(&loaded)?;
    taken.swap_remove(at);
    loaded.take().and_then(Arc::into_inner)
}

/// What is loaded, if nobody has it. Who wants it needs the lock.
fn idle<T>(loaded: &Option<Arc<Loaded<T>>>) -> Option<&Arc<Loaded<T>>> {
    loaded.as_ref().filter(|loaded| Arc::strong_count(loaded) == 1)
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

    fn named(name: &str) -> NamespaceName {
        name.parse().unwrap()
    }

    /// Loads a number into its spot, for a namespace.
    fn load_for(
        shelf: &Shelf<u32>,
        who: &str,
        spot: &Arc<Spot<u32>>,
        number: u32,
    ) -> Option<Arc<Loaded<u32>>> {
        Some(shelf.put(spot, shelf.make_room(&named(who))?, number))
    }

    /// The same for always the same namespace.
    fn load(shelf: &Shelf<u32>, spot: &Arc<Spot<u32>>, number: u32) -> Option<Arc<Loaded<u32>>> {
        load_for(shelf, "guest", spot, number)
    }

    /// Loads these numbers one after the other, for a namespace.
    fn load_all(shelf: &Shelf<u32>, who: &str, spots: &[Arc<Spot<u32>>], numbers: std::ops::Range<usize>) {
        for number in numbers {
            assert!(load_for(shelf, who, &spots[number], number as u32).is_some(), "{who} {number}");
        }
    }

    fn rest(shelf: &Shelf<u32>) -> usize {
        lock(&shelf.room).rest()
    }

    /// How many each of these has.
    fn have<const N: usize>(shelf: &Shelf<u32>, names: [&str; N]) -> [usize; N] {
        names.map(|name| lock(&shelf.room).has(&named(name)))
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
        assert_eq!(rest(&shelf), 3, "what was loaded twice is unloaded");
        let other = shelf.spot("1", Contract::WasiCommand);
        assert!(shelf.find(&two).is_none() && shelf.find(&other).is_none());
        drop((one, same));
        assert_eq!((**first, rest(&shelf)), (1, 3), "a call still runs");
        drop((first, again));
        assert_eq!(rest(&shelf), 4);
        assert!(shelf.find(&spot(&shelf, 1)).is_none());
    }

    #[test]
    fn what_nobody_uses_makes_room_and_the_oldest_first() {
        // Of which a namespace alone has three.
        let shelf = Shelf::new(4);
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
        let guest = named("guest");
        assert!(!shelf.has_room(&guest) && load(&shelf, &spots[0], 0).is_none(), "all of it is in use");
        drop(rest);
        assert!(shelf.has_room(&guest));
        assert!(load(&shelf, &spots[0], 0).is_some() && loaded()[1]);
        drop(used);
        assert_eq!(lock(&shelf.taken).len(), 3);
    }

    #[test]
    fn who_has_its_share_displaces_what_is_its_own() {
        let shelf = Shelf::new(16);
        let spots: Vec<_> = (0..40).map(|number| spot(&shelf, number)).collect();
        load_all(&shelf, "other", &spots, 0..3);
        load_all(&shelf, "greedy", &spots, 3..40);
        assert_eq!((have(&shelf, ["other", "greedy"]), rest(&shelf)), ([3, 9], 4));
        let loaded: Vec<_> = spots.iter().map(|spot| is_loaded(spot)).collect();
        assert!(loaded[..3].iter().all(|is_loaded| *is_loaded), "others' stays, however long it is unused");
        assert!(loaded[31..].iter().all(|is_loaded| *is_loaded), "the latest of its own");
    }

    #[test]
    fn who_comes_late_displaces_what_others_have_more() {
        let shelf = Shelf::new(8);
        let spots: Vec<_> = (0..30).map(|number| spot(&shelf, number)).collect();
        load_all(&shelf, "greedy", &spots, 0..10);
        load_all(&shelf, "second", &spots, 10..11);
        load_all(&shelf, "third", &spots, 11..12);
        let names = ["greedy", "second", "third", "late"];
        assert_eq!((have(&shelf, names), rest(&shelf)), ([6, 1, 1, 0], 0));
        load_all(&shelf, "late", &spots, 12..20);
        assert_eq!(have(&shelf, names), [3, 1, 1, 3]);
        // Nobody has more than these two: from here on each displaces its own.
        load_all(&shelf, "greedy", &spots, 20..30);
        assert_eq!(have(&shelf, names), [3, 1, 1, 3]);
        drop(spots);
        assert_eq!((have(&shelf, names), rest(&shelf)), ([0; 4], 8));
    }

    #[test]
    fn what_one_uses_leaves_room_to_others() {
        let shelf = Shelf::new(8);
        let spots: Vec<_> = (0..9).map(|number| spot(&shelf, number)).collect();
        let used: Vec<_> =
            (0..6).map(|number| load_for(&shelf, "greedy", &spots[number], 0).unwrap()).collect();
        let [greedy, other] = ["greedy", "other"].map(named);
        assert!(!shelf.has_room(&greedy) && load_for(&shelf, "greedy", &spots[6], 6).is_none());
        assert!(shelf.has_room(&other));
        load_all(&shelf, "other", &spots, 7..9);
        assert_eq!(have(&shelf, ["greedy", "other"]), [6, 1], "the second displaced the first");
        assert!(!shelf.has_room(&greedy), "what nobody uses there is the other's");
        drop(used);
        assert!(shelf.has_room(&greedy) && load_for(&shelf, "greedy", &spots[6], 6).is_some());
    }

    #[test]
    fn who_uses_all_of_its_own_takes_what_others_do_not_use_and_leaves_a_quarter() {
        let shelf = Shelf::new(8);
        let spots: Vec<_> = (0..16).map(|number| spot(&shelf, number)).collect();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        for (number, who) in names.into_iter().enumerate() {
            load_all(&shelf, who, &spots, number..number + 1);
        }
        let mut used = vec![shelf.find(&spots[0]).unwrap()];
        while let Some(loaded) = load_for(&shelf, "a", &spots[8 + used.len()], 0) {
            used.push(loaded);
        }
        assert_eq!(have(&shelf, names), [6, 0, 0, 0, 0, 0, 1, 1]);
        used.pop();
        assert!(load_for(&shelf, "a", &spots[8], 0).is_some(), "its own is idle again");
        assert_eq!(have(&shelf, names), [6, 0, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn what_is_gone_leaves_nothing_behind() {
        let shelf = Shelf::new(3);
        for number in 0..1000 {
            load(&shelf, &spot(&shelf, number), number).unwrap();
        }
        assert_eq!(rest(&shelf), 3);
        assert!(lock(&shelf.taken).len() < 10 && lock(&shelf.spots).len() < 10);
    }

    #[test]
    fn who_loads_and_runs_at_once_finds_what_is_its_own() {
        let shelf = Shelf::new(4);
        let spots: Vec<_> = (0..8).map(|number| spot(&shelf, number)).collect();
        std::thread::scope(|scope| {
            for (thread, who) in ["a", "b", "c", "d"].into_iter().enumerate() {
                let (shelf, spots) = (&shelf, &spots);
                scope.spawn(move || {
                    for turn in 0..5000_usize {
                        let number = (turn * (2 * thread + 1)) % spots.len();
                        let loaded = loop {
                            let found = shelf.find(&spots[number]);
                            // Others may have all of it for a moment.
                            let load = || load_for(shelf, who, &spots[number], number as u32);
                            if let Some(loaded) = found.or_else(load) {
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
