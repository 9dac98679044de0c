//! The place of a call among its namespace's calls in flight.

use std::sync::{Arc, atomic::Ordering};

use tokio::sync::OwnedSemaphorePermit;

use crate::account::Account;

/// One of a namespace's places, counted by its [`Account`]. Dropping it frees it.
#[derive(Debug)]
pub(crate) struct Place {
    account: Arc<Account>,
    /// Its call failed before.
    again: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.account.free(self.again);
    }
}

/// An admitted call. Dropping it ends its place, or gives it back to the call that has lent it.
#[derive(Debug)]
pub(crate) struct InFlight {
    place: Arc<Place>,
    /// The place is that of the call that waits for this one; no other has it meanwhile.
    turn: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    /// Takes charge of a place that the account has counted.
    pub(super) fn counted(account: Arc<Account>, again: bool) -> Self {
        Self { place: Arc::new(Place { account, again }), turn: None }
    }

    /// Runs on the place of another call until this one is over.
    pub(crate) fn lent(place: Arc<Place>, turn: OwnedSemaphorePermit) -> Self {
        Self { place, turn: Some(turn) }
    }

    /// The place, for calls that this one waits for. It is free when none of them is left either.
    pub(crate) fn share(&self) -> Arc<Place> {
        Arc::clone(&self.place)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.place.account
    }

    /// The call waits in the durable queue now. One that no attempt was made at stays counted, and is adopted when it comes back; one that
    /// failed before is admitted again then.
    pub(crate) fn leave_to_queue(self) {
        if self.turn.is_some() || !self.place.again {
            // The account must still be released, so that only the decrement is made up for.
            self.account().in_flight.fetch_add(1, Ordering::AcqRel);
        }
    }
}
