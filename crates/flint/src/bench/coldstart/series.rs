//! The measurements of one arm, by round.

use std::time::Duration;

use flint_lab::{ArmReport, Latency, Median, median, median_ratio, quantile, thinned};
use serde::{Deserialize, Serialize};

use crate::bench::caller::Stations;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Series {
    /// Latencies in µs, one list per round.
    rounds: Vec<Vec<f64>>,
    start_us: Vec<f64>,
    /// The function's own time in a new instance.
    first_us: Vec<f64>,
    /// The function's own time in an instance that had been called before.
    steady_us: Vec<f64>,
}

impl Series {
    pub(super) fn begin_round(&mut self) {
        self.rounds.push(Vec::new());
    }

    /// Appends the rounds of another series.
    pub(super) fn append(&mut self, mut other: Self) {
        self.rounds.append(&mut other.rounds);
        self.start_us.append(&mut other.start_us);
        self.first_us.append(&mut other.first_us);
        self.steady_us.append(&mut other.steady_us);
    }

    /// Adds a call with its record's stations.
    pub(super) fn add(&mut self, latency: Duration, stations: Stations) {
        self.add_latency(latency);
        match stations.start_us {
            Some(start) => {
                self.start_us.push(start as f64);
                self.first_us.extend(stations.run_us.map(|run| run as f64));
            }
            None => self.steady_us.extend(stations.run_us.map(|run| run as f64)),
        }
    }

    /// Adds a call whose stations the benchmark measured itself.
    pub(super) fn add_parts(&mut self, start: Duration, first: Duration) {
        self.add_latency(start + first);
        self.start_us.push(start.as_secs_f64() * 1e6);
        self.first_us.push(first.as_secs_f64() * 1e6);
    }

    fn add_latency(&mut self, latency: Duration) {
        if self.rounds.is_empty() {
            self.begin_round();
        }
        if let Some(round) = self.rounds.last_mut() {
            round.push(latency.as_secs_f64() * 1e6);
        }
    }

    pub(super) fn latencies(&self) -> Vec<f64> {
        self.rounds.concat()
    }

    pub(super) fn quantile_us(&self, q: f64) -> Option<f64> {
        quantile(&self.latencies(), q)
    }

    pub(super) fn first_us(&self) -> Option<f64> {
        median(&self.first_us)
    }

    pub(super) fn steady_us(&self) -> Option<f64> {
        median(&self.steady_us)
    }

    pub(super) fn start_us(&self) -> Option<f64> {
        median(&self.start_us)
    }

    /// The ratio to the calls of `other`, from the medians of each round.
    pub(super) fn times(&self, other: &Self) -> Option<f64> {
        if self.rounds.len() == other.rounds.len() {
            // A round without data of both is not compared.
            let rounds = self.rounds.iter().zip(&other.rounds);
            let both = rounds.filter_map(|(mine, others)| median(mine).zip(median(others)));
            let (mine, others): (Vec<f64>, Vec<f64>) = both.unzip();
            median_ratio(&mine, &others)
        } else {
            let of = |series: &Self| {
                median(&series.rounds.iter().filter_map(|round| median(round)).collect::<Vec<f64>>())
            };
            Some(of(self)? / of(other)?)
        }
    }

    pub(super) fn report(&self, arm: &str, function: &str) -> ArmReport {
        let q = |q| self.quantile_us(q);
        ArmReport {
            arm: arm.to_owned(),
            function: Some(function.to_owned()),
            concurrency: Some(1),
            n: Some(self.latencies().len() as u64),
            latency_us: q(0.5).zip(q(0.9)).zip(q(0.99)).map(|((p50, p90), p99)| Latency { p50, p90, p99 }),
            start_us: self.start_us(),
            first_us: self.first_us(),
            steady_us: self.steady_us(),
            interval_us: Median::of(&self.latencies(), 1),
            samples_us: thinned(&self.latencies()),
            ..ArmReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stations(start_us: Option<u64>, run_us: u64) -> Stations {
        Stations {
            start_us,
            init_us: None,
            run_us: Some(run_us),
            wait_us: start_us,
            cpu_us: None,
            placed_at_us: 0,
        }
    }

    #[test]
    fn first_and_steady_calls_are_told_apart_by_the_start() {
        let mut series = Series::default();
        series.begin_round();
        series.add(Duration::from_micros(900), stations(Some(500), 300));
        series.add(Duration::from_micros(100), stations(None, 40));
        series.begin_round();
        series.add(Duration::from_micros(200), stations(None, 60));
        let report = series.report("a", "f");
        assert_eq!((report.n, report.start_us, report.first_us), (Some(3), Some(500.0), Some(300.0)));
        assert_eq!(report.steady_us, Some(50.0));
        let latency = report.latency_us.unwrap();
        assert_eq!((latency.p50, latency.p99), (200.0, 900.0));
    }

    #[test]
    fn arms_are_compared_round_by_round() {
        let of = |rounds: [u64; 3]| {
            let mut series = Series::default();
            for us in rounds {
                series.begin_round();
                series.add(Duration::from_micros(us), stations(None, 1));
            }
            series
        };
        // The machine was ten times slower in the second round.
        let times = of([20, 200, 30]).times(&of([10, 100, 10])).unwrap();
        assert!((times - 2.0).abs() < 1e-9, "{times}");
        assert_eq!(Series::default().times(&of([1, 2, 3])), None);
    }

    #[test]
    fn a_round_in_which_one_arm_has_nothing_is_compared_with_no_other() {
        let of = |us: u64, empty: usize| {
            let mut series = Series::default();
            for round in 0..4 {
                series.begin_round();
                // Every other round the machine is ten times slower.
                let slower = [1, 10][round % 2];
                if round != empty {
                    series.add(Duration::from_micros(us * slower), stations(None, 1));
                }
            }
            series
        };
        let times = of(20, 0).times(&of(10, 3)).unwrap();
        assert!((times - 2.0).abs() < 1e-9, "{times}");
    }
}
