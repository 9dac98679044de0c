//! The invoker: executes calls on one node, with its pool of instances.
//!
//! [`Invoker`] is the interface for a scheduler: [`Invoker::take`] gives a [`Lease`] on an idle instance,
//! [`Invoker::reserve`] and [`Invoker::start`] make a new one. The scheduler decides whom to serve first and
//! when a start is worth its cost; the invoker decides what an instance is charged and which idle one is
//! evicted.

#![forbid(unsafe_code)]

mod config;
mod entry;
mod freeze;
mod host_memory;
mod invoker;
mod job;
mod keeper;
mod key;
mod lease;
mod pool;
mod preparing;
mod prewarm;
mod shared;
mod start;
mod stats;
#[cfg(feature = "testing")]
pub mod testing;
pub mod units;
mod upkeep;

pub use config::{InvokerConfig, PoolConfig};
pub use host_memory::default_budget;
pub use invoker::Invoker;
pub use job::{Before, Job, Outcome, Ran, Refusal, StreamEnd};
pub use key::InstanceKey;
pub use lease::{Lease, OVERDUE, StartReport};
pub use pool::{NESTED_LEVELS, Shortage};
pub use start::{Permit, StartError, StartFor};
pub use stats::{FunctionInstances, InstanceCounts, InvokerStats, Totals};
