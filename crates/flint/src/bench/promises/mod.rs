//! `flint bench promises`: measures the promises of SPECIFICATION.md.

mod kept_runs;
mod table;
mod verdicts;

use std::{collections::BTreeSet, path::Path, time::Instant};

use flint_lab::{FEWEST, Report, Target};

pub(crate) use self::kept_runs::of_kept;
use self::{
    table::show,
    verdicts::{Kept, of_ended, rows},
};
use super::{
    Effort, Run, Size, activations, coldstart, density, janitor::Janitor, measure, overhead, suite, wasm,
};
use crate::output::tell;

/// An experiment, reduced to what its promises need: all together take at most ten minutes.
struct Check {
    experiment: &'static str,
    arms: &'static [&'static str],
    set: &'static [(&'static str, &'static str)],
    /// Number of rounds, if a quick run has too few for comparisons.
    repeat: Option<usize>,
}

/// For experiments with one cold call per round.
const ROUNDS: Option<usize> = Some(FEWEST + 1);

const CHECKS: [Check; 6] = [
    Check { experiment: "overhead", arms: &[], set: &[], repeat: None },
    Check {
        experiment: "coldstart",
        arms: &[
            "spawn-never:empty-node",
            "fork-never:empty-node",
            "fork-never-standby:empty-node",
            "spawn-never:empty-python",
            "fork-never:empty-python",
            "fork-never:fact-node",
            "fork-warm:fact-node",
            "fork-never:matrix-mult-node",
            "fork-warm:matrix-mult-node",
            "fork-never:fact-python",
            "fork-warm:fact-python",
            "fork-never:matrix-mult-python",
            "fork-warm:matrix-mult-python",
            "rate-fork-never:empty-node",
            "memory-fork-never",
        ],
        set: &[("live", "20,500"), ("sizes", "full")],
        repeat: None,
    },
    Check {
        experiment: "wasm",
        arms: &["engine-core", "flint-http", "flint-http-unrecorded", "wasmtime-serve", "live-http"],
        set: &[],
        repeat: None,
    },
    Check {
        experiment: "faasdom",
        arms: &["openwhisk", "spawn-warm", "fork-never"],
        set: &[("workload", "netlatency")],
        repeat: ROUNDS,
    },
    Check {
        experiment: "serverlessbench",
        arms: &["spawn-warm", "fork-never"],
        set: &[("workload", "alexa,wage-analysis")],
        repeat: ROUNDS,
    },
    Check {
        experiment: "azure-replay",
        arms: &["flint", "flint-lean"],
        set: &[
            ("workload", "sleep"),
            ("variant", "node"),
            ("copies", "20"),
            ("minutes", "25"),
            ("compress", "60"),
        ],
        repeat: None,
    },
];

/// A promise that is not measured within the ten minutes.
struct LeftOut {
    promise: &'static str,
    /// Which measures it.
    experiment: &'static str,
    why: &'static str,
}

/// All of them; the specification lists them too.
const LEFT_OUT: [LeftOut; 3] = [
    LeftOut {
        promise: "C5",
        experiment: "coldstart",
        why: "numba takes longer to install and to pack than all the rest",
    },
    LeftOut { promise: "E5", experiment: "fireworks-density", why: "it takes hundreds of instances" },
    LeftOut {
        promise: "E8",
        experiment: "azure-replay",
        why: "it takes sandboxes and containers of all copies",
    },
];

/// Runs the quick form of every experiment that has promises; one that cannot run has the reason in its rows.
pub(crate) async fn run(
    out: Option<&Path>,
    seed: u64,
    despite_noise: bool,
    json: bool,
) -> anyhow::Result<()> {
    super::tell_what_is_left_out();
    let _janitor = Janitor::start()?;
    let (began, mut kept) = (Instant::now(), Vec::new());
    for (at, check) in CHECKS.iter().enumerate() {
        tell!("{} of {}: {}", at + 1, CHECKS.len(), check.experiment);
        let effort = Effort {
            quick: true,
            size: Size::Small,
            arms: check.arms.iter().map(|&arm| arm.to_owned()).collect(),
            repeat: check.repeat,
            seed,
            set: check.set.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
            out: out.map(|folder| folder.join(check.experiment)),
            despite_noise,
        };
        match once(check.experiment, effort).await {
            Ok(report) => kept.extend(rows(&report).into_iter().map(said_if_left_out)),
            Err(error) => {
                let verdict = of_ended(&error);
                let rows = without_rows(&kept, |experiment| {
                    (experiment == check.experiment).then(|| verdict.clone())
                });
                kept.extend(rows.into_iter().map(said_if_left_out));
            }
        }
    }
    let left_out = without_rows(&kept, |_| Some("not measured".to_owned()));
    kept.extend(left_out.into_iter().map(said_if_left_out));
    let seconds = began.elapsed().as_secs();
    tell!("it took {} min {} s", seconds / 60, seconds % 60);
    show(kept, &[], json)
}

async fn once(experiment: &str, effort: Effort) -> anyhow::Result<Report> {
    let mut run = Run::begin(experiment, effort)?;
    let report = measure(experiment, &mut run).await?;
    run.end(report).await
}

