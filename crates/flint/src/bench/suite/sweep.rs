//! Constant load of increasing numbers of callers: the effect on latency, throughput and memory.

use std::time::Duration;

use flint_lab::{
    ArmReport, Comparison, Latency, Load, Median, Report, TreeMemory, drive, machine_cpu_us, median,
    process_cpu_us, sampled, thinned,
};
use serde::{Deserialize, Serialize};

use super::{
    Suite,
    checked::Checked,
    manifest::{Manifest, Variant},
    place::Place,
    samples::unavailable,
    site::{Options, build},
    strategy::{Strategy, compared},
    watch::Watch,
};
use crate::bench::{
    asked::{numbers, option},
    run::Run,
};

/// Long, so that idle instances stay: the experiment is about warm ones.
const KEEP_ALIVE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Round {
    calls: u64,
    rate: f64,
    /// p50, p90, p99 in µs.
    quantiles: [f64; 3],
    /// Latencies for charts, in µs.
    #[serde(default)]
    samples_us: Vec<f64>,
    /// CPU time of the whole machine without the load generator's, per call.
    cpu_us: f64,
    /// Peak memory of everything that belongs to the function, and its processes.
    memory: TreeMemory,
    processes: usize,
    /// How Flint ran it.
    #[serde(default)]
    chosen: String,
}

/// An arm at one level: its rounds, or why there are none.
struct Level {
    strategy: Strategy,
    place: Option<anyhow::Result<Place>>,
    rounds: Vec<Round>,
    failed: Option<String>,
}

pub(super) async fn run(
    suite: &Suite,
    run: &mut Run,
    workloads: &[(Manifest, Variant)],
) -> anyhow::Result<Report> {
    let quick = run.effort.quick;
    let rounds = run.effort.rounds(if quick { 1 } else { 5 });
    let levels = numbers(
        "levels",
        run.effort.set.get("levels").map_or(if quick { "1,4" } else { "1,2,4,8,16" }, String::as_str),
    )?;
    let duration = Duration::from_secs_f64(option(run, "seconds", if quick { 1.0 } else { 20.0 })?);
    let mut report = run.report(suite.name);
    let strategies = suite.chosen(run)?;
    let steps = workloads.len() * levels.len();
    let mut step = 0;
    for (manifest, variant) in workloads {
        let title = manifest.title(variant);
        let built = build(manifest).map_err(|error| format!("{error:#}"));
        for &callers in &levels {
            run.show(&format!("{title} at {callers}"), step, steps);
            step += 1;
            let measured =
                level(run, (manifest, variant), &strategies, &built, (callers, rounds, duration)).await?;
            report.arms.extend(measured.iter().map(|level| match &level.failed {
                None => row(level.strategy.name, &title, callers, &level.rounds, run.effort.seed),
                Some(why) => {
                    ArmReport { concurrency: Some(callers), ..unavailable(level.strategy.name, &title, why) }
                }
            }));
            // With the most callers, as promises are judged.
            if levels.iter().max() == Some(&callers) {
                let with = format!("{title} at {callers}");
                let latencies: Vec<_> = measured
                    .iter()
                    .filter(|level| level.failed.is_none())
                    .map(|level| (level.strategy, medians(&level.rounds)))
                    .collect();
                report.comparisons.extend(compared(&with, &latencies, Comparison::of_rounds));
            }
        }
    }
    if rounds < 5 {
        report.notes.push(format!(
            "Of {rounds} rounds there are no intervals and no comparisons: these need five (--repeat 5)."
        ));
    }
    suite.judge(&mut report);
    Ok(report)
}

