//! Replays of Azure's traces: as in Photons@Graal, copies of one function started one after the other, each
//! with the calls of a function of the trace; or whole, with every call of every function at its time and
//! with its duration.

mod result;
mod schedule;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_lab::{ArmError, Arrivals, Failures, HttpRequest, OpenLoad, Report, Unjudged, drive_open};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use self::result::none_right;
use self::schedule::{Schedule, Wanted};
use super::{
    Suite,
    manifest::{Manifest, Values, Variant},
    place::Place,
    recorder::{Check, Recorded, Recorder},
    site::{Options, build},
    strategy::{LEAN_IDLE, Strategy},
    watch::{Look, Watch},
};
use crate::{
    bench::{asked::wrong, run::Run},
    failure::Failure,
};

/// OpenWhisk's keep-alive of idle containers; divided by the speed-up, like all times.
const KEEP_ALIVE: Duration = Duration::from_secs(600);
/// Idle instances are gone by then, after their keep-alive.
const LET_GO_WITHIN: Duration = Duration::from_secs(2);
/// Memory used by deploys is released by then.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);
/// Number of intervals in charts over time.
const INTERVALS: f64 = 60.0;
/// Concurrency of an instance that takes several calls.
const AT_ONCE: usize = 64;

/// Interval of memory samples: shorter than the life of a runtime that serves one call.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// An arm with its rounds.
struct Done {
    strategy: Strategy,
    rounds: Vec<Replayed>,
    /// Why it has no figures, whatever it has measured.
    failed: Option<String>,
    /// Why it is not compared: the host was noisy during one of its rounds.
    spoilt: Option<Unjudged>,
}

/// The measurements of one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Replayed {
    /// `which` is the function's number.
    calls: Vec<Recorded>,
    failures: Failures,
    intended: u64,
    /// p99 delay of sending calls, in µs: beyond some hundred, the generator or the machine is overloaded.
    late_us: f64,
    wall_s: f64,
    /// Memory of everything that belongs to the functions, over time.
    memory: Vec<Look>,
}

pub(super) async fn run(
    suite: &Suite,
    run: &mut Run,
    workloads: &[(Manifest, Variant)],
) -> anyhow::Result<Report> {
    let wanted = Wanted::new(run).map_err(wrong)?;
    let rounds = run.effort.rounds(if run.effort.quick { 1 } else { 3 });
    let mut report = run.report(suite.name);
    let strategies = suite.chosen(run)?;
    let workloads: Vec<_> = workloads.iter().filter(|(manifest, _)| wanted.suits(manifest)).collect();
    if workloads.is_empty() {
        let why =
            "a whole trace is replayed by a workload that takes as long as it is told: --set workload=sleep";
        return Err(Failure::usage(why).into());
    }
    let steps = workloads.len() * strategies.len() * rounds;
    let mut step = 0;
    for (manifest, variant) in workloads {
        let title = manifest.title(variant);
        let schedule = wanted.schedule(variant).map_err(wrong)?;
        report.notes.push(format!(
            "{title}: {}; calls of all of {rounds} rounds, memory the median of their peaks; pictures over time are of the last one",
            schedule.note
        ));
        let built = build(manifest).map_err(|error| format!("{error:#}"));
        let mut arms: Vec<Done> = strategies
            .iter()
            .map(|strategy| Done { strategy: *strategy, rounds: Vec::new(), failed: None, spoilt: None })
            .collect();
        let key = |strategy: &Strategy, round: usize| format!("{title} {} round {round}", strategy.name);
        for round in 1..=rounds {
            for arm in &mut arms {
                run.show(&format!("{title} {} {round}", arm.strategy.name), step, steps);
                step += 1;
                if arm.failed.is_some() {
                    continue;
                }
                let key = key(&arm.strategy, round);
                run.look(&key, [key.clone()]).await?;
                let name = format!("{title} {}", arm.strategy.name);
                let replayed = run.kept_of(&name, &key, async || {
                    built.clone().map_err(anyhow::Error::msg)?;
                    once(run, manifest, variant, &arm.strategy, &schedule, wanted.compression).await
                });
                match replayed.await {
                    Ok(replayed) => arm.rounds.push(replayed),
                    Err(error) => arm.failed = Some(format!("{error:#}")),
                }
            }
        }
        // The last one has a probe after it too.
        run.noise.end().await?;
        for arm in &mut arms {
            let spoilt = (1..=rounds).find_map(|round| run.noise.spoilt(&key(&arm.strategy, round)));
            arm.spoilt = spoilt.map(|why| Unjudged::Noise(format!("{}: {why}", arm.strategy.name)));
            if run.effort.despite_noise {
                report
                    .notes
                    .extend(arm.spoilt.take().map(|why| format!("{title}: {why}; judged all the same")));
            }
        }
        result::add(&mut report, &title, &arms, &wanted.conditions(run.effort.size), run.effort.seed);
    }
    Ok(report)
}

