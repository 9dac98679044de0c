//! `flint bench promises`: what SPECIFICATION.md promises, beside what the experiments measure of it.

use std::{collections::BTreeMap, fmt, path::Path};

use anyhow::Context as _;
use flint_lab::{FEWEST, Report, Target};
use serde::Serialize;

use super::{Effort, Run, Size, janitor::Janitor, measure};
use crate::output::{print_json, print_line, tell};

/// An experiment, and as little of it as its promises need: that all of them together take ten minutes at most.
struct Check {
    experiment: &'static str,
    arms: &'static [&'static str],
    set: &'static [(&'static str, &'static str)],
    /// Rounds, where those of a quick run are too few to compare anything.
    repeat: Option<usize>,
}

/// Of what has one cold call a round.
const ROUNDS: Option<usize> = Some(FEWEST + 1);

const CHECKS: [Check; 7] = [
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
        set: &[("live", "20,500")],
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
        experiment: "fireworks-density",
        arms: &["openwhisk", "spawn-warm", "fork-never"],
        set: &[],
        repeat: None,
    },
    Check {
        experiment: "azure-replay",
        arms: &["openwhisk", "spawn-warm", "flint", "flint-lean"],
        set: &[
            ("workload", "sleep"),
            ("variant", "node"),
            ("copies", "6"),
            ("minutes", "20"),
            ("compress", "60"),
        ],
        repeat: None,
    },
];

/// Promises that the ten minutes leave out, and why; the specification says so too.
const LEFT_OUT: [(&str, &str); 1] = [(
    "C5",
    "numba takes longer to install and to pack than all the rest: flint bench coldstart measures it",
)];

/// How the reason begins for which nothing is said about what was measured.
pub(super) const TOO_NOISY: &str = "host too noisy: ";

/// A promise, and what became of it.
#[derive(Clone, Debug, Serialize)]
struct Kept {
    promise: String,
    experiment: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    target: String,
    /// `met`, `MISSED`, or why neither is known.
    verdict: String,
    /// The build that was measured, where anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// On what.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// By a quick run.
    quick: bool,
}

/// Runs the quick form of every experiment that a promise points to; one that cannot run says why in its promises' rows.
pub(crate) async fn run(
    out: Option<&Path>,
    seed: u64,
    despite_noise: bool,
    json: bool,
) -> anyhow::Result<()> {
    super::tell_what_is_left_out();
    let _janitor = Janitor::start()?;
    let mut kept = Vec::new();
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
            Err(error) => kept.push(Kept {
                promise: "–".into(),
                experiment: check.experiment.into(),
                name: "all of its promises".into(),
                value: None,
                target: String::new(),
                verdict: format!("not measured: {error:#}"),
                commit: None,
                host: None,
                quick: true,
            }),
        }
    }
    show(kept, &[], json)
}

async fn once(experiment: &str, effort: Effort) -> anyhow::Result<Report> {
    let mut run = Run::begin(experiment, effort)?;
    let report = measure(experiment, &mut run).await?;
    run.end(report).await
}

/// The same of runs that have ended: `folder` has theirs.
pub(crate) fn of_kept(folder: &Path, json: bool) -> anyhow::Result<()> {
    let reports = reports(folder)?;
    show(reports.iter().flat_map(rows).collect(), &origins(&reports), json)
}

/// Which builds were measured, on what, and what of that a reader has to know.
fn origins(reports: &[Report]) -> Vec<String> {
    let by = |origin: fn(&Report) -> String| {
        let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for report in reports {
            found.entry(origin(report)).or_default().push(&report.experiment);
        }
        found
    };
    let said = |name: &str, found: &BTreeMap<String, Vec<&str>>| match found.len() {
        1 => found.keys().map(|origin| format!("{name} {origin}")).collect::<String>(),
        _ => {
            let each: Vec<_> =
                found.iter().map(|(origin, of)| format!("{origin} ({})", of.join(", "))).collect();
            format!("{name}s differ, so this is no one build's and host's: {}", each.join("; "))
        }
    };
    let mut lines = vec![said("commit", &by(|report| report.commit.clone())), said("host", &by(host_of))];
    let quick: Vec<_> =
        reports.iter().filter(|report| is_quick(report)).map(|report| &*report.experiment).collect();
    if !quick.is_empty() {
        lines.push(format!("quick runs, whose figures are not to be quoted: {}", quick.join(", ")));
    }
    lines
}

