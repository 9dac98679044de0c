//! The options of `flint bench`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::{CallArgs, values};
use crate::bench::Size;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// List the experiments
    List,
    /// Print the report of a run and rewrite its pages
    Report {
        /// Directory that the run had as --out
        folder: PathBuf,
    },
    /// Check the speed and memory promises of SPECIFICATION.md and print one table, in at most ten minutes
    Promises(PromisesArgs),
    /// Load-test a function or URL and report what its callers saw
    Load(Box<LoadArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct PromisesArgs {
    /// Directory for the experiments' reports, one subdirectory each; repeat the command to resume an interrupted run
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub(crate) out: Option<PathBuf>,
    /// Measure nothing: judge the reports of completed runs in DIR or its subdirectories
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Random seed
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
    /// Judge even if the host is too noisy
    #[arg(long)]
    pub(crate) despite_noise: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// Experiment to run; `flint bench list` lists them
    #[arg(required = true, default_value = "", hide_default_value = true)]
    pub(crate) experiment: String,
    /// Make fewer and shorter runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Size of the functions' inputs; `--set input=NAME` selects other inputs of a workload
    #[arg(long, default_value = "small")]
    pub(crate) size: Size,
    /// Measure only these arms, by name, separated by commas; comparisons with others are skipped
    #[arg(long, value_delimiter = ',')]
    pub(crate) arms: Vec<String>,
    /// Number of counted rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: Option<u16>,
    /// Directory for the report and the measurements; repeat the command to resume an interrupted run
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Random seed
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
    /// Option of the experiment; see docs/benchmarks.md. Repeatable
    #[arg(long, value_name = "K=V", value_parser = values::pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Compare arms even if the host is too noisy
    #[arg(long)]
    pub(crate) despite_noise: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// A function name, or a URL that begins with http://
    #[arg(value_parser = values::name)]
    pub(crate) target: String,
    /// Calls per second
    #[arg(long, default_value = "100", value_parser = rate)]
    pub(crate) rate: f64,
    /// Duration; that of an open loop includes the warm-up
    #[arg(long, default_value = "10s", value_parser = values::some_time)]
    pub(crate) duration: Duration,
    /// Time whose calls are not counted: the beginning of an open loop's duration, or before a closed loop's
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub(crate) warm_up: Duration,
    /// Use random gaps between calls, as from independent callers, instead of even ones
    #[arg(long)]
    pub(crate) poisson: bool,
    /// Seed of the random gaps
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
    /// Maximum connections; calls wait for a free one, and the wait counts
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// Time limit of a response
    #[arg(long, default_value = "30s", value_parser = values::some_time)]
    pub(crate) timeout: Duration,
    /// Use a closed loop of this many callers, each waiting for its response. It measures peak throughput, and hides
    /// the time that users wait
    #[arg(long, value_name = "CALLERS", conflicts_with_all = ["rate", "poisson"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) closed: Option<u32>,
    /// HTTP method for a URL [default: POST with a body, else GET]
    #[arg(long)]
    pub(crate) method: Option<http::Method>,
    /// Expected HTTP status
    #[arg(long, default_value = "200", value_parser = clap::value_parser!(u16).range(100..=599))]
    pub(crate) expect: u16,
    #[command(flatten)]
    pub(crate) call: CallArgs,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e6 => Ok(rate),
        _ => Err(format!("'{text}' is not a number of calls a second, above 0 and up to 1000000")),
    }
}
