//! Decides when another instance is worth its start, and when waiting for a busy one is better.
//!
//! A start takes a time *c*, measured per function, and about as much CPU time, which all functions share.
//! Before the first start *c* is assumed to be 50 ms; starts from a prewarmed runtime are not measured, since
//! they hide the cost. Waiting takes as long as the calls in front. A function gets another instance when it
//! has waiting calls for which no start is in progress, and one of these holds:
//!
//! 1. **Nothing serves it**: no instance is busy with its calls and none is starting, or an instance serves
//!    one call only.
//! 2. **The wait is longer than a start.** The expected wait of the last waiting call is `waiting × s /
//!    slots`, with *s* the measured service time and *slots* those that are busy or starting. A slot whose
//!    call has run for longer than *c* counts only as `s / age`, so that a hanging call is not relied upon;
//!    when most calls have run that long, calls have become long, and *s* is the age of the oldest. An
//!    instance's first call often compiles code and opens connections; it counts for *s* only while no other
//!    call was measured, and only once a running call has reached a tenth of its time. Without any
//!    measurement, *s* is 1 ms, or the age of a call that has run for longer than *c*.
//! 3. **The first waiting call has waited for longer than *c***, and no start is in progress: the estimate
//!    was wrong.
//! 4. **The backlog lasts**: for 2 *c* (at least 100 ms) every call had to wait, no start is in progress, and
//!    the function has fewer busy instances than there are cores: this cheap parallelism fills the gaps
//!    between two short calls of one instance. Or else half of the cores are idle, by what all functions use
//!    of them and by the host's own account, which knows of Flint itself and of other programs: its calls
//!    then wait for calls that sleep or wait for others, which more instances do side by side. Not when more
//!    than half of the memory is taken.
//!
//! While the function's calls already saturate the cores (measured CPU time over service time, times the
//! slots), rules 2 and 4 do not apply and rule 3 waits twenty times as long: more instances would only share
//! the same cores.
//!
//! The arrival of a call evaluates rules 1 and 2, without ages. The task that tends the queues evaluates all
//! of them: at once when a call has run for longer than *c*, when a waiting or running call reaches that age,
//! and every 5 ms. It ignores ages when it was itself late, since Flint was then not running and all waits
//! look long.
//!
//! With *c* = 50 ms, 32 concurrent calls of 50 µs wait 1.6 ms at most, and are served by as many instances as
//! there are cores; 32 calls that sleep for a second are expected to wait 31 s, and get 32 instances as fast
//! as starting them is allowed.

use std::time::Duration;

use crate::{average::Average, waiting::Shown};

/// Expected start time before the first measurement, in seconds.
const UNKNOWN_START: f64 = 0.05;
/// Expected service time before the first measurement, in seconds.
const UNKNOWN_SERVICE: f64 = 0.001;
/// Lower bound of the service time, in seconds.
const SHORTEST: f64 = 1e-6;
/// Lower bound of the start time, in seconds.
const SHORTEST_START: f64 = 0.001;
/// Lower bound of the time that a backlog has to last (rule 4), in seconds.
const SHORTEST_BACKLOG: f64 = 0.1;
/// Share of all cores from which on they count as saturated.
const SATURATED: f64 = 0.9;
/// Share of all cores up to which they count as idle (rule 4).
const IDLE: f64 = 0.5;
/// Factor by which the first call waits longer while its function saturates the cores (rule 3).
const PATIENCE: f64 = 20.0;

/// A function's load at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Load<'a, Ages: Iterator<Item = Duration> + Clone> {
    /// Waiting calls.
    pub(crate) waiting: usize,
    /// How long the first of them has waited.
    pub(crate) first_waits: Duration,
    /// For how long every call has had to wait.
    pub(crate) backlog: Duration,
    /// How long each running call has been running.
    pub(crate) ages: Ages,
    /// Running calls.
    pub(crate) running: usize,
    /// Starts in progress.
    pub(crate) starting: usize,
    /// Concurrent calls per instance.
    pub(crate) slots: usize,
    /// Each instance serves one call only.
    pub(crate) single_use: bool,
    /// Averages of this function.
    pub(crate) seen: &'a Seen,
    /// How many cores there are.
    pub(crate) cores: usize,
}

/// Measured averages of one function.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Service time of calls other than their instance's first.
    pub(crate) service: Average,
    /// Service time of an instance's first call, which often compiles code and opens connections.
    pub(crate) first_call: Average,
    /// CPU time of calls other than their instance's first.
    pub(crate) cpu: Average,
    /// CPU time of an instance's first call: of every call where an instance serves one only.
    pub(crate) first_cpu: Average,
    /// Time of a start.
    pub(crate) start: Average,
}

impl Seen {
    /// Takes a call's measurements into the averages.
    pub(crate) fn add(&mut self, call: Shown) {
        let (service, cpu) = if call.first {
            (&mut self.first_call, &mut self.first_cpu)
        } else {
            (&mut self.service, &mut self.cpu)
        };
        service.add(call.service);
        if let Some(used) = call.cpu {
            cpu.add(used);
        }
    }

