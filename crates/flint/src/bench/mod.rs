//! `flint bench`: the experiments, each a set of arms that the laboratory drives against each other.

mod activations;
mod asked;
mod bare_http;
mod caller;
mod coldstart;
mod density;
mod holds;
mod interpreter;
pub(crate) mod janitor;
mod overhead;
mod peers;
mod prepared;
pub(crate) mod promises;
mod run;
mod server;
mod shim_link;
mod sources;
mod suite;
pub(crate) mod tied;
mod wasm;

use std::{io::ErrorKind, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use flint_lab::{Report, RunFolder};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};

use janitor::Janitor;
use run::Run;

use crate::{
    failure::{Exit, Failure},
    output::{print_json, print_line, tell},
};
pub(crate) use run::{Effort, Size, commit};

/// How long a signal may take to be seen that has ended a program which a measurement has started.
const SEEN_WITHIN: Duration = Duration::from_millis(200);

/// All experiments, with what they measure.
pub(crate) fn experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILT_IN.iter().copied().chain(suite::SUITES.iter().map(|suite| (suite.name, suite.what)))
}

/// Experiments without workloads.
const BUILT_IN: &[(&str, &str)] = &[
    ("overhead", "what Flint adds to a call: bare HTTP, the runtime shim alone, and calls through Flint"),
    (
        "coldstart",
        "what a new instance costs: processes, sandboxes, snapshots before and after compiling, clones, standbys; time, memory, rate",
    ),
    (
        "wasm",
        "what a fresh WebAssembly instance for each call costs: alone on one and two threads, through Flint, beside wasmtime serve",
    ),
    (
        "fireworks-density",
        "FIREWORKS' consolidation: how many instances live in so much memory, until the kernel has nothing left",
    ),
    (
        "activation-queries",
        "listing, filtering and counting a namespace's activations through the API, when there are ten million of them",
    ),
];

/// Runs `experiment` and prints its report on stdout; everything else goes to stderr. The report says whether
/// targets were met, the exit code does not: a benchmark with measurements has succeeded.
pub(crate) async fn run(experiment: &str, effort: Effort, json: bool) -> anyhow::Result<()> {
    tell_what_is_left_out();
    let mut run = Run::begin(experiment, effort)?;
    let _janitor = Janitor::start()?;
    let mut interrupts = Interrupts::listen().context("waiting for signals")?;
    // Dropping the measurement stops its servers, back ends and groups.
    let mut measured = tokio::select! {
        report = measure(experiment, &mut run) => Some(report),
        () = interrupts.next() => None,
    };
    // Ctrl-C also ends the programs that a measurement has started, whose failures may be seen first.
    if matches!(measured, Some(Err(_))) && timeout(SEEN_WITHIN, interrupts.next()).await.is_ok() {
        measured = None;
    }
    let Some(measured) = measured else {
        bail!("interrupted: with --out, the same command goes on from here");
    };
    let out = run.effort.out.clone();
    let report = run.end(measured?).await?;
    print(&report, json)?;
    if let Some(folder) = out {
        tell!("the report is in {}: report.html, report.md, report.json", folder.display());
    }
    has_figures(&report)?;
    Ok(())
}

/// Reports which of Flint's variables are not passed to the measured servers.
fn tell_what_is_left_out() {
    let mut names = server::left_out();
    // The location of what its scripts install is the benchmark's own setting.
    names.retain(|name| name.contains("__") || name == "FLINT_CONFIG");
    if !names.is_empty() {
        tell!("not told to the servers that are measured: {}", names.join(", "));
    }
}

/// A run in which every arm failed has not succeeded.
fn has_figures(report: &Report) -> Result<(), Failure> {
    if !report.is_empty() {
        return Ok(());
    }
    let why = report.failed().unwrap_or_else(|| "no arm was measured".to_owned());
    Err(Failure::new(Exit::FunctionFailed, "nothing_measured", format!("nothing was measured: {why}")))
}

async fn measure(experiment: &str, run: &mut Run) -> anyhow::Result<Report> {
    let measured = match experiment {
        "overhead" => overhead::run(run).await,
        "coldstart" => coldstart::run(run).await,
        "wasm" => wasm::run(run).await,
        "fireworks-density" => density::run(run).await,
        "activation-queries" => activations::run(run).await,
        other => match suite::of(other) {
            Some(suite) => suite.run(run).await,
            None => bail!("there is no experiment '{other}'"),
        },
    };
    // A failed run leaves its folder to other settings.
    measured.inspect_err(|_| run.folder.forget())
}

/// Requests to this process to stop.
struct Interrupts {
    pressed: Signal,
    asked: Signal,
}

impl Interrupts {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { pressed: signal(SignalKind::interrupt())?, asked: signal(SignalKind::terminate())? })
    }

    /// Returns when there is one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.pressed.recv() => {}
            _ = self.asked.recv() => {}
        }
    }
}

/// Prints the report of a finished run, and writes its pages again.
pub(crate) fn report(folder: &Path, json: bool) -> anyhow::Result<()> {
    shown_and_written(folder, |report| print(report, json))
}

