//! Determines whether the host was quiet enough for measurements to be compared.
//!
//! Four things spoil a comparison: a hypervisor that takes processor time away (steal time), other programs
//! on the machine, a varying processor speed, and neighbours that use the shared cache and memory bandwidth.
//! Each is probed between measurements, while the laboratory itself is idle.

mod memory;
mod rest;
mod watch;

use std::{
    fs, hint,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use memory::Memory;
pub use rest::start_after_rest;
pub use watch::NoiseWatch;

/// Maximum share of time taken by the hypervisor.
const MOST_STOLEN: f64 = 0.05;
/// Maximum share of all processors used by others while the laboratory is idle.
const MOST_OTHERS: f64 = 0.10;
/// Maximum ratio of slow (90th percentile) to fast (10th) calibrations.
const MOST_SPREAD: f64 = 1.25;
/// The same for a step through memory. On a virtual machine with 2 processors of a shared host, probed some
/// 250 times while idle, a step took 90 to 165 ns (5th to 95th percentile; 90th over 10th: 1.5), in bursts
/// 230 to 310 ns, while the computation took as long as ever: one probe in a hundred was beyond 2 ×. With one
/// of the two processors in use, the median was 255 ns.
const MOST_MEMORY_SPREAD: f64 = 2.0;
/// Steps of the calibration loop, about half a millisecond: short enough to measure the processor's speed
/// rather than its availability.
const CALIBRATION_STEPS: u64 = 4_000_000;

/// A summary of the probes between measurements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    /// Share of processor time taken by the hypervisor, over the whole run.
    pub stolen: f64,
    /// Median share of all processors used by others while the laboratory was idle.
    pub others: f64,
    /// Variation of a fixed computation's time: its 90th percentile over its 10th.
    pub spread: f64,
    /// Variation of the time of a step through memory, likewise; 0 in older reports without it.
    #[serde(default)]
    pub memory_spread: f64,
    /// Number of probes.
    pub looks: usize,
    /// Repetitions that replaced tries during which the host was noisy.
    #[serde(default)]
    pub repeated: usize,
    /// How many times longer a process takes to start after a rest than right after another one, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_after_rest: Option<f64>,
}

impl Noise {
    /// What was too noisy, in words; empty on a quiet host. A host that was never probed is not known to be
    /// quiet.
    pub fn reasons(&self) -> Vec<String> {
        let percent = |share: f64| 100.0 * share;
        let mut reasons = Vec::new();
        if self.looks == 0 {
            reasons.push("nobody looked".to_owned());
        }
        if self.stolen > MOST_STOLEN {
            reasons.push(format!(
                "the hypervisor took {:.0} % of the processors' time (at most {:.0} %)",
                percent(self.stolen),
                percent(MOST_STOLEN)
            ));
        }
        if self.others > MOST_OTHERS {
            reasons.push(format!(
                "others used {:.0} % of the processors while nothing was measured (at most {:.0} %)",
                percent(self.others),
                percent(MOST_OTHERS)
            ));
        }
        if self.spread > MOST_SPREAD {
            reasons.push(format!(
                "a fixed computation varied by {:.2} × (at most {MOST_SPREAD} ×)",
                self.spread
            ));
        }
        if self.memory_spread > MOST_MEMORY_SPREAD {
            reasons.push(format!(
                "the time that memory took to answer varied by {:.2} × (at most {MOST_MEMORY_SPREAD} ×)",
                self.memory_spread
            ));
        }
        reasons
    }

    /// Whether this run's figures may be compared.
    pub fn is_quiet(&self) -> bool {
        self.reasons().is_empty()
    }
}

/// The findings of one probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Share of all processors used by others during the probe.
    others: f64,
    /// Times of a fixed computation, in seconds.
    calibrations: Vec<f64>,
    /// Time of a step through memory on each processor, in seconds; all probed concurrently.
    #[serde(default)]
    walks: Vec<f64>,
}