/// The verdict that something was left out takes precedence over noise.
fn said_if_left_out(row: Kept) -> Kept {
    match LEFT_OUT.iter().find(|left| left.promise == row.promise) {
        Some(LeftOut { why, experiment, .. }) if row.value.is_none() => {
            Kept { verdict: format!("not measured: {why}: flint bench {experiment} measures it"), ..row }
        }
        _ => row,
    }
}

/// All targets, without measurements.
fn all() -> Vec<(&'static str, Vec<Target>)> {
    let mut all = vec![
        ("overhead", overhead::targets_of_nothing()),
        ("coldstart", coldstart::targets_of_nothing()),
        ("wasm", wasm::targets_of_nothing()),
        ("fireworks-density", density::targets_of_nothing()),
        ("activation-queries", activations::targets_of_nothing()),
    ];
    all.extend(suite::SUITES.iter().map(|suite| (suite.name, suite.targets_of_nothing())));
    all
}

/// A row for each promise that has none in `kept`, if there is a verdict on it by its experiment.
fn without_rows(kept: &[Kept], verdict: impl Fn(&str) -> Option<String>) -> Vec<Kept> {
    let mut seen: BTreeSet<String> = kept.iter().map(|row| row.promise.clone()).collect();
    let mut rows = Vec::new();
    for (experiment, targets) in all() {
        let Some(verdict) = verdict(experiment) else { continue };
        for Target { promise, name, target, .. } in targets {
            let Some(promise) = promise.filter(|promise| seen.insert(promise.clone())) else { continue };
            let (experiment, verdict) = (experiment.to_owned(), verdict.clone());
            rows.push(Kept { promise, experiment, name, target, verdict, ..Kept::default() });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{table::order, *};

    #[test]
    fn every_experiment_has_targets_and_every_promise_of_speed_has_one() {
        let specification = include_str!("../../../../../SPECIFICATION.md");
        let mut promised = BTreeSet::new();
        for line in specification.lines() {
            let Some((number, _)) = line.strip_prefix("| ").and_then(|rest| rest.split_once(" |")) else {
                continue;
            };
            let (letters, n) = order(number);
            let measured = match letters.as_str() {
                "S" => (1..=13).contains(&n),
                "W" => n >= 6,
                "C" | "E" => n > 0,
                _ => false,
            };
            if measured {
                promised.insert(number.to_owned());
            }
        }
        let all = all();
        let judged: BTreeSet<String> =
            all.iter().flat_map(|(_, targets)| targets).filter_map(|target| target.promise.clone()).collect();
        assert_eq!(promised, judged);
        for (experiment, targets) in &all {
            assert!(!targets.is_empty(), "{experiment} has no targets");
            // Targets with a number are measured by `flint bench promises`, or listed as left out.
            let mut numbers = targets.iter().filter_map(|target| target.promise.as_deref());
            let is_left_out =
                |number| LEFT_OUT.iter().any(|left| (left.promise, left.experiment) == (number, *experiment));
            let checked = CHECKS.iter().any(|check| check.experiment == *experiment);
            assert_eq!(checked, !numbers.all(is_left_out), "{experiment}");
        }
    }

    #[test]
    fn a_promise_without_a_report_has_one_row() {
        let of = |experiment: &str, kept: &[Kept]| -> Vec<(String, String)> {
            let rows = without_rows(kept, |name| (name == experiment).then(|| format!("failed: {name}")));
            rows.into_iter().map(|row| (row.promise, row.verdict)).collect()
        };
        let expected =
            ["W6", "W7", "W8", "W9"].map(|promise| (promise.to_owned(), "failed: wasm".to_owned()));
        assert_eq!(of("wasm", &[]), expected);
        let kept = Kept { promise: "W7".into(), ..Kept::default() };
        assert_eq!(of("wasm", &[kept]).len(), 3);
        let replayed: Vec<_> = of("azure-replay", &[]).into_iter().map(|(promise, _)| promise).collect();
        assert_eq!(replayed, ["E6", "E7", "E8"]);
    }

    #[test]
    fn what_has_a_cold_call_a_round_has_enough_rounds_to_be_compared() {
        for check in &CHECKS {
            let suite = suite::of(check.experiment);
            let is_compared = suite.is_some_and(|suite| suite.is_of_single_calls());
            assert_eq!(
                check.repeat.is_some_and(|rounds| rounds >= FEWEST),
                is_compared,
                "{}",
                check.experiment
            );
        }
    }

    #[test]
    fn what_the_ten_minutes_leave_out_is_said() {
        let specification = include_str!("../../../../../SPECIFICATION.md");
        let said = specification.split_once("`make bench-quick` measures").unwrap().1;
        let said = said.split_once("A test checks that each promise").unwrap().0;
        let left_out = said.split_once("leaves out").unwrap().1;
        for left in &LEFT_OUT {
            let promise = left.promise;
            assert!(left_out.contains(promise) && left_out.contains(left.experiment), "{promise}");
            let report =
                Report { targets: vec![Target::at_least("t", None, 2.0).of(promise)], ..Report::default() };
            let row = said_if_left_out(rows(&report).remove(0));
            let said = format!("not measured: {}: flint bench {} measures it", left.why, left.experiment);
            assert_eq!(row.verdict, said);
        }
        // E6 to E8 have a row per arm.
        let replay = CHECKS.iter().find(|check| check.experiment == "azure-replay").unwrap();
        assert_eq!(replay.arms.contains(&"wasm"), !left_out.contains("WebAssembly"));
    }
}
