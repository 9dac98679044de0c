//! What came of a replay: rows, pictures over time, promises.

use std::{collections::HashMap, iter};

use flint_lab::{ArmReport, Comparison, Failures, Point, Report, Target, quantile};

use super::{INTERVALS, Recorded, Replayed, Strategy};
use crate::bench::suite::{
    samples::{Sample, latencies, report as row, unavailable},
    strategy::{FLINT, LEAN, OPENWHISK, SPAWN_WARM, WASM, compared},
};

/// Waits longer than this are felt.
const FELT_US: f64 = 10_000.0;
/// No answer is waited for longer.
const LONGEST_US: f64 = 60_000_000.0;

/// Whether it waited long for an instance, its own or another call's; of a baseline, for all that is not the function.
fn is_felt(sample: &Sample) -> bool {
    sample.wait.or(sample.start).or_else(|| added(sample)).is_some_and(|waited| waited > FELT_US)
}

/// What a caller waits for beside the function itself.
fn added(sample: &Sample) -> Option<f64> {
    sample.run.map(|run| (sample.latency - run).max(0.0))
}

fn peak(replayed: &Replayed) -> u64 {
    replayed.memory.iter().map(|(_, memory, _)| memory.pss).max().unwrap_or(0)
}

/// The arms of one workload, and what is promised of them. An arm that failed has no figures, whatever it measured before.
pub(super) fn add(
    report: &mut Report,
    title: &str,
    done: &[(Strategy, Option<Replayed>, Option<String>)],
    seed: u64,
) {
    let of = |name: &str| {
        let found = done.iter().find(|(strategy, _, failed)| strategy.name == name && failed.is_none());
        found.and_then(|(_, replayed, _)| replayed.as_ref())
    };
    let mut measured = Vec::new();
    for (strategy, replayed, failed) in done {
        let replayed = match (replayed, failed) {
            (Some(replayed), None) => replayed,
            (_, why) => {
                let why = why.as_deref().unwrap_or("nothing was measured");
                report.arms.push(unavailable(strategy.name, title, why));
                continue;
            }
        };
        let samples: Vec<Sample> = replayed.calls.iter().map(|call| call.sample).collect();
        if samples.is_empty() {
            let why = none_right(&replayed.failures);
            let failures = Some(replayed.failures.clone());
            report.arms.push(ArmReport { failures, ..unavailable(strategy.name, title, &why) });
            continue;
        }
        measured.push((*strategy, latencies(&samples)));
        let felt =
            samples.iter().filter(|sample| is_felt(sample)).count() + replayed.failures.calls() as usize;
        let largest = replayed.memory.iter().max_by_key(|(_, memory, _)| memory.pss);
        report.arms.push(ArmReport {
            // As many are under way as the trace has.
            concurrency: None,
            calls_per_s: Some(samples.len() as f64 / replayed.wall_s),
            pss_bytes: largest.map(|(_, memory, _)| memory.pss),
            private_bytes: largest.map(|(_, memory, _)| memory.private),
            instances: replayed.memory.iter().map(|(.., processes)| *processes as u64).max(),
            failures: (replayed.failures.calls() > 0).then(|| replayed.failures.clone()),
            series: over_time(replayed),
            note: Some(format!(
                "{felt} of {} calls waited longer than 10 ms for an instance, or failed; 99 % were sent at most {:.1} ms late",
                replayed.intended,
                replayed.late_us / 1e3
            )),
            ..row(strategy.name, title, &samples, seed)
        });
    }
    // All arms are given the same calls.
    report.comparisons.extend(compared(title, &measured, Comparison::of));
    let mut flint = vec![(FLINT.name, of(FLINT.name)), (LEAN.name, of(LEAN.name))];
    if done.iter().any(|(strategy, ..)| strategy.name == WASM.name) {
        flint.push((WASM.name, of(WASM.name)));
    }
    report.targets.extend(targets(title, &flint, of(SPAWN_WARM.name), of(OPENWHISK.name)));
}

/// Why there are no figures where calls were made.
pub(in crate::bench::suite) fn none_right(failures: &Failures) -> String {
    let first = failures.kinds().next();
    first.map_or_else(
        || "no call was made".to_owned(),
        |(_, failed)| format!("none of {} calls was answered rightly: {}", failures.calls(), failed.example),
    )
}

