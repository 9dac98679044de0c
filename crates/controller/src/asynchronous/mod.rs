//! Accepted calls: answered with 202 when they are durable, then run at once.
//!
//! A call is in one of three places. In the *durable queue* it is from its acceptance until its record is written. While
//! this server *holds* it (leased, in memory), it waits for its turn in [`Turns`](crate::turns::Turns), fair between namespaces, or
//! runs. Waiting is no attempt: one is counted, durably, right before the call runs. What memory does not take stays in the durable queue alone, and is leased when places come free. Nothing here grows
//! with the number of accepted calls but the queue on disk.
//!
//! An attempt that fails in a way that the call's policy names ([`policy`]) is followed by another after a back-off, which the call spends in the
//! durable queue alone; without one left it becomes a dead letter ([`settle`]).

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
