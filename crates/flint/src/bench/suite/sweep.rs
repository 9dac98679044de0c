//! A constant load of more and more callers at once: what it does to latency, throughput and memory.

use std::time::Duration;

use flint_lab::{
    ArmReport, HttpArm, Latency, Load, Median, Report, TreeMemory, drive, machine_cpu_us, median,
    process_cpu_us,
};
use serde::{Deserialize, Serialize};

use super::{
    Suite,
    manifest::{Manifest, Variant},
    samples::unavailable,
    site::{Options, Site, build},
    strategy::Strategy,
};
use crate::bench::run::Run;

/// Idle instances stay: the question is what warm ones do.
const KEEP_ALIVE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Round {
    calls: u64,
    rate: f64,
    /// p50, p90, p99 in µs.
    quantiles: [f64; 3],
    /// CPU time of the whole machine without the load generator's, by call.
    cpu_us: f64,
    /// The most that everything of the function took, and its processes.
    memory: TreeMemory,
    processes: usize,
}

pub(super) async fn run(
    suite: &Suite,
    run: &mut Run,
    workloads: &[(Manifest, Variant)],
) -> anyhow::Result<Report> {
    let rounds = run.effort.rounds(if run.effort.quick { 1 } else { 3 });
    let levels: &[usize] = if run.effort.quick { &[1, 4] } else { &[1, 2, 4, 8, 16] };
    let duration = if run.effort.quick { Duration::from_secs(1) } else { Duration::from_secs(20) };
    let mut report = run.report(suite.name);
    let strategies = suite.chosen(run)?;
    let steps = workloads.len() * strategies.len() * levels.len();
    let mut step = 0;
    for (manifest, variant) in workloads {
        let title = manifest.title(variant);
        let built = build(manifest).map_err(|error| format!("{error:#}"));
        for strategy in &strategies {
            for &callers in levels {
                let name = format!("{title} {} at {callers}", strategy.name);
                run.show(&name, step, steps);
                step += 1;
                let measured = match &built {
                    Err(why) => Err(anyhow::anyhow!("{why}")),
                    Ok(()) => level(run, manifest, variant, strategy, (callers, rounds, duration)).await,
                };
                report.arms.push(match measured {
                    Ok(rounds) => row(strategy.name, &title, callers, &rounds, run.effort.seed),
                    Err(error) => ArmReport {
                        concurrency: Some(callers),
                        ..unavailable(strategy.name, &title, &format!("{error:#}"))
                    },
                });
            }
        }
    }
    suite.judge(&mut report);
    Ok(report)
}

async fn level(
    run: &mut Run,
    manifest: &Manifest,
    variant: &Variant,
    strategy: &Strategy,
    (callers, rounds, duration): (usize, usize, Duration),
) -> anyhow::Result<Vec<Round>> {
    let key =
        |round: usize| format!("{} {} at {callers} round {round}", manifest.title(variant), strategy.name);
    let kept: Vec<Round> = (1..=rounds).map_while(|round| run.folder.get(&key(round))).collect();
    if kept.len() == rounds {
        return Ok(kept);
    }
    // The number of calls at once is changed from level to level, as in the original, so each level has a server of its own.
    let options =
        Options { keep_alive: KEEP_ALIVE, callers, standbys: true, ..Options::new(run.effort.size.as_str()) };
    let site = Site::open(manifest, variant, strategy, options).await?;
    let mut measured = kept;
    for round in measured.len()..=rounds {
        run.noise.look().await;
        let one = drive_once(&site, callers, duration).await?;
        // The first one that is driven warms everything up.
        if round > 0 && measured.len() < rounds {
            run.folder.put(&key(measured.len() + 1), &one)?;
            measured.push(one);
        }
    }
    Ok(measured)
}

async fn drive_once(site: &Site, callers: usize, duration: Duration) -> anyhow::Result<Round> {
    let http = HttpArm::new(site.address(), site.requests.clone());
    let load = Load { concurrency: callers, duration, warm_up: 2 };
    let own = std::process::id();
    let used = || machine_cpu_us().saturating_sub(process_cpu_us(own));
    let before = used();
    let (mut memory, mut processes) = (TreeMemory::default(), 0);
    let watch = async {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let (now, count) = site.memory();
            if now.pss > memory.pss {
                memory = now;
            }
            processes = processes.max(count);
        }
    };
    let measured = tokio::select! {
        measured = drive(&http, load) => measured?,
        () = watch => anyhow::bail!("watching does not end"),
    };
    let used = used().saturating_sub(before);
    let calls = measured.calls + (callers * load.warm_up) as u64;
    Ok(Round {
        calls: measured.calls,
        rate: measured.rate(),
        quantiles: [0.5, 0.9, 0.99].map(|q| measured.quantile_us(q)),
        cpu_us: used as f64 / calls.max(1) as f64,
        memory,
        processes,
    })
}

fn row(arm: &str, title: &str, callers: usize, rounds: &[Round], seed: u64) -> ArmReport {
    let of = |pick: &dyn Fn(&Round) -> f64| median(&rounds.iter().map(pick).collect::<Vec<_>>());
    let quantile = |at: usize| of(&|round| round.quantiles[at]).unwrap_or(0.0);
    let medians: Vec<f64> = rounds.iter().map(|round| round.quantiles[0]).collect();
    ArmReport {
        arm: arm.to_owned(),
        function: Some(title.to_owned()),
        concurrency: Some(callers),
        n: Some(rounds.iter().map(|round| round.calls).sum()),
        latency_us: Some(Latency { p50: quantile(0), p90: quantile(1), p99: quantile(2) }),
        interval_us: Median::of(&medians, seed),
        calls_per_s: of(&|round| round.rate),
        cpu_us_per_call: of(&|round| round.cpu_us),
        pss_bytes: of(&|round| round.memory.pss as f64).map(|bytes| bytes as u64),
        private_bytes: of(&|round| round.memory.private as f64).map(|bytes| bytes as u64),
        instances: of(&|round| round.processes as f64).map(|count| count as u64),
        ..ArmReport::default()
    }
}
