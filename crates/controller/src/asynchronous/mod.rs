//! Accepted calls: answered with 202 when they are durable, then run at once.
//!
//! A call is in the *durable queue* from its acceptance until its record is written. While this server *holds* it (leased, in memory), it waits for
//! its turn in [`Turns`](crate::turns::Turns), which is fair between namespaces, or runs. Waiting is not an attempt: an attempt is counted, durably,
//! right before the call runs. Calls for which there is no room in memory stay in the durable queue alone, and are leased when places become free,
//! so that only the queue on disk grows with the number of accepted calls.
//!
//! An attempt that fails in a way that the call's policy names ([`policy`]) is followed by another after a back-off, which the call spends in the
//! durable queue alone; a call without attempts left becomes a dead letter ([`settle`]).

mod accept;
mod complete;
mod feed;
mod keys;
pub(crate) mod policy;
mod run;
mod settle;
mod state;

pub(crate) use accept::Accepting;
pub(crate) use state::{AcceptedCalls, Held};
