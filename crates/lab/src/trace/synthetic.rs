//! Synthetic apps drawn from the distributions of the 2019 trace, for loads of any size and length.
//!
//! Drawn are: an app's number of functions, memory, daily calls and the variation of the gaps between them,
//! from the measured quantiles; the trigger of each function, from the paper's table; a function's mean
//! duration, from the paper's log-normal distribution, and each call's duration around it. The draws are
//! independent, since the paper reports no strong correlation, with two exceptions. Triggers of the busiest
//! apps follow the shares of calls, since a fiftieth of all functions, called by events, receives a quarter
//! of the calls. And apps called only by timers take the lowest variations, so that all apps together have
//! the measured ones. The load of a day is a wave over a constant base of half its peak.

use std::time::Duration;

use super::Quantiles;
use crate::Random;

/// An app, to which memory and calls belong.
#[derive(Clone, Debug)]
pub struct SyntheticApp {
    /// Its functions, at least one.
    pub functions: Vec<SyntheticFunction>,
    /// Memory allocated on average, in MB.
    pub memory_mb: f64,
    /// Calls a day on average, of all its functions together.
    pub calls_a_day: f64,
    /// Coefficient of variation of the gaps between its calls: 0 is periodic, 1 is Poisson, more is bursty.
    pub variation: f64,
}

/// A function of an app.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticFunction {
    /// What calls it.
    pub trigger: Trigger,
    /// Mean duration of its calls.
    pub mean: Duration,
}

/// What calls a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A request.
    Http,
    /// A message.
    Queue,
    /// An event.
    Event,
    /// Another function, in an orchestration.
    Orchestration,
    /// A clock.
    Timer,
    /// A change in a store.
    Storage,
    /// Anything else.
    Other,
}

/// Share of each trigger in percent, of the functions and of the calls (Serverless in the Wild, figure 2).
const TRIGGERS: [(Trigger, f64, f64); 7] = [
    (Trigger::Http, 55.0, 35.9),
    (Trigger::Queue, 15.2, 33.5),
    (Trigger::Event, 2.2, 24.7),
    (Trigger::Orchestration, 6.9, 2.3),
    (Trigger::Timer, 15.6, 2.0),
    (Trigger::Storage, 2.8, 0.7),
    (Trigger::Other, 2.3, 1.0),
];
/// The busiest share of the apps, whose triggers follow the shares of calls: they make nearly all of them.
/// More than a fourteenth would need more functions called by events than there are.
const BUSIEST: f64 = 0.05;
/// Log-normal mean durations, in seconds: a median of 0.68 s.
const DURATION_MU: f64 = -0.38;
const DURATION_SIGMA: f64 = 2.36;
/// Durations of calls around their function's mean: the median of ln(p99 / p50) / 2.326 over the functions of
/// the 2019 sample with 50 calls or more.
const CALL_SIGMA: f64 = 0.84;
/// Longest duration in the trace.
const LONGEST_S: f64 = 605.0;
/// Upper bound of the variation: beyond it, a day would be a single burst.
const MOST_VARIATION: f64 = 30.0;
const DAY_S: f64 = 86_400.0;
/// The wave's height over its mean: the base is half of the peak.
const WAVE: f64 = 1.0 / 3.0;

/// Draws apps, deterministically by seed; the first ones do not depend on their number.
pub fn apps(seed: u64, count: usize) -> Vec<SyntheticApp> {
    let sizes = Quantiles::azure2019("functions_per_app", false);
    let memory = Quantiles::azure2019("app_mem_mb", true);
    let daily = Quantiles::azure2019("app_daily_invocations", true);
    let variation = Quantiles::azure2019("app_iat_cv", false);
    let clocked = clocked_share(&sizes);
    (0..count)
        .map(|at| {
            let mut random = Random::new(seed).part(at as u64);
            let size = size(&sizes, random.unit());
            let memory_mb = memory.at(random.unit());
            let calls = random.unit();
            let variation_at = random.unit();
            let triggers = triggers(calls > 1.0 - BUSIEST);
            let functions: Vec<_> = (0..size).map(|_| function(&mut random, &triggers)).collect();
            let mut app = SyntheticApp { functions, memory_mb, calls_a_day: daily.at(calls), variation: 0.0 };
            if !app.is_clocked() {
                app.variation = variation.at(clocked + (1.0 - clocked) * variation_at);
            }
            app
        })
        .collect()
}