fn host_of(report: &Report) -> String {
    let host = &report.host;
    format!("{} × {}, Linux {}", host.cores, host.cpu, host.kernel)
}

fn is_quick(report: &Report) -> bool {
    report.settings.get("quick").and_then(serde_json::Value::as_bool).unwrap_or(false)
}

/// The reports of the runs in `folder`, or of the run that it is; by their experiments' names.
pub(super) fn reports(folder: &Path) -> anyhow::Result<Vec<Report>> {
    let within = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<_> = within.flatten().map(|entry| entry.path().join("report.json")).collect();
    paths.push(folder.join("report.json"));
    let mut reports = Vec::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let report: Report = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is not a report of this release", path.display()))?;
        reports.push(report);
    }
    anyhow::ensure!(!reports.is_empty(), "there is no report in {} or in its folders", folder.display());
    reports.sort_by(|a, b| (&a.experiment, a.ended).cmp(&(&b.experiment, b.ended)));
    Ok(reports)
}

fn rows(report: &Report) -> Vec<Kept> {
    let row = |target: &Target| {
        // An arm that failed has no figures on a quiet host either.
        let missing = missing(report, target).or_else(|| {
            target.why.as_ref().map(|why| match why.starts_with(TOO_NOISY) {
                true => why.clone(),
                false => format!("not measured: {why}"),
            })
        });
        let verdict = match (target.met, missing, &report.withheld) {
            (Some(true), ..) => "met".to_owned(),
            (Some(false), ..) => "MISSED".to_owned(),
            (None, Some(why), _) => why,
            (None, None, Some(why)) => format!("{TOO_NOISY}{why}"),
            (None, None, None) => "not measured".to_owned(),
        };
        Some(Kept {
            promise: target.promise.clone()?,
            experiment: report.experiment.clone(),
            name: target.name.clone(),
            value: target.value,
            target: target.target.clone(),
            verdict,
            commit: Some(report.commit.clone()),
            host: Some(host_of(report)),
            quick: is_quick(report),
        })
    };
    report.targets.iter().filter_map(row).collect()
}

/// What was not measured because nobody asked for it says that, on a noisy host too.
fn said_if_left_out(row: Kept) -> Kept {
    match LEFT_OUT.iter().find(|(promise, _)| *promise == row.promise) {
        Some((_, why)) if row.value.is_none() => Kept { verdict: format!("not measured: {why}"), ..row },
        _ => row,
    }
}

/// Why an arm that the target is about has no figures: `failed` where it answered wrongly, and `not measured` where it could not be tried.
fn missing(report: &Report, target: &Target) -> Option<String> {
    report.arms.iter().find_map(|arm| {
        let why = arm.unavailable()?;
        let names = [arm.arm.clone(), arm.arm.replace('-', " ")];
        // `flint` is not `flint-lean`.
        let names_it = |name: &String| {
            let mut found = target.name.match_indices(name.as_str());
            found.any(|(at, _)| {
                let is_within =
                    |sign: Option<char>| sign.is_some_and(|sign| sign == '-' || sign.is_alphanumeric());
                !is_within(target.name[..at].chars().next_back())
                    && !is_within(target.name[at + name.len()..].chars().next())
            })
        };
        let of_it = arm.function.as_deref().is_none_or(|function| target.name.contains(function));
        let is_about = of_it && names.iter().any(names_it);
        let verdict = if is_wrong(why) { "failed" } else { "not measured" };
        is_about.then(|| format!("{verdict}: {}: {}", arm.arm, why.lines().next().unwrap_or_default()))
    })
}

/// Whether there was an answer, and not the one that was to be.
fn is_wrong(why: &str) -> bool {
    let begins = ["the oracle of ", "status ", "none of "].iter().any(|begin| why.starts_with(begin));
    begins || why.contains("wrong answer") || why.contains(" that the workload's program was shown are wrong")
}

fn show(mut kept: Vec<Kept>, origins: &[String], json: bool) -> anyhow::Result<()> {
    kept.sort_by_key(|row| order(&row.promise));
    if json {
        return print_json(&kept);
    }
    print_line(&Table(&kept).to_string())?;
    origins.iter().try_for_each(|line| print_line(line))
}