/// All arms with this number of callers, in turn.
async fn level(
    run: &mut Run,
    (manifest, variant): (&Manifest, &Variant),
    strategies: &[Strategy],
    built: &Result<(), String>,
    (callers, rounds, duration): (usize, usize, Duration),
) -> anyhow::Result<Vec<Level>> {
    let title = manifest.title(variant);
    let name = |strategy: &Strategy| format!("{title} {} at {callers}", strategy.name);
    let key = |strategy: &Strategy, round: usize| format!("{} round {round}", name(strategy));
    let mut arms = Vec::new();
    for strategy in strategies {
        let kept: Vec<Round> =
            (1..=rounds).map_while(|round| run.folder.get(&key(strategy, round))).collect();
        let failed = run.folder.failed(&name(strategy));
        let place = if kept.len() == rounds || failed.is_some() {
            None
        } else {
            // The concurrency changes from level to level, as in the original, so each level has its own
            // servers.
            let options = Options {
                keep_alive: KEEP_ALIVE,
                callers,
                standbys: true,
                ..Options::new(run.effort.size.as_str())
            };
            Some(match built {
                Err(why) => Err(anyhow::anyhow!("{why}")),
                Ok(()) => Place::open(manifest, variant, strategy, options).await,
            })
        };
        if let Some(Ok(place)) = &place {
            run.uses(place.versions())?;
        }
        arms.push(Level { strategy: *strategy, place, rounds: kept, failed });
    }
    // The first round warms everything up.
    for round in 0..=rounds {
        if arms.iter().any(|arm| matches!(arm.place, Some(Ok(_)))) {
            run.noise.look(&format!("{title} at {callers} round {round}")).await?;
        }
        for arm in arms.iter_mut().filter(|arm| arm.failed.is_none()) {
            let driven = match &arm.place {
                None => continue,
                Some(Err(error)) => Err(anyhow::anyhow!("{error:#}")),
                Some(Ok(place)) => drive_once(place, callers, duration).await,
            };
            match driven {
                Err(error) => {
                    let why = arm.failed.insert(format!("{error:#}"));
                    run.folder.fail(&name(&arm.strategy), why)?;
                }
                Ok(one) if round > 0 && arm.rounds.len() < rounds => {
                    run.folder.put(&key(&arm.strategy, arm.rounds.len() + 1), &one)?;
                    arm.rounds.push(one);
                }
                Ok(_) => {}
            }
        }
    }
    Ok(arms)
}

async fn drive_once(place: &Place, callers: usize, duration: Duration) -> anyhow::Result<Round> {
    let checked = Checked::of(place);
    let load = Load { concurrency: callers, duration, warm_up: 2 };
    let own = std::process::id();
    let used = || machine_cpu_us().saturating_sub(process_cpu_us(own));
    let before = used();
    let watch = Watch::begin(place.belongings(), Duration::from_millis(200));
    let measured = drive(&checked, load).await?;
    let used = used().saturating_sub(before);
    let looks = watch.end()?;
    place.judge()?;
    let memory =
        looks.iter().map(|(_, memory, _)| *memory).max_by_key(|memory| memory.pss).unwrap_or_default();
    let processes = looks.iter().map(|(.., processes)| *processes).max().unwrap_or(0);
    let calls = measured.calls + (callers * load.warm_up) as u64;
    Ok(Round {
        calls: measured.calls,
        rate: measured.rate(),
        quantiles: [0.5, 0.9, 0.99].map(|q| measured.quantile_us(q)),
        samples_us: sampled(std::slice::from_ref(&measured)),
        cpu_us: used as f64 / calls.max(1) as f64,
        memory,
        processes,
        chosen: place.chosen().to_owned(),
    })
}

fn row(arm: &str, title: &str, callers: usize, rounds: &[Round], seed: u64) -> ArmReport {
    let of = |pick: &dyn Fn(&Round) -> f64| median(&rounds.iter().map(pick).collect::<Vec<_>>());
    let quantile = |at: usize| of(&|round| round.quantiles[at]).unwrap_or(0.0);
    ArmReport {
        arm: arm.to_owned(),
        function: Some(title.to_owned()),
        concurrency: Some(callers),
        n: Some(rounds.iter().map(|round| round.calls).sum()),
        latency_us: Some(Latency { p50: quantile(0), p90: quantile(1), p99: quantile(2) }),
        interval_us: Median::of(&medians(rounds), seed),
        calls_per_s: of(&|round| round.rate),
        cpu_us_per_call: of(&|round| round.cpu_us),
        pss_bytes: of(&|round| round.memory.pss as f64).map(|bytes| bytes as u64),
        private_bytes: of(&|round| round.memory.private as f64).map(|bytes| bytes as u64),
        samples_us: thinned(&rounds.iter().flat_map(|round| round.samples_us.clone()).collect::<Vec<_>>()),
        instances: of(&|round| round.processes as f64).map(|count| count as u64),
        note: rounds.first().map(|round| round.chosen.clone()).filter(|chosen| !chosen.is_empty()),
        ..ArmReport::default()
    }
}

fn medians(rounds: &[Round]) -> Vec<f64> {
    rounds.iter().map(|round| round.quantiles[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_pictures_are_made_of() {
        let round = |samples_us| Round {
            calls: 2,
            rate: 10.0,
            quantiles: [1.0, 2.0, 3.0],
            samples_us,
            cpu_us: 1.0,
            memory: TreeMemory::default(),
            processes: 1,
            chosen: String::new(),
        };
        let row = row("a", "sleep node", 4, &[round(vec![2.0, 5.0]), round(vec![1.0])], 1);
        assert_eq!(row.samples_us, [1.0, 2.0, 5.0]);
        let report = Report {
            arms: vec![row.clone(), ArmReport { concurrency: Some(1), ..row }],
            ..Report::default()
        };
        assert_eq!(report.html().matches("<svg").count(), 7);
    }
}