/// What is promised of Flint, set up as it comes and for little memory, and in WebAssembly, beside its own sandboxes and a runtime's containers.
pub(super) fn targets(
    title: &str,
    flint: &[(&str, Option<&Replayed>)],
    sandboxes: Option<&Replayed>,
    containers: Option<&Replayed>,
) -> Vec<Target> {
    let mut targets = Vec::new();
    for &(arm, replayed) in flint {
        let steady = replayed.map(steady).unwrap_or_default();
        // A call that failed has waited in vain.
        let failed = replayed.map_or(0, |replayed| replayed.failures.calls()) as usize;
        let felt = steady.iter().filter(|call| is_felt(&call.sample)).count() + failed;
        let mut waits: Vec<f64> = steady.iter().filter_map(|call| added(&call.sample)).collect();
        waits.extend(iter::repeat_n(LONGEST_US, failed));
        let name = format!("{title}, {arm}: calls that wait longer than 10 ms for an instance");
        let value = (!steady.is_empty() || failed > 0).then_some(felt as f64);
        targets.push(Target::at_most(&name, value, 0.0).of("E6"));
        let name = format!("{title}, {arm}: added latency, p99, ms");
        let value = quantile(&waits, 0.99).map(|us| us / 1e3);
        targets.push(Target::at_most(&name, value, 20.0).of("E7"));
    }
    for &(arm, replayed) in flint.iter().filter(|(arm, _)| *arm != FLINT.name) {
        for (name, theirs) in [(SPAWN_WARM.name, sandboxes), (OPENWHISK.name, containers)] {
            // What answered nothing rightly took little, for nothing.
            let took = |replayed: &Replayed| {
                Some(peak(replayed)).filter(|bytes| *bytes > 0 && !replayed.calls.is_empty())
            };
            let share = replayed
                .and_then(took)
                .zip(theirs.and_then(took))
                .map(|(ours, theirs)| ours as f64 / theirs as f64);
            let name = format!("{title}, {arm}: memory at its peak, of {name}'s");
            targets.push(Target::at_most(&name, share, 0.1).of("E8"));
        }
    }
    targets
}

/// What comes before a function's first call has been answered is the start of the experiment, not its steady state.
fn steady(replayed: &Replayed) -> Vec<&Recorded> {
    let mut first: HashMap<usize, f64> = HashMap::new();
    for call in &replayed.calls {
        let at = first.entry(call.which).or_insert(call.at_s);
        *at = at.min(call.at_s);
    }
    replayed.calls.iter().filter(|call| first[&call.which] < call.at_s).collect()
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
            let memory = replayed.memory.iter().rev().find(|(at, ..)| *at < to);
            Point {
                at_s: to,
                calls_per_s: Some(within.len() as f64 / width),
                p90_us: quantile(&latencies, 0.9),
                cold_starts: Some(cold),
                memory_bytes: memory.map(|(_, memory, _)| memory.pss),
                instances: memory.map(|(.., processes)| *processes as u64),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use flint_lab::{ArmError, TreeMemory};

    use super::*;

    #[test]
    fn the_first_call_of_a_copy_is_not_steady_and_memory_is_compared_at_its_peak() {
        let call = |at_s, which, start: Option<f64>| Recorded {
            at_s,
            which,
            sample: Sample { latency: 30_000.0, start, run: Some(29_000.0), ..Sample::default() },
        };
        let replayed = |pss: u64, last: Option<f64>| Replayed {
            calls: vec![call(1.0, 0, Some(50_000.0)), call(2.0, 1, Some(50_000.0)), call(3.0, 0, last)],
            failures: Failures::default(),
            intended: 3,
            late_us: 100.0,
            wall_s: 6.0,
            memory: vec![
                (0.0, TreeMemory { pss, ..TreeMemory::default() }, 2),
                (1.0, TreeMemory::default(), 1),
            ],
        };
        let mut report = Report::default();
        let done = [(SPAWN_WARM, Some(replayed(1000, None)), None), (LEAN, Some(replayed(50, None)), None)];
        add(&mut report, "sleep node", &done, 1);
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
        let both = &report.comparisons[0];
        assert_eq!((both.a.as_str(), both.b.as_str(), both.test.n1), ("spawn-warm", "flint-lean", 3));
        assert_eq!(arm.series.last().unwrap().cold_starts, Some(2));
        let mut slow = Report::default();
        add(&mut slow, "sleep node", &[(FLINT, Some(replayed(50, Some(10_001.0))), None)], 1);
        assert_eq!((slow.targets[0].met, slow.targets[4].met), (Some(false), None));
        let mut inside = Report::default();
        let done = [(SPAWN_WARM, Some(replayed(1000, None)), None), (WASM, Some(replayed(101, None)), None)];
        add(&mut inside, "sleep node", &done, 1);
        let share = inside.targets.iter().find(|target| target.name.contains("wasm: memory")).unwrap();
        assert_eq!((share.value, share.met), (Some(0.101), Some(false)));
        let mut failed = Report::default();
        add(&mut failed, "sleep node", &[(FLINT, Some(replayed(50, None)), Some("no".into()))], 1);
        assert_eq!(failed.arms[0].note.as_deref(), Some("unavailable: no"));
        assert!(failed.targets.iter().all(|target| target.met.is_none()));
        // A call that failed has waited in vain: where all did, the promise is missed, and there are no figures.
        let mut failures = Failures::default();
        failures.add(&ArmError::WrongAnswer("no".into()));
        let wrong = Replayed { calls: Vec::new(), failures, ..replayed(50, None) };
        let mut none = Report::default();
        add(&mut none, "sleep node", &[(FLINT, Some(wrong), None)], 1);
        assert!(none.is_empty() && none.targets[0].met == Some(false));
        let why = "none of 1 calls was answered rightly: wrong answer: no";
        assert_eq!(none.arms[0].unavailable(), Some(why));
    }
}
