//! What single calls took, and what is said about many of them.

use flint_lab::{ArmReport, Latency, Median, median, quantile, thinned};
use serde::{Deserialize, Serialize};

use crate::bench::caller::{Called, Stations};

/// One call, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// From the request to the answer.
    pub(super) latency: f64,
    /// Until an instance was there with its code loaded; nothing when it was there already.
    pub(super) start: Option<f64>,
    /// Of that, loading the code.
    pub(super) init: Option<f64>,
    /// The function itself.
    pub(super) run: Option<f64>,
    /// Until an instance was there, also where that was another call's; nothing where that is not known.
    #[serde(default)]
    pub(super) wait: Option<f64>,
    /// CPU time.
    pub(super) cpu: Option<f64>,
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
            cpu: us(stations.cpu_us),
        }
    }

    /// A call of a function that calls others, or of a sequence: what all of them waited for, side by side or one after the other.
    pub(super) fn of_chain(called: &Called, parts: &[Stations]) -> Self {
        let sum = |pick: fn(&Stations) -> Option<u64>| {
            let all: Vec<u64> = parts.iter().filter_map(pick).collect();
            (!all.is_empty()).then(|| all.iter().sum::<u64>() as f64)
        };
        Self {
            latency: called.latency.as_secs_f64() * 1e6,
            start: sum(|part| part.start_us),
            init: sum(|part| part.init_us),
            // A function's own time has that of those that it waits for in it.
            run: None,
            wait: None,
            cpu: sum(|part| part.cpu_us),
        }
    }

    pub(super) const fn is_cold(&self) -> bool {
        self.start.is_some()
    }
}

pub(super) fn latencies(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.latency).collect()
}

/// The median of what the samples that have it say.
pub(super) fn median_of(samples: &[Sample], pick: fn(&Sample) -> Option<f64>) -> Option<f64> {
    median(&samples.iter().filter_map(pick).collect::<Vec<_>>())
}

/// A row of a report.
pub(super) fn report(arm: &str, function: &str, samples: &[Sample], seed: u64) -> ArmReport {
    let all = latencies(samples);
    let q = |q| quantile(&all, q);
    let cold = samples.iter().filter(|sample| sample.is_cold()).count() as u64;
    let run = median_of(samples, |sample| sample.run);
    ArmReport {
        arm: arm.to_owned(),
        function: Some(function.to_owned()),
        concurrency: Some(1),
        n: Some(all.len() as u64),
        latency_us: median(&all).zip(q(0.9)).zip(q(0.99)).map(|((p50, p90), p99)| Latency { p50, p90, p99 }),
        interval_us: Median::of(&all, seed),
        start_us: median_of(samples, |sample| sample.start),
        init_us: median_of(samples, |sample| sample.init),
        first_us: run.filter(|_| cold > 0),
        steady_us: run.filter(|_| cold == 0),
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
