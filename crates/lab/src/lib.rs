//! The laboratory: drives arms against each other in one run, and reports the measurements.
//!
//! It is independent of Flint: an [`Arm`] is anything that answers calls. The binary defines the arms of the
//! experiments.

#![forbid(unsafe_code)]

mod arm;
mod arrivals;
mod bootstrap;
mod closed_loop;
mod exchange;
mod failures;
mod host;
mod http_client;
mod in_turn;
mod mann_whitney;
mod noise;
mod open_loop;
mod pacer;
mod plot;
mod process;
mod random;
mod report;
mod rounds;
mod run_folder;
mod statistics;
pub mod trace;

pub use arm::{Arm, ArmError, Connection};
pub use arrivals::{Arrival, Arrivals};
pub use bootstrap::{FEWEST, Median};
pub use closed_loop::{Load, Measured, drive, drive_within};
pub use exchange::{HttpAnswer, HttpClient};
pub use failures::{Failed, Failures};
pub use host::Host;
pub use http_client::{HttpArm, HttpRequest};
pub use in_turn::InTurn;
pub use mann_whitney::MannWhitney;
pub use noise::{Noise, NoiseWatch, start_after_rest};
pub use open_loop::{OpenLoad, OpenMeasured, drive_open};
pub use process::{ProcessTree, TreeMemory, machine_cpu_us, memory_of, parent_of, process_cpu_us};
pub use random::Random;
pub use report::{
    About, ArmReport, Axis, Comparison, Latency, Point, Report, Target, Unjudged, sampled, thinned,
};
pub use rounds::{ArmPlan, ArmRounds, RoundsError, run_rounds};
pub use run_folder::{Identity, RunFolder, RunFolderError};
pub use statistics::{median, median_ratio, quantile};
