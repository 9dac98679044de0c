//! The in-memory state of accepted calls.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use flint_model::{Attempt, ByteSize, NamespaceName};
use flint_store::{Holds, Lease, LeasedCall, QueuedCall};
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

use super::{
    keys::Keys,
    shares::{Share, Shares},
};
use crate::{AsyncConfig, account::Account, in_flight::InFlight, turns::Turns};

/// Memory for the arguments of held calls, in KiB.
const MEMORY_KIB: usize = 64 * 1024;

/// Capacity of the channel of finished calls.
const FINISHED: usize = 1024;

/// The in-memory state of accepted calls.
pub(crate) struct AcceptedCalls {
    /// This run of the server, as the owner of leases.
    pub(crate) owner: String,
    /// Permits for calls in memory, waiting or running.
    places: Arc<Shares>,
    /// Permits for the memory of their arguments.
    memory: Arc<Shares>,
    /// Permits for running calls. A composition returns its permit when its steps begin.
    running: Arc<Shares>,
    waiting: Mutex<Turns<Held>>,
    /// Calls without attempts left that the queue has handed out and that are not given up yet.
    exhausted: Mutex<Vec<LeasedCall>>,
    /// Leases of this server.
    leased: Arc<Mutex<HashSet<Lease>>>,
    /// Number of calls known to be in the durable queue only.
    left: AtomicUsize,
    /// Whether the next lease begins with retries.
    pub(super) again_first: AtomicBool,
    /// The largest arguments that any namespace's calls may have.
    largest: AtomicU64,
    /// API keys of calls that are in the durable queue only.
    pub(crate) keys: Keys,
    /// Notified when calls may be leased.
    pub(super) hungry: Notify,
    pub(super) finished: mpsc::Sender<Done>,
    pub(super) finishing: Mutex<Option<mpsc::Receiver<Done>>>,
}

/// A call that is over, and to be removed from the queue.
pub(crate) struct Done {
    pub(crate) lease: Lease,
    /// The account of a call without a counted attempt: if it stays in the queue, it comes back as one that has its
    /// place in flight.
    pub(crate) first: Option<Arc<Account>>,
}

/// An accepted call held in memory.
pub(crate) struct Held {
    pub(crate) call: QueuedCall,
    /// What it is done under.
    pub(crate) lease: Lease,
    /// The number of its next attempt, from 1.
    pub(crate) attempt: u32,
    /// Whether the queue has counted that attempt, as far as it was told.
    pub(crate) begun: Arc<AtomicBool>,
    pub(crate) earlier: Vec<Attempt>,
    pub(crate) arrived: Instant,
    pub(crate) api_key: Option<Arc<str>>,
    /// Whether its record is kept, if already determined.
    pub(crate) recorded: Option<bool>,
    /// Its place in flight.
    pub(crate) in_flight: InFlight,
    pub(crate) room: Room,
    /// Its permit to run.
    pub(super) running: Option<Share>,
}

impl Held {
    /// Whether it was accepted by this run of the server and not attempted yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.recorded.is_some()
    }
}

/// The memory reserved for a held call.
pub(crate) struct Room {
    place: Share,
    memory: Share,
}

impl Room {
    /// Gives room that was reserved for any call to one of this namespace.
    pub(super) fn give_to(&mut self, namespace: &NamespaceName) {
        self.place.give_to(namespace);
        self.memory.give_to(namespace);
    }
}

impl AcceptedCalls {
    pub(crate) fn new(config: &AsyncConfig) -> Self {
        let (finished, finishing) = mpsc::channel(FINISHED);
        let running = config.running.max(1);
        Self {
            owner: Uuid::now_v7().simple().to_string(),
            places: Shares::new(running + config.waiting),
            memory: Shares::new(MEMORY_KIB),
            running: Shares::new(running),
            waiting: Mutex::default(),
            exhausted: Mutex::default(),
            leased: Arc::default(),
            left: AtomicUsize::new(0),
            // What earlier runs were retrying comes first.
            again_first: AtomicBool::new(true),
            largest: AtomicU64::new(0),
            keys: Keys::default(),
            hungry: Notify::new(),
            finished,
            finishing: Mutex::new(Some(finishing)),
        }
    }

