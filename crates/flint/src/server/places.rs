//! Places for connections. While all are taken, idle connections make room for those that wait to be accepted:
//! whoever opens connections and leaves them idle keeps nobody out for long.
//!
//! Which ones make room is decided as by a page replacement's second chance: a hand goes round, passes over
//! connections with a request, notes which ones are idle, and ends those that still are after [`IDLE_FOR`].

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A connection is idle at least for this long before it makes room: enough for a request that is on its way.
const IDLE_FOR: Duration = Duration::from_millis(250);
/// How long connections have to end before the hand moves on.
const PATIENCE: Duration = Duration::from_millis(20);
/// At most so many are asked to end at a time. The number doubles while none of them ends.
const AT_ONCE: usize = 64;

/// No request yet.
const NEW: u8 = 0;
/// A request has no response yet.
const BUSY: u8 = 1;
/// It had a request since the hand passed.
const USED: u8 = 2;
/// It had a request, but none since the hand passed.
const IDLE: u8 = 3;
/// Asked to end, after a request.
const ENDING: u8 = 4;
/// Asked to end before its first request.
const UNUSED: u8 = 5;

#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Mutex<Taken>,
    /// Of all connections.
    ending: CancellationToken,
}

#[derive(Debug, Default)]
struct Taken {
    by_number: BTreeMap<u64, Entry>,
    next: u64,
    /// The last number that was looked at.
    hand: u64,
    /// When a whole round had nothing to end.
    in_vain: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    place: Arc<Place>,
    /// When it was made, or the hand found that it had a request.
    since: Instant,
}

/// What a connection says of itself.
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
        let mut at_once = 1;
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.make_room(at_once);
            at_once = AT_ONCE.min(at_once * 2);
            let free = Arc::clone(&self.free).acquire_owned();
            // The semaphore is never closed.
            if let Ok(Ok(permit)) = tokio::time::timeout(PATIENCE, free).await {
                break permit;
            }
        };
        let place = Arc::new(Place { state: AtomicU8::new(NEW), ending: self.ending.child_token() });
        let entry = Entry { place: Arc::clone(&place), since: Instant::now() };
        let mut taken = self.taken();
        let number = taken.next;
        taken.next += 1;
        taken.by_number.insert(number, entry);
        drop(taken);
        Holder { place, number, places: Arc::clone(self), _permit: permit }
    }

    /// Asks all connections to end.
    pub(super) fn end_all(&self) {
        self.ending.cancel();
    }

    /// Asks the next `count` idle connections to end, or as many as there are.
    fn make_room(&self, count: usize) {
        let (now, mut taken) = (Instant::now(), self.taken());
        let Taken { by_number, hand, in_vain, .. } = &mut *taken;
        // A round looks at thousands.
        if in_vain.is_some_and(|then| now < then + PATIENCE) {
            return;
        }
        let (from, mut ended) = (*hand, 0);
        for range in [(Bound::Excluded(from), Bound::Unbounded), (Bound::Unbounded, Bound::Included(from))] {
            for (number, entry) in by_number.range_mut(range) {
                if ended == count {
                    return;
                }
                *hand = *number;
                ended += usize::from(entry.passed(now));
            }
        }
        *in_vain = (ended == 0).then_some(now);
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// The hand passes; `true` if the connection is asked to end.
    fn passed(&mut self, now: Instant) -> bool {
        if self.place.changes(USED, IDLE) {
            self.since = now;
        }
        let ends = now >= self.since + IDLE_FOR
            && (self.place.changes(IDLE, ENDING) || self.place.changes(NEW, UNUSED));
        if ends {
            self.place.ending.cancel();
        }
        ends
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

    /// Resolves some time later if there was no request until then: half a head is not waited for.
    pub(super) async fn without_request(&self) {
        tokio::time::sleep(IDLE_FOR).await;
        if self.state.load(Ordering::Relaxed) != UNUSED {
            std::future::pending::<()>().await;
        }
    }

    fn changes(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
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
    use tokio::time::{sleep, timeout};

    use super::*;

    impl Holder {
        fn is_ending(&self) -> bool {
            self.place.ending.is_cancelled()
        }

        fn has_a_request(&self) {
            self.place.busy();
            self.place.responded();
        }
    }

    fn waiting_at(places: &Arc<Places>) -> tokio::task::JoinHandle<Holder> {
        let places = Arc::clone(places);
        tokio::spawn(async move { places.next().await })
    }

    #[tokio::test(start_paused = true)]
    async fn the_unused_make_room_before_those_that_were_used_and_the_busy_never() {
        let places = Places::new(3);
        let (busy, used, unused) = (places.next().await, places.next().await, places.next().await);
        busy.place().busy();
        sleep(IDLE_FOR / 2).await;
        used.has_a_request();
        let waiting = waiting_at(&places);
        unused.place().ending().await;
        assert!(!used.is_ending());
        // It does not end: then another one has to.
        used.place().ending().await;
        sleep(IDLE_FOR * 10).await;
        assert!(!busy.is_ending() && !waiting.is_finished());
        drop(unused);
        assert!(!waiting.await.unwrap().is_ending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_just_made_has_time_for_its_request() {
        let places = Places::new(2);
        let (slow, call) = (places.next().await, places.next().await);
        slow.place().busy();
        call.place().busy();
        let waiting = [waiting_at(&places), waiting_at(&places), waiting_at(&places)];
        sleep(IDLE_FOR * 4).await;
        drop(call);
        for waiting in waiting {
            let next = waiting.await.unwrap();
            sleep(IDLE_FOR * 9 / 10).await;
            assert!(!next.is_ending(), "others wait, but it has only just begun");
            next.has_a_request();
            sleep(IDLE_FOR * 9 / 10).await;
            assert!(!next.is_ending(), "nor is it ended at once when it has had a response");
        }
        assert!(!slow.is_ending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_in_use_outlasts_any_number_of_silent_ones() {
        let places = Places::new(4);
        let used = places.next().await;
        let in_use = async {
            loop {
                used.has_a_request();
                sleep(IDLE_FOR / 3).await;
            }
        };
        let silent = async {
            let mut silent = vec![places.next().await, places.next().await, places.next().await];
            for _ in 0..100 {
                let waiting = waiting_at(&places);
                // Oldest first.
                silent[0].place().ending().await;
                silent.remove(0);
                silent.push(waiting.await.unwrap());
            }
        };
        tokio::select! {
            () = in_use => {}
            () = silent => {}
        }
        assert!(!used.is_ending());
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_have_a_request_the_next_one_waits() {
        let places = Places::new(1);
        let only = places.next().await;
        only.place().busy();
        assert!(timeout(IDLE_FOR * 10, places.next()).await.is_err());
        assert!(!only.is_ending());
        only.place().responded();
        let waiting = waiting_at(&places);
        only.place().ending().await;
        drop(only);
        waiting.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_not_waited_for_but_a_request_is() {
        let places = Places::new(2);
        let (half, whole) = (places.next().await, places.next().await);
        let waiting = waiting_at(&places);
        half.place().ending().await;
        whole.place().ending().await;
        whole.place().busy();
        half.place().without_request().await;
        assert!(timeout(IDLE_FOR * 10, whole.place().without_request()).await.is_err());
        drop(half);
        waiting.await.unwrap();
    }
}
