//! When another instance is worth its start, and when it is better to wait for a busy one.
//!
//! Starting costs time, *c*, measured for each function (50 ms are assumed before the first start; starts that take a prewarmed
//! runtime do not count, for they hide the cost), and that much CPU of everybody's.
//! Waiting costs what the calls in front take. A function gets one more instance when calls of it wait for which no start is in
//! progress, and one of these is true:
//!
//! 1. **Nobody serves it**: no instance is busy with its calls, and none is starting.
//! 2. **The wait is longer than a start.** The last waiting call is expected to wait for `waiting × s / slots`, with *s* the measured
//!    service time and *slots* those that are busy or starting. A busy slot whose call runs for longer than *c* already counts
//!    only as `s / age`, so that one which hangs is not counted on; and when that is true of most of them, calls have become long,
//!    and *s* is the age of the oldest. An instance's first call, which has code to compile and connections to make, does
//!    not count for *s* where others were seen, nor before another has run for a tenth of its time. As long as nothing counts, *s* is 1 ms, or the age
//!    of one that runs for longer than *c*.
//! 3. **The first one has waited for longer than a start takes**, and none is in progress: the estimate was wrong.
//! 4. **The backlog lasts**: for twice *c* (at least 100 ms) every call had to wait, no start is in progress, and the function has fewer
//!    instances than there are cores. Cheap parallelism: it hides the gaps between two short calls of one instance.
//!
//! Rules 2 and 4 are silent, and rule 3 waits twenty times as long, while the function's calls already keep all cores busy (their
//! measured CPU time over their service time, times the slots): more instances would only share the same cores.
//!
//! When a call comes, only rules 1 and 2 are looked at, and without ages; the others, which go by the clock, by the task that tends the
//! queues: at once where one runs for longer than *c*, when one that waits or runs comes to be older than that, and every
//! 5 ms; and not when that task itself came late: then Flint was not running, and all waits look long.
//!
//! With *c* = 50 ms, 32 concurrent calls of 50 µs wait 1.6 ms at most, and are served by as many instances as there are cores;
//! 32 calls that sleep for a second are expected to wait 31 s, and get 32 instances as fast as starting them is allowed.

use std::time::Duration;

use crate::{average::Average, waiting::Shown};

/// What a start is expected to take before one was seen.
const UNKNOWN_START: f64 = 0.05;
/// What a call is expected to take before one was seen.
const UNKNOWN_SERVICE: f64 = 0.001;
/// No service time is taken to be shorter than this.
const SHORTEST: f64 = 1e-6;
/// No start time is taken to be shorter than this.
const SHORTEST_START: f64 = 0.001;
/// The least time that a backlog has to last (rule 4).
const SHORTEST_BACKLOG: f64 = 0.1;
/// How much of all cores is "all cores".
const SATURATED: f64 = 0.9;
/// How many times longer the first one waits when the cores are busy with its function (rule 3).
const PATIENCE: f64 = 20.0;

/// What is known about a function's calls at one moment. Durations in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Load<'a, Ages: Iterator<Item = Duration> + Clone> {
    /// Calls that wait.
    pub(crate) waiting: usize,
    /// How long the first of them waits.
    pub(crate) first_waits: Duration,
    /// For how long every call has had to wait.
    pub(crate) backlog: Duration,
    /// How long each call that runs has been running.
    pub(crate) ages: Ages,
    /// How many run.
    pub(crate) running: usize,
    /// Instances being started.
    pub(crate) starting: usize,
    /// Calls that one instance serves at once.
    pub(crate) slots: usize,
    /// An instance serves one call only.
    pub(crate) single_use: bool,
    /// Averages of this function.
    pub(crate) seen: &'a Seen,
    /// How many cores there are.
    pub(crate) cores: usize,
}

/// Averages of one function.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// How long calls run that were not their instance's first one.
    pub(crate) service: Average,
    /// How long the first call of an instance runs, which often has code to compile and connections to make.
    pub(crate) first_call: Average,
    /// How much CPU time they use.
    pub(crate) cpu: Average,
    /// How long starts take.
    pub(crate) start: Average,
}

impl Seen {
    /// Learns from a call.
    pub(crate) fn add(&mut self, call: Shown) {
        if call.first {
            self.first_call.add(call.service);
            return;
        }
        self.service.add(call.service);
        if let Some(cpu) = call.cpu {
            self.cpu.add(cpu);
        }
    }

    /// How long calls run, in seconds; `None` before the first one has ended.
    pub(crate) fn service_seconds(&self) -> Option<f64> {
        self.service.seconds().or(self.first_call.seconds())
    }

    /// How long a start is expected to take.
    pub(crate) fn expected_start(&self) -> Duration {
        Duration::from_secs_f64(self.start.seconds().unwrap_or(UNKNOWN_START).max(SHORTEST_START))
    }
}

