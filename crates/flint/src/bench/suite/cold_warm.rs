//! Single calls with their records: those that had to wait for an instance, and those that found one. For a
//! workload about many concurrent callers, the calls of all of them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use flint_lab::{Arm as _, ArmReport, Comparison, Median, NoiseWatch, Report, TreeMemory, median};
use serde::{Deserialize, Serialize};

use super::{
    Suite,
    manifest::{Crowd, Manifest, Variant},
    place::Place,
    recorder::Recorder,
    samples::{Sample, latencies, report, unavailable},
    site::{Options, build},
    strategy::Strategy,
};
use crate::bench::{caller::Caller, run::Run};

/// Calls of an instance before its steady ones.
const SETTLING: usize = 2;
/// Concurrency of an instance that takes several calls.
const AT_ONCE: usize = 8;
/// Time limit of one caller of a crowd for all its calls.
const CROWD_WITHIN: Duration = Duration::from_secs(600);

/// The measurements of one arm and workload in one round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Round {
    samples: Vec<Sample>,
    /// Of everything that belongs to the functions, after the last call; without instances that end with
    /// their call.
    memory: TreeMemory,
    chosen: String,
    /// For a crowd: the first calls of all its callers come first among the samples.
    #[serde(default)]
    crowd: Option<Crowded>,
}

/// A round of many concurrent callers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Crowded {
    callers: usize,
    /// Calls per second, of all of them.
    rate: f64,
}

struct Arm {
    strategy: Strategy,
    /// `None` if all rounds of all arms were stored already.
    place: Option<Result<Place, String>>,
    caller: Option<Caller>,
    last: Option<Instant>,
    rounds: Vec<Round>,
    failed: Option<String>,
}

pub(super) async fn run(
    suite: &Suite,
    run: &mut Run,
    workloads: &[(Manifest, Variant)],
) -> anyhow::Result<Report> {
    let rounds = run.effort.rounds(if run.effort.quick { 1 } else { 5 });
    let calls = if run.effort.quick { 2 } else { 5 };
    let mut report = run.report(suite.name);
    for (at, (manifest, variant)) in workloads.iter().enumerate() {
        let title = manifest.title(variant);
        run.show(&title, at, workloads.len());
        let arms = measure(suite, run, manifest, variant, rounds, calls).await?;
        add(&mut report, &title, &arms, run.effort.seed);
        report.notes.extend(manifest.notes.iter().map(|note| format!("{title}: {note}")));
    }
    report.notes.sort();
    report.notes.dedup();
    suite.judge(&mut report);
    Ok(report)
}