/// S2 before S10.
fn order(promise: &str) -> (String, u32) {
    let letters: String = promise.chars().take_while(|sign| !sign.is_ascii_digit()).collect();
    let number = promise[letters.len()..].parse().unwrap_or(0);
    (letters, number)
}

struct Table<'a>(&'a [Kept]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        writeln!(f, "{:<5} {:<width$} {:>12}  {:<12} verdict", "", "promise", "value", "target")?;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.0 {
            let value = row.value.map_or("–".to_owned(), |value| format!("{value:.2}"));
            writeln!(
                f,
                "{:<5} {:<width$} {value:>12}  {:<12} {}",
                row.promise, row.name, row.target, row.verdict
            )?;
            *counts.entry(row.verdict.split(':').next().unwrap_or_default()).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
        write!(f, "\n{}", counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bench::{activations, coldstart, density, overhead, suite, wasm};

    /// Every target that there is, of nothing that was measured.
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

    #[test]
    fn every_experiment_has_targets_and_every_promise_of_speed_has_one() {
        let specification = include_str!("../../../../SPECIFICATION.md");
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
            // Those with a number are measured by `flint bench promises`.
            let numbered = targets.iter().any(|target| target.promise.is_some());
            let checked = CHECKS.iter().any(|check| check.experiment == *experiment);
            assert_eq!(numbered, checked, "{experiment}");
        }
    }

    #[test]
    fn a_promise_is_met_missed_not_measured_or_not_judged() {
        let target = |n, value| Target::at_most("t", value, 2.0).of(n);
        let report = Report {
            experiment: "x".into(),
            targets: vec![target("S10", Some(1.0)), target("S2", Some(3.0)), target("S1", None)],
            ..Report::default()
        };
        let noisy =
            Report { withheld: Some("stolen".into()), targets: vec![target("C1", None)], ..report.clone() };
        let unnumbered = Report { targets: vec![Target::at_most("u", None, 1.0)], ..report.clone() };
        let mut kept: Vec<Kept> = [&report, &noisy, &unnumbered].into_iter().flat_map(rows).collect();
        kept.sort_by_key(|row| order(&row.promise));
        let seen: Vec<_> = kept.iter().map(|row| (row.promise.as_str(), row.verdict.as_str())).collect();
        assert_eq!(
            seen,
            [("C1", "host too noisy: stolen"), ("S1", "not measured"), ("S2", "MISSED"), ("S10", "met")]
        );
        let text = Table(&kept).to_string();
        assert!(text.ends_with("1 MISSED, 1 host too noisy, 1 met, 1 not measured"), "{text}");
    }

    #[test]
    fn a_promise_of_other_circumstances_is_not_judged() {
        let why = "it is promised of the size small, and this run is of the size large";
        let target = Target::at_least("t", Some(1.0), 2.0).of("E4").unless(Some(why.into()));
        let report = Report { targets: vec![target], withheld: Some("stolen".into()), ..Report::default() };
        assert_eq!(rows(&report).remove(0).verdict, format!("not measured: {why}"));
    }

