//! Decides which call runs when and where: bounded queues, fairness between namespaces, placement.
//!
//! A call gets the most recently used idle instance of its function. If there is none, it waits in its
//! function's queue for an instance that becomes free or is started (`placement.rs`). `estimate.rs` decides
//! when a start is worth its cost; `starts.rs` decides whose start comes first: namespaces take turns, and
//! when memory is short, the one with the smallest charge comes first and the others give up instances for it
//! as their calls end.
//!
//! All decisions are made under one short lock, the board's. Work that takes time runs in tasks that
//! [`Scheduler::drain`] joins.

#![forbid(unsafe_code)]

mod average;
mod board;
mod config;
mod estimate;
mod host_cores;
mod placement;
mod queue;
mod scheduler;
mod serve;
mod starts;
mod stats;
mod tend;
mod waiting;

pub use config::{QueueConfig, SchedulerConfig};
pub use flint_invoker::{Job, Outcome, Ran, Refusal, StreamEnd};
pub use scheduler::Scheduler;
pub use stats::{CallTotals, FunctionQueue, SchedulerStats, WaitedHistogram};