fn size(sizes: &Quantiles, p: f64) -> usize {
    sizes.at(p).round().max(1.0) as usize
}

/// Shares of the triggers among the functions of an app: for the busiest ones those of the calls, for the
/// others such that all functions together have the shares of functions.
fn triggers(is_busy: bool) -> [(Trigger, f64); 7] {
    let sum = |pick: fn(&(Trigger, f64, f64)) -> f64| TRIGGERS.iter().map(pick).sum::<f64>();
    let (functions, calls) = (sum(|row| row.1), sum(|row| row.2));
    TRIGGERS.map(|(trigger, of_functions, of_calls)| {
        let (all, busy) = (of_functions / functions, of_calls / calls);
        (trigger, if is_busy { busy } else { (all - BUSIEST * busy) / (1.0 - BUSIEST) })
    })
}

/// The share of the apps that only timers call.
fn clocked_share(sizes: &Quantiles) -> f64 {
    let of = |is_busy| {
        let timer = triggers(is_busy).iter().find(|row| row.0 == Trigger::Timer).map_or(0.0, |row| row.1);
        let all = |step: i32| timer.powi(size(sizes, (f64::from(step) + 0.5) / 1000.0) as i32);
        (0..1000).map(all).sum::<f64>() / 1000.0
    };
    (1.0 - BUSIEST) * of(false) + BUSIEST * of(true)
}

fn function(random: &mut Random, triggers: &[(Trigger, f64)]) -> SyntheticFunction {
    let mut left = random.unit();
    let trigger = triggers
        .iter()
        .find(|(_, share)| {
            left -= share;
            left <= 0.0
        })
        .map_or(Trigger::Other, |(trigger, _)| *trigger);
    let mean = (DURATION_MU + DURATION_SIGMA * random.normal()).exp().min(LONGEST_S);
    SyntheticFunction { trigger, mean: Duration::from_secs_f64(mean) }
}

impl SyntheticFunction {
    /// The duration of one call: log-normal with the function's mean.
    pub fn duration(&self, random: &mut Random) -> Duration {
        let about = (CALL_SIGMA * random.normal() - CALL_SIGMA * CALL_SIGMA / 2.0).exp();
        Duration::from_secs_f64((self.mean.as_secs_f64() * about).min(LONGEST_S))
    }
}

impl SyntheticApp {
    /// Whether all its functions are called by timers.
    pub fn is_clocked(&self) -> bool {
        self.functions.iter().all(|function| function.trigger == Trigger::Timer)
    }

    /// The variation with which its gaps are generated.
    fn made_variation(&self) -> f64 {
        if self.is_clocked() { 0.0 } else { self.variation.min(MOST_VARIATION) }
    }

    /// Calls within `length` from a time of day on: times from the beginning, and function indexes. A renewal
    /// process whose time runs faster at the peak of the day. The iterator may be endless.
    pub fn calls(
        &self,
        from: Duration,
        length: Duration,
        mut random: Random,
    ) -> impl Iterator<Item = (Duration, usize)> + use<> {
        let mean_gap = DAY_S / self.calls_a_day.max(f64::MIN_POSITIVE);
        let clocked = self.is_clocked();
        let variation = self.made_variation();
        let (functions, from) = (self.functions.len(), from.as_secs_f64() % DAY_S);
        // In the time that passes evenly; timers ignore the time of day.
        let begin = if clocked { 0.0 } else { elapsed(from) };
        let shape = 1.0 / (variation * variation);
        let even = variation < 0.01;
        // The beginning lies at a random point of a gap, more likely a long one: if every app began with a
        // call, the start would be untypical.
        let around = if even { 1.0 } else { random.gamma(shape + 1.0) * (1.0 + 1.0 / shape) };
        let mut left = Some(mean_gap * around * random.unit());
        let mut now = begin;
        let end = length.as_secs_f64();
        std::iter::from_fn(move || {
            loop {
                now += match left.take() {
                    Some(left) => left,
                    None if even => mean_gap,
                    None => mean_gap * random.gamma(shape),
                };
                let at = if clocked { now } else { time_of(now) - from };
                if at >= end || !at.is_finite() {
                    return None;
                }
                if at >= 0.0 {
                    return Some((Duration::from_secs_f64(at), random.below(functions)));
                }
            }
        })
    }
}