async fn measure(
    suite: &Suite,
    run: &mut Run,
    manifest: &Manifest,
    variant: &Variant,
    rounds: usize,
    calls: usize,
) -> anyhow::Result<Vec<Arm>> {
    let title = manifest.title(variant);
    let name = |strategy: &Strategy| format!("{title} {}", strategy.name);
    let key = |strategy: &Strategy, round: usize| format!("{} round {round}", name(strategy));
    let mut arms = Vec::new();
    let mut built: Option<Result<(), String>> = None;
    let strategies = suite.chosen(run)?;
    let failed: Vec<_> = strategies.iter().map(|strategy| run.folder.failed(&name(strategy))).collect();
    let made = {
        let open = strategies.iter().zip(&failed).filter(|(_, failed)| failed.is_none());
        let most = rounds + NoiseWatch::again(rounds);
        (1..=most).take_while(|round| open.clone().all(|(one, _)| run.folder.has(&key(one, *round)))).count()
    };
    let complete = !run.noise.needs_another(&title, rounds, made).await?;
    for (strategy, failed) in strategies.into_iter().zip(failed) {
        let place = if complete || failed.is_some() {
            None
        } else {
            let made = built.get_or_insert_with(|| build(manifest).map_err(|error| format!("{error:#}")));
            Some(match made.clone() {
                Err(why) => Err(why),
                Ok(()) => {
                    let size = run.effort.size.as_str();
                    let callers = manifest.crowd(size).map_or(AT_ONCE, |crowd| crowd.callers);
                    let options = Options { callers, ..Options::new(size) };
                    Place::open(manifest, variant, &strategy, options)
                        .await
                        .map_err(|error| format!("{error:#}"))
                }
            })
        };
        match &place {
            Some(Ok(place)) => run.uses(place.versions())?,
            Some(Err(why)) => run.folder.fail(&name(&strategy), why)?,
            None => {}
        }
        arms.push(Arm { strategy, place, caller: None, last: None, rounds: Vec::new(), failed });
    }
    // The first round does not count.
    for arm in &mut arms {
        if let Some(Err(error)) = arm.visit(calls).await {
            run.folder.fail(&name(&arm.strategy), arm.failed.insert(format!("{error:#}")))?;
        }
    }
    let (mut round, mut all) = (0, Vec::new());
    while run.noise.needs_another(&title, rounds, round).await? {
        round += 1;
        let open = |arm: &&Arm| matches!(arm.place, Some(Ok(_))) && arm.failed.is_none();
        if arms.iter().filter(open).any(|arm| !run.folder.has(&key(&arm.strategy, round))) {
            run.noise.look_before(&title, round).await?;
        }
        for (at, arm) in arms.iter_mut().enumerate() {
            let key = key(&arm.strategy, round);
            if let Some(kept) = run.folder.get::<Round>(&key) {
                all.push((round, at, kept));
                continue;
            }
            match arm.visit(calls).await {
                None => {}
                Some(Err(error)) => {
                    run.folder.fail(&name(&arm.strategy), arm.failed.insert(format!("{error:#}")))?;
                }
                Some(Ok(measured)) => {
                    run.folder.put(&key, &measured)?;
                    all.push((round, at, measured));
                }
            }
        }
    }
    let counted = run.noise.counted(&title, rounds, round);
    for (round, at, measured) in all {
        if counted.contains(&round) {
            arms[at].rounds.push(measured);
        }
    }
    for arm in &mut arms {
        if let Some(Err(why)) = &arm.place {
            arm.failed = Some(why.clone());
        }
        // Stops its server.
        arm.place = None;
    }
    Ok(arms)
}

impl Arm {
    /// One call when no instance is left, then some more; `None` without a place.
    async fn visit(&mut self, calls: usize) -> Option<anyhow::Result<Round>> {
        if self.failed.is_some() {
            return None;
        }
        let Some(Ok(place)) = &self.place else { return None };
        let caller = self.caller.get_or_insert_with(|| place.caller());
        let since = self.last.map_or(Duration::ZERO, |last| last.elapsed());
        tokio::time::sleep(place.gone_after().saturating_sub(since)).await;
        let measured = match place.manifest().crowd(place.size) {
            None => round(place, caller, calls).await,
            Some(crowd) => round_of_many(place, crowd).await,
        };
        self.last = Some(Instant::now());
        Some(measured)
    }
}

async fn round(place: &Place, caller: &mut Caller, calls: usize) -> anyhow::Result<Round> {
    let mut samples = Vec::new();
    caller.reconnect();
    for call in 0..1 + SETTLING + calls {
        let sample = place.call(caller, &place.requests()[0]).await?;
        // An instance's second call differs from its hundredth.
        if sample.is_cold() || call > SETTLING {
            samples.push(sample);
        }
    }
    let memory = place.memory_between_calls().await;
    place.judge()?;
    Ok(Round { samples, memory, chosen: place.chosen().to_owned(), crowd: None })
}

/// All callers begin at once, when no instance is left, and each calls again as soon as it is answered.
async fn round_of_many(place: &Place, crowd: Crowd) -> anyhow::Result<Round> {
    let recorder = Arc::new(Recorder::of(place));
    let begin = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..crowd.callers {
        let recorder = Arc::clone(&recorder);
        callers.spawn(async move {
            let mut connection = recorder.connect().await?;
            for call in 0..crowd.calls {
                connection.call_which(call).await?;
            }
            Ok::<_, flint_lab::ArmError>(())
        });
    }
    let all = async {
        while let Some(ended) = callers.join_next().await {
            ended.context("a caller has panicked")??;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(CROWD_WITHIN, all)
        .await
        .with_context(|| format!("the callers were not answered within {} s", CROWD_WITHIN.as_secs()))??;
    let seconds = begin.elapsed().as_secs_f64();
    let memory = place.memory_between_calls().await;
    let mut records = recorder.records(place.caller()).await?;
    place.judge()?;
    records.sort_by_key(|record| record.which);
    let samples: Vec<_> = records.iter().map(|record| record.sample).collect();
    let rate = samples.len() as f64 / seconds;
    let crowd = Some(Crowded { callers: crowd.callers, rate });
    Ok(Round { samples, memory, chosen: place.chosen().to_owned(), crowd })
}

/// The situation in which calls came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// After a rest, and had to wait for an instance.
    Cold,
    /// Right after another one, and had to wait for an instance all the same: caches and clocks are still
    /// warm.
    Next,
    /// Found an instance.
    Warm,
}

impl When {
    pub(super) const ALL: [Self; 3] = [Self::Cold, Self::Next, Self::Warm];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Next => "next",
            Self::Warm => "warm",
        }
    }

    /// The situation of a call by its place in its round.
    pub(super) fn of(place: usize, sample: &Sample, crowd: Option<Crowded>) -> Self {
        match (sample.is_cold(), crowd) {
            // There was no instance for any of them: a call served by another's instance has waited for it,
            // too.
            (_, Some(crowd)) if place < crowd.callers => Self::Cold,
            (false, _) => Self::Warm,
            (true, None) if place == 0 => Self::Cold,
            (true, _) => Self::Next,
        }
    }
}

