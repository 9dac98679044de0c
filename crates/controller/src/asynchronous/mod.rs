//! Accepted calls: answered with 202 once they are durable, then run.
//!
//! A call is in the *durable queue* from its acceptance until its record is written. While this server
//! *holds* it (leased, in memory), it runs or waits for its turn in [`Turns`](crate::turns::Turns), which is
//! fair between namespaces. Waiting is not an attempt: an attempt is counted, durably, right before the call
//! runs. Calls without room in memory stay in the durable queue only and are leased as places become free, so
//! that only the queue on disk grows with the number of accepted calls.
//!
//! After an attempt that fails in a way that the call's policy names ([`policy`]), the call backs off in the
//! durable queue and is attempted again; a call without attempts left becomes a dead letter ([`settle`]). A call
//! that this host cannot run at present waits there too, without an attempt ([`put_off`]).

mod accept;
mod complete;
mod feed;
mod keys;
pub(crate) mod policy;
mod put_off;
mod run;
mod settle;
mod shares;
mod state;

pub(crate) use accept::Accepting;
pub(crate) use put_off::PutOff;
pub(crate) use state::{AcceptedCalls, Done, Held};
