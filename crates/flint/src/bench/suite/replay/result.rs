//! Results of a replay: rows, charts over time, promises.

use std::{collections::HashMap, fmt::Write as _, iter};

use flint_lab::{
    ArmReport, Comparison, Failures, Point, Report, Target, TreeMemory, Unjudged, median, quantile,
};

use super::{Done, INTERVALS, Recorded, Replayed};
use crate::bench::{
    holds::Holds,
    suite::{
        samples::{Sample, latencies, report as row, unavailable},
        strategy::{FLINT, LEAN, OPENWHISK, SPAWN_WARM, WASM, compared},
    },
};

/// Waits beyond this are noticeable.
const FELT_US: f64 = 10_000.0;
/// Time limit of a response.
const LONGEST_US: f64 = 60_000_000.0;

/// The conditions of the promises.
#[derive(Default)]
pub(super) struct Conditions {
    /// Of E6 and E7.
    pub(super) of_calls: Holds,
    /// The minimum number of their calls in steady state.
    pub(super) fewest_calls: usize,
    /// Of E8.
    pub(super) of_memory: Holds,
}

/// Whether it waited noticeably for an instance, its own or another call's; for a baseline, for anything but
/// the function.
fn is_felt(sample: &Sample) -> bool {
    sample.wait.or(sample.start).or_else(|| added(sample)).is_some_and(|waited| waited > FELT_US)
}

/// The wait of a caller besides the function itself.
fn added(sample: &Sample) -> Option<f64> {
    sample.run.map(|run| (sample.latency - run).max(0.0))
}

impl Done {
    /// Its rounds, if it has figures.
    fn rounds(&self) -> Option<&[Replayed]> {
        (self.failed.is_none() && !self.rounds.is_empty()).then_some(&*self.rounds)
    }

    /// Its calls in all rounds.
    fn samples(&self) -> Vec<Sample> {
        self.rounds.iter().flat_map(|round| &round.calls).map(|call| call.sample).collect()
    }

    fn failures(&self) -> Failures {
        let mut all = Failures::default();
        self.rounds.iter().for_each(|round| all.merge(&round.failures));
        all
    }

    /// The median of a figure of each round.
    fn median(&self, of_a_round: impl Fn(&Replayed) -> Option<f64>) -> Option<f64> {
        median(&self.rounds.iter().filter_map(of_a_round).collect::<Vec<_>>())
    }

    /// The median of the rounds' peak memory.
    fn peak(&self, pick: fn(&TreeMemory) -> u64) -> Option<u64> {
        let largest = |round: &Replayed| {
            let look = round.memory.iter().max_by_key(|(_, memory, _)| memory.pss)?;
            Some(pick(&look.1) as f64)
        };
        self.median(largest).map(|bytes| bytes as u64)
    }

    /// The actual interval of memory samples, in ms: longer than intended with many processes.
    fn looked_every(&self) -> Option<f64> {
        self.median(|round| {
            let gaps: Vec<f64> = round.memory.windows(2).map(|two| two[1].0 - two[0].0).collect();
            median(&gaps).map(|seconds| 1e3 * seconds)
        })
    }

    /// A note on late calls, and on how memory was sampled.
    fn note(&self, felt: usize) -> String {
        let intended: u64 = self.rounds.iter().map(|round| round.intended).sum();
        let late = self.rounds.iter().map(|round| round.late_us).fold(0.0, f64::max);
        let mut note = format!(
            "{felt} of {intended} calls waited longer than 10 ms for an instance, or failed; 99 % were sent at most {:.1} ms late",
            late / 1e3
        );
        if let Some(ms) = self.looked_every() {
            let _ = write!(note, "; memory looked at each {ms:.0} ms");
        }
        if let Some(why) = &self.spoilt {
            let _ = write!(note, "; not compared, {why}");
        }
        note
    }
}

