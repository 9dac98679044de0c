//! Reports of experiments: as JSON, a table, Markdown, or a page with charts.

mod figures;
mod html;
mod markdown;
mod samples;
mod table;
mod target;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use samples::{Axis, Point, sampled, thinned};
pub use target::{About, Target, Unjudged};

use crate::{ArmRounds, FEWEST, Failures, Host, MannWhitney, Median, Noise, median};

/// The result of an experiment. Latencies are in µs; a field that does not apply is absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Its name.
    pub experiment: String,
    /// The host it ran on.
    pub host: Host,
    /// The measured commit.
    pub commit: String,
    /// The version of the workloads, if they are not of that commit's build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<String>,
    /// The measured arms.
    pub arms: Vec<ArmReport>,
    /// Medians of ratios taken round by round.
    pub ratios: BTreeMap<String, f64>,
    /// Promises and whether they hold.
    pub targets: Vec<Target>,
    /// Sizes, rounds, the seed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub settings: Value,
    /// Versions of what was measured and of what it ran on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// When it ended, in seconds since 1970.
    #[serde(default)]
    pub ended: u64,
    /// How quiet the host was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Why nothing is compared, if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// Arms compared with each other, call by call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Caveats for readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A comparison of two arms, by their calls' latencies or, for a closed loop, by the medians of rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// The first arm.
    pub a: String,
    /// The second one.
    pub b: String,
    /// The function they called.
    pub function: String,
    /// The ratio of their median latencies.
    pub times: f64,
    /// Whether the difference may be chance.
    pub test: MannWhitney,
}

impl Comparison {
    /// Compares the values of two arms; `None` if one of them has none.
    pub fn of(function: &str, (a, left): (&str, &[f64]), (b, right): (&str, &[f64])) -> Option<Self> {
        Some(Self {
            a: a.to_owned(),
            b: b.to_owned(),
            function: function.to_owned(),
            times: median(left)? / median(right)?,
            test: MannWhitney::test(left, right)?,
        })
    }

    /// Compares medians of rounds; as for an interval, `None` for fewer than five.
    pub fn of_rounds(function: &str, a: (&str, &[f64]), b: (&str, &[f64])) -> Option<Self> {
        if a.1.len().min(b.1.len()) < FEWEST {
            return None;
        }
        Self::of(function, a, b)
    }
}

impl Report {
    /// Withdraws all comparisons if the host was too noisy, and says so. Figures of single arms stay, as
    /// figures of a noisy host.
    pub fn judge(&mut self, noise: Noise, despite_noise: bool) {
        let reasons = noise.reasons();
        if let Some(failed) = self.failed() {
            self.notes.push(failed);
        }
        if noise.repeated > 0 {
            self.notes.push(format!(
                "{} of the measurements were made in the place of others, during which the host was noisy.",
                noise.repeated
            ));
        }
        self.noise = Some(noise);
        // Without figures, there is nothing that noise could have spoilt: they are missing for another
        // reason.
        if reasons.is_empty() || self.is_empty() {
            return;
        }
        let reasons = reasons.join("; ");
        if despite_noise {
            self.notes.push(format!(
                "The host was too noisy to compare arms, and they were compared all the same: {reasons}."
            ));
            return;
        }
        self.withheld = Some(reasons);
        self.ratios.clear();
        self.comparisons.clear();
        for target in self.targets.iter_mut().filter(|target| !target.exact) {
            (target.value, target.met) = (None, None);
        }
    }
}

impl Report {
    /// Whether no arm has figures.
    pub fn is_empty(&self) -> bool {
        self.arms.iter().all(|arm| arm.unavailable().is_some())
    }

    /// The text for a target without a value.
    fn unjudged(&self, target: &Target) -> String {
        match (&target.unjudged, &self.withheld) {
            (Some(why), _) => why.to_string(),
            (None, Some(_)) => "not judged".to_owned(),
            (None, None) => "not measured".to_owned(),
        }
    }