    #[test]
    fn what_the_runs_were_made_of_is_said() {
        let report = |experiment: &str, commit: &str, quick| Report {
            experiment: experiment.into(),
            commit: commit.into(),
            settings: serde_json::json!({ "quick": quick }),
            targets: vec![Target::at_most("t", Some(1.0), 2.0).of("S1")],
            ..Report::default()
        };
        let same = origins(&[report("a", "1f", false), report("b", "1f", false)]);
        assert_eq!((same.len(), same[0].as_str()), (2, "commit 1f"));
        let reports = [report("a", "1f", false), report("b", "2e", true)];
        let differing = origins(&reports);
        assert_eq!(differing[0], "commits differ, so this is no one build's and host's: 1f (a); 2e (b)");
        assert_eq!(differing[2], "quick runs, whose figures are not to be quoted: b");
        let row = rows(&reports[1]).remove(0);
        assert_eq!((row.commit.as_deref(), row.quick), (Some("2e"), true));
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
    fn what_was_not_measured_says_which_arm_was_missing() {
        let absent = |arm: &str, function: Option<&str>| flint_lab::ArmReport {
            arm: arm.into(),
            function: function.map(str::to_owned),
            note: Some("unavailable: it is not installed\nmore".into()),
            ..flint_lab::ArmReport::default()
        };
        let target = |name| Target::at_least(name, None, 2.0).of("W7");
        let report = Report {
            arms: vec![absent("wasmtime-serve", None), absent("openwhisk", Some("f node"))],
            targets: vec![
                target("of wasmtime serve's calls/s"),
                target("f node: openwhisk cold"),
                target("g node: openwhisk cold"),
            ],
            ..Report::default()
        };
        let verdicts: Vec<_> = rows(&report).into_iter().map(|row| row.verdict).collect();
        let expected = [
            "not measured: wasmtime-serve: it is not installed",
            "not measured: openwhisk: it is not installed",
            "not measured",
        ];
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn a_target_that_is_not_judged_says_why_itself() {
        let target = |why: &str| Target::at_most("t", Some(1.0), 2.0).of("E8").unless(Some(why.into()));
        let report = Report {
            targets: vec![target("another trace"), target("host too noisy: openwhisk: others")],
            ..Report::default()
        };
        let verdicts: Vec<_> = rows(&report).into_iter().map(|row| (row.value, row.verdict)).collect();
        let expected = ["not measured: another trace", "host too noisy: openwhisk: others"];
        assert_eq!(verdicts, expected.map(|verdict| (None, verdict.to_owned())));
    }

    #[test]
    fn what_the_ten_minutes_leave_out_is_said() {
        let specification = include_str!("../../../../SPECIFICATION.md");
        let said =
            specification.lines().find(|line| line.starts_with("`make bench-quick` measures")).unwrap();
        let left_out = said.split_once("leaves out").unwrap().1;
        for (promise, _) in LEFT_OUT {
            assert!(left_out.contains(promise), "{promise}");
            let report =
                Report { targets: vec![Target::at_least("t", None, 2.0).of(promise)], ..Report::default() };
            let row = said_if_left_out(rows(&report).remove(0));
            assert!(row.verdict.starts_with("not measured: numba"), "{}", row.verdict);
        }
        // E6 to E8 have rows for each of their arms.
        let replay = CHECKS.iter().find(|check| check.experiment == "azure-replay").unwrap();
        assert_eq!(replay.arms.contains(&"wasm"), !left_out.contains("WebAssembly"));
    }

    #[test]
    fn a_wrong_answer_is_no_noise() {
        let wrong = |arm: &str| flint_lab::ArmReport {
            arm: arm.into(),
            function: Some("f node".into()),
            note: Some("unavailable: a wrong answer, /x is not 1: {}".into()),
            ..flint_lab::ArmReport::default()
        };
        let target =
            Target::at_least("f node: spawn-warm cold takes … as fork-never cold", None, 2.0).of("E2");
        let mut report =
            Report { arms: vec![wrong("spawn-warm")], targets: vec![target], ..Report::default() };
        report.judge(flint_lab::Noise::default(), false);
        let verdict = |report: &Report| rows(report).remove(0).verdict;
        let failed = "failed: spawn-warm: a wrong answer, /x is not 1: {}";
        assert_eq!(verdict(&report), failed);
        // Nor where another arm was measured meanwhile, on a host that was noisy.
        report.withheld = Some("stolen".into());
        assert_eq!(verdict(&report), failed);
    }

    #[test]
    fn reports_are_found_in_the_folders_of_a_folder() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(reports(scratch.path()).is_err());
        let write = |name: &str| {
            std::fs::create_dir_all(scratch.path().join(name)).unwrap();
            let report = Report { experiment: name.into(), ..Report::default() };
            let path = scratch.path().join(name).join("report.json");
            std::fs::write(path, serde_json::to_vec(&report).unwrap()).unwrap();
        };
        write("b");
        write("a");
        let names: Vec<_> =
            reports(scratch.path()).unwrap().into_iter().map(|report| report.experiment).collect();
        assert_eq!(names, ["a", "b"]);
        std::fs::write(scratch.path().join("b/report.json"), "{").unwrap();
        assert!(reports(scratch.path()).unwrap_err().to_string().contains("not a report of this release"));
    }
}
