//! Azure's trace of 2019, replayed as Photons@Graal does: copies of one function, started one after the other, each with the calls
//! of a function of the trace.

use std::{
    fs::File,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use flint_lab::{
    ArmReport, Arrivals, Failures, OpenLoad, Point, Random, Report, Target, TreeMemory, drive_open, quantile,
    trace::{Azure2019, FunctionRow, Replay, Wanted, apps, excerpt, select},
};
use serde::{Deserialize, Serialize};

use super::{
    Suite,
    manifest::{Manifest, Variant},
    recorder::{Recorded, Recorder},
    samples::{Sample, report as row, unavailable},
    site::{Options, Site, build},
    strategy::{CONTAINER, FLINT, Strategy},
};
use crate::bench::run::Run;

/// As OpenWhisk keeps idle containers; divided by the compression, as all times are.
const KEEP_ALIVE: Duration = Duration::from_secs(600);
/// Waits longer than this are felt.
const FELT_US: f64 = 10_000.0;
/// Intervals of the pictures over time.
const INTERVALS: f64 = 60.0;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Replayed {
    calls: Vec<Recorded>,
    failures: Failures,
    intended: u64,
    wall_s: f64,
    /// Seconds, bytes (PSS) and processes of everything that belongs to the functions.
    memory: Vec<(f64, TreeMemory, usize)>,
}

pub(super) async fn run(
    suite: &Suite,
    run: &mut Run,
    workloads: &[(Manifest, Variant)],
) -> anyhow::Result<Report> {
    let replay = Replay {
        copies: option(run, "copies", if run.effort.quick { 3.0 } else { 20.0 })? as usize,
        minutes: option(run, "minutes", 59.0)? as usize,
        compression: option(run, "compress", if run.effort.quick { 300.0 } else { 10.0 })?,
    };
    let rounds = run.effort.rounds(if run.effort.quick { 1 } else { 3 });
    let mut report = run.report(suite.name);
    let strategies = suite.chosen(run)?;
    let steps = workloads.len() * strategies.len() * rounds;
    let mut step = 0;
    for (manifest, variant) in workloads {
        let title = manifest.title(variant);
        let row = source(run, variant)?;
        let calls: u32 = row.minutes.iter().take(replay.minutes).sum();
        ensure!(calls > 0, "the trace's function has no call in its first {} minutes", replay.minutes);
        report.notes.push(format!(
            "{title}: {} copies of trace function {}, {} calls in {} minutes each, {} × as fast; the last of {rounds} rounds is shown, as in the original",
            replay.copies,
            row.function.chars().take(8).collect::<String>(),
            calls,
            replay.minutes,
            replay.compression
        ));
        let built = build(manifest).map_err(|error| format!("{error:#}"));
        let mut done: Vec<(Strategy, anyhow::Result<Replayed>)> = Vec::new();
        for strategy in &strategies {
            let mut last = Err(anyhow::anyhow!("nothing was measured"));
            for round in 1..=rounds {
                run.show(&format!("{title} {} {round}", strategy.name), step, steps);
                step += 1;
                run.noise.look().await;
                let key = format!("{title} {} round {round}", strategy.name);
                last = run
                    .kept(&key, async || {
                        built.clone().map_err(anyhow::Error::msg)?;
                        once(run, manifest, variant, strategy, &row, replay).await
                    })
                    .await;
                if last.is_err() {
                    break;
                }
            }
            done.push((*strategy, last));
        }
        add(&mut report, &title, &done, run.effort.seed);
    }
    Ok(report)
}

fn option(run: &Run, name: &str, usual: f64) -> anyhow::Result<f64> {
    let Some(text) = run.effort.set.get(name) else { return Ok(usual) };
    let number: f64 = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 1.0)
        .with_context(|| format!("--set {name}={text}: write a number of at least 1"))?;
    ensure!(number <= 10_000.0, "--set {name}={text} is more than 10000");
    Ok(number)
}