    /// How many arms have no figures, and why the first of them has none; `None` if all have some.
    pub fn failed(&self) -> Option<String> {
        let failed: Vec<_> = self.arms.iter().filter_map(|arm| Some((arm, arm.unavailable()?))).collect();
        let (arm, why) = failed.first()?;
        let function = arm.function.as_ref().map_or_else(String::new, |function| format!(" of {function}"));
        Some(format!(
            "{} of {} rows have no figures; {}{function}: {}",
            failed.len(),
            self.arms.len(),
            arm.arm,
            why.lines().next().unwrap_or_default()
        ))
    }
}

impl ArmReport {
    /// Why it has no figures, if it has none.
    pub fn unavailable(&self) -> Option<&str> {
        self.note.as_deref()?.strip_prefix("unavailable: ")
    }
}

/// One arm: the medians of its rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ArmReport {
    /// Its name.
    pub arm: String,
    /// The function called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Calls at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Calls in all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// Until an instance was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_us: Option<f64>,
    /// For a chain of functions: the sum of all waits for instances, including concurrent ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_us: Option<f64>,
    /// The first call of an instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<f64>,
    /// Its later calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_us: Option<f64>,
    /// A time measured by the function itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_us: Option<f64>,
    /// Throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_s: Option<f64>,
    /// CPU time of the server and its instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_call: Option<f64>,
    /// Resident memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Proportional memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Memory shared with nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_bytes: Option<u64>,
    /// The median latency in µs, with its confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_us: Option<Median>,
    /// Loading code in a new instance, a part of `start_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_us: Option<f64>,
    /// Calls that waited for a new instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_starts: Option<u64>,
    /// Maximum number of live instances, or of the function's processes where those are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u64>,
    /// Calls that failed, by kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// Latencies in µs, ascending and thinned, for the charts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_us: Vec<f64>,
    /// A series over time, or over what `axis` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Point>,
    /// The axis of `series`.
    #[serde(default, skip_serializing_if = "Axis::is_time")]
    pub axis: Axis,
    /// Caveats for readers; without figures, the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Latency quantiles in µs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the calls took at most this.
    pub p50: f64,
    /// 90 % did.
    pub p90: f64,
    /// 99 % did.
    pub p99: f64,
}

