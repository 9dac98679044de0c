//! The use of the 2019 trace by Photons@Graal, from its scripts: a function of the trace is selected by its
//! memory and its number of calls; copies of the deployed function are started one after the other, and each
//! replays the same 59 minutes.

use std::time::Duration;

use super::{Azure2019, FunctionRow, MemoryRow};
use crate::Arrival;

/// Minutes that are replayed.
const MINUTES: usize = 59;
const MINUTE: Duration = Duration::from_secs(60);
/// Delay between the starts of two copies.
const BETWEEN_COPIES: Duration = Duration::from_secs(30);

/// The function to select: the memory of the deployed one, in MB.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What it takes at least.
    pub least_mb: f64,
    /// What it takes at most.
    pub most_mb: f64,
}

impl Wanted {
    fn distance(self, memory: &MemoryRow) -> f64 {
        (self.least_mb - memory.average_mb).abs() + (self.most_mb - memory.p99_mb).abs()
    }
}

/// The function with the nearest memory among those with more than 10 and fewer than 100 calls in the 59
/// minutes; only the first function of an app counts, as in the original. `None` if no function qualifies.
pub fn select(trace: &Azure2019, wanted: Wanted) -> Option<&FunctionRow> {
    let mut seen = std::collections::HashSet::new();
    trace
        .functions
        .iter()
        .filter(|function| seen.insert(&function.app))
        .filter(|function| {
            let calls: u64 = function.minutes.iter().take(MINUTES).map(|&calls| u64::from(calls)).sum();
            10 < calls && calls < 100
        })
        .filter_map(|function| Some((function, wanted.distance(trace.memory(function)?))))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(function, _)| function)
}

/// How a function's minutes become a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    /// Copies of the function, 20 to 60 in the original; call n of copy c has `which` = c.
    pub copies: usize,
    /// Minutes that are replayed; 59 in the original.
    pub minutes: usize,
    /// Speed-up; 1 in the original.
    pub compression: f64,
}

impl Replay {
    /// Total number of calls: a trace may have more than can be made.
    pub fn calls(&self, function: &FunctionRow) -> u64 {
        let of_one: u64 = function.minutes.iter().take(self.minutes).map(|&calls| u64::from(calls)).sum();
        of_one.saturating_mul(self.copies as u64)
    }

    /// The schedule: the calls of a minute are spaced evenly in it. All times are divided by the compression,
    /// including those between the copies' starts, so that the concurrency stays the same.
    pub fn schedule(&self, function: &FunctionRow) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for copy in 0..self.copies {
            let start = BETWEEN_COPIES * copy as u32;
            for (minute, &calls) in function.minutes.iter().take(self.minutes).enumerate() {
                let minute = start + MINUTE * minute as u32;
                arrivals.extend((0..calls).map(|call| Arrival {
                    at: (minute + MINUTE * call / calls).div_f64(self.compression),
                    which: copy,
                }));
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }

    /// Its total duration.
    pub fn duration(&self) -> Duration {
        let copies = BETWEEN_COPIES * self.copies.saturating_sub(1) as u32;
        (copies + MINUTE * self.minutes as u32).div_f64(self.compression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::excerpt;

    fn trace(rows: &[(&str, &str, u32, f64, f64)]) -> Azure2019 {
        let mut calls = "HashApp,HashFunction,Trigger,1,2\n".to_owned();
        let mut memory = "HashApp,AverageAllocatedMb,AverageAllocatedMb_pct99\n".to_owned();
        for (app, function, n, average, p99) in rows {
            calls.push_str(&format!("{app},{function},http,{n},0\n"));
            memory.push_str(&format!("{app},{average},{p99}\n"));
        }
        Azure2019::read(calls.as_bytes(), None, Some(memory.as_bytes())).unwrap()
    }

    #[test]
    fn the_nearest_memory_with_enough_calls_is_chosen() {
        let rows = [
            ("near-but-rare", "f", 10, 100.0, 120.0),
            ("near-but-often", "f", 100, 100.0, 120.0),
            ("far", "f", 50, 500.0, 900.0),
            ("right", "f", 11, 105.0, 130.0),
            ("right", "second", 50, 105.0, 130.0),
        ];
        let wanted = Wanted { least_mb: 100.0, most_mb: 120.0 };
        let trace = trace(&rows);
        let chosen = select(&trace, wanted).unwrap();
        assert_eq!((&*chosen.app, &*chosen.function), ("right", "f"));
        assert_eq!(select(&trace, Wanted { least_mb: 400.0, most_mb: 900.0 }).unwrap().app, "far");
        assert_eq!(select(&Azure2019::default(), wanted), None);
        assert!(select(&excerpt::of_2019().unwrap(), wanted).is_some());
    }

    #[test]
    fn calls_are_spaced_in_their_minute_and_copies_come_one_after_the_other() {
        let trace = trace(&[("a", "f", 3, 1.0, 1.0)]);
        let function = FunctionRow { minutes: vec![2, 0, 1], ..trace.functions[0].clone() };
        let seconds = |replay: Replay| -> Vec<(f64, usize)> {
            replay.schedule(&function).iter().map(|a| (a.at.as_secs_f64(), a.which)).collect()
        };
        let replay = Replay { copies: 2, minutes: 59, compression: 1.0 };
        let expected = [(0.0, 0), (30.0, 0), (30.0, 1), (60.0, 1), (120.0, 0), (150.0, 1)];
        assert_eq!(seconds(replay), expected);
        assert_eq!(replay.calls(&function), 6);
        assert_eq!(replay.duration(), Duration::from_secs(30 + 59 * 60));
        let fast = Replay { compression: 60.0, ..replay };
        assert_eq!(seconds(fast), expected.map(|(at, which)| (at / 60.0, which)));
        assert_eq!(fast.schedule(&function).len(), 6);
        // As the trace says, and no more.
        let short = Replay { minutes: 1, copies: 1, compression: 1.0 };
        assert_eq!(seconds(short), [(0.0, 0), (30.0, 0)]);
    }
}