async fn once(
    run: &Run,
    manifest: &Manifest,
    variant: &Variant,
    strategy: &Strategy,
    schedule: &Schedule,
    compression: f64,
) -> anyhow::Result<Replayed> {
    let options = Options {
        keep_alive: KEEP_ALIVE.div_f64(compression),
        compression: Some(compression),
        copies: schedule.functions,
        callers: AT_ONCE,
        standbys: true,
        unchecked: true,
        ..Options::new(run.effort.size.as_str())
    };
    let place = Place::open(manifest, variant, strategy, options).await?;
    run.uses(place.versions())?;
    // A lean server's snapshots from the deploys are not needed by the trace.
    let let_go =
        if strategy.is_lean() { 2 * LEAN_IDLE.div_f64(compression) + LET_GO_WITHIN } else { Duration::ZERO };
    tokio::time::sleep(let_go.max(SETTLED_WITHIN)).await;
    let recorder = Arc::new(recorder(&place, manifest, schedule)?);
    let load = OpenLoad {
        arrivals: Arrivals::Trace(schedule.arrivals.clone().into()),
        duration: schedule.length + Duration::from_millis(1),
        warm_up: Duration::ZERO,
        connections: 256,
        timeout: Duration::from_secs(60),
    };
    let begin = Instant::now();
    let watch = Watch::begin(place.belongings(), LOOK_EVERY);
    let driven = drive_open(recorder.clone(), &load).await?;
    let wall_s = begin.elapsed().as_secs_f64();
    let memory = watch.end()?;
    place.judge()?;
    let mut calls = recorder.records(place.caller()).await?;
    let mut failures = driven.failures;
    let told = |which: usize| schedule.calls[which].1;
    take_out_early(&mut calls, &mut failures, |call, run| {
        manifest.in_time(place.size, told(call.which), run)
    });
    for call in &mut calls {
        call.which = schedule.calls[call.which].0;
    }
    let late_us = driven.late_ns.value_at_quantile(0.99) as f64 / 1e3;
    Ok(Replayed { calls, failures, intended: driven.intended, late_us, wall_s, memory })
}

/// Counts calls as failed whose function ended before the time it was told. A cold call is long enough by its
/// start alone, so the function's own time in the record decides.
fn take_out_early(
    calls: &mut Vec<Recorded>,
    failures: &mut Failures,
    in_time: impl Fn(&Recorded, Duration) -> Result<(), String>,
) {
    calls.retain(|call| {
        let Some(run_us) = call.sample.run else { return true };
        match in_time(call, Duration::from_secs_f64(run_us / 1e6)) {
            Ok(()) => true,
            Err(why) => {
                failures.add(&ArmError::WrongAnswer(format!("by the function's own time, {why}")));
                false
            }
        }
    });
}

/// Calls functions by number, each call for the scheduled duration.
fn recorder(place: &Place, manifest: &Manifest, schedule: &Schedule) -> anyhow::Result<Recorder> {
    let Some(duration) = &manifest.duration else { return Ok(recorder_of_copies(place, schedule)) };
    let usual = manifest.params(place.size, &Values::new())?;
    let mut requests: Vec<HttpRequest> = Vec::with_capacity(schedule.calls.len());
    let mut expected: Vec<Option<u64>> = Vec::with_capacity(schedule.calls.len());
    for &(function, ms) in &schedule.calls {
        let mut params = usual.clone();
        if let Some(ms) = ms {
            params[&duration.param] = Value::String(ms.to_string());
        }
        requests.push(place.request(function, &params));
        expected.push(ms);
    }
    let (manifest, size, told) = (manifest.clone(), place.size, duration.clone());
    let check: Check = Arc::new(move |which, body, took| match expected.get(which).copied().flatten() {
        None => manifest.verify(size, body, took),
        Some(ms) => told.verify(ms, body, took),
    });
    Ok(Recorder::new(place.address(), requests.into(), check, place.shown().clone()))
}

/// The promises, without measurements.
pub(super) fn targets_of_nothing() -> Vec<flint_lab::Target> {
    result::targets("each workload", &[(super::strategy::LEAN.name, None)], (None, None), &Default::default())
}

fn recorder_of_copies(place: &Place, schedule: &Schedule) -> Recorder {
    let requests: Vec<HttpRequest> =
        schedule.calls.iter().map(|&(function, _)| place.requests()[function].clone()).collect();
    let (manifest, size) = (place.manifest().clone(), place.size);
    let check: Check = Arc::new(move |_, body, took| manifest.verify(size, body, took));
    Recorder::new(place.address(), requests.into(), check, place.shown().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::suite::samples::Sample;

    #[test]
    fn a_cold_call_that_did_not_sleep_is_no_call() {
        let call = |run| Recorded {
            at_s: 0.0,
            which: 0,
            sample: Sample { latency: 500_000.0, start: Some(400_000.0), run, ..Sample::default() },
        };
        let mut calls = vec![call(Some(100_300.0)), call(Some(3_000.0)), call(None)];
        let mut failures = Failures::default();
        take_out_early(&mut calls, &mut failures, |_, run| match run >= Duration::from_millis(100) {
            true => Ok(()),
            false => Err("too early".into()),
        });
        assert_eq!((calls.len(), failures.calls()), (2, 1));
        let (kind, failed) = failures.kinds().next().unwrap();
        assert!(failed.example.contains("own time, too early"), "{kind}: {}", failed.example);
    }
}
