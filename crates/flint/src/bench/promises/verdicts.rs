//! The verdict on each promise of a report.

use flint_lab::{ArmError, ArmReport, Report, RoundsError, Target, Unjudged};
use serde::Serialize;

/// A promise and its verdict.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// Whether by a run that was judged although the host was noisy.
    pub(super) despite_noise: bool,
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
            despite_noise: is_despite_noise(report),
        })
    };
    report.targets.iter().filter_map(row).collect()
}

/// Why an arm of the target has no figures: `failed` for wrong responses, `not measured` if it could not be
/// tried.
fn missing(report: &Report, target: &Target) -> Option<String> {
    let is_about = |arm: &&ArmReport| target.about.iter().any(|about| about.is(arm));
    let missing = report.arms.iter().filter(is_about).filter_map(|arm| Some((arm, arm.unavailable()?)));
    let (arm, why) = missing.min_by_key(|(_, why)| !is_wrong(why))?;
    let verdict = if is_wrong(why) { "failed" } else { "not measured" };
    Some(format!("{verdict}: {}: {}", arm.arm, why.lines().next().unwrap_or_default()))
}

/// Whether there was a response, but a wrong one.
fn is_wrong(why: &str) -> bool {
    let begins = ["the oracle of ", "status ", "none of "].iter().any(|begin| why.starts_with(begin));
    begins || why.contains("wrong answer") || why.contains(" that the workload's program was shown are wrong")
}

/// The verdict on the promises of an experiment that has ended without a report.
pub(super) fn of_ended(error: &anyhow::Error) -> String {
    let of_arm = match error.downcast_ref() {
        Some(RoundsError::Arm { error, .. }) => Some(error),
        _ => error.downcast_ref(),
    };
    let is_wrong = matches!(of_arm, Some(ArmError::WrongAnswer(_) | ArmError::Status { .. }));
    format!("{}: {error:#}", if is_wrong { "failed" } else { "not measured" })
}

pub(super) fn host_of(report: &Report) -> String {
    let host = &report.host;
    format!("{} × {}, Linux {}", host.cores, host.cpu, host.kernel)
}

pub(super) fn is_quick(report: &Report) -> bool {
    report.settings.get("quick").and_then(serde_json::Value::as_bool).unwrap_or(false)
}

/// Whether it was judged although the host was noisy: all of it, or some arms, which its notes name.
pub(super) fn is_despite_noise(report: &Report) -> bool {
    let is_noisy = report.noise.as_ref().is_some_and(|noise| !noise.is_quiet());
    let is_of_arms = |note: &String| note.ends_with("; judged all the same");
    (is_noisy && report.withheld.is_none() && !report.is_empty()) || report.notes.iter().any(is_of_arms)
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
        let target = |arm, function| Target::at_least("t", None, 2.0).of("W7").about(arm, function);
        let report = Report {
            arms: vec![absent("wasmtime-serve", None), absent("openwhisk", Some("f node"))],
            targets: vec![
                target("wasmtime-serve", None),
                target("openwhisk", Some("f node")),
                target("openwhisk", Some("g node")),
                // `flint` is not `flint-lean` either.
                target("wasmtime", None),
            ],
            ..Report::default()
        };
        let verdicts: Vec<_> = rows(&report).into_iter().map(|row| row.verdict).collect();
        let expected = [
            "not measured: wasmtime-serve: it is not installed",
            "not measured: openwhisk: it is not installed",
            "not measured",
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
    fn an_experiment_that_a_wrong_answer_has_ended_has_failed() {
        let ended = |error: ArmError| of_ended(&RoundsError::Arm { arm: "a".into(), error }.into());
        assert_eq!(ended(ArmError::WrongAnswer("no".into())), "failed: arm a: wrong answer: no");
        let status = ArmError::Status { status: 500, expected: 200, body: "no".into() };
        assert_eq!(ended(status), "failed: arm a: status 500 instead of 200: no");
        let timeout = ArmError::Timeout(std::time::Duration::from_secs(1));
        assert_eq!(ended(timeout), "not measured: arm a: no answer within 1000 ms");
        assert_eq!(of_ended(&anyhow::anyhow!("no server")), "not measured: no server");
    }

    #[test]
    fn a_wrong_answer_is_no_noise() {
        let wrong = |arm: &str| flint_lab::ArmReport {
            arm: arm.into(),
            function: Some("f node".into()),
            note: Some("unavailable: a wrong answer, /x is not 1: {}".into()),
            ..flint_lab::ArmReport::default()
        };
        let target = Target::at_least("t", None, 2.0).of("E2").about("spawn-warm", Some("f node"));
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
