//! A namespace's usage: the counters behind its throttles. Lock-free; a decision costs two atomic operations.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use flint_model::{NamespaceName, Timestamp};

use crate::{ControllerError, in_flight::InFlight};

/// Identifies an account: a namespace that is deleted and created again has a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AccountNumber(u64);

impl Default for AccountNumber {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The counters of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) number: AccountNumber,
    /// When the namespace was created, in ms since the epoch.
    created: AtomicU64,
    /// Calls in the current minute.
    calls: Window,
    /// Trigger firings in the current minute.
    fires: Window,
    /// Calls in flight: admitted and not over, including asynchronous ones that wait.
    pub(crate) in_flight: AtomicU32,
    /// Of these, retries of calls that failed before.
    again: AtomicU32,
    /// The concurrency limit at the last admission.
    allowed: AtomicU32,
    /// The namespace was deleted. A namespace of that name created later has an account of its own.
    closed: AtomicBool,
}

/// A count within one wall-clock minute: the minute in the upper half, the count in the lower.
#[derive(Debug, Default)]
struct Window(AtomicU64);

impl Window {
    /// Counts one more in `minute` and returns the minute's count.
    fn count(&self, minute: u32) -> u32 {
        let next = |old: u64| {
            let count = if (old >> 32) as u32 == minute { (old as u32).saturating_add(1) } else { 1 };
            u64::from(minute) << 32 | u64::from(count)
        };
        let old = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(next(old)));
        next(old.unwrap_or_else(|old| old)) as u32
    }
}

/// The wall-clock minute.
fn this_minute() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| (since.as_secs() / 60) as u32)
}

impl Account {
    /// Learns when the namespace was created.
    pub(crate) fn learn_created(&self, at: Timestamp) {
        self.created.fetch_max(at.as_millis(), Ordering::Relaxed);
    }

    /// When the namespace was created. Its records are not older, even if the clock was set back since: older
    /// ones are those of another namespace of its name.
    pub(crate) fn created(&self) -> Timestamp {
        Timestamp::from_millis(self.created.load(Ordering::Relaxed))
    }

    /// Refuses requests on behalf of a deleted namespace.
    pub(crate) fn check_open(&self) -> Result<(), ControllerError> {
        if self.closed.load(Ordering::Acquire) { Err(ControllerError::NamespaceGone) } else { Ok(()) }
    }

    /// Admits a call, or returns the limit it exceeds: first the rate, which counts refused calls too, then
    /// the concurrency. A limit of 0 admits nothing.
    pub(crate) fn admit(
        self: &Arc<Self>,
        per_minute: u32,
        concurrent: u32,
    ) -> Result<InFlight, ControllerError> {
        self.admit_in(this_minute(), per_minute, concurrent)
    }

    /// Admits a trigger's firing, or refuses it by the rate, which counts refused firings too.
    pub(crate) fn admit_fire(&self, per_minute: u32) -> Result<(), ControllerError> {
        self.admit_fire_in(this_minute(), per_minute)
    }

    fn admit_fire_in(&self, minute: u32, per_minute: u32) -> Result<(), ControllerError> {
        self.check_open()?;
        match self.fires.count(minute) {
            count if count > per_minute => Err(ControllerError::Rate { count, allowed: per_minute }),
            _ => Ok(()),
        }
    }

    fn admit_in(
        self: &Arc<Self>,
        minute: u32,
        per_minute: u32,
        concurrent: u32,
    ) -> Result<InFlight, ControllerError> {
        self.check_open()?;
        let count = self.calls.count(minute);
        if count > per_minute {
            return Err(ControllerError::Rate { count, allowed: per_minute });
        }
        self.allow(concurrent);
        let one_more = |now: u32| (now < concurrent).then_some(now + 1);
        match self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Ok(InFlight::counted(Arc::clone(self), false)),
            Err(count) => Err(ControllerError::Concurrency { count, allowed: concurrent }),
        }
    }

    /// Counts calls that an earlier run of the server admitted and that are still to run; see
    /// [`Self::adopt`].
    pub(crate) fn inherit(&self, calls: u32) {
        self.in_flight.fetch_add(calls, Ordering::AcqRel);
    }

    /// Takes ownership of the place of a call that is already counted.
    pub(crate) fn adopt(self: &Arc<Self>) -> InFlight {
        InFlight::counted(Arc::clone(self), false)
    }

    /// Records the concurrency limit.
    pub(crate) fn allow(&self, concurrent: u32) {
        if self.allowed.load(Ordering::Relaxed) != concurrent {
            self.allowed.store(concurrent, Ordering::Relaxed);
        }
    }

    /// How many more retries may run, given that the server allows `at_once` per namespace: at most half of
    /// the namespace's places, so that retries do not keep new calls from being admitted.
    pub(crate) fn places_again(&self, at_once: u32) -> u32 {
        let allowed = self.allowed.load(Ordering::Relaxed);
        let most = at_once.min(allowed.div_ceil(2));
        let free = allowed.saturating_sub(self.in_flight());
        most.saturating_sub(self.again.load(Ordering::Acquire)).min(free)
    }

    /// Admits a retry, if there is a place.
    pub(crate) fn admit_again(self: &Arc<Self>, at_once: u32) -> Option<InFlight> {
        if self.places_again(at_once) == 0 {
            return None;
        }
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.again.fetch_add(1, Ordering::AcqRel);
        Some(InFlight::counted(Arc::clone(self), true))
    }

    /// Frees a call's place; `again` if it is a retry.
    pub(crate) fn free(&self, again: bool) {
        let one_less = |count: &AtomicU32| {
            let less = |now: u32| Some(now.saturating_sub(1));
            let _ = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        };
        one_less(&self.in_flight);
        if again {
            one_less(&self.again);
        }
    }

    /// Calls in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }
}