/// An arm's calls in one situation.
struct Calls<'a> {
    arm: &'a Arm,
    when: When,
    name: String,
    samples: Vec<Sample>,
    /// For a crowd, whose calls depend on each other: the rounds' medians, which do not.
    rounds: Option<Vec<f64>>,
}

impl Arm {
    fn calls(&self, when: When) -> Option<Calls<'_>> {
        let came = |round: &'_ Round| -> Vec<Sample> {
            let placed = round.samples.iter().enumerate();
            placed
                .filter(|(place, sample)| When::of(*place, sample, round.crowd) == when)
                .map(|(_, sample)| *sample)
                .collect()
        };
        let by_round: Vec<Vec<Sample>> = self.rounds.iter().map(came).collect();
        let medians = || by_round.iter().filter_map(|round| median(&latencies(round))).collect();
        let rounds = self.rounds.iter().any(|round| round.crowd.is_some()).then(medians);
        let samples = by_round.concat();
        let name = format!("{} {}", self.strategy.name, when.as_str());
        (!samples.is_empty()).then_some(Calls { arm: self, when, name, samples, rounds })
    }
}

fn add(report: &mut Report, title: &str, arms: &[Arm], seed: u64) {
    let mut all = Vec::new();
    for arm in arms {
        match &arm.failed {
            Some(why) => report.arms.push(unavailable(arm.strategy.name, title, why)),
            None => all.extend(When::ALL.into_iter().filter_map(|when| arm.calls(when))),
        }
    }
    report.arms.extend(all.iter().map(|calls| row(title, calls, seed)));
    for reference in all.iter().filter(|calls| calls.arm.strategy.is_reference()) {
        let others = all.iter().filter(|calls| {
            calls.arm.strategy.is_flints() && calls.arm.strategy.name != reference.arm.strategy.name
        });
        for calls in others {
            // If each call makes an instance, users get that even where others are warm.
            let is_in_place = calls.when == When::Next && reference.when == When::Warm;
            if calls.when == reference.when || is_in_place {
                report.comparisons.extend(match (&reference.rounds, &calls.rounds) {
                    (Some(theirs), Some(ours)) => {
                        Comparison::of_rounds(title, (&reference.name, theirs), (&calls.name, ours))
                    }
                    _ => {
                        let (theirs, ours) = (latencies(&reference.samples), latencies(&calls.samples));
                        Comparison::of(title, (&reference.name, &theirs), (&calls.name, &ours))
                    }
                });
            }
        }
    }
}

