//! The laboratory: drives arms against each other in one run and reports what it measured.
//!
//! It knows nothing of Flint: an [`Arm`] is anything that answers calls. What the arms of an experiment are is said by the binary.

#![forbid(unsafe_code)]

mod arm;
mod closed_loop;
mod exchange;
mod host;
mod http_client;
mod process;
mod report;
mod rounds;
mod statistics;

pub use arm::{Arm, ArmError, Connection};
pub use closed_loop::{Load, Measured, drive};
pub use exchange::{HttpAnswer, HttpClient};
pub use host::Host;
pub use http_client::{HttpArm, HttpRequest};
pub use process::{ProcessTree, TreeMemory, machine_cpu_us, memory_of, parent_of, process_cpu_us};
pub use report::{ArmReport, Latency, Report, Target};
pub use rounds::{ArmPlan, ArmRounds, run_rounds};
pub use statistics::{median, median_ratio, quantile};