/// All accounts, kept while the server runs: a change of its keys does not reset a namespace's counters.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<HashMap<NamespaceName, Arc<Account>>>);

impl Accounts {
    /// The account of a namespace.
    pub(crate) fn of(&self, namespace: &NamespaceName) -> Arc<Account> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match accounts.get(namespace) {
            Some(account) => Arc::clone(account),
            None => Arc::clone(accounts.entry(namespace.clone()).or_default()),
        }
    }

    /// Calls in flight of all namespaces.
    pub(crate) fn in_flight(&self) -> u64 {
        let accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.values().map(|account| u64::from(account.in_flight())).sum()
    }

    /// Closes a deleted namespace's account. Its calls that still run keep their counters.
    pub(crate) fn close(&self, namespace: &NamespaceName) {
        if let Some(account) = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(namespace) {
            account.closed.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: std::fmt::Debug>(result: Result<T, ControllerError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn the_rate_is_by_minute_and_refused_calls_count() {
        let account = Arc::new(Account::default());
        for _ in 0..2 {
            account.admit_in(7, 2, 9).unwrap();
        }
        assert_eq!(
            text(account.admit_in(7, 2, 9)),
            "Too many requests in the last minute (count: 3, allowed: 2)."
        );
        assert_eq!(
            text(account.admit_in(7, 2, 9)),
            "Too many requests in the last minute (count: 4, allowed: 2)."
        );
        assert!(account.admit_in(8, 2, 9).is_ok());
        assert_eq!(
            text(account.admit_in(9, 0, 9)),
            "Too many requests in the last minute (count: 1, allowed: 0)."
        );
    }

    #[test]
    fn firings_are_counted_apart_from_calls() {
        let account = Arc::new(Account::default());
        account.admit_in(7, 1, 9).unwrap();
        account.admit_fire_in(7, 1).unwrap();
        assert_eq!(
            text(account.admit_fire_in(7, 1)),
            "Too many requests in the last minute (count: 2, allowed: 1)."
        );
        assert!(account.admit_fire_in(8, 1).is_ok() && account.admit_in(8, 1, 9).is_ok());
    }

    #[test]
    fn concurrency_counts_what_is_in_flight() {
        let account = Arc::new(Account::default());
        let first = account.admit_in(1, 9, 1).unwrap();
        assert_eq!(
            text(account.admit_in(1, 9, 1)),
            "Too many concurrent requests in flight (count: 1, allowed: 1)."
        );
        drop(first);
        account.admit_in(1, 9, 1).unwrap().leave_to_queue(true);
        assert_eq!(account.in_flight(), 1);
        drop(account.adopt());
        assert_eq!(account.in_flight(), 0);
    }

    #[test]
    fn a_place_that_was_lent_is_free_when_both_are_over() {
        let account = Arc::new(Account::default());
        let turn = Arc::new(tokio::sync::Semaphore::new(1));
        let lend = |place| InFlight::lent(place, Arc::clone(&turn).try_acquire_owned().unwrap());
        let caller = account.admit_in(1, 9, 1).unwrap();
        let callee = lend(caller.share());
        assert_eq!((account.in_flight(), turn.available_permits()), (1, 0));
        drop(callee);
        assert_eq!((account.in_flight(), turn.available_permits()), (1, 1));
        let callee = lend(caller.share());
        drop(caller);
        assert_eq!(account.in_flight(), 1, "it goes on");
        drop(callee);
        assert_eq!(account.in_flight(), 0);
        let caller = account.admit_in(1, 9, 1).unwrap();
        lend(caller.share()).leave_to_queue(true);
        assert_eq!(account.in_flight(), 2, "the queue has one more");
        drop(caller);
        drop(account.adopt());
        assert_eq!(account.in_flight(), 0);
    }

    #[test]
    fn calls_that_failed_before_leave_half_of_the_places_to_others() {
        let account = Arc::new(Account::default());
        assert!(account.admit_again(9).is_none(), "nothing is allowed yet");
        account.allow(5);
        let again: Vec<_> = std::iter::from_fn(|| account.admit_again(9)).collect();
        assert_eq!((again.len(), account.in_flight(), account.places_again(9)), (3, 3, 0));
        let fresh: Vec<_> = (0..2).map(|_| account.admit_in(1, 9, 5).unwrap()).collect();
        assert!(account.admit_in(1, 9, 5).is_err());
        drop(again);
        assert_eq!((account.in_flight(), account.places_again(2), account.places_again(9)), (2, 2, 3));
        account.admit_again(9).unwrap().leave_to_queue(false);
        assert_eq!(account.in_flight(), 2, "it waits outside");
        let more: Vec<_> = (0..3).map(|_| account.admit_in(1, 9, 5).unwrap()).collect();
        assert!(account.admit_again(9).is_none(), "all places are taken");
        drop((fresh, more));
        account.allow(1);
        assert!(account.admit_again(9).is_some(), "one place is for whoever comes");
    }
}
