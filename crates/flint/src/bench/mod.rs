//! `flint bench`: the experiments, each a set of arms that the laboratory drives against each other.

mod bare_http;
mod coldstart;
mod overhead;
mod peers;
mod server;
mod shim_link;
mod wasm;

use anyhow::{Context as _, bail};
use flint_lab::{ArmPlan, Report};
use indicatif::{ProgressBar, ProgressStyle};

/// The experiments there are, with what they measure.
pub(crate) const EXPERIMENTS: &[(&str, &str)] = &[
    ("overhead", "what Flint adds to a call: bare HTTP, the runtime shim alone, and calls through Flint"),
    (
        "coldstart",
        "what a new instance costs: processes, sandboxes, snapshots before and after compiling, clones, standbys; time, memory, rate",
    ),
    (
        "wasm",
        "what a fresh WebAssembly instance for each call costs: alone on one and two threads, through Flint, beside wasmtime serve",
    ),
];

/// How thorough an experiment is to be.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// A few seconds instead of minutes; too short to quote.
    pub(crate) quick: bool,
    /// Only the arms of these names; all when empty.
    pub(crate) arms: Vec<String>,
}

impl Effort {
    /// Leaves the arms that were asked for, and refuses names that no arm has.
    fn choose(&self, plans: Vec<ArmPlan>) -> anyhow::Result<Vec<ArmPlan>> {
        if let Some(unknown) = self.arms.iter().find(|name| !plans.iter().any(|plan| plan.name == **name)) {
            let mut names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
            names.dedup();
            bail!("there is no arm '{unknown}': choose from {}", names.join(", "));
        }
        Ok(plans.into_iter().filter(|plan| self.arms.is_empty() || self.arms.contains(&plan.name)).collect())
    }
}

/// Runs `experiment` and prints its report on stdout; everything else goes to stderr. Whether the targets were met is in the report,
/// not in the exit code: a benchmark that ran has succeeded.
pub(crate) async fn run(experiment: &str, effort: Effort, json: bool) -> anyhow::Result<()> {
    let report = match experiment {
        "overhead" => overhead::run(effort).await?,
        "coldstart" => coldstart::run(effort).await?,
        "wasm" => wasm::run(effort).await?,
        other => bail!("there is no experiment '{other}'"),
    };
    print(&report, json)
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(report).context("writing the report")?);
    } else {
        println!("{report}");
    }
    Ok(())
}

/// A bar that says which arm is being driven.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (about {eta} left)")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

/// The commit that the measured binary was built from, as the build recorded it.
fn commit() -> String {
    option_env!("FLINT_COMMIT").unwrap_or("unknown").to_owned()
}