fn row(title: &str, calls: &Calls<'_>, seed: u64) -> ArmReport {
    let Calls { arm, name, samples, rounds, .. } = calls;
    let of = |pick: fn(&TreeMemory) -> u64| {
        let bytes: Vec<f64> = arm.rounds.iter().map(|round| pick(&round.memory) as f64).collect();
        median(&bytes).filter(|bytes| *bytes > 0.0).map(|bytes| bytes as u64)
    };
    let chosen = arm.rounds.first().map(|round| round.chosen.clone());
    let crowds: Vec<Crowded> = arm.rounds.iter().filter_map(|round| round.crowd).collect();
    let rates: Vec<f64> = crowds.iter().map(|crowd| crowd.rate).collect();
    let of_calls = report(name, title, samples, seed);
    ArmReport {
        concurrency: Some(crowds.first().map_or(1, |crowd| crowd.callers)),
        calls_per_s: median(&rates),
        pss_bytes: of(|memory| memory.pss),
        private_bytes: of(|memory| memory.private),
        note: chosen.filter(|chosen| !chosen.is_empty()),
        interval_us: match rounds {
            Some(medians) => Median::of(medians, seed),
            None => of_calls.interval_us,
        },
        ..of_calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::suite::strategy::{FORK_NEVER, OPENWHISK, SPAWN_WARM};

    fn arm(strategy: Strategy, samples: &[(f64, Option<f64>)]) -> Arm {
        let samples = samples
            .iter()
            .map(|&(latency, start)| Sample { latency, start, run: Some(10.0), ..Sample::default() })
            .collect();
        let memory = TreeMemory { rss: 3, pss: 2, private: 1 };
        let rounds = vec![Round { samples, memory, chosen: "spawn/warm".into(), crowd: None }];
        Arm { strategy, place: None, caller: None, last: None, rounds, failed: None }
    }

    #[test]
    fn cold_and_warm_calls_are_rows_of_their_own_and_compared_with_a_container() {
        let mut report = Report::default();
        let arms = [
            arm(OPENWHISK, &[(2000.0, Some(900.0)), (200.0, None)]),
            arm(SPAWN_WARM, &[(1000.0, Some(900.0)), (100.0, None), (120.0, None)]),
            arm(FORK_NEVER, &[(50.0, Some(20.0)), (45.0, Some(20.0)), (55.0, Some(20.0))]),
        ];
        add(&mut report, "fact node", &arms, 1);
        let names: Vec<_> = report.arms.iter().map(|arm| arm.arm.as_str()).collect();
        assert_eq!(
            names,
            [
                "openwhisk cold",
                "openwhisk warm",
                "spawn-warm cold",
                "spawn-warm warm",
                "fork-never cold",
                "fork-never next"
            ]
        );
        assert_eq!((report.arms[2].first_us, report.arms[3].steady_us), (Some(10.0), Some(10.0)));
        assert_eq!((report.arms[4].pss_bytes, report.arms[4].start_us), (Some(2), Some(20.0)));
        assert_eq!((report.arms[4].n, report.arms[5].n), (Some(1), Some(2)));
        let times: Vec<_> =
            report.comparisons.iter().map(|one| (one.a.as_str(), one.b.as_str(), one.times)).collect();
        for expected in [
            ("openwhisk cold", "fork-never cold", 40.0),
            ("openwhisk warm", "fork-never next", 4.0),
            ("spawn-warm cold", "fork-never cold", 20.0),
            ("spawn-warm warm", "fork-never next", 2.2),
            ("openwhisk cold", "spawn-warm cold", 2.0),
        ] {
            assert!(times.contains(&expected), "{times:?}");
        }
        for wrong in [("openwhisk cold", "spawn-warm warm"), ("openwhisk cold", "fork-never next")] {
            assert!(!times.iter().any(|(a, b, _)| (*a, *b) == wrong), "{times:?}");
        }
        let failed = Arm { failed: Some("no".into()), ..arm(FORK_NEVER, &[]) };
        add(&mut report, "x", &[failed], 1);
        assert_eq!(report.arms[6].note.as_deref(), Some("unavailable: no"));
    }

    #[test]
    fn the_first_calls_of_a_crowd_are_cold_whoever_started_their_instance() {
        let mut crowd =
            arm(SPAWN_WARM, &[(900.0, Some(800.0)), (950.0, None), (10.0, None), (700.0, Some(600.0))]);
        crowd.rounds[0].crowd = Some(Crowded { callers: 2, rate: 4.0 });
        let mut report = Report::default();
        add(&mut report, "startup node", &[crowd], 1);
        let rows: Vec<_> = report
            .arms
            .iter()
            .map(|row| (row.arm.as_str(), row.n, row.cold_starts, row.concurrency))
            .collect();
        assert_eq!(
            rows,
            [
                ("spawn-warm cold", Some(2), Some(1), Some(2)),
                ("spawn-warm next", Some(1), Some(1), Some(2)),
                ("spawn-warm warm", Some(1), Some(0), Some(2)),
            ]
        );
        assert_eq!(report.arms[0].calls_per_s, Some(4.0));
    }
}