    /// Average service time in seconds; `None` before the first call has ended.
    pub(crate) fn service_seconds(&self) -> Option<f64> {
        self.service.seconds().or(self.first_call.seconds())
    }

    /// How much of a core a running call uses; `None` before that was measured.
    pub(crate) fn share_of_core(&self) -> Option<f64> {
        let share = |cpu: Average, service: Average| Some(cpu.seconds()? / service.seconds()?.max(SHORTEST));
        share(self.cpu, self.service)
            .or_else(|| share(self.first_cpu, self.first_call))
            .map(|share| share.min(1.0))
    }

    /// Expected time of a start.
    pub(crate) fn expected_start(&self) -> Duration {
        Duration::from_secs_f64(self.start.seconds().unwrap_or(UNKNOWN_START).max(SHORTEST_START))
    }
}

/// Whether another instance is worth its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    No,
    Yes,
    /// If cores are idle.
    IfIdle,
}

/// Whether cores are idle of which so many are in use.
pub(crate) fn are_idle(cores: usize, in_use: f64) -> bool {
    in_use < IDLE * cores as f64
}

impl<Ages: Iterator<Item = Duration> + Clone> Load<'_, Ages> {
    /// Whether another instance is worth its start.
    pub(crate) fn worth_of_another(&self) -> Worth {
        if self.waiting <= self.starting * self.slots {
            return Worth::No;
        }
        if self.single_use || (self.running == 0 && self.starting == 0) {
            return Worth::Yes;
        }
        let start = self.seen.expected_start().as_secs_f64();
        let service = self.service(start);
        let saturated = self.saturates_the_cores(service);
        let first_waits = self.first_waits.as_secs_f64();
        if self.starting == 0 && first_waits > start * if saturated { PATIENCE } else { 1.0 } {
            return Worth::Yes;
        }
        if saturated {
            return Worth::No;
        }
        if self.expected_wait(service, start) > start {
            return Worth::Yes;
        }
        let lasts = self.backlog.as_secs_f64() > (2.0 * start).max(SHORTEST_BACKLOG);
        if !lasts || self.starting > 0 {
            Worth::No
        } else if self.running.div_ceil(self.slots) < self.cores {
            Worth::Yes
        } else {
            Worth::IfIdle
        }
    }

    /// Expected service time in seconds.
    fn service(&self, start: f64) -> f64 {
        let long = || self.ages.clone().map(|age| age.as_secs_f64()).filter(|age| *age > start);
        let oldest = long().fold(0.0, f64::max);
        match self.measured() {
            Some(measured) if 2 * long().count() > self.running => oldest.max(measured),
            Some(measured) => measured.max(SHORTEST),
            None => oldest.max(UNKNOWN_SERVICE),
        }
    }

    /// Measured service time in seconds. The time of first calls is used only while nothing else was
    /// measured, and once a running call has reached a tenth of it.
    fn measured(&self) -> Option<f64> {
        self.seen.service.seconds().or_else(|| {
            let first = self.seen.first_call.seconds()?;
            self.ages.clone().any(|age| age.as_secs_f64() > first / 10.0).then_some(first)
        })
    }

    /// Expected wait of the last waiting call, in seconds.
    fn expected_wait(&self, service: f64, start: f64) -> f64 {
        let takes = |age: f64| if age > start { service.max(age) } else { service };
        let busy: f64 = self.ages.clone().map(|age| 1.0 / takes(age.as_secs_f64())).sum();
        let coming = (self.starting * self.slots) as f64 / service;
        self.waiting as f64 / (busy + coming)
    }

    /// Whether this function's calls alone saturate the cores.
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
                load.worth_of_another() == Worth::No
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
            .worth_of_another()
        };
        assert_eq!(load(1, 50.0), Worth::No);
        assert_eq!(load(1, 150.0), Worth::Yes);
        assert_eq!(load(2, 150.0), Worth::IfIdle);
        assert_eq!(load(2, 50.0), Worth::No);
    }

    #[test]
    fn cores_are_idle_while_calls_sleep() {
        let sleeps = Seen { cpu: average(2.0), ..seen(Some(100.0)) };
        assert!(are_idle(2, 16.0 * sleeps.share_of_core().unwrap()));
        let computes = Seen { cpu: average(90.0), ..seen(Some(100.0)) };
        assert!(!are_idle(2, 2.0 * computes.share_of_core().unwrap()));
        assert_eq!(seen(Some(100.0)).share_of_core(), None);
        let mut once = Seen::default();
        once.add(Shown { service: millis(100.0), cpu: Some(millis(2.0)), first: true });
        assert!(are_idle(2, 16.0 * once.share_of_core().unwrap()), "each call is an instance's first");
    }
}
