//! Places for connections. While all are taken, idle connections make room for those that wait to be accepted:
//! whoever opens connections and leaves them idle keeps nobody out, not even for as long as one may be idle.
//!
//! Which one makes room is decided as by a page replacement's second chance: a hand goes round, passes over
//! connections with a request, and over the others once after each of their requests.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How long a connection has to end before another one makes room, too.
const PATIENCE: Duration = Duration::from_millis(20);

/// No request since it was made, or since the hand passed.
const IDLE: u8 = 0;
/// Idle, after a request since the hand passed.
const USED: u8 = 1;
/// A request has no response yet.
const BUSY: u8 = 2;
/// Asked to end.
const ENDING: u8 = 3;

#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Mutex<Taken>,
    /// Of all connections.
    ending: CancellationToken,
}

#[derive(Debug, Default)]
struct Taken {
    by_number: BTreeMap<u64, Arc<Place>>,
    next: u64,
    /// The last number that was looked at.
    hand: u64,
}

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Place {
    state: AtomicU8,
    /// A token for each, since all connections check theirs at every poll, and a common one's lock would be
    /// contended.
    ending: CancellationToken,
}

/// Has the place until it is dropped.
#[derive(Debug)]
pub(super) struct Holder {
    place: Arc<Place>,
    number: u64,
    places: Arc<Places>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    /// At most `most` connections, at least one.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS))),
            taken: Mutex::default(),
            ending: CancellationToken::new(),
        })
    }

    /// Waits for a place.
    pub(super) async fn next(self: &Arc<Self>) -> Holder {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.make_room();
            let free = Arc::clone(&self.free).acquire_owned();
            // The semaphore is never closed.
            if let Ok(Ok(permit)) = tokio::time::timeout(PATIENCE, free).await {
                break permit;
            }
        };
        let place = Arc::new(Place { state: AtomicU8::new(IDLE), ending: self.ending.child_token() });
        let mut taken = self.taken();
        let number = taken.next;
        taken.next += 1;
        taken.by_number.insert(number, Arc::clone(&place));
        drop(taken);
        Holder { place, number, places: Arc::clone(self), _permit: permit }
    }

    /// Asks all connections to end.
    pub(super) fn end_all(&self) {
        self.ending.cancel();
    }

    /// Asks the next idle connection to end, if there is one.
    fn make_room(&self) {
        let mut taken = self.taken();
        // Twice round: the first time, all may have been used.
        for _ in 0..taken.by_number.len() * 2 {
            let after = taken.by_number.range((Bound::Excluded(taken.hand), Bound::Unbounded)).next();
            let Some((&number, place)) = after.or_else(|| taken.by_number.first_key_value()) else { return };
            let ended = place.pass();
            taken.hand = number;
            if ended {
                return;
            }
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(super) fn busy(&self) {
        self.state.store(BUSY, Ordering::Relaxed);
    }

    /// Its body may still be on the way, which an end waits for.
    pub(super) fn responded(&self) {
        self.state.store(USED, Ordering::Relaxed);
    }

    /// Resolves when the connection is to end, after its present request if it has one.
    pub(super) async fn ending(&self) {
        self.ending.cancelled().await;
    }

    /// The hand passes; `true` if the connection is asked to end.
    fn pass(&self) -> bool {
        let change =
            |from, to| self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if change(USED, IDLE) || !change(IDLE, ENDING) {
            return false;
        }
        self.ending.cancel();
        true
    }
}

impl Holder {
    pub(super) fn place(&self) -> &Arc<Place> {
        &self.place
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.places.taken().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting_at(places: &Arc<Places>) -> tokio::task::JoinHandle<Holder> {
        let places = Arc::clone(places);
        tokio::spawn(async move { places.next().await })
    }

    #[tokio::test(start_paused = true)]
    async fn the_unused_make_room_first_then_the_idle_and_the_busy_never() {
        let places = Places::new(3);
        let (busy, used, unused) = (places.next().await, places.next().await, places.next().await);
        busy.place().busy();
        used.place().busy();
        used.place().responded();
        let waiting = waiting_at(&places);
        unused.place().ending().await;
        assert!(!used.place().ending.is_cancelled());
        // It does not end: then another one has to.
        used.place().ending().await;
        tokio::time::sleep(PATIENCE * 10).await;
        assert!(!busy.place().ending.is_cancelled() && !waiting.is_finished());
        drop(unused);
        let next = waiting.await.unwrap();
        assert!(!next.place().ending.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_in_use_outlasts_any_number_of_silent_ones() {
        let places = Places::new(4);
        let used = places.next().await;
        let mut silent = vec![places.next().await, places.next().await, places.next().await];
        for _ in 0..100 {
            used.place().busy();
            used.place().responded();
            let waiting = waiting_at(&places);
            // Oldest first, so that a new one has time to send its request.
            silent[0].place().ending().await;
            silent.remove(0);
            silent.push(waiting.await.unwrap());
            assert!(!used.place().ending.is_cancelled());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_have_a_request_the_next_one_waits() {
        let places = Places::new(1);
        let only = places.next().await;
        only.place().busy();
        assert!(tokio::time::timeout(PATIENCE * 100, places.next()).await.is_err());
        assert!(!only.place().ending.is_cancelled());
        only.place().responded();
        let waiting = waiting_at(&places);
        only.place().ending().await;
        drop(only);
        waiting.await.unwrap();
    }
}
