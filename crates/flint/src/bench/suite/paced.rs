//! One client that calls every second, as in the evaluation of OpenWhisk: the course of latencies over time,
//! by memory and kind of start.

use std::{sync::Arc, time::Duration};

use flint_lab::{
    ArmReport, Arrivals, Comparison, Failures, OpenLoad, Point, Report, TreeMemory, drive_open, median,
};
use serde::{Deserialize, Serialize};

use super::{
    Suite,
    cold_warm::When,
    manifest::{Manifest, Variant},
    place::Place,
    recorder::{Recorded, Recorder},
    replay::none_right,
    samples::{Sample, latencies, report as row, unavailable},
    site::{Options, build},
    strategy::{CONCURRENT, FLINT, FORK_WARM, OPENWHISK, SPAWN_NEVER, SPAWN_WARM, Strategy, WASM},
};
use crate::bench::{
    asked::{at_least_one, check_arms},
    run::Run,
};

/// The evaluation's two settings of OpenWhisk's way, a sandbox with its own runtime that is kept; a real
/// container; Flint's other ways; Flint's default. Memory in MB.
pub(super) const ARMS: [(&str, Strategy, u64); 8] = [
    ("openwhisk", OPENWHISK, 512),
    ("default", SPAWN_WARM, 256),
    ("best", SPAWN_WARM, 512),
    ("spawn-never", SPAWN_NEVER, 512),
    ("spawn-concurrent", CONCURRENT, 512),
    ("fork-warm", FORK_WARM, 512),
    ("wasm", WASM, 512),
    ("flint", FLINT, 512),
];
/// OpenWhisk keeps idle containers for ten minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Round {
    calls: Vec<Recorded>,
    failures: Failures,
    memory: TreeMemory,
}

pub(super) async fn run(
    suite: &Suite,
    run: &mut Run,
    workloads: &[(Manifest, Variant)],
) -> anyhow::Result<Report> {
    check_arms(&run.effort.arms, ARMS.iter().map(|arm| arm.0))?;
    // There is one cold start per round, with the server.
    let rounds = run.effort.rounds(if run.effort.quick { 1 } else { 10 });
    let seconds = at_least_one(run, "seconds", if run.effort.quick { 4.0 } else { 60.0 })? as u64;
    let mut report = run.report(suite.name);
    for (manifest, variant) in workloads {
        let title = manifest.title(variant);
        let built = build(manifest).map_err(|error| format!("{error:#}"));
        let mut measured: Vec<(&str, anyhow::Result<Vec<Round>>)> = Vec::new();
        for (name, ..) in ARMS
            .iter()
            .filter(|arm| run.effort.arms.is_empty() || run.effort.arms.iter().any(|name| name == arm.0))
        {
            measured.push((name, Ok(Vec::new())));
        }
        for round in 1..=rounds {
            for (name, all) in &mut measured {
                run.show(&format!("{title} {name}"), round - 1, rounds);
                let (Ok(rounds), Some((_, strategy, memory))) =
                    (&mut *all, ARMS.iter().find(|arm| arm.0 == *name))
                else {
                    continue;
                };
                let arm = format!("{title} {name}");
                let key = format!("{arm} round {round}");
                // Before and after each arm: a round of all of them takes minutes.
                run.look(&key, [key.clone()]).await?;
                let one = run.kept_of(&arm, &key, async || {
                    built.clone().map_err(anyhow::Error::msg)?;
                    once(run, manifest, variant, strategy, *memory, seconds).await
                });
                match one.await {
                    Ok(one) => rounds.push(one),
                    Err(error) => *all = Err(error),
                }
            }
        }
        add(&mut report, &title, &measured, run.effort.seed);
    }
    suite.judge(&mut report);
    Ok(report)
}

async fn once(
    run: &Run,
    manifest: &Manifest,
    variant: &Variant,
    strategy: &Strategy,
    memory_mb: u64,
    seconds: u64,
) -> anyhow::Result<Round> {
    let options = Options {
        keep_alive: KEEP_ALIVE,
        memory_mb: Some(memory_mb),
        callers: 8,
        standbys: true,
        unchecked: true,
        ..Options::new(run.effort.size.as_str())
    };
    let place = Place::open(manifest, variant, strategy, options).await?;
    run.uses(place.versions())?;
    let recorder = Arc::new(Recorder::of(&place));
    let load = OpenLoad {
        arrivals: Arrivals::Constant { rate: 1.0 },
        duration: Duration::from_secs(seconds),
        warm_up: Duration::ZERO,
        connections: 64,
        timeout: Duration::from_secs(60),
    };
    let driven = drive_open(recorder.clone(), &load).await?;
    place.judge()?;
    let calls = recorder.records(place.caller()).await?;
    Ok(Round { calls, failures: driven.failures, memory: place.belongings().memory().0 })
}