/// Adds the arms of one workload with the promises about their calls and memory.
pub(super) fn add(report: &mut Report, title: &str, arms: &[Done], holds: &Conditions, seed: u64) {
    let mut measured = Vec::new();
    for arm in arms {
        let strategy = arm.strategy;
        let Some(last) = arm.rounds().and_then(<[_]>::last) else {
            let why = arm.failed.as_deref().unwrap_or("nothing was measured");
            report.arms.push(unavailable(strategy.name, title, why));
            continue;
        };
        let (samples, failures) = (arm.samples(), arm.failures());
        if samples.is_empty() {
            let why = none_right(&failures);
            let failures = Some(failures);
            report.arms.push(ArmReport { failures, ..unavailable(strategy.name, title, &why) });
            continue;
        }
        if arm.spoilt.is_none() {
            measured.push((strategy, latencies(&samples)));
        }
        let felt = samples.iter().filter(|sample| is_felt(sample)).count() + failures.calls() as usize;
        let processes = |round: &Replayed| {
            round.memory.iter().map(|(.., processes)| *processes).max().map(|count| count as f64)
        };
        report.arms.push(ArmReport {
            // The trace determines the concurrency.
            concurrency: None,
            calls_per_s: arm.median(|round| Some(round.calls.len() as f64 / round.wall_s)),
            pss_bytes: arm.peak(|memory| memory.pss),
            private_bytes: arm.peak(|memory| memory.private),
            instances: arm.median(processes).map(|count| count as u64),
            failures: (failures.calls() > 0).then_some(failures),
            series: over_time(last),
            note: Some(arm.note(felt)),
            ..row(strategy.name, title, &samples, seed)
        });
    }
    // All arms get the same calls.
    report.comparisons.extend(compared(title, &measured, Comparison::of));
    let of = |name: &str| arms.iter().find(|arm| arm.strategy.name == name);
    let mut flint = vec![(FLINT.name, of(FLINT.name)), (LEAN.name, of(LEAN.name))];
    flint.extend(of(WASM.name).map(|wasm| (WASM.name, Some(wasm))));
    report.targets.extend(targets(title, &flint, (of(SPAWN_WARM.name), of(OPENWHISK.name)), holds));
}

/// Why there are no figures although calls were made.
pub(in crate::bench::suite) fn none_right(failures: &Failures) -> String {
    let first = failures.kinds().next();
    first.map_or_else(
        || "no call was made".to_owned(),
        |(_, failed)| format!("none of {} calls was answered rightly: {}", failures.calls(), failed.example),
    )
}

fn rounds(arm: Option<&Done>) -> &[Replayed] {
    arm.and_then(Done::rounds).unwrap_or_default()
}

/// The promises about Flint, by default, lean, and in WebAssembly, compared with its own sandboxes and a
/// runtime's containers.
pub(super) fn targets(
    title: &str,
    flint: &[(&str, Option<&Done>)],
    (sandboxes, containers): (Option<&Done>, Option<&Done>),
    holds: &Conditions,
) -> Vec<Target> {
    // A failed arm has no figures that noise could have spoilt.
    let spoilt =
        |arm: Option<&Done>| arm.filter(|arm| arm.rounds().is_some()).and_then(|arm| arm.spoilt.clone());
    let why = |holds: &Holds, arms: &[Option<&Done>]| -> Option<Unjudged> {
        holds.clone().unjudged().or_else(|| arms.iter().find_map(|arm| spoilt(*arm)))
    };
    let mut targets = Vec::new();
    for &(name, arm) in flint {
        let steady: Vec<&Recorded> = rounds(arm).iter().flat_map(steady).collect();
        // A failed call has waited in vain.
        let failed = rounds(arm).iter().map(|round| round.failures.calls()).sum::<u64>() as usize;
        let felt = steady.iter().filter(|call| is_felt(&call.sample)).count() + failed;
        let mut waits: Vec<f64> = steady.iter().filter_map(|call| added(&call.sample)).collect();
        waits.extend(iter::repeat_n(LONGEST_US, failed));
        let calls = Some(steady.len() + failed).filter(|calls| *calls > 0);
        let enough = holds.of_calls.clone().of_steady_calls(holds.fewest_calls, calls);
        let why = || why(&enough, &[arm]);
        let said = format!("{title}, {name}: calls that wait longer than 10 ms for an instance");
        let value = calls.map(|_| felt as f64);
        targets.push(Target::at_most(&said, value, 0.0).of("E6").about(name, Some(title)).unless(why()));
        let said = format!("{title}, {name}: added latency, p99, ms");
        let value = quantile(&waits, 0.99).map(|us| us / 1e3);
        targets.push(Target::at_most(&said, value, 20.0).of("E7").about(name, Some(title)).unless(why()));
    }
    for &(name, arm) in flint.iter().filter(|(name, _)| *name != FLINT.name) {
        for (reference, theirs) in [(SPAWN_WARM.name, sandboxes), (OPENWHISK.name, containers)] {
            let took = |arm: Option<&Done>| {
                // An arm without a correct response used little memory, for nothing.
                let has_calls = rounds(arm).iter().any(|round| !round.calls.is_empty());
                arm.filter(|_| has_calls)?.peak(|memory| memory.pss).filter(|bytes| *bytes > 0)
            };
            let share = took(arm).zip(took(theirs)).map(|(ours, theirs)| ours as f64 / theirs as f64);
            let said = format!("{title}, {name}: memory at its peak, of {reference}'s");
            let target = Target::at_most(&said, share, 0.1)
                .of("E8")
                .about(name, Some(title))
                .about(reference, Some(title));
            targets.push(target.unless(why(&holds.of_memory, &[arm, theirs])));
        }
    }
    targets
}