    /// Room for a call with arguments of this size; `None` when there is none for its namespace.
    pub(super) fn room(&self, namespace: &NamespaceName, arguments: usize) -> Option<Room> {
        let place = self.places.take(namespace, 1)?;
        let memory = self.memory.take(namespace, kib(arguments))?;
        Some(Room { place, memory })
    }

    /// Raises the size of the largest arguments.
    pub(crate) fn may_bring(&self, arguments: ByteSize) {
        self.largest.fetch_max(arguments.as_u64(), Ordering::AcqRel);
    }

    /// Room for a call that is not known yet.
    pub(super) fn room_for_any(&self) -> Option<Room> {
        Some(Room { place: self.places.reserve(1)?, memory: self.memory.reserve(self.largest_kib())? })
    }

    /// How many calls of a namespace may get such room.
    pub(super) fn rooms_of(&self, namespace: &NamespaceName) -> usize {
        self.places.allows(namespace, 1).min(self.memory.allows(namespace, self.largest_kib()))
    }

    fn largest_kib(&self) -> usize {
        kib(usize::try_from(self.largest.load(Ordering::Acquire)).unwrap_or(usize::MAX))
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Turns<Held>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call whose turn it is, with its permit to run. A permit is taken only for a call: one held
    /// without, even briefly, would be missed by a concurrent caller that has just queued a call.
    pub(super) fn next_to_run(&self) -> Option<Held> {
        let mut waiting = self.waiting();
        if waiting.is_empty() || self.running.are_used_up() {
            return None;
        }
        let (held, running) = waiting.pop_if(|namespace| self.running.take(namespace, 1))?;
        Some(Held { running: Some(running), ..held })
    }

    pub(super) fn exhausted(&self) -> MutexGuard<'_, Vec<LeasedCall>> {
        self.exhausted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the held calls of a deleted namespace. Running ones notice by themselves.
    pub(crate) fn forget(&self, namespace: &NamespaceName) {
        self.exhausted().retain(|exhausted| exhausted.call.namespace != *namespace);
        let gone = self.waiting().remove(namespace);
        let mut leased = self.leased();
        for held in &gone {
            leased.remove(&held.lease);
        }
        drop(leased);
        drop(gone);
        self.keys.forget(namespace);
    }

    pub(crate) fn leased(&self) -> MutexGuard<'_, HashSet<Lease>> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the queue: tells whether this server holds a call under a lease.
    pub(super) fn holds(&self) -> Holds {
        let leased = Arc::clone(&self.leased);
        Arc::new(move |lease| leased.lock().unwrap_or_else(PoisonError::into_inner).contains(&lease))
    }

    /// Counts one more call in the durable queue only.
    pub(super) fn leave_one(&self) {
        self.left.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts the calls found there on start.
    pub(super) fn leave(&self, calls: usize) {
        self.left.fetch_add(calls, Ordering::AcqRel);
    }

    /// Counts fetched calls off [`Self::left`].
    pub(super) fn fetched(&self, calls: usize) {
        let fewer = |left: usize| Some(left.saturating_sub(calls));
        let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    }

    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }
}

/// Memory for arguments: at least 1 KiB, at most everything, so that the largest call fits into empty memory.
fn kib(arguments: usize) -> usize {
    (arguments / 1024).saturating_add(1).min(MEMORY_KIB)
}

#[cfg(test)]
mod tests {
    use flint_model::ActivationId;

    use super::*;

    #[test]
    fn keys_go_with_their_namespace() {
        let accepted = AcceptedCalls::new(&AsyncConfig::default());
        let [gone, stays] = ["team", "guest"].map(|name| {
            let (call, namespace) = (ActivationId::generate(), name.parse().unwrap());
            accepted.keys.keep(call, &namespace, Some(name.into()));
            call
        });
        accepted.forget(&"team".parse().unwrap());
        assert_eq!((accepted.keys.take(gone), accepted.keys.take(stays).as_deref()), (None, Some("guest")));
    }
}
