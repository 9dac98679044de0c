//! A whole trace, the common form of all formats: every call of every function with its start and duration.

use std::{collections::HashMap, time::Duration};

use super::{Azure2019, Azure2021, DurationRow, FunctionRow, SyntheticApp};
use crate::Random;

const MINUTE: Duration = Duration::from_secs(60);
/// The percentiles in the 2019 table.
const AT: [f64; 7] = [0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0];
/// Assumed duration where the trace has none.
const UNKNOWN: Duration = Duration::from_millis(100);

/// Functions and their calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WholeTrace {
    /// The functions' names in the trace.
    pub functions: Vec<String>,
    /// Calls in order of their start.
    pub calls: Vec<TracedCall>,
    /// The start of the last call kept, if later ones exceed [the limit](Part::calls).
    pub cut: Option<Duration>,
    /// Functions without known durations, for which a tenth of a second is assumed.
    pub assumed: usize,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// When it starts, from the beginning.
    pub at: Duration,
    /// Index of its function.
    pub function: usize,
    /// How long it takes.
    pub took: Duration,
}

/// The part of a trace to keep.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// From its beginning.
    pub length: Duration,
    /// Maximum number of functions: an even selection from those called, by number of calls.
    pub functions: usize,
    /// Maximum number of calls; later ones are dropped.
    pub calls: usize,
}

impl WholeTrace {
    /// Each minute's calls at random times within it, with durations by the function's percentiles;
    /// deterministic by seed.
    pub fn of_2019(trace: &Azure2019, part: Part, seed: u64) -> Self {
        let minutes = usize::try_from(part.length.as_secs().div_ceil(60)).unwrap_or(usize::MAX);
        let count = |function: &FunctionRow| {
            function.minutes.iter().take(minutes).map(|&calls| u64::from(calls)).sum()
        };
        let chosen = selection(&trace.functions.iter().map(count).collect::<Vec<_>>(), part.functions);
        let mut random: Vec<Random> =
            chosen.iter().map(|&function| Random::new(seed).part(function as u64)).collect();
        let mut calls = Vec::new();
        let longest =
            chosen.iter().map(|&function| trace.functions[function].minutes.len()).max().unwrap_or(0);
        // Minute by minute, so that no more is drawn than is kept: a day of the trace has hundreds of
        // millions of calls.
        for minute in (0..longest.min(minutes)).take_while(|minute| *minute < 1 << 20) {
            for (at, &function) in chosen.iter().enumerate() {
                let row = trace.duration(&trace.functions[function]);
                let count = trace.functions[function].minutes.get(minute).copied().unwrap_or(0) as usize;
                let mut within = InMinute { left: count, at: 0.0 };
                // One more than kept shows that some are dropped.
                for _ in 0..count.min(part.calls.saturating_add(1)) {
                    let share = match count > part.calls {
                        true => within.next(&mut random[at]),
                        false => random[at].unit(),
                    };
                    calls.push(TracedCall {
                        at: MINUTE * minute as u32 + MINUTE.mul_f64(share),
                        function: at,
                        took: row.map_or(UNKNOWN, |row| row.at(random[at].unit())),
                    });
                }
                // Nor does a minute of many functions take much more memory than what is kept of it.
                if calls.len() > part.calls.saturating_mul(2) {
                    calls.sort_by_key(order);
                    calls.truncate(part.calls.saturating_add(1));
                }
            }
            if calls.len() > part.calls {
                break;
            }
        }
        let name = |&function: &usize| trace.functions[function].function.clone();
        let assumed =
            chosen.iter().filter(|&&function| trace.duration(&trace.functions[function]).is_none()).count();
        Self { assumed, ..Self::sorted(chosen.iter().map(name).collect(), calls, part) }
    }

    /// As recorded.
    pub fn of_2021(trace: &Azure2021, part: Part) -> Self {
        let calls = trace.calls.iter().map(|call| TracedCall {
            at: call.start,
            function: call.function,
            took: call.took,
        });
        Self::selected(&trace.functions, calls, part, &[])
    }