/// A function's first call starts the experiment; calls intended after that are its steady state.
fn steady(replayed: &Replayed) -> Vec<&Recorded> {
    // They are recorded in the order of responses, which may differ.
    let meant = |call: &Recorded| call.at_s - call.sample.latency / 1e6;
    let mut first: HashMap<usize, f64> = HashMap::new();
    for call in &replayed.calls {
        let at = first.entry(call.which).or_insert(f64::INFINITY);
        *at = at.min(meant(call));
    }
    replayed.calls.iter().filter(|call| first[&call.which] < meant(call)).collect()
}

fn over_time(replayed: &Replayed) -> Vec<Point> {
    let width = (replayed.wall_s / INTERVALS).max(0.1);
    let mut cold = 0;
    (1..=(replayed.wall_s / width).ceil() as usize)
        .map(|interval| {
            let (from, to) = ((interval - 1) as f64 * width, interval as f64 * width);
            let within: Vec<&Recorded> =
                replayed.calls.iter().filter(|call| (from..to).contains(&call.at_s)).collect();
            let latencies: Vec<f64> = within.iter().map(|call| call.sample.latency).collect();
            cold += within.iter().filter(|call| call.sample.is_cold()).count() as u64;
            // The peak within it; without samples, the last one before.
            let before = replayed.memory.iter().rev().find(|(at, ..)| *at < from);
            let looks = replayed.memory.iter().filter(|(at, ..)| (from..to).contains(at));
            let memory = looks.max_by_key(|(_, memory, _)| memory.pss).or(before);
            Point {
                at_s: to,
                calls_per_s: Some(within.len() as f64 / width),
                p90_us: quantile(&latencies, 0.9),
                cold_starts: Some(cold),
                memory_bytes: memory.map(|(_, memory, _)| memory.pss),
                instances: memory.map(|(.., processes)| *processes as u64),
                ..Point::default()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use flint_lab::ArmError;

    use super::*;
    use crate::bench::suite::strategy::Strategy;

    fn call(at_s: f64, which: usize, start: Option<f64>) -> Recorded {
        let sample = Sample { latency: 30_000.0, start, run: Some(29_000.0), ..Sample::default() };
        Recorded { at_s, which, sample }
    }

    /// A round with this peak memory, whose last call waited this long.
    fn round(pss: u64, last: Option<f64>) -> Replayed {
        let memory = |pss| TreeMemory { pss, ..TreeMemory::default() };
        Replayed {
            calls: vec![call(1.0, 0, Some(50_000.0)), call(2.0, 1, Some(50_000.0)), call(3.0, 0, last)],
            failures: Failures::default(),
            intended: 3,
            late_us: 100.0,
            wall_s: 6.0,
            memory: vec![(0.0, memory(pss), 2), (0.3, memory(0), 1)],
        }
    }

    fn done(strategy: Strategy, rounds: Vec<Replayed>) -> Done {
        Done { strategy, rounds, failed: None, spoilt: None }
    }

    fn judged_as(arms: &[Done], holds: &Conditions) -> Report {
        let mut report = Report::default();
        add(&mut report, "sleep node", arms, holds, 1);
        report
    }

    fn judged(arms: &[Done]) -> Report {
        judged_as(arms, &Default::default())
    }

    #[test]
    fn the_first_call_of_a_copy_is_not_steady_and_memory_is_compared_at_its_peak() {
        let report = judged(&[done(SPAWN_WARM, vec![round(1000, None)]), done(LEAN, vec![round(50, None)])]);
        let met: Vec<_> = report.targets.iter().map(|target| (target.value, target.met)).collect();
        assert_eq!(
            met,
            [
                (None, None),
                (None, None),
                (Some(0.0), Some(true)),
                (Some(1.0), Some(true)),
                (Some(0.05), Some(true)),
                (None, None)
            ]
        );
        let arm = &report.arms[1];
        assert_eq!((arm.cold_starts, arm.instances, arm.pss_bytes), (Some(2), Some(2), Some(50)));
        assert_eq!(arm.concurrency, None);
        assert!(arm.note.as_ref().unwrap().ends_with("memory looked at each 300 ms"), "{:?}", arm.note);
        let both = &report.comparisons[0];
        assert_eq!((both.a.as_str(), both.b.as_str(), both.test.n1), ("spawn-warm", "flint-lean", 3));
        assert_eq!(arm.series.last().unwrap().cold_starts, Some(2));
        let slow = judged(&[done(FLINT, vec![round(50, Some(10_001.0))])]);
        assert_eq!((slow.targets[0].met, slow.targets[4].met), (Some(false), None));
        let inside = judged(&[done(SPAWN_WARM, vec![round(1000, None)]), done(WASM, vec![round(101, None)])]);
        let share = inside.targets.iter().find(|target| target.name.contains("wasm: memory")).unwrap();
        assert_eq!((share.value, share.met), (Some(0.101), Some(false)));
        let failed = Done { failed: Some("no".into()), ..done(FLINT, vec![round(50, None)]) };
        let failed = judged(&[failed]);
        assert_eq!(failed.arms[0].note.as_deref(), Some("unavailable: no"));
        assert!(failed.targets.iter().all(|target| target.met.is_none()));
        // A failed call has waited in vain: if all did, the promise is missed, and there are no figures.
        let mut failures = Failures::default();
        failures.add(&ArmError::WrongAnswer("no".into()));
        let wrong = Replayed { calls: Vec::new(), failures, ..round(50, None) };
        let none = judged(&[done(FLINT, vec![wrong])]);
        assert!(none.is_empty() && none.targets[0].met == Some(false));
        let why = "none of 1 calls was answered rightly: wrong answer: no";
        assert_eq!(none.arms[0].unavailable(), Some(why));
    }

    #[test]
    fn the_first_call_is_the_one_that_was_meant_first_though_another_was_answered_before() {
        let answered = |at_s: f64, latency: f64| {
            let sample = Sample { latency, run: Some(latency), ..Sample::default() };
            Recorded { at_s, which: 0, sample }
        };
        // Intended at 0, 0.1 and 0.2 s.
        let calls = vec![answered(0.15, 50_000.0), answered(0.5, 500_000.0), answered(0.6, 400_000.0)];
        let replayed = Replayed { calls, ..round(0, None) };
        let later: Vec<_> = steady(&replayed).iter().map(|call| call.at_s).collect();
        assert_eq!(later, [0.15, 0.6]);
    }

    #[test]
    fn a_few_calls_are_not_judged_and_a_failed_one_is_one_of_them() {
        let mut failures = Failures::default();
        failures.add(&ArmError::WrongAnswer("no".into()));
        let rounds = vec![round(50, None), Replayed { failures, ..round(50, None) }];
        let arms = [done(FLINT, rounds)];
        for (fewest_calls, is_judged) in [(3, true), (4, false)] {
            let report = judged_as(&arms, &Conditions { fewest_calls, ..Conditions::default() });
            for target in &report.targets[..2] {
                assert_eq!(target.met.is_some(), is_judged, "{target:?}");
            }
        }
    }

    #[test]
    fn every_round_counts_and_a_peak_is_the_median_of_theirs() {
        let slow = || round(80, Some(10_001.0));
        let arms = [
            done(SPAWN_WARM, vec![round(900, None), round(1000, None), round(5000, None)]),
            done(LEAN, vec![slow(), slow(), round(30, None)]),
        ];
        let report = judged(&arms);
        let values: Vec<_> = report.targets.iter().map(|target| target.value).collect();
        assert_eq!((values[2], values[4]), (Some(2.0), Some(0.08)));
        let lean = &report.arms[1];
        assert_eq!((lean.n, lean.cold_starts, lean.pss_bytes), (Some(9), Some(8), Some(80)));
        assert!(lean.note.as_ref().unwrap().starts_with("8 of 9 calls waited"), "{:?}", lean.note);
        assert_eq!(lean.series.last().unwrap().cold_starts, Some(2), "pictures are of the last round");
    }

    #[test]
    fn what_a_picture_has_of_an_interval_is_the_most_that_was_seen_in_it() {
        let memory = |at: f64, pss| (at, TreeMemory { pss, ..TreeMemory::default() }, 1);
        let looks = vec![memory(0.0, 7), memory(0.02, 90), memory(0.05, 8), memory(0.25, 9)];
        let points = over_time(&Replayed { memory: looks, ..round(0, None) });
        let bytes: Vec<_> = points.iter().take(4).map(|point| point.memory_bytes).collect();
        assert_eq!(bytes, [Some(90), Some(8), Some(9), Some(9)]);
    }

    #[test]
    fn an_arm_that_was_measured_in_noise_is_not_compared_and_neither_is_what_nobody_promised() {
        let noise = || Unjudged::Noise("openwhisk: others".into());
        let noisy = || Done { spoilt: Some(noise()), ..done(OPENWHISK, vec![round(1000, None)]) };
        let arms = || [noisy(), done(SPAWN_WARM, vec![round(1000, None)]), done(LEAN, vec![round(50, None)])];
        let report = judged(&arms());
        assert!(report.comparisons.iter().all(|one| one.a != "openwhisk") && report.comparisons.len() == 1);
        let of = |report: &Report, name: &str| {
            let found = report.targets.iter().find(|target| target.name.ends_with(name)).unwrap();
            (found.met, found.unjudged.clone())
        };
        assert_eq!(of(&report, "of spawn-warm's"), (Some(true), None));
        assert_eq!(of(&report, "of openwhisk's"), (None, Some(noise())));
        assert_eq!(report.arms[0].pss_bytes, Some(1000), "figures stay");
        let note = report.arms[0].note.as_ref().unwrap();
        assert!(note.ends_with("; not compared, host too noisy: openwhisk: others"), "{note}");
        let holds = Holds::default().of_the_procedure("a trace", Some("another"));
        let none = Conditions { of_calls: holds.clone(), of_memory: holds.clone(), ..Conditions::default() };
        let other = judged_as(&arms(), &none);
        let why = holds.unjudged();
        assert!(other.targets.iter().all(|one| one.value.is_none() && one.unjudged == why));
        // With too few copies, calls are judged, but memory is not.
        let of_memory = Holds::default().of_copies(20, 6);
        let few = judged_as(&arms(), &Conditions { of_memory, ..Conditions::default() });
        for target in few.targets.iter().filter(|target| target.name.contains("flint-lean")) {
            assert_eq!(target.met.is_none(), target.promise.as_deref() == Some("E8"), "{}", target.name);
        }
    }
}
