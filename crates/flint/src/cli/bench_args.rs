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
    /// Name the experiments
    List,
    /// Print the report of a run, and write its pages anew
    Report {
        /// The folder that was given as --out
        folder: PathBuf,
    },
    /// Measure quickly what SPECIFICATION.md promises of speed and memory, and print one table: at most ten minutes
    Promises(PromisesArgs),
    /// Put load on a function or a URL and say what its callers saw
    Load(Box<LoadArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct PromisesArgs {
    /// A folder for the experiments' reports, each in a folder of its own: the same command goes on where it was interrupted
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub(crate) out: Option<PathBuf>,
    /// Measure nothing: judge by the reports of runs that have ended, in DIR or in its folders
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Seed of everything that is drawn
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
    /// Judge although the host is too noisy for it
    #[arg(long)]
    pub(crate) despite_noise: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExperimentArgs {
    /// The experiment; `flint bench list` names them
    #[arg(required = true, default_value = "")]
    pub(crate) experiment: String,
    /// Fewer and shorter runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// How large the inputs of its functions are; `--set input=NAME` chooses others that a workload has
    #[arg(long, default_value = "small")]
    pub(crate) size: Size,
    /// Only these arms, by name; what compares with others is then not measured
    #[arg(long, value_delimiter = ',')]
    pub(crate) arms: Vec<String>,
    /// Rounds that are counted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: Option<u16>,
    /// A folder for the report and for what is measured on the way: the same command goes on where it was interrupted
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of everything that is drawn
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
    /// An option of the experiment; docs/benchmarks.md names them. Repeatable
    #[arg(long, value_name = "K=V", value_parser = values::pair)]
    pub(crate) set: Vec<(String, String)>,
    /// Compare arms although the host is too noisy for it
    #[arg(long)]
    pub(crate) despite_noise: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// A function's name, or a URL that begins with http://
    #[arg(value_parser = values::name)]
    pub(crate) target: String,
    /// Calls a second
    #[arg(long, default_value = "100", value_parser = rate)]
    pub(crate) rate: f64,
    /// For how long, with the warm-up
    #[arg(long, default_value = "10s", value_parser = values::duration)]
    pub(crate) duration: Duration,
    /// Calls in the first part of that time are made but not counted
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub(crate) warm_up: Duration,
    /// Random gaps, as independent callers leave them, instead of even ones
    #[arg(long)]
    pub(crate) poisson: bool,
    /// Seed of the random gaps
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
    /// Connections at most; calls that find none free wait, and their waiting counts
    #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// How long one answer may take
    #[arg(long, default_value = "30s", value_parser = values::duration)]
    pub(crate) timeout: Duration,
    /// A closed loop instead: this many callers, each waiting for its answer. It finds the most that is possible, and hides what
    /// users wait for
    #[arg(long, value_name = "CALLERS", conflicts_with_all = ["rate", "poisson"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) closed: Option<u32>,
    /// The method for a URL; GET without a body, POST with one
    #[arg(long)]
    pub(crate) method: Option<http::Method>,
    /// The status that is right
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