/// Printed first, since an unwritable folder may be readable.
fn shown_and_written(folder: &Path, show: impl FnOnce(&Report) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let path = folder.join("report.json");
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Failure::usage(format!("there is no report in {}", folder.display()))
                .hint("an interrupted run is finished by the same command that began it")
        }
        _ => Failure::local(format!("{}: {error}", path.display())),
    })?;
    let report = read(&path, &bytes)?;
    show(&report)?;
    run::write(&RunFolder::at(folder), &report).context("the report's files could not be written anew")
}

/// Parses a report.
fn read(path: &Path, bytes: &[u8]) -> Result<Report, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::usage(format!("{} is not a report of this release: {error}", path.display()))
    })
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    if json { print_json(report) } else { print_line(&report.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_figures_has_not_succeeded() {
        let arm = |note: Option<&str>| flint_lab::ArmReport {
            arm: "a".into(),
            note: note.map(str::to_owned),
            ..flint_lab::ArmReport::default()
        };
        let failed = || arm(Some("unavailable: a wrong answer, no"));
        let report = |arms| Report { arms, ..Report::default() };
        let failure = has_figures(&report(vec![failed(), failed()])).unwrap_err();
        let message = "nothing was measured: 2 of 2 rows have no figures; a: a wrong answer, no";
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::FunctionFailed, message));
        assert!(has_figures(&report(vec![failed(), arm(None)])).is_ok());
    }

    #[test]
    fn a_report_is_shown_where_its_files_cannot_be_written() {
        let scratch = tempfile::tempdir().unwrap();
        let report = Report { experiment: "x".into(), ..Report::default() };
        std::fs::write(scratch.path().join("report.json"), serde_json::to_vec(&report).unwrap()).unwrap();
        // In the way of a file with this name, even for root.
        std::fs::create_dir(scratch.path().join("report.part")).unwrap();
        let mut shown = String::new();
        let failed = shown_and_written(scratch.path(), |report| {
            shown.clone_from(&report.experiment);
            Ok(())
        });
        let why = format!("{:#}", failed.unwrap_err());
        assert_eq!(shown, "x");
        assert!(why.starts_with("the report's files could not be written anew: "), "{why}");
        assert!(why.contains("report.part"), "{why}");
    }

    #[test]
    fn a_folder_without_a_report_is_wrong_usage() {
        let scratch = tempfile::tempdir().unwrap();
        let refused = || report(scratch.path(), false).unwrap_err().downcast::<Failure>().unwrap();
        let failure = refused();
        assert!(failure.exit == Exit::Usage && failure.message.contains("there is no report in"));
        std::fs::write(scratch.path().join("report.json"), "{").unwrap();
        let failure = refused();
        assert!(failure.exit == Exit::Usage && failure.message.contains("of this release"), "{failure}");
    }

    #[tokio::test]
    async fn what_cannot_be_replayed_is_wrong_usage_and_leaves_its_folder_to_what_can() {
        let scratch = tempfile::tempdir().unwrap();
        let effort = |set: &[(&str, &str)]| {
            let functions = ("functions", concat!(env!("CARGO_MANIFEST_DIR"), "/../../functions"));
            let set = set.iter().chain([&functions]);
            Effort {
                quick: true,
                size: Size::Test,
                arms: Vec::new(),
                repeat: None,
                seed: 1,
                set: set.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
                out: Some(scratch.path().join("run")),
                despite_noise: false,
            }
        };
        for (wrong, part) in [
            ([("trace", "2021"), ("procedure", "photons")], "has no minutes"),
            ([("trace", "/no/such/trace"), ("procedure", "whole")], "opening /no/such/trace/invocations.csv"),
            ([("procedure", "whole"), ("workload", "video")], "--set workload=sleep"),
            ([("workload", "video"), ("variant", "node")], "that --set leaves"),
        ] {
            let mut run = Run::begin("azure-replay", effort(&wrong)).unwrap();
            let refused = measure("azure-replay", &mut run).await.unwrap_err();
            let failure = refused.downcast_ref::<Failure>().unwrap_or_else(|| panic!("{refused:#}"));
            assert!(failure.exit == Exit::Usage && failure.message.contains(part), "{failure}");
        }
    }

    #[tokio::test]
    async fn unknown_arms_are_refused_before_anything_is_started() {
        for (experiment, _) in experiments() {
            let effort = Effort {
                quick: true,
                size: Size::Small,
                arms: vec!["nosuch".to_owned()],
                repeat: None,
                seed: 1,
                set: Default::default(),
                out: None,
                despite_noise: false,
            };
            let mut run = Run::begin(experiment, effort).unwrap();
            let refused = measure(experiment, &mut run).await.unwrap_err();
            let failure =
                refused.downcast_ref::<Failure>().unwrap_or_else(|| panic!("{experiment}: {refused:#}"));
            assert_eq!(failure.exit, Exit::Usage, "{experiment}");
            assert!(
                failure.message.starts_with("there is no arm 'nosuch': choose "),
                "{experiment}: {failure}"
            );
        }
    }
}
