//! Samples of single calls, and their statistics.

use flint_lab::{ArmReport, Latency, Median, median, quantile, thinned};
use serde::{Deserialize, Serialize};

use crate::bench::caller::{Called, Stations};

/// One call, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// From the request to the answer.
    pub(super) latency: f64,
    /// Until an instance was ready; `None` if it was there already.
    pub(super) start: Option<f64>,
    /// Of that, loading the code.
    pub(super) init: Option<f64>,
    /// The function's own time.
    pub(super) run: Option<f64>,
    /// Until an instance was ready, also one started for another call; `None` if unknown.
    #[serde(default)]
    pub(super) wait: Option<f64>,
    /// For a chain: the sum of its parts' waits for instances, including concurrent ones.
    #[serde(default)]
    pub(super) waits: Option<f64>,
    /// CPU time.
    pub(super) cpu: Option<f64>,
    /// A time in the response that the function has measured.
    #[serde(default)]
    pub(super) said: Option<f64>,
}

impl Sample {
    pub(super) fn of(called: &Called, stations: Stations) -> Self {
        let us = |value: Option<u64>| value.map(|us| us as f64);
        Self {
            latency: called.latency.as_secs_f64() * 1e6,
            start: us(stations.start_us),
            init: us(stations.init_us),
            run: us(stations.run_us),
            wait: us(stations.wait_us),
            waits: None,
            cpu: us(stations.cpu_us),
            said: None,
        }
    }

    /// A call of a function that calls others, or of a sequence. Its time is split like that of a single
    /// call: it is starting while any part waits for its instance, and executing while none does and any
    /// runs; the wait of one part for another is not counted twice.
    pub(super) fn of_chain(called: &Called, parts: &[Stations]) -> Self {
        let sum = |pick: fn(&Stations) -> Option<u64>| {
            let all: Vec<u64> = parts.iter().filter_map(pick).collect();
            (!all.is_empty()).then(|| all.iter().sum::<u64>() as f64)
        };
        let there = |part: &Stations| part.placed_at_us + part.start_us.unwrap_or(0);
        let starts = Spans::of(parts, |part| Some((part.placed_at_us, part.start_us?)));
        let loads = Spans::of(parts, |part| Some((there(part).saturating_sub(part.init_us?), part.init_us?)));
        let runs = Spans::of(parts, |part| Some((there(part), part.run_us?)));
        let waits = sum(|part| part.start_us);
        Self {
            latency: called.latency.as_secs_f64() * 1e6,
            start: waits.map(|_| starts.covered()),
            init: sum(|part| part.init_us).map(|_| loads.covered()),
            run: sum(|part| part.run_us).map(|_| starts.and(runs).covered() - starts.covered()),
            wait: None,
            waits,
            cpu: sum(|part| part.cpu_us),
            said: None,
        }
    }

    pub(super) const fn is_cold(&self) -> bool {
        self.start.is_some()
    }
}

/// Intervals in µs, by begin and length. They may overlap.
#[derive(Clone)]
struct Spans(Vec<(u64, u64)>);

impl Spans {
    fn of(parts: &[Stations], pick: impl Fn(&Stations) -> Option<(u64, u64)>) -> Self {
        Self(parts.iter().filter_map(pick).collect())
    }

    fn and(&self, other: Self) -> Self {
        Self([self.0.as_slice(), &other.0].concat())
    }

    /// The length of their union.
    fn covered(&self) -> f64 {
        let mut spans = self.0.clone();
        spans.sort_unstable();
        let (mut covered, mut until) = (0, 0);
        for (begin, long) in spans {
            let end = begin + long;
            covered += end.saturating_sub(begin.max(until));
            until = until.max(end);
        }
        covered as f64
    }
}

pub(super) fn latencies(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.latency).collect()
}

/// The median of a figure over the samples that have it.
pub(super) fn median_of(samples: &[Sample], pick: fn(&Sample) -> Option<f64>) -> Option<f64> {
    median(&samples.iter().filter_map(pick).collect::<Vec<_>>())
}

/// A row of a report.
pub(super) fn report(arm: &str, function: &str, samples: &[Sample], seed: u64) -> ArmReport {
    let all = latencies(samples);
    let q = |q| quantile(&all, q);
    let cold = samples.iter().filter(|sample| sample.is_cold()).count() as u64;
    let run = |cold: bool| {
        let of = samples.iter().filter(|sample| sample.is_cold() == cold).filter_map(|sample| sample.run);
        median(&of.collect::<Vec<_>>())
    };
    ArmReport {
        arm: arm.to_owned(),
        function: Some(function.to_owned()),
        concurrency: Some(1),
        n: Some(all.len() as u64),
        latency_us: median(&all).zip(q(0.9)).zip(q(0.99)).map(|((p50, p90), p99)| Latency { p50, p90, p99 }),
        interval_us: Median::of(&all, seed),
        start_us: median_of(samples, |sample| sample.start),
        waits_us: median_of(samples, |sample| sample.waits),
        init_us: median_of(samples, |sample| sample.init),
        first_us: run(true),
        steady_us: run(false),
        said_us: median_of(samples, |sample| sample.said),
        cold_starts: Some(cold),
        cpu_us_per_call: median_of(samples, |sample| sample.cpu),
        samples_us: thinned(&all),
        ..ArmReport::default()
    }
}

/// An arm without figures.
pub(super) fn unavailable(arm: &str, function: &str, why: &str) -> ArmReport {
    ArmReport {
        arm: arm.to_owned(),
        function: Some(function.to_owned()),
        note: Some(format!("unavailable: {why}")),
        ..ArmReport::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_chains_time_is_split_without_counting_any_of_it_twice() {
        let part = |placed_at_us, start_us: Option<u64>, run_us| Stations {
            start_us,
            init_us: start_us.map(|us| us / 2),
            run_us: Some(run_us),
            placed_at_us,
            ..Stations::default()
        };
        let called = Called { latency: Duration::from_micros(1000), activation: String::new() };
        // A function starts for 100 and runs for 800. Meanwhile it calls two others concurrently, which start
        // for 200 and 250 and run for 50.
        let parts = [part(0, Some(100), 800), part(300, Some(200), 50), part(300, Some(250), 50)];
        let cold = Sample::of_chain(&called, &parts);
        assert_eq!((cold.start, cold.waits), (Some(350.0), Some(550.0)));
        assert_eq!((cold.init, cold.run), (Some(50.0 + 150.0), Some(550.0)));
        assert!(cold.start.unwrap() + cold.run.unwrap() <= cold.latency);
        let warm = Sample::of_chain(&called, &[part(0, None, 800), part(300, None, 50)]);
        assert_eq!((warm.start, warm.waits, warm.run), (None, None, Some(800.0)));
        let row = report("a cold", "chain node", &[cold], 1);
        assert_eq!((row.start_us, row.first_us, row.waits_us), (Some(350.0), Some(550.0), Some(550.0)));
    }
}
