//! Which call runs when and where: bounded queues, fairness between namespaces, placement.
//!
//! A call gets the idle instance that served its function last; if there is none, it waits in its function's queue for one that
//! comes free, or for one that is started (`placement.rs`). `estimate.rs` says when starting one is worth it, `starts.rs` who comes
//! first when not everybody can: namespaces take turns to start instances, and when memory is short, the one that has least of it
//! comes first and the others give up instances for it as their calls end.
//!
//! Everything is decided under one short lock, the board's; what takes time is done by tasks that [`Scheduler::drain`] joins.

#![forbid(unsafe_code)]

mod average;
mod board;
mod config;
mod estimate;
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