impl From<&ArmRounds> for ArmReport {
    fn from(arm: &ArmRounds) -> Self {
        let quantile = |q| arm.quantile_us(q).unwrap_or(0.0);
        Self {
            arm: arm.plan.name.clone(),
            function: arm.plan.function.clone(),
            concurrency: Some(arm.plan.load.concurrency),
            n: Some(arm.rounds.iter().map(|round| round.calls).sum()),
            latency_us: Some(Latency { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) }),
            calls_per_s: median(&arm.rates()),
            cpu_us_per_call: median(&arm.cpu_us_per_call),
            interval_us: Median::of(&arm.quantiles_us(0.5), 1),
            samples_us: sampled(&arm.rounds),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let not_measured = |why: &str| Some(Unjudged::NotMeasured(why.into()));
        let report = Report {
            experiment: "x".into(),
            host: Host::describe(),
            commit: "c".into(),
            targets: vec![
                Target::at_most("a", Some(1.0), 2.0),
                Target::at_least("b", Some(1.0), 2.0),
                Target::at_least("c", None, 2.0),
                Target::at_least("d", Some(3.0), 2.0).unless(not_measured("there were 2 values")),
                Target::at_least("e", Some(3.0), 2.0).unless(Some(Unjudged::Noise("a: others".into()))),
            ],
            ..Report::default()
        };
        let text = report.to_string();
        for line in [
            "met     a: 1.00 (target <= 2)",
            "MISSED  b: 1.00 (target >= 2)",
            "–       c: not measured",
            "–       d: not measured: there were 2 values",
            "–       e: host too noisy: a: others (target",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let noisy = "- host too noisy: a: others: e (target";
        assert!(report.markdown().contains(noisy), "{}", report.markdown());
        let other = Target::at_least("c", Some(3.0), 2.0).unless(not_measured("of another size"));
        let report = Report { targets: vec![other], ..report };
        assert!(report.to_string().contains("–       c: not measured: of another size (target"), "{report}");
        assert!(report.markdown().contains("not measured: of another size: c (target"));
    }

    #[test]
    fn resident_memory_is_shown_where_that_is_all_there_is() {
        let idle = ArmReport { arm: "flint-idle".into(), rss_bytes: Some(30 << 20), ..ArmReport::default() };
        let report = Report { arms: vec![idle], ..Report::default() };
        for text in [report.to_string(), report.markdown(), report.html()] {
            assert!(text.contains("RSS MiB") && text.contains("30.00"), "{text}");
        }
    }

    #[test]
    fn few_rounds_are_not_compared() {
        let (slow, fast) = ([2.0, 3.0, 4.0, 5.0, 6.0], [1.0; 5]);
        let compared = Comparison::of_rounds("f", ("a", &slow), ("b", &fast)).unwrap();
        assert_eq!((compared.times, compared.test.n1, compared.test.rank_biserial), (4.0, 5, 1.0));
        assert!(Comparison::of_rounds("f", ("a", &slow[..4]), ("b", &fast)).is_none());
        assert!(Comparison::of("f", ("a", &slow[..1]), ("b", &fast)).is_some());
        assert!(Comparison::of("f", ("a", &[]), ("b", &fast)).is_none());
    }

    #[test]
    fn arms_that_failed_are_said_and_are_no_noise() {
        let failed = ArmReport {
            arm: "b".into(),
            function: Some("f".into()),
            note: Some("unavailable: a wrong answer".into()),
            ..ArmReport::default()
        };
        let unseen = Noise { spread: 1.0, ..Noise::default() };
        let mut report = Report { arms: vec![failed.clone()], ..Report::default() };
        report.judge(unseen.clone(), false);
        assert!(report.is_empty() && report.withheld.is_none());
        assert_eq!(report.notes, ["1 of 1 rows have no figures; b of f: a wrong answer"]);
        let mut half = Report { arms: vec![ArmReport::default(), failed], ..Report::default() };
        half.judge(unseen, false);
        assert!(!half.is_empty() && half.withheld.is_some() && half.notes[0].starts_with("1 of 2 rows"));
    }

    #[test]
    fn a_noisy_host_compares_nothing_and_says_why() {
        let report = || Report {
            arms: vec![ArmReport { arm: "a".into(), calls_per_s: Some(7.0), ..ArmReport::default() }],
            ratios: BTreeMap::from([("a / b".into(), 2.0)]),
            targets: vec![
                Target::at_most("t", Some(1.0), 2.0),
                Target::at_most("size", Some(1.0), 2.0).exactly(),
            ],
            ..Report::default()
        };
        let noisy = Noise { stolen: 0.2, spread: 1.0, looks: 1, ..Noise::default() };
        let mut judged = report();
        judged.judge(noisy.clone(), false);
        let text = judged.to_string();
        assert!(text.contains("nothing is compared: the hypervisor took 20 %"), "{text}");
        assert!(!text.contains("a / b") && text.contains("t: not judged"), "{text}");
        assert!(text.contains("met     size: 1.00"), "{text}");
        assert!(judged.arms[0].calls_per_s.is_some());
        let mut forced = report();
        forced.judge(noisy.clone(), true);
        assert!(forced.to_string().contains("compared all the same") && forced.ratios.len() == 1);
        let mut quiet = report();
        quiet.judge(Noise { stolen: 0.0, ..noisy.clone() }, false);
        assert!(quiet.withheld.is_none() && quiet.notes.is_empty() && quiet.ratios.len() == 1);
        let mut repeated = report();
        repeated.judge(Noise { stolen: 0.0, repeated: 2, ..noisy.clone() }, false);
        assert!(repeated.to_string().contains("2 of the measurements were made in the place of others"));
        // A lasting property of the host is mentioned, but withdraws nothing.
        let mut slow = report();
        slow.judge(Noise { stolen: 0.0, start_after_rest: Some(4.13), ..noisy }, false);
        let said = ", a process started after a rest takes 4.1 × as long, load";
        assert!(slow.withheld.is_none() && slow.markdown().contains(said), "{}", slow.markdown());
        // A written report is read back.
        let read: Report = serde_json::from_str(&serde_json::to_string(&judged).unwrap()).unwrap();
        assert_eq!(read.to_string(), text);
    }
}