fn add(report: &mut Report, title: &str, measured: &[(&str, anyhow::Result<Vec<Round>>)], seed: u64) {
    let samples = |rounds: &[Round], when| -> Vec<Sample> {
        rounds.iter().flat_map(|round| came(round, when)).collect()
    };
    for (name, rounds) in measured {
        let rounds = match rounds {
            Ok(rounds) => rounds,
            Err(error) => {
                report.arms.push(unavailable(name, title, &format!("{error:#}")));
                continue;
            }
        };
        let mut failures = Failures::default();
        rounds.iter().for_each(|round| failures.merge(&round.failures));
        if rounds.iter().all(|round| round.calls.is_empty()) {
            let why = none_right(&failures);
            report.arms.push(ArmReport { failures: Some(failures), ..unavailable(name, title, &why) });
            continue;
        }
        // They are the arm's, and so in the first of its rows only.
        let mut failures = Some(failures).filter(|failures| failures.calls() > 0);
        let steady = [When::Warm, When::Next].into_iter().find(|when| !samples(rounds, *when).is_empty());
        for when in When::ALL {
            let samples = samples(rounds, when);
            if samples.is_empty() {
                continue;
            }
            let memory: Vec<f64> = rounds.iter().map(|round| round.memory.pss as f64).collect();
            report.arms.push(ArmReport {
                pss_bytes: median(&memory).map(|bytes| bytes as u64),
                series: if steady == Some(when) { over_time(&rounds[0].calls) } else { Vec::new() },
                failures: failures.take(),
                // Calls come by a clock, however many are in progress.
                concurrency: None,
                ..row(&format!("{name} {}", when.as_str()), title, &samples, seed)
            });
        }
    }
    // An instance started for each call, or ahead of it, is what users get where others are warm.
    for (theirs, ours) in [(When::Cold, When::Cold), (When::Warm, When::Warm), (When::Warm, When::Next)] {
        let of = |wanted: &str, when| {
            let found = measured.iter().find(|(name, _)| *name == wanted);
            let rounds = found.and_then(|(_, rounds)| rounds.as_ref().ok())?;
            Some(latencies(&samples(rounds, when)))
        };
        let Some(default) = of("default", theirs) else { continue };
        for (other, ..) in ARMS.iter().filter(|arm| arm.0 != "default") {
            let Some(others) = of(other, ours) else { continue };
            let (a, b) = (format!("default {}", theirs.as_str()), format!("{other} {}", ours.as_str()));
            report.comparisons.extend(Comparison::of(title, (&a, &default), (&b, &others)));
        }
    }
}

/// The calls of a round in this situation: only its first one finds a server on which nothing has run.
fn came(round: &Round, when: When) -> Vec<Sample> {
    let mut calls: Vec<&Recorded> = round.calls.iter().collect();
    // They are recorded in the order of their responses.
    calls.sort_by(|a, b| (a.at_s - a.sample.latency / 1e6).total_cmp(&(b.at_s - b.sample.latency / 1e6)));
    let placed = calls.into_iter().enumerate();
    placed
        .filter(|(place, call)| When::of(*place, &call.sample, None) == when)
        .map(|(_, call)| call.sample)
        .collect()
}

/// A point for each call of a round.
fn over_time(calls: &[Recorded]) -> Vec<Point> {
    calls
        .iter()
        .map(|call| Point { at_s: call.at_s, latency_us: Some(call.sample.latency), ..Point::default() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_call_of_a_round_is_cold() {
        let call = |at_s, latency, start| Recorded {
            at_s,
            which: 0,
            sample: Sample { latency, start, run: Some(10.0), ..Sample::default() },
        };
        // The first call is answered after the second one, which a standby has served.
        let calls = vec![
            call(1.1, 100_000.0, Some(300.0)),
            call(1.5, 1_500_000.0, Some(1_400_000.0)),
            call(2.1, 110_000.0, Some(310.0)),
        ];
        let warm = vec![call(0.9, 900_000.0, Some(800_000.0)), call(1.2, 200_000.0, None)];
        let mut failures = Failures::default();
        failures.add(&flint_lab::ArmError::WrongAnswer("no".into()));
        let rounds = |calls: Vec<Recorded>| {
            Ok(vec![Round { calls, failures: failures.clone(), memory: TreeMemory::default() }])
        };
        let mut report = Report::default();
        add(&mut report, "resize node", &[("default", rounds(warm)), ("flint", rounds(calls))], 1);
        let rows: Vec<_> = report
            .arms
            .iter()
            .map(|row| (row.arm.as_str(), row.n, row.latency_us.as_ref().map(|latency| latency.p50)))
            .collect();
        assert_eq!(
            rows,
            [
                ("default cold", Some(1), Some(900_000.0)),
                ("default warm", Some(1), Some(200_000.0)),
                ("flint cold", Some(1), Some(1_500_000.0)),
                ("flint next", Some(2), Some(105_000.0)),
            ]
        );
        let pairs: Vec<_> = report.comparisons.iter().map(|one| (one.a.as_str(), one.b.as_str())).collect();
        assert_eq!(pairs, [("default cold", "flint cold"), ("default warm", "flint next")]);
        assert!(!report.arms[3].series.is_empty() && report.arms[2].series.is_empty());
        let failed: Vec<_> = report.arms.iter().map(|row| row.failures.is_some()).collect();
        assert_eq!(failed, [true, false, true, false], "an arm's failures are counted once");
    }
}