/// The share of the average load that has passed at `t` seconds: the integral of 1 + wave · sin.
fn elapsed(t: f64) -> f64 {
    let turn = std::f64::consts::TAU / DAY_S;
    t + WAVE / turn * (1.0 - (turn * t).cos())
}

/// The inverse. The integrand is between 2/3 and 4/3, so each fixed-point iteration reduces the error to a
/// third.
fn time_of(load: f64) -> f64 {
    let mut t = load;
    for _ in 0..60 {
        t += load - elapsed(t);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile;

    /// The maximum distance between the distribution of `values` and the table's points.
    fn distance(mut values: Vec<f64>, column: &str) -> f64 {
        values.sort_by(f64::total_cmp);
        let points = Quantiles::azure2019(column, false);
        points
            .points()
            .iter()
            .map(|&(p, value)| {
                // Several points may have the same value: any share between theirs is correct.
                let same = |other: &&(f64, f64)| other.1 == value;
                let (least, most) = (
                    points.points().iter().find(same).map_or(p, |point| point.0),
                    points.points().iter().rev().find(same).map_or(p, |point| point.0),
                );
                let share = values.partition_point(|drawn| *drawn <= value) as f64 / values.len() as f64;
                (least - share).max(share - most).max(0.0)
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn the_marginals_are_those_of_2019() {
        let apps = apps(1, 20_000);
        let of = |pick: fn(&SyntheticApp) -> f64| apps.iter().map(pick).collect::<Vec<_>>();
        // Counts are rounded, and so may lie a step beside the table's.
        for (values, column, most) in [
            (of(|app| app.memory_mb), "app_mem_mb", 0.02),
            (of(|app| app.calls_a_day), "app_daily_invocations", 0.02),
            (of(SyntheticApp::made_variation), "app_iat_cv", 0.02),
            (of(|app| app.functions.len() as f64), "functions_per_app", 0.03),
        ] {
            let distance = distance(values, column);
            assert!(distance < most, "{column}: {distance}");
        }
        let functions: Vec<_> = apps.iter().flat_map(|app| &app.functions).collect();
        for (trigger, percent, _) in TRIGGERS {
            let n = functions.iter().filter(|function| function.trigger == trigger).count();
            let share = 100.0 * n as f64 / functions.len() as f64;
            assert!((share - percent).abs() < 1.0, "{trigger:?}: {share} {percent}");
        }
        // The log-normal fit is the paper's; the quantiles of the whole trace are near it, not on it.
        let means: Vec<_> = functions.iter().map(|function| function.mean.as_secs_f64() * 1e3).collect();
        let at = |p| quantile(&means, p).unwrap();
        assert!((600.0..760.0).contains(&at(0.5)), "{}", at(0.5));
        assert!((11_000.0..18_000.0).contains(&at(0.9)), "{}", at(0.9));
        assert!(
            (0.5..0.63)
                .contains(&(means.iter().filter(|ms| **ms <= 1000.0).count() as f64 / means.len() as f64))
        );
    }

    /// azure-facts: CV 0 for 22.7 % of the apps, at most 0.1 for 32, half at most 0.52, at most 1 for 62; and the calls by trigger.
    #[test]
    fn gaps_and_triggers_of_a_large_draw_are_those_of_2019() {
        let apps = apps(1, 200_000);
        let mut varied: Vec<f64> = apps.iter().map(SyntheticApp::made_variation).collect();
        varied.sort_by(f64::total_cmp);
        let share = |most: f64| varied.partition_point(|cv| *cv <= most) as f64 / varied.len() as f64;
        for (most, facts) in [(0.0, 0.227), (0.1, 0.32), (0.523, 0.5), (1.0, 0.62), (4.99, 0.9)] {
            assert!((share(most) - facts).abs() < 0.01, "at most {most}: {} instead of {facts}", share(most));
        }
        // Each function of an app is called equally often. A few hundred apps make most of the calls, so
        // shares deviate by some points from the table's.
        let mut calls = std::collections::HashMap::new();
        for app in &apps {
            for function in &app.functions {
                *calls.entry(format!("{:?}", function.trigger)).or_insert(0.0) +=
                    app.calls_a_day / app.functions.len() as f64;
            }
        }
        let all: f64 = calls.values().sum();
        for (trigger, _, percent) in TRIGGERS {
            let share = 100.0 * calls[&format!("{trigger:?}")] / all;
            assert!((share - percent).abs() < 4.0, "{trigger:?}: {share} instead of {percent}");
            assert!(percent > 5.0 || share < 5.0, "{trigger:?}: {share} instead of {percent}");
        }
    }

    fn app(calls_a_day: f64, variation: f64, trigger: Trigger) -> SyntheticApp {
        let function = SyntheticFunction { trigger, mean: Duration::from_secs(1) };
        SyntheticApp { functions: vec![function; 2], memory_mb: 100.0, calls_a_day, variation }
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_days_calls_have_their_number_their_variation_and_their_wave() {
        for wanted in [0.5, 1.0, 2.0] {
            let calls: Vec<f64> = app(20_000.0, wanted, Trigger::Http)
                .calls(Duration::ZERO, DAY, Random::new(5))
                .map(|call| call.0.as_secs_f64())
                .collect();
            assert!((19_000..21_000).contains(&calls.len()), "{}", calls.len());
            // Gaps in the time in which the load is even.
            let gaps: Vec<f64> = calls.windows(2).map(|two| elapsed(two[1]) - elapsed(two[0])).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let variation = variance.sqrt() / mean;
            assert!((variation / wanted - 1.0).abs() < 0.1, "{variation} instead of {wanted}");
            // The quarter of the day about the peak, and that about the trough.
            let within =
                |from: f64, to: f64| calls.iter().filter(|at| (from..to).contains(*at)).count() as f64;
            let ratio = within(10_800.0, 32_400.0) / within(54_000.0, 75_600.0);
            assert!((1.6..2.1).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn a_bursty_app_makes_no_more_calls_at_the_beginning_than_later() {
        let app = app(252.0, 5.0, Trigger::Http);
        let hour = DAY / 24;
        let calls = |seed| app.calls(DAY / 2, hour, Random::new(seed)).collect::<Vec<_>>();
        let all: Vec<f64> = (0..4000).flat_map(calls).map(|call| call.0.as_secs_f64()).collect();
        // 10.5 an hour on average; shortly after noon, where the wave is at its mean and falls, a little less.
        let each = all.len() as f64 / 4000.0;
        assert!((8.5..11.5).contains(&each), "{each}");
        let tenth = all.iter().filter(|at| **at < 360.0).count() as f64 / all.len() as f64;
        assert!((0.07..0.14).contains(&tenth), "{tenth}");
    }

    #[test]
    fn a_clock_is_even_and_the_same_seed_is_the_same_day() {
        let clock = app(1440.0, 5.0, Trigger::Timer);
        let calls: Vec<_> = clock.calls(DAY / 2, DAY, Random::new(1)).collect();
        assert!((1439..=1441).contains(&calls.len()));
        for two in calls.windows(2) {
            assert!(((two[1].0 - two[0].0).as_secs_f64() - 60.0).abs() < 1e-6);
        }
        let day =
            |seed| app(500.0, 1.0, Trigger::Queue).calls(DAY / 4, DAY, Random::new(seed)).collect::<Vec<_>>();
        assert_eq!(day(1), day(1));
        assert_ne!(day(1), day(2));
        assert!(day(1).iter().any(|call| call.1 == 1) && day(1).is_sorted_by_key(|call| call.0));
        let first = |n| format!("{:?}", apps(9, n)[0]);
        assert_eq!(first(1), first(10));
    }

    #[test]
    fn the_busiest_and_burstiest_apps_are_walked_through_lazily() {
        for variation in [0.0, 1.0, 500.0] {
            let app = app(1e8, variation, Trigger::Http);
            assert_eq!(app.calls(Duration::ZERO, DAY, Random::new(2)).take(1000).count(), 1000);
        }
        // Calls of a function are about its mean.
        let (function, mut random) = (app(1.0, 1.0, Trigger::Http).functions[0], Random::new(3));
        let mean = (0..20_000).map(|_| function.duration(&mut random).as_secs_f64()).sum::<f64>() / 20_000.0;
        assert!((0.95..1.05).contains(&mean), "{mean}");
    }
}