    /// The calls of synthetic apps from a time of day on.
    pub fn of_apps(apps: &[SyntheticApp], from: Duration, part: Part, seed: u64) -> Self {
        let (mut functions, mut calls, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for (at, app) in apps.iter().enumerate() {
            let first = functions.len();
            functions.extend((0..app.functions.len()).map(|function| format!("app-{at}/{function}")));
            // Independent of the same seed's use for drawing the app, and of the calls' durations.
            let of_app = Random::new(seed).part(at as u64);
            let mut random = of_app.part(2);
            let mut drawn = app.calls(from, part.length, of_app.part(1));
            let mut last = Duration::ZERO;
            for (when, function) in drawn.by_ref().take(part.calls) {
                let took = app.functions[function].duration(&mut random);
                calls.push(TracedCall { at: when, function: first + function, took });
                last = when;
            }
            let until = if drawn.next().is_some() { last } else { part.length };
            known.resize(functions.len(), until);
        }
        Self::selected(&functions, calls.into_iter(), part, &known)
    }

    /// `known` tells until when each function's calls are complete, if not all of them are.
    fn selected(
        functions: &[String],
        calls: impl Iterator<Item = TracedCall> + Clone,
        part: Part,
        known: &[Duration],
    ) -> Self {
        let within = calls.filter(|call| call.at < part.length);
        let mut counts = vec![0; functions.len()];
        within.clone().for_each(|call| counts[call.function] += 1);
        let chosen = selection(&counts, part.functions);
        let place: HashMap<usize, usize> =
            chosen.iter().enumerate().map(|(at, &function)| (function, at)).collect();
        let kept =
            within.filter_map(|call| Some(TracedCall { function: *place.get(&call.function)?, ..call }));
        let mut whole = Self::sorted(
            chosen.iter().map(|&function| functions[function].clone()).collect(),
            kept.collect(),
            part,
        );
        let until = chosen.iter().filter_map(|&function| known.get(function)).min();
        if let Some(&until) = until.filter(|&&until| until < part.length) {
            whole.calls.retain(|call| call.at <= until);
            whole.cut = Some(whole.cut.map_or(until, |cut| cut.min(until)));
        }
        whole
    }

    fn sorted(functions: Vec<String>, mut calls: Vec<TracedCall>, part: Part) -> Self {
        calls.retain(|call| call.at < part.length);
        calls.sort_by_key(order);
        let is_cut = calls.len() > part.calls;
        calls.truncate(part.calls);
        let cut = calls.last().filter(|_| is_cut).map(|last| last.at);
        Self { functions, calls, cut, assumed: 0 }
    }

    /// Speeds the trace up: all times are divided, including durations, so that the concurrency stays the
    /// same.
    #[must_use]
    pub fn compressed(&self, times: f64) -> Self {
        let fast = |call: &TracedCall| TracedCall {
            at: call.at.div_f64(times),
            took: call.took.div_f64(times),
            ..*call
        };
        Self {
            calls: self.calls.iter().map(fast).collect(),
            cut: self.cut.map(|at| at.div_f64(times)),
            ..self.clone()
        }
    }
}

const fn order(call: &TracedCall) -> (Duration, usize) {
    (call.at, call.function)
}

/// The first of many calls at random times of a minute, in order, without drawing the others.
struct InMinute {
    /// Calls after the last one.
    left: usize,
    /// The time of the last one, as a share of the minute.
    at: f64,
}

impl InMinute {
    fn next(&mut self, random: &mut Random) -> f64 {
        // The minimum of n uniform times in the rest of the minute.
        let earliest = -(random.unit().ln() / self.left.max(1) as f64).exp_m1();
        self.left = self.left.saturating_sub(1);
        self.at += (1.0 - self.at) * earliest;
        self.at
    }
}

/// An even selection of called functions, from the rarest to the busiest: the middle one of each of equal
/// parts.
fn selection(counts: &[u64], most: usize) -> Vec<usize> {
    let mut called: Vec<usize> = (0..counts.len()).filter(|&function| counts[function] > 0).collect();
    called.sort_by_key(|&function| (counts[function], function));
    let kept = called.len().min(most);
    (0..kept).map(|at| called[(2 * at + 1) * called.len() / (2 * kept)]).collect()
}

impl DurationRow {
    /// A quantile, interpolated from the table's.
    pub fn at(&self, p: f64) -> Duration {
        let above = AT.iter().position(|&known| p <= known).unwrap_or(AT.len() - 1).max(1);
        let (low, high) = (self.percentiles_ms[above - 1], self.percentiles_ms[above]);
        let share = ((p - AT[above - 1]) / (AT[above] - AT[above - 1])).clamp(0.0, 1.0);
        let ms = low + (high - low) * share;
        // The input is untrusted: no duration is a century.
        Duration::try_from_secs_f64(ms.max(0.0) / 1e3)
            .unwrap_or(Duration::ZERO)
            .min(Duration::from_secs(86_400))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::{SyntheticFunction, Trigger, apps, excerpt};

    const HOUR: Duration = Duration::from_secs(3600);
    const ALL: Part = Part { length: Duration::MAX, functions: usize::MAX, calls: usize::MAX };

    #[test]
    fn every_call_of_2019_is_made_in_its_minute_and_takes_what_its_function_takes() {
        let trace = excerpt::of_2019().unwrap();
        let whole = WholeTrace::of_2019(&trace, ALL, 1);
        let calls: u32 = trace.functions.iter().flat_map(|function| &function.minutes).sum();
        assert_eq!((whole.calls.len(), whole.functions.len()), (calls as usize, 81));
        for function in &trace.functions {
            let at = whole.functions.iter().position(|name| *name == function.function).unwrap();
            let mut minutes = vec![0; 60];
            let row = trace.duration(function).unwrap();
            for call in whole.calls.iter().filter(|call| call.function == at) {
                minutes[(call.at.as_secs() / 60) as usize] += 1;
                let ms = call.took.as_secs_f64() * 1e3;
                assert!(row.percentiles_ms[0] - 1e-3 <= ms && ms <= row.percentiles_ms[6] + 1e-3);
            }
            assert_eq!(minutes, function.minutes);
        }
        assert!(whole.calls.is_sorted_by_key(|call| call.at));
        assert_eq!(whole, WholeTrace::of_2019(&trace, ALL, 1));
        assert_ne!(whole, WholeTrace::of_2019(&trace, ALL, 2));
    }

    #[test]
    fn calls_of_2021_are_as_recorded() {
        let trace = excerpt::of_2021().unwrap();
        let whole = WholeTrace::of_2021(&trace, ALL);
        assert_eq!((whole.calls.len(), whole.functions.len()), (150, trace.functions.len()));
        for (call, row) in whole.calls.iter().zip(&trace.calls) {
            assert_eq!(call.at, row.start);
        }
        let total = |calls: &[TracedCall]| calls.iter().map(|call| call.took).sum::<Duration>();
        assert_eq!(total(&whole.calls), trace.calls.iter().map(|row| row.took).sum());
    }

    #[test]
    fn drawn_apps_make_calls_of_their_functions() {
        let apps = apps(7, 200);
        let hour = Part { length: HOUR, functions: usize::MAX, calls: 2000 };
        let whole = WholeTrace::of_apps(&apps, HOUR, hour, 3);
        let functions: usize = apps.iter().map(|app| app.functions.len()).sum();
        assert!((10..functions).contains(&whole.functions.len()));
        assert!(whole.calls.iter().all(|call| call.at < HOUR && call.function < whole.functions.len()));
        assert!(whole.calls.is_sorted_by_key(|call| call.at) && whole.calls.len() == 2000);
        assert_eq!(whole, WholeTrace::of_apps(&apps, HOUR, hour, 3));
    }

    #[test]
    fn what_calls_take_is_not_drawn_from_the_numbers_that_their_app_was() {
        let (seed, mut apps) = (7, apps(7, 50));
        // All of them are called, and none so often that it crowds out the others.
        apps.iter_mut().for_each(|app| app.calls_a_day = app.calls_a_day.clamp(240.0, 2400.0));
        let hour = Part { length: HOUR, ..ALL };
        let whole = WholeTrace::of_apps(&apps, Duration::ZERO, hour, seed);
        let mut compared = 0;
        for (at, app) in apps.iter().enumerate() {
            let prefix = format!("app-{at}/");
            let of_it = |call: &&TracedCall| whole.functions[call.function].starts_with(&prefix);
            let Some(first) = whole.calls.iter().find(of_it) else { continue };
            let function: usize = whole.functions[first.function][prefix.len()..].parse().unwrap();
            let from_the_apps = app.functions[function].duration(&mut Random::new(seed).part(at as u64));
            // The longest are all truncated to the same.
            if first.took < Duration::from_secs(600) {
                assert_ne!(first.took, from_the_apps, "{prefix}");
                compared += 1;
            }
        }
        assert!(compared > 10, "{compared}");
    }

    #[test]
    fn a_busy_app_of_which_some_functions_are_wanted_says_where_its_calls_end() {
        let function = SyntheticFunction { trigger: Trigger::Http, mean: Duration::from_millis(1) };
        let app = SyntheticApp {
            functions: vec![function; 4],
            memory_mb: 100.0,
            calls_a_day: 240_000.0,
            variation: 0.0,
        };
        let part = Part { length: HOUR, functions: 1, calls: 100 };
        let whole = WholeTrace::of_apps(std::slice::from_ref(&app), HOUR, part, 3);
        assert!((1..60).contains(&whole.calls.len()), "{} of 100 for four functions", whole.calls.len());
        let cut = whole.cut.unwrap();
        assert!(cut < HOUR / 50 && whole.calls.iter().all(|call| call.at <= cut), "{cut:?}");
        let all = WholeTrace::of_apps(&[app], HOUR, Part { calls: 20_000, ..part }, 3);
        assert_eq!(all.cut, None);
    }

    #[test]
    fn a_part_is_an_even_selection_in_less_time() {
        let trace = excerpt::of_2019().unwrap();
        let part = WholeTrace::of_2019(&trace, Part { length: HOUR / 2, functions: 10, ..ALL }, 1);
        assert_eq!(part.functions.len(), 10);
        assert!(part.calls.iter().all(|call| call.at < HOUR / 2 && call.function < 10));
        // From the rarest to the busiest.
        let counts: Vec<usize> =
            (0..10).map(|at| part.calls.iter().filter(|call| call.function == at).count()).collect();
        assert!(counts.is_sorted() && counts[0] < counts[9], "{counts:?}");
        assert_eq!(WholeTrace::of_2019(&trace, Part { calls: 7, ..ALL }, 1).calls.len(), 7);
        let recorded = WholeTrace::of_2021(&excerpt::of_2021().unwrap(), Part { functions: 3, ..ALL });
        assert!(recorded.functions.len() == 3 && recorded.calls.iter().all(|call| call.function < 3));
        let fast = part.compressed(60.0);
        assert_eq!(fast.calls.len(), part.calls.len());
        assert!(fast.calls.iter().all(|call| call.at <= Duration::from_secs(30)));
        assert_eq!(WholeTrace::of_2019(&Azure2019::default(), ALL, 1), WholeTrace::default());
    }

    #[test]
    fn a_minute_of_all_the_worlds_calls_takes_no_more_memory_than_is_asked_for() {
        let text = format!("HashApp,HashFunction,Trigger,1\na,f,http,{}\n", u32::MAX);
        let trace = Azure2019::read(text.as_bytes(), None, None).unwrap();
        let whole = WholeTrace::of_2019(&trace, Part { calls: 1000, ..ALL }, 1);
        assert_eq!((whole.calls.len(), whole.assumed), (1000, 1));
        // As dense as in the trace: 1000 calls of four billion are over at once.
        let end = whole.cut.unwrap().as_secs_f64() / (60.0 * 1000.0 / f64::from(u32::MAX));
        assert!((0.8..1.25).contains(&end), "{end}");
    }

    #[test]
    fn what_was_left_out_is_said_and_what_was_not_is_not() {
        let text = "HashApp,HashFunction,Trigger,1,2\na,f,http,5,1\na,g,http,4,0\n";
        let trace = Azure2019::read(text.as_bytes(), None, None).unwrap();
        for calls in 1..12 {
            let whole = WholeTrace::of_2019(&trace, Part { calls, ..ALL }, 1);
            assert_eq!(whole.calls.len(), calls.min(10));
            assert_eq!(whole.cut, (calls < 10).then(|| whole.calls[calls - 1].at), "{calls}");
        }
        let recorded = excerpt::of_2021().unwrap();
        assert!(WholeTrace::of_2021(&recorded, ALL).cut.is_none());
        let part = WholeTrace::of_2021(&recorded, Part { calls: 10, ..ALL });
        assert_eq!(part.compressed(2.0).cut, Some(part.calls[9].at.div_f64(2.0)));
    }

    #[test]
    fn a_quantile_is_interpolated() {
        let row = DurationRow {
            average_ms: 0.0,
            count: 1.0,
            percentiles_ms: [0.0, 10.0, 20.0, 40.0, 50.0, 100.0, 1000.0],
        };
        let ms = |p| row.at(p).as_secs_f64() * 1e3;
        for (p, expected) in
            [(0.0, 0.0), (0.5, 40.0), (0.375, 30.0), (0.99, 100.0), (1.0, 1000.0), (7.0, 1000.0)]
        {
            assert!((ms(p) - expected).abs() < 1e-6, "{p}: {}", ms(p));
        }
    }

    proptest! {
        /// For any table, every duration is valid.
        #[test]
        fn no_table_makes_an_impossible_duration(percentiles_ms in any::<[f64; 7]>(), p in 0.0..1.0_f64) {
            let row = DurationRow { average_ms: 0.0, count: 0.0, percentiles_ms };
            prop_assert!(row.at(p) <= Duration::from_secs(86_400));
        }
    }
}
