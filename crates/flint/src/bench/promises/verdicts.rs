//! The verdict on each promise of a report.

use flint_lab::{Report, Target, Unjudged};
use serde::Serialize;

/// A promise and its verdict.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Kept {
    pub(super) promise: String,
    pub(super) experiment: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<f64>,
    pub(super) target: String,
    /// `met`, `MISSED`, or why neither is known.
    pub(super) verdict: String,
    /// The measured build, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit: Option<String>,
    /// The host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    /// Whether by a quick run.
    pub(super) quick: bool,
}

impl Kept {
    /// A promise without measurement.
    pub(super) fn not_measured(promise: &str, experiment: &str, name: &str, why: &str) -> Self {
        Self {
            promise: promise.to_owned(),
            experiment: experiment.to_owned(),
            name: name.to_owned(),
            value: None,
            target: String::new(),
            verdict: format!("not measured: {why}"),
            commit: None,
            host: None,
            quick: true,
        }
    }
}

pub(super) fn rows(report: &Report) -> Vec<Kept> {
    let row = |target: &Target| {
        // An arm that failed has no figures on a quiet host either.
        let missing = missing(report, target).or_else(|| target.unjudged.as_ref().map(Unjudged::to_string));
        let verdict = match (target.met, missing, &report.withheld) {
            (Some(true), ..) => "met".to_owned(),
            (Some(false), ..) => "MISSED".to_owned(),
            (None, Some(why), _) => why,
            (None, None, Some(why)) => Unjudged::Noise(why.clone()).to_string(),
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

/// Why an arm of the target has no figures: `failed` for wrong responses, `not measured` if it could not be
/// tried.
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

/// Whether there was a response, but a wrong one.
fn is_wrong(why: &str) -> bool {
    let begins = ["the oracle of ", "status ", "none of "].iter().any(|begin| why.starts_with(begin));
    begins || why.contains("wrong answer") || why.contains(" that the workload's program was shown are wrong")
}

pub(super) fn host_of(report: &Report) -> String {
    let host = &report.host;
    format!("{} × {}, Linux {}", host.cores, host.cpu, host.kernel)
}

pub(super) fn is_quick(report: &Report) -> bool {
    report.settings.get("quick").and_then(serde_json::Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_of_other_circumstances_is_not_judged() {
        let why = "it is promised of the size small, and this run is of the size large";
        let reason = Some(Unjudged::NotMeasured(why.into()));
        let target = Target::at_least("t", Some(1.0), 2.0).of("E4").unless(reason);
        let report = Report { targets: vec![target], withheld: Some("stolen".into()), ..Report::default() };
        assert_eq!(rows(&report).remove(0).verdict, format!("not measured: {why}"));
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
        let target = |why| Target::at_most("t", Some(1.0), 2.0).of("E8").unless(Some(why));
        let report = Report {
            targets: vec![
                target(Unjudged::NotMeasured("another trace".into())),
                target(Unjudged::Noise("openwhisk: others".into())),
            ],
            ..Report::default()
        };
        let verdicts: Vec<_> = rows(&report).into_iter().map(|row| (row.value, row.verdict)).collect();
        let expected = ["not measured: another trace", "host too noisy: openwhisk: others"];
        assert_eq!(verdicts, expected.map(|verdict| (None, verdict.to_owned())));
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
        // Nor if another arm was measured meanwhile on a noisy host.
        report.withheld = Some("stolen".into());
        assert_eq!(verdict(&report), failed);
    }
}
