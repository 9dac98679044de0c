//! Places in flight: each running call occupies one of its namespace's concurrency limit.

use std::sync::{Arc, atomic::Ordering};

use tokio::sync::OwnedSemaphorePermit;

use crate::account::Account;

/// One place in flight, counted by its [`Account`]. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    account: Arc<Account>,
    /// The place is that of a retry.
    again: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.account.free(self.again);
    }
}

/// An admitted call. Dropping it frees its place, or returns a borrowed one to the lending call.
#[derive(Debug)]
pub(crate) struct InFlight {
    place: Arc<Place>,
    /// Set if the place is borrowed from the call that waits for this one; only one call at a time borrows
    /// it.
    _turn: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    /// Takes ownership of a place that the account has counted.
    pub(super) fn counted(account: Arc<Account>, again: bool) -> Self {
        Self { place: Arc::new(Place { account, again }), _turn: None }
    }

    /// Borrows the place of another call.
    pub(crate) fn lent(place: Arc<Place>, turn: OwnedSemaphorePermit) -> Self {
        Self { place, _turn: Some(turn) }
    }

    /// Shares the place with calls that this one waits for. It is freed once none of them is left.
    pub(crate) fn share(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.place.account
    }

    /// Leaves the call to the durable queue. One without attempts (`first`) stays counted, and is adopted when
    /// it is leased again; a retry is admitted again then.
    pub(crate) fn leave_to_queue(self, first: bool) {
        if first {
            // Balances the decrement on drop; everything else is to be released.
            self.account().in_flight.fetch_add(1, Ordering::AcqRel);
        }
    }
}
