//! Set-up of structured logs ([`init`]) and the metrics that Flint exports ([`Metrics`]).
//!
//! The metrics' names and labels are documented in `docs/metrics.md`. Nothing here sees a secret: labels are names of
//! namespaces, functions and runtimes.

#![forbid(unsafe_code)]

mod function_metrics;
mod labels;
mod lines;
mod logs;
mod metrics;
mod process;
mod sampled;
mod samples;

pub use function_metrics::{Finished, FunctionMetrics, StartKind};
pub use logs::{LogFormat, LogFormatError, TelemetryError, flush, init};
pub use metrics::{Metrics, MetricsConfig, ThrottledBy};
pub use samples::{InstanceState, LogSamples, Samples, SnapshotSamples, WasmPoolSamples};