/// The function of the trace whose calls are replayed. `--set trace=DIR`: the tables of a day; `synthetic`: drawn from the trace's
/// distributions; otherwise the excerpt that comes with Flint.
fn source(run: &Run, variant: &Variant) -> anyhow::Result<FunctionRow> {
    let named = run.effort.set.get("trace").map(String::as_str);
    if named == Some("synthetic") {
        return synthetic(run.effort.seed);
    }
    let trace = match named {
        None => excerpt::of_2019()?,
        Some(folder) => tables(Path::new(folder))?,
    };
    let memory = variant
        .functions
        .iter()
        .find(|function| function.name == variant.entry)
        .and_then(|function| function.memory_mb);
    let most_mb = memory.unwrap_or(256) as f64;
    select(&trace, Wanted { least_mb: most_mb / 2.0, most_mb })
        .cloned()
        .context("no function of the trace has more than 10 and fewer than 100 calls in its first 59 minutes")
}

fn tables(folder: &Path) -> anyhow::Result<Azure2019> {
    let open = |name: &str| {
        let path = folder.join(name);
        File::open(&path).with_context(|| {
            format!(
                "opening {}: the trace's tables are named invocations.csv, durations.csv and memory.csv",
                path.display()
            )
        })
    };
    let optional = |name: &str| if folder.join(name).exists() { open(name).map(Some) } else { Ok(None) };
    Ok(Azure2019::read(open("invocations.csv")?, optional("durations.csv")?, optional("memory.csv")?)?)
}

/// The first drawn app that is called as often as Photons wants it, from a time of day that is drawn too.
fn synthetic(seed: u64) -> anyhow::Result<FunctionRow> {
    let hour = Duration::from_secs(3600);
    for (at, app) in apps(seed, 10_000).iter().enumerate() {
        let mut random = Random::new(seed).part(u64::MAX - at as u64);
        let from = hour * random.below(24) as u32;
        let mut minutes = vec![0_u32; 60];
        for (when, _) in app.calls(from, hour, random).take(1000) {
            minutes[(when.as_secs() / 60) as usize] += 1;
        }
        let calls: u32 = minutes[..59].iter().sum();
        if 10 < calls && calls < 100 {
            return Ok(FunctionRow {
                app: format!("drawn-{at}"),
                function: format!("drawn-{at}"),
                trigger: "drawn".into(),
                minutes,
            });
        }
    }
    anyhow::bail!("none of 10000 drawn apps has between 10 and 100 calls an hour")
}

async fn once(
    run: &Run,
    manifest: &Manifest,
    variant: &Variant,
    strategy: &Strategy,
    row: &FunctionRow,
    replay: Replay,
) -> anyhow::Result<Replayed> {
    let options = Options {
        keep_alive: KEEP_ALIVE.div_f64(replay.compression).max(Duration::from_secs(1)),
        copies: replay.copies,
        callers: 8,
        standbys: true,
        unchecked: true,
        ..Options::new(run.effort.size.as_str())
    };
    let site = Site::open(manifest, variant, strategy, options).await?;
    let recorder = Arc::new(Recorder::of(&site));
    let load = OpenLoad {
        arrivals: Arrivals::Trace(replay.schedule(row).into()),
        duration: replay.duration() + Duration::from_millis(1),
        warm_up: Duration::ZERO,
        connections: 256,
        timeout: Duration::from_secs(60),
    };
    let begin = Instant::now();
    let every = replay.duration().div_f64(INTERVALS).max(Duration::from_millis(200));
    let mut memory = Vec::new();
    let watch = async {
        loop {
            let (now, processes) = site.memory();
            memory.push((begin.elapsed().as_secs_f64(), now, processes));
            tokio::time::sleep(every).await;
        }
    };
    let driven = tokio::select! {
        driven = drive_open(recorder.clone(), &load) => driven?,
        () = watch => anyhow::bail!("watching does not end"),
    };
    let wall_s = begin.elapsed().as_secs_f64();
    let calls = recorder.records(site.caller()).await?;
    Ok(Replayed { calls, failures: driven.failures, intended: driven.intended, wall_s, memory })
}

/// What a caller waits for beside the function itself.
fn added(sample: &Sample) -> Option<f64> {
    sample.run.map(|run| (sample.latency - run).max(0.0))
}

fn peak(replayed: &Replayed) -> u64 {
    replayed.memory.iter().map(|(_, memory, _)| memory.pss).max().unwrap_or(0)
}