impl Seen {
    /// Probes for about a quarter of a second. Earlier measurements must have come to rest.
    async fn now(memory: &Memory) -> Self {
        let before = Ticks::now();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let others = Ticks::now().shares_since(before).0;
        let calibrations = (0..5).map(|_| calibration().as_secs_f64()).collect();
        Self { others, calibrations, walks: memory.walk() }
    }
}

/// The processors' accumulated time, from /proc/stat.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    busy: u64,
    stolen: u64,
    all: u64,
}

impl Ticks {
    fn now() -> Self {
        Self::read(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// user nice system idle iowait irq softirq steal; guest time is part of user time.
    fn read(stat: &str) -> Self {
        let fields: Vec<u64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8)
            .map_while(|field| field.parse().ok())
            .collect();
        let at = |index: usize| fields.get(index).copied().unwrap_or(0);
        Self { busy: at(0) + at(1) + at(2) + at(5) + at(6), stolen: at(7), all: fields.iter().sum() }
    }

    /// Shares of the time since `earlier`: busy, stolen.
    fn shares_since(self, earlier: Self) -> (f64, f64) {
        let all = self.all.saturating_sub(earlier.all).max(1) as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / all;
        (share(self.busy, earlier.busy), share(self.stolen, earlier.stolen))
    }
}

/// A fixed amount of work: a chain of dependent multiplications, which can be neither parallelised nor
/// predicted.
fn calibration() -> Duration {
    let begin = Instant::now();
    let mut x = hint::black_box(1_u64);
    for step in 0..CALIBRATION_STEPS {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
    }
    hint::black_box(x);
    begin.elapsed()
}

/// Findings for tests.
#[cfg(test)]
pub(crate) mod scripted {
    pub(crate) use super::Seen;

    pub(crate) fn quiet() -> Seen {
        Seen { others: 0.0, calibrations: vec![0.01], walks: vec![1e-7, 2e-7] }
    }

    /// Other programs use the processors.
    pub(crate) fn busy() -> Seen {
        Seen { others: 0.5, ..quiet() }
    }

    /// Neighbours use cache and memory, without any other sign.
    pub(crate) fn slow_memory() -> Seen {
        Seen { walks: vec![6e-7, 6e-7], ..quiet() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Noise = Noise {
        stolen: 0.01,
        others: 0.02,
        spread: 1.05,
        memory_spread: 1.3,
        looks: 3,
        repeated: 0,
        start_after_rest: Some(9.0),
    };

    #[test]
    fn shares_are_of_all_processors() {
        let before = Ticks::read("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1");
        let after = Ticks::read("cpu  150 10 120 900 5 5 0 10 7 0\n");
        assert_eq!(before, Ticks { busy: 200, stolen: 0, all: 1000 });
        let (busy, stolen) = after.shares_since(before);
        assert!((busy - 85.0 / 200.0).abs() < 1e-12 && (stolen - 10.0 / 200.0).abs() < 1e-12);
        assert_eq!(Ticks::read("nonsense"), Ticks::default());
        assert_eq!(Ticks::default().shares_since(Ticks::default()), (0.0, 0.0));
    }

    #[test]
    fn each_kind_of_noise_is_a_reason_of_its_own() {
        assert!(QUIET.is_quiet());
        for (noise, word) in [
            (Noise { stolen: 0.06, ..QUIET }, "hypervisor"),
            (Noise { others: 0.5, ..QUIET }, "others used 50 %"),
            (Noise { spread: 1.3, ..QUIET }, "1.30 ×"),
            (Noise { memory_spread: 3.0, ..QUIET }, "memory took to answer varied by 3.00 ×"),
            (Noise { looks: 0, ..QUIET }, "nobody"),
        ] {
            let reasons = noise.reasons();
            assert!(reasons.len() == 1 && reasons[0].contains(word), "{reasons:?}");
        }
    }
}
