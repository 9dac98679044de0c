//! The contract between Flint and the techniques that run functions: an [`Executor`] makes instances, an
//! [`Instance`] serves calls.
//!
//! Each technique is a crate that implements it and passes the suite in `conformance` (feature
//! `conformance`). The [`link`] module is the protocol of Flint's own runtime shims; see
//! `docs/link-protocol.md`.

#![forbid(unsafe_code)]

mod body;
mod call;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod environment;
mod fault;
mod hop_by_hop;
mod instance;
pub mod link;
mod media_type;
mod patience;
mod prepared;
mod reply;
mod request;
mod untrusted_zip;

pub use body::{Body, BodyError, BodyReceiver, BodySender, LastWord, body_channel};
pub use call::{Call, CallHead};
pub use contract::{
    Anticipation, Capability, Executor, PrewarmTarget, PrewarmedMemory, RuntimeKind, SlotCounts,
    SnapshotCounts,
};
pub use fault::{EndOfProcess, Fault};
pub use hop_by_hop::remove_hop_by_hop;
pub use instance::{BRING_UP, Instance, StartContext, StartFailure, Started};
pub use media_type::media_type;
pub use patience::{Late, until};
pub use prepared::{FunctionSource, PrepareError, Prepared, Progress};
pub use reply::{CallEnd, Invoked, Reply, ReplyHead};
pub use untrusted_zip::{UntrustedZip, ZipRefused, open_untrusted_zip};
