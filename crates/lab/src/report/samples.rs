//! Data of charts: as many points as can be seen, however many calls there were.

use serde::{Deserialize, Serialize};

use crate::{Measured, closed_loop::histogram};

/// More points than this are indistinguishable in a chart.
const MOST: usize = 400;

/// The axis of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Seconds since the beginning.
    #[default]
    Time,
    /// How many instances there are.
    Instances,
}

impl Axis {
    /// Whether it is the default.
    pub(super) fn is_time(&self) -> bool {
        *self == Self::Time
    }
}

/// A point of a series: an interval of time, or a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its end, in seconds since the beginning, or its place on another axis.
    pub at_s: f64,
    /// Latency in µs of the single call that it represents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<f64>,
    /// Calls answered in it, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_s: Option<f64>,
    /// 90th percentile of their latencies in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_us: Option<f64>,
    /// Cold starts since the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_starts: Option<u64>,
    /// Memory of everything that belongs to the functions, in bytes (PSS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Instances alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u64>,
}

/// Sorts `values`, and thins them evenly to what a chart can show, keeping both ends.
pub fn thinned(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.len() <= MOST {
        return sorted;
    }
    (0..MOST).map(|at| sorted[at * (sorted.len() - 1) / (MOST - 1)]).collect()
}

/// Latencies in µs of closed-loop calls, ascending, as many as a chart can show.
pub fn sampled(rounds: &[Measured]) -> Vec<f64> {
    let mut all = histogram();
    for round in rounds {
        // Cannot fail: all histograms here have the same bounds.
        let _ = all.add(&round.latency_ns);
    }
    if all.is_empty() {
        return Vec::new();
    }
    let count = (all.len() as usize).min(MOST);
    (1..=count).map(|at| all.value_at_quantile(at as f64 / count as f64) as f64 / 1e3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_stay() {
        let values: Vec<f64> = (0..10_000).rev().map(f64::from).collect();
        let thin = thinned(&values);
        assert_eq!((thin.len(), thin[0], thin[MOST - 1]), (MOST, 0.0, 9999.0));
        assert!(thin.is_sorted());
        assert_eq!(thinned(&[2.0, 1.0]), [1.0, 2.0]);
    }
}