fn add(report: &mut Report, title: &str, done: &[(Strategy, anyhow::Result<Replayed>)], seed: u64) {
    let of = |name: &str| {
        done.iter()
            .find(|(strategy, _)| strategy.name == name)
            .and_then(|(_, replayed)| replayed.as_ref().ok())
    };
    for (strategy, replayed) in done {
        let replayed = match replayed {
            Ok(replayed) => replayed,
            Err(error) => {
                report.arms.push(unavailable(strategy.name, title, &format!("{error:#}")));
                continue;
            }
        };
        let samples: Vec<Sample> = replayed.calls.iter().map(|call| call.sample).collect();
        let felt = samples.iter().filter(|sample| sample.start.is_some_and(|start| start > FELT_US)).count();
        let largest = replayed.memory.iter().max_by_key(|(_, memory, _)| memory.pss);
        report.arms.push(ArmReport {
            calls_per_s: Some(samples.len() as f64 / replayed.wall_s),
            pss_bytes: largest.map(|(_, memory, _)| memory.pss),
            private_bytes: largest.map(|(_, memory, _)| memory.private),
            instances: replayed.memory.iter().map(|(.., processes)| *processes as u64).max(),
            failures: (replayed.failures.calls() > 0).then(|| replayed.failures.clone()),
            series: over_time(replayed),
            note: Some(format!(
                "{felt} of {} calls waited longer than 10 ms for an instance",
                replayed.intended
            )),
            ..row(strategy.name, title, &samples, seed)
        });
    }
    let Some(flint) = of(FLINT.name) else { return };
    // What comes before every copy has been called once is the start of the experiment, not its steady state.
    let steady: Vec<&Recorded> = flint
        .calls
        .iter()
        .filter(|call| {
            flint
                .calls
                .iter()
                .find(|first| first.which == call.which)
                .is_some_and(|first| first.at_s < call.at_s)
        })
        .collect();
    let felt = steady.iter().filter(|call| call.sample.start.is_some_and(|start| start > FELT_US)).count();
    let waits: Vec<f64> = steady.iter().filter_map(|call| added(&call.sample)).collect();
    let container = of(CONTAINER.name).map(peak).filter(|bytes| *bytes > 0);
    let share = container.map(|container| peak(flint) as f64 / container as f64);
    report.targets.extend([
        Target::at_most(
            &format!("{title}: calls that wait longer than 10 ms for an instance"),
            (!steady.is_empty()).then_some(felt as f64),
            0.0,
        ),
        Target::at_most(
            &format!("{title}: added latency, p99, ms"),
            quantile(&waits, 0.99).map(|us| us / 1e3),
            20.0,
        ),
        Target::at_most(&format!("{title}: memory, of the containers'"), share, 0.1),
    ]);
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
    use super::*;

    #[test]
    fn a_drawn_function_is_called_as_often_as_photons_wants_it() {
        for seed in [1, 2] {
            let row = synthetic(seed).unwrap();
            assert!((11..100).contains(&row.minutes[..59].iter().sum::<u32>()));
            assert_eq!(row, synthetic(seed).unwrap());
        }
    }

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
            wall_s: 6.0,
            memory: vec![
                (0.0, TreeMemory { pss, ..TreeMemory::default() }, 2),
                (1.0, TreeMemory::default(), 1),
            ],
        };
        let mut report = Report::default();
        let done = [(CONTAINER, Ok(replayed(1000, None))), (FLINT, Ok(replayed(50, None)))];
        add(&mut report, "sleep node", &done, 1);
        let met: Vec<_> = report.targets.iter().map(|target| (target.value, target.met)).collect();
        assert_eq!(met, [(Some(0.0), Some(true)), (Some(1.0), Some(true)), (Some(0.05), Some(true))]);
        let arm = &report.arms[1];
        assert_eq!((arm.cold_starts, arm.instances, arm.pss_bytes), (Some(2), Some(2), Some(50)));
        assert_eq!(arm.series.last().unwrap().cold_starts, Some(2));
        let mut slow = Report::default();
        add(&mut slow, "sleep node", &[(FLINT, Ok(replayed(50, Some(10_001.0))))], 1);
        assert_eq!((slow.targets[0].met, slow.targets[2].met), (Some(false), None));
    }
}
