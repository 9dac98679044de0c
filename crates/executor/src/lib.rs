//! The contract between Flint and whatever runs functions: [`Executor`] makes instances, an [`Instance`] serves calls.
//!
//! One crate a technique implements it, and each passes the suite in [`conformance`] (feature `conformance`). The [`link`]
//! module is the protocol that Flint's own runtime shims speak; see `docs/link-protocol.md`.

#![forbid(unsafe_code)]

mod body;
mod call;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod environment;
mod fault;
mod instance;
pub mod link;
mod patience;
mod prepared;
mod reply;
mod zip_list;

pub use body::{Body, BodyError, BodyReceiver, BodySender, LastWord, body_channel};
pub use call::{Call, CallHead};
pub use contract::{Capability, Executor, PrewarmTarget, RuntimeKind, SlotCounts, SnapshotCounts};
pub use fault::{EndOfProcess, Fault};
pub use instance::{BRING_UP, Instance, StartContext, StartFailure, Started};
pub use patience::{Late, until};
pub use prepared::{FunctionSource, PrepareError, Prepared, Progress};
pub use reply::{CallEnd, Invoked, Reply, ReplyHead};
pub use zip_list::zip_lists_at_most;