impl<Ages: Iterator<Item = Duration> + Clone> Load<'_, Ages> {
    /// Whether another instance is worth its start.
    pub(crate) fn wants_another(&self) -> bool {
        if self.waiting <= self.starting * self.slots {
            return false;
        }
        if self.single_use || (self.running == 0 && self.starting == 0) {
            return true;
        }
        let start = self.seen.expected_start().as_secs_f64();
        let service = self.service(start);
        let saturated = self.saturates_the_cores(service);
        let first_waits = self.first_waits.as_secs_f64();
        if self.starting == 0 && first_waits > start * if saturated { PATIENCE } else { 1.0 } {
            return true;
        }
        if saturated {
            return false;
        }
        let lasts = self.backlog.as_secs_f64() > (2.0 * start).max(SHORTEST_BACKLOG);
        if lasts && self.starting == 0 && self.running.div_ceil(self.slots) < self.cores {
            return true;
        }
        self.expected_wait(service, start) > start
    }

    /// How long a call is expected to run, in seconds.
    fn service(&self, start: f64) -> f64 {
        let long = || self.ages.clone().map(|age| age.as_secs_f64()).filter(|age| *age > start);
        let oldest = long().fold(0.0, f64::max);
        match self.measured() {
            Some(measured) if 2 * long().count() > self.running => oldest.max(measured),
            Some(measured) => measured.max(SHORTEST),
            None => oldest.max(UNKNOWN_SERVICE),
        }
    }

    /// How long calls were seen to run, in seconds. What only an instance's first call took is believed when another one has run for a tenth of that.
    fn measured(&self) -> Option<f64> {
        self.seen.service.seconds().or_else(|| {
            let first = self.seen.first_call.seconds()?;
            self.ages.clone().any(|age| age.as_secs_f64() > first / 10.0).then_some(first)
        })
    }

    /// How long the last waiting call is expected to wait, in seconds.
    fn expected_wait(&self, service: f64, start: f64) -> f64 {
        let takes = |age: f64| if age > start { service.max(age) } else { service };
        let busy: f64 = self.ages.clone().map(|age| 1.0 / takes(age.as_secs_f64())).sum();
        let coming = (self.starting * self.slots) as f64 / service;
        self.waiting as f64 / (busy + coming)
    }

    /// Whether this function's calls keep all cores busy by themselves.
    fn saturates_the_cores(&self, service: f64) -> bool {
        let Some(cpu) = self.seen.cpu.seconds() else { return false };
        let slots = self.running + self.starting * self.slots;
        slots as f64 * (cpu / service) >= SATURATED * self.cores as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: f64) -> Duration {
        Duration::from_secs_f64(millis / 1000.0)
    }

    fn average(of_millis: f64) -> Average {
        let mut average = Average::default();
        average.add(millis(of_millis));
        average
    }

    fn seen(service_ms: Option<f64>) -> Seen {
        Seen { service: service_ms.map(average).unwrap_or_default(), start: average(50.0), ..Seen::default() }
    }

    /// How many instances a burst of `waiting` calls gets at once, beside those in `ages_ms`.
    fn starts(waiting: usize, ages_ms: &[f64], seen: &Seen) -> usize {
        let ages: Vec<_> = ages_ms.iter().copied().map(millis).collect();
        (0..)
            .find(|starting| {
                let load = Load {
                    waiting,
                    first_waits: Duration::ZERO,
                    backlog: Duration::ZERO,
                    ages: ages.iter().copied(),
                    running: ages.len(),
                    starting: *starting,
                    slots: 1,
                    single_use: false,
                    seen,
                    cores: 2,
                };
                !load.wants_another()
            })
            .expect("there is an end")
    }

    #[test]
    fn short_calls_wait_for_a_busy_instance_and_long_ones_get_their_own() {
        assert_eq!(starts(31, &[0.01], &seen(Some(0.05))), 0);
        assert_eq!(starts(31, &[0.01], &seen(Some(1000.0))), 31);
        assert_eq!(starts(1, &[1.0], &seen(Some(1000.0))), 1);
        assert_eq!(starts(10, &[0.0], &seen(Some(10.0))), 1, "100 ms of waiting are halved by one more");
    }

    #[test]
    fn an_unknown_function_gets_one_instance_until_its_first_call_takes_longer_than_a_start() {
        assert_eq!(starts(32, &[], &seen(None)), 1);
        assert_eq!(starts(31, &[49.0], &seen(None)), 0);
        assert_eq!(starts(31, &[51.0], &seen(None)), 31);
    }

    #[test]
    fn what_only_a_first_call_took_is_believed_when_another_runs_for_a_tenth_of_it() {
        let seen = Seen { first_call: average(30.0), ..seen(None) };
        assert_eq!(starts(31, &[2.9], &seen), 0);
        assert!(starts(31, &[3.1], &seen) > 1);
        assert_eq!(starts(31, &[3.1], &Seen { service: average(0.05), ..seen }), 0, "others were seen");
    }

    #[test]
    fn an_instance_that_hangs_does_not_count() {
        assert_eq!(starts(4, &[0.01, 60_000.0], &seen(Some(1.0))), 0);
        assert!(starts(4, &[60_000.0, 60_000.0], &seen(Some(1.0))) >= 1);
    }

    #[test]
    fn busy_cores_are_not_relieved_by_more_instances() {
        let mut burning = seen(Some(100.0));
        assert!(starts(30, &[50.0, 50.0], &burning) > 0);
        burning.cpu = average(95.0);
        assert_eq!(starts(30, &[50.0, 50.0], &burning), 0);
    }

    #[test]
    fn a_lasting_backlog_is_worth_an_instance_for_each_core() {
        let load = |running: usize, backlog_ms: f64| {
            let seen = seen(Some(0.05));
            let ages = std::iter::repeat_n(Duration::ZERO, running);
            Load {
                waiting: 8,
                first_waits: Duration::ZERO,
                backlog: millis(backlog_ms),
                ages,
                running,
                starting: 0,
                slots: 1,
                single_use: false,
                seen: &seen,
                cores: 2,
            }
            .wants_another()
        };
        assert!(!load(1, 50.0));
        assert!(load(1, 150.0));
        assert!(!load(2, 150.0));
    }
}
