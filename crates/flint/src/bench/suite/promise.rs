//! Promises about two arms: one is a certain factor better than the other.

use flint_lab::{ArmReport, Report, Target};

use crate::bench::holds::Holds;

/// Two rows of a report, and their minimum ratio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    /// Its number in SPECIFICATION.md; figures published by others have none.
    pub(super) number: Option<&'static str>,
    pub(super) figure: Figure,
    /// The function and arm that take more.
    pub(super) slow: (&'static str, &'static str),
    /// Those that take less.
    pub(super) fast: (&'static str, &'static str),
    pub(super) times: f64,
}

/// The compared figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Median latency, from request to answer.
    Latency,
    /// Until instances were ready.
    Start,
    /// Calls per second; the slow one makes fewer.
    Rate,
    /// Memory (PSS).
    Memory,
}

impl Figure {
    fn of(self, row: &ArmReport) -> Option<f64> {
        match self {
            Self::Latency => row.latency_us.as_ref().map(|latency| latency.p50),
            // For a chain, the sum of its parts' waits.
            Self::Start => row.waits_us.or(row.start_us),
            // The reciprocal: the time per call.
            Self::Rate => row.calls_per_s.map(f64::recip),
            Self::Memory => row.pss_bytes.map(|bytes| bytes as f64),
        }
        .filter(|value| value.is_finite() && *value > 0.0)
    }

    /// The number of calls behind the median; `None` if it is a median of whole rounds.
    const fn values(self, row: &ArmReport) -> Option<u64> {
        match self {
            Self::Latency | Self::Start => row.n,
            Self::Rate | Self::Memory => None,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Latency => "takes as many times as long as",
            Self::Start => "waits for instances as many times as long as",
            Self::Rate => "makes calls as many times as slowly as",
            Self::Memory => "takes as many times the memory of",
        }
    }
}

impl Promise {
    /// One function in two ways.
    pub(super) const fn of(
        number: &'static str,
        figure: Figure,
        function: &'static str,
        slow: &'static str,
        fast: &'static str,
        times: f64,
    ) -> Self {
        Self { number: Some(number), figure, slow: (function, slow), fast: (function, fast), times }
    }

    /// The same for a figure that others have published.
    pub(super) const fn published(
        figure: Figure,
        function: &'static str,
        slow: &'static str,
        fast: &'static str,
        times: f64,
    ) -> Self {
        Self { number: None, figure, slow: (function, slow), fast: (function, fast), times }
    }

    /// Judges it by `report`, at the largest number of callers that both were measured with.
    pub(super) fn judge(&self, report: &Report) -> Target {
        let rows = |(function, arm): (&str, &str)| -> Vec<&ArmReport> {
            let has = |row: &&ArmReport| row.arm == arm && row.function.as_deref() == Some(function);
            report.arms.iter().filter(has).collect()
        };
        let fast = rows(self.fast);
        let compared = rows(self.slow)
            .into_iter()
            .rev()
            .find_map(|slow| Some((slow, *fast.iter().find(|fast| fast.concurrency == slow.concurrency)?)));
        let ratio = compared.and_then(|(slow, fast)| Some(self.figure.of(slow)? / self.figure.of(fast)?));
        let ((of_slow, slow), (of_fast, fast)) = (self.slow, self.fast);
        let other = if of_slow == of_fast { String::new() } else { format!("{of_fast}, ") };
        let name = format!("{of_slow}: {slow} {} {other}{fast}", self.figure.words());
        let holds = Holds::default()
            .of_the_size(report.settings.get("size").and_then(serde_json::Value::as_str))
            .of_values(ratio.and(compared).and_then(|rows| self.fewest(rows)));
        // A row without figures is of the arm, whatever the situation (`cold`).
        let arm = |row: &'static str| row.split_once(' ').map_or(row, |(arm, _)| arm);
        Target::at_least(&name, ratio, self.times)
            .of(self.number)
            .about(arm(slow), Some(of_slow))
            .about(arm(fast), Some(of_fast))
            .unless(holds.unjudged())
    }

    /// The smaller number of calls behind the two medians.
    fn fewest(&self, (slow, fast): (&ArmReport, &ArmReport)) -> Option<usize> {
        [slow, fast].into_iter().filter_map(|row| self.figure.values(row)).min().map(|calls| calls as usize)
    }
}

#[cfg(test)]
mod tests {
    use flint_lab::{Latency, Unjudged};

    use super::*;

    #[test]
    fn a_promise_is_judged_by_the_rows_with_the_most_callers() {
        let row = |arm: &str, concurrency, p50, rate| ArmReport {
            arm: arm.into(),
            function: Some("f node".into()),
            concurrency: Some(concurrency),
            n: Some(5),
            latency_us: Some(Latency { p50, ..Latency::default() }),
            calls_per_s: Some(rate),
            ..ArmReport::default()
        };
        let arms = [
            row("a", 1, 100.0, 1.0),
            row("a", 4, 600.0, 2.0),
            row("b", 1, 10.0, 10.0),
            row("b", 4, 20.0, 20.0),
            row("a", 9, 1.0, 1.0),
        ];
        let report = Report { arms: arms[..4].to_vec(), ..Report::default() };
        let judged = |figure, times| Promise::of("E1", figure, "f node", "a", "b", times).judge(&report);
        let latency = judged(Figure::Latency, 30.0);
        assert_eq!(
            (latency.value, latency.met, latency.promise.as_deref()),
            (Some(30.0), Some(true), Some("E1"))
        );
        assert_eq!(latency.name, "f node: a takes as many times as long as b");
        assert_eq!(
            (judged(Figure::Rate, 11.0).value, judged(Figure::Rate, 11.0).met),
            (Some(10.0), Some(false))
        );
        // With another size it is another figure, and with few calls none.
        let other = Report { settings: serde_json::json!({ "size": "large" }), ..report.clone() };
        let large = Promise::of("E1", Figure::Latency, "f node", "a", "b", 5.0).judge(&other);
        let why = "it is promised of the size small, and this run is of the size large";
        let not_measured = |why: &str| Some(Unjudged::NotMeasured(why.into()));
        assert_eq!((large.value, large.met, large.unjudged), (None, None, not_measured(why)));
        let mut few = report.clone();
        few.arms[3].n = Some(4);
        let promise = Promise::of("E1", Figure::Latency, "f node", "a", "b", 5.0);
        let why = "there are too few values, 4: it takes 5, by --repeat";
        assert_eq!((promise.judge(&few).met, promise.judge(&few).unjudged), (None, not_measured(why)));
        // A figure that one of the two lacks is not measured.
        assert_eq!(judged(Figure::Start, 1.0).met, None);
        assert_eq!(Promise::published(Figure::Memory, "g", "a", "b", 1.0).judge(&report).promise, None);
    }
}
