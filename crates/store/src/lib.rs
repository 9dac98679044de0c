//! What Flint keeps, as eleven contracts that every driver fulfils: [`Catalog`], [`Versions`], [`Secrets`], [`ActivationLog`], [`Queue`], [`DeadLetters`], [`Compositions`], [`Feeds`], [`Blobs`],
//! [`KeyValue`] and [`Apis`].
//!
//! The conformance suite in `conformance` (the feature of that name) is the definition of these contracts: a driver
//! passes all of it. When a write is acknowledged is part of the contract, and stated on each method.

#![forbid(unsafe_code)]

mod activation_log;
mod apis;
mod blobs;
mod catalog;
mod clock;
mod compositions;
#[cfg(feature = "conformance")]
pub mod conformance;
mod dead_letters;
mod error;
mod feeds;
mod key_value;
mod page;
mod queue;
mod secrets;
mod versions;

pub use activation_log::{ActivationLog, ActivationLogStats, ActivationQuery};
pub use apis::Apis;
pub use blobs::Blobs;
pub use catalog::{Catalog, Expected};
pub use clock::{Clock, SystemClock};
pub use compositions::{CompositionStep, Compositions};
pub use dead_letters::{
    Buried, DeadLetter, DeadLetterBounds, DeadLetterUsage, DeadLetters, LetterQuery, Redrive, WhenFull,
};
pub use error::StoreError;
pub use feeds::Feeds;
pub use key_value::{BucketPath, Change, KeyValue, KeyValueError, KeyValueQuota, KeyValueUsage};
pub use page::Page;
pub use queue::{CallPhase, CallState, Holds, Lease, LeasedCall, Places, Queue, QueuedCall, Waiting};
pub use secrets::Secrets;
pub use versions::{Kept, Replacing, Versions};
