//! `fireworks-density`: how many instances of one function fit into a given amount of memory. Identical
//! instances are started one after the other, each holding a call, until the memory is exhausted.

mod group;
mod place;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use flint_lab::{ArmReport, Axis, HttpClient, HttpRequest, Point, Report, Target, TreeMemory, median};
use serde::{Deserialize, Serialize};
use tokio::{task::JoinSet, time::sleep};

pub(super) use self::group::remove_group;
use self::{
    group::{Event, Group},
    place::{CLONE, CONTAINER, Place, SPAWN, WAYS, Way},
};
use super::{
    asked::{at_least_one, check_arms},
    coldstart::{WAIT_NODE, WAIT_PYTHON},
    holds::Holds,
    janitor,
    run::Run,
};

/// A function that waits, and its language.
type Language = (&'static str, &'static str, &'static str);
const LANGUAGES: [Language; 2] = [("wait-node", "nodejs", WAIT_NODE), ("wait-python", "python", WAIT_PYTHON)];
/// Duration of each held call, a little below a function's maximum.
const HOLD: Duration = Duration::from_secs(290);
/// Flint's error when the kernel has killed an instance for lack of memory.
const EXHAUSTED: &str = "exhausted its memory";
/// Instances of each arm in a quick run, which only shows that everything works.
const QUICK_MOST: f64 = 40.0;
/// Minimum number of clones of a snapshot, unless memory ends before, for judging the promise about a clone's
/// memory.
const CROWD: u64 = 500;
/// The same minimum for the arms that clones are compared with, which take more memory and share less.
const FEW: u64 = 100;
/// An instance that is not up by then never will be: the machine is exhausted.
const UP_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Density {
    /// Live instances before the event.
    instances: usize,
    /// The event that ended the round; `None` for the experiment's own limit.
    event: Option<Event>,
    /// Memory of the group before the first instance.
    base: u64,
    /// Instances, bytes used by the group, PSS of the function's processes.
    steps: Vec<(usize, u64, TreeMemory)>,
}

/// A way of running a function in one language.
struct Arm<'a> {
    way: &'a Way,
    language: Language,
    rounds: anyhow::Result<Vec<Density>>,
}

fn function(way: &Way, language: Language) -> &'static str {
    if way.is_wasm() { "pause" } else { language.0 }
}

pub(super) async fn run(run: &mut Run) -> anyhow::Result<Report> {
    check_arms(&run.effort.arms, WAYS.iter().map(|way| way.name))?;
    let quick = run.effort.quick;
    let limit = (at_least_one(run, "memory_mb", 4096.0)? as u64) << 20;
    let most = at_least_one(run, "most", if quick { QUICK_MOST } else { 5000.0 })? as usize;
    let mut report = run.report("fireworks-density");
    let ways: Vec<&Way> = WAYS
        .iter()
        .filter(|way| run.effort.arms.is_empty() || run.effort.arms.iter().any(|name| name == way.name))
        .collect();
    let rounds = run.effort.rounds(1);
    let mut arms: Vec<Arm<'_>> = LANGUAGES
        .into_iter()
        .enumerate()
        .flat_map(|(at, language)| ways.iter().map(move |way| (at, language, *way)))
        // WebAssembly belongs to none of the languages.
        .filter(|(at, _, way)| *at == 0 || !way.is_wasm())
        .map(|(_, language, way)| Arm { way, language, rounds: Ok(Vec::new()) })
        .collect();
    let of_a_round = arms.len();
    for round in 1..=rounds {
        for (at, arm) in arms.iter_mut().enumerate() {
            let Ok(measured) = &mut arm.rounds else { continue };
            let of = format!("{} {}", arm.way.name, function(arm.way, arm.language));
            let name = format!("{of} round {round}");
            run.show(&name, (round - 1) * of_a_round + at, rounds * of_a_round);
            run.look(&name, [name.clone()]).await?;
            let (way, language) = (arm.way, arm.language);
            match run.kept_of(&of, &name, async || fill(run, way, language, limit, most).await).await {
                Ok(density) => measured.push(density),
                Err(error) => arm.rounds = Err(error),
            }
        }
    }
    let mut full = Vec::new();
    for language in LANGUAGES {
        let mut counts = Vec::new();
        for arm in arms.iter().filter(|arm| arm.language.0 == language.0) {
            let function = function(arm.way, language);
            match &arm.rounds {
                Ok(rounds) => {
                    let row = row(arm.way.name, function, rounds);
                    let by_memory = |event: &Event| matches!(event, Event::OutOfMemory | Event::Full);
                    if rounds.iter().all(|density| density.event.as_ref().is_some_and(by_memory)) {
                        full.push((arm.way.name, function));
                        counts.extend(row.instances.map(|count| (arm.way.name, count as f64)));
                    }
                    report.arms.push(row);
                }
                Err(error) => report.arms.push(ArmReport {
                    arm: arm.way.name.to_owned(),
                    function: Some(function.to_owned()),
                    note: Some(format!("unavailable: {error:#}")),
                    ..ArmReport::default()
                }),
            }
        }
        ratios(&mut report, language.0, &counts);
    }
    report.targets = targets(&report, &full);
    report
        .notes
        .push(format!("The server and everything it starts are in one group of {} MiB.", limit >> 20));
    Ok(report)
}

/// Ratios of the numbers of instances, only if memory ended both rounds.
fn ratios(report: &mut Report, function: &str, counts: &[(&str, f64)]) {
    for reference in [SPAWN, CONTAINER] {
        let Some((_, few)) = counts.iter().find(|(name, count)| *name == reference && *count > 0.0) else {
            continue;
        };
        for (name, count) in counts.iter().filter(|(name, _)| *name != reference) {
            report.ratios.insert(format!("{function}: {name} / {reference}, instances"), count / few);
        }
    }
}

/// `full` are the arms and functions that filled the memory.
fn targets(report: &Report, full: &[(&str, &str)]) -> Vec<Target> {
    LANGUAGES.iter().flat_map(|language| promised(report, full, language.0)).collect()
}

/// The promises, without measurements.
pub(super) fn targets_of_nothing() -> Vec<Target> {
    targets(&Report::default(), &[])
}

/// The memory of a clone, compared with a sandbox that has its own runtime and with a container.
fn promised(report: &Report, full: &[(&str, &str)], function: &str) -> Vec<Target> {
    let row = |arm: &str| {
        report.arms.iter().find(|row| row.arm == arm && row.function.as_deref() == Some(function))
    };
    let each = |arm: &str| row(arm).and_then(|row| row.pss_bytes).map(|bytes| bytes as f64);
    let clone = each(CLONE).filter(|bytes| *bytes > 0.0);
    // No more fit, so the minimum does not apply.
    let instances = |arm| row(arm).and_then(|row| row.instances).filter(|_| !full.contains(&(arm, function)));
    let target = |reference| {
        let times = each(reference).zip(clone).map(|(theirs, clone)| theirs / clone);
        let name = format!(
            "{function}: an instance of {reference} takes as many times the memory of one of {CLONE}"
        );
        let holds = Holds::default().of_instances(CROWD, CLONE, instances(CLONE));
        let holds = holds.of_instances(FEW, reference, instances(reference));
        let target = Target::at_least(&name, times, 7.0).of("E5");
        target.about(reference, Some(function)).about(CLONE, Some(function)).unless(holds.unjudged())
    };
    [SPAWN, CONTAINER].map(target).into()
}

async fn fill(run: &Run, way: &Way, language: Language, limit: u64, most: usize) -> anyhow::Result<Density> {
    let scratch = janitor::scratch()?;
    // Declared before the place, and so removed after it.
    let group = Group::make(limit)?;
    let place = Place::open(way, language, &group, scratch.path()).await?;
    run.uses(place.versions())?;
    ensure!(
        group.has(place.pid())?,
        "the server is not in its group: this experiment needs to be run as root"
    );
    let base = group.used()?;
    let mut density = Density { instances: 0, event: None, base, steps: vec![(0, base, place.memory())] };
    let request = place.request(HOLD);
    let mut calls = JoinSet::new();
    while density.instances < most {
        calls.spawn(hold(place.address(), request.clone()));
        density.event = next(&group, &place, density.instances + 1, &mut calls).await?;
        if density.event.is_some() {
            break;
        }
        density.instances += 1;
        // With version 2 of cgroups, runc makes containers beside the group, where its limit does not hold.
        if density.instances == 1
            && let Some(pid) = group.first_outside(place.belongings().pids())
        {
            bail!(
                "process {pid} of the first instance is not in the group, whose limit does not hold for it"
            );
        }
        if density.instances.is_power_of_two()
            || density.instances.is_multiple_of(10)
            || density.instances == most
        {
            density.steps.push((density.instances, group.used()?, place.memory()));
        }
    }
    calls.abort_all();
    Ok(density)
}

/// Makes a call that holds its instance; returns when it ends.
async fn hold(server: SocketAddr, request: HttpRequest) -> String {
    let called = async { HttpClient::connect(server).await?.exchange(&request).await };
    match called.await {
        Ok(answer) => format!("status {}: {}", answer.status, String::from_utf8_lossy(&answer.body)),
        Err(error) => error.to_string(),
    }
}

/// Waits until so many instances are busy, or for the event that exhausts memory.
async fn next(
    group: &Group,
    place: &Place,
    instances: usize,
    calls: &mut JoinSet<String>,
) -> anyhow::Result<Option<Event>> {
    let begin = Instant::now();
    loop {
        if let Some(event) = group.event()? {
            return Ok(Some(event));
        }
        if let Some(ended) = calls.try_join_next() {
            let said = ended.unwrap_or_else(|error| error.to_string());
            // cgroup v1 counts a killed process in its own group, which is the sandbox's and gone.
            let told = if said.contains(EXHAUSTED) {
                Event::OutOfMemory
            } else {
                Event::Failed(said.chars().take(200).collect())
            };
            return Ok(Some(group.event()?.unwrap_or(told)));
        }
        match place.busy().await {
            Ok(busy) if busy >= instances => return Ok(None),
            Ok(_) => {}
            Err(error) => return Ok(Some(Event::Failed(format!("the server does not answer: {error}")))),
        }
        if begin.elapsed() > UP_WITHIN {
            return Ok(Some(Event::Failed(format!("no further instance within {} s", UP_WITHIN.as_secs()))));
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// The medians of all rounds, with the chart of the middle one.
fn row(arm: &str, function: &str, rounds: &[Density]) -> ArmReport {
    let mut rounds: Vec<&Density> = rounds.iter().collect();
    rounds.sort_by_key(|density| density.instances);
    let Some(middle) = rounds.get(rounds.len().saturating_sub(1) / 2) else { return ArmReport::default() };
    let each = |pick: fn(&TreeMemory) -> u64| {
        let lasts = rounds.iter().filter_map(|density| density.steps.last().filter(|step| step.0 > 0));
        let bytes: Vec<f64> = lasts.map(|(instances, _, all)| pick(all) as f64 / *instances as f64).collect();
        median(&bytes).map(|bytes| bytes as u64)
    };
    let counts: Vec<f64> = rounds.iter().map(|density| density.instances as f64).collect();
    let series = middle.steps.iter().map(|(instances, used, _)| Point {
        at_s: *instances as f64,
        memory_bytes: Some(*used),
        ..Point::default()
    });
    let ended = match &middle.event {
        None => "the experiment's own bound: raise it with --set most=N".to_owned(),
        Some(event) => event.to_string(),
    };
    let all = match rounds.len() {
        1 => String::new(),
        rounds => {
            let counts: Vec<_> = counts.iter().map(f64::to_string).collect();
            format!("; the medians of {rounds} rounds, with {} instances", counts.join(", "))
        }
    };
    ArmReport {
        arm: arm.to_owned(),
        function: Some(function.to_owned()),
        n: Some(rounds.len() as u64).filter(|n| *n > 1),
        instances: median(&counts).map(|count| count as u64),
        pss_bytes: each(|memory| memory.pss),
        private_bytes: each(|memory| memory.private),
        rss_bytes: each(|memory| memory.rss),
        series: series.collect(),
        axis: Axis::Instances,
        note: Some(format!(
            "ended by {ended}; {} MiB used before the first instance{all}",
            middle.base >> 20
        )),
        ..ArmReport::default()
    }
}

#[cfg(test)]
mod tests {
    use flint_lab::Unjudged;

    use super::*;

    #[test]
    fn memory_is_that_of_one_instance_and_compared_with_both_kinds_of_containers() {
        let memory = TreeMemory { rss: 900, pss: 300, private: 90 };
        let density = Density {
            instances: 3,
            event: Some(Event::OutOfMemory),
            base: 0,
            steps: vec![(0, 0, TreeMemory::default()), (3, 10, memory)],
        };
        let container = row(CONTAINER, "wait-node", std::slice::from_ref(&density));
        let seen = (container.instances, container.pss_bytes, container.private_bytes);
        assert_eq!(seen, (Some(3), Some(100), Some(30)));
        assert!(container.note.as_ref().unwrap().contains("ended by a process that the kernel ended"));
        let none = Density { instances: 0, event: None, base: 0, steps: vec![(0, 0, TreeMemory::default())] };
        assert_eq!(row("a", "f", &[none]).pss_bytes, None);
        let mut report = Report::default();
        ratios(&mut report, "wait-node", &[(CONTAINER, 3.0), (CLONE, 6.0)]);
        assert_eq!(report.ratios["wait-node: fork-never / openwhisk, instances"], 2.0);
    }

    #[test]
    fn e5_is_judged_by_hundreds_or_by_as_many_as_fill_the_memory() {
        let judged = |clones: usize, containers: usize, full: &[&str]| {
            let row = |arm: &str, instances: usize, each: u64| {
                let memory = TreeMemory { pss: each * instances as u64, ..TreeMemory::default() };
                let steps = vec![(instances, 10, memory)];
                row(arm, "wait-node", &[Density { instances, event: None, base: 0, steps }])
            };
            let arms = vec![row(CONTAINER, containers, 100), row(CLONE, clones, 5)];
            let full: Vec<_> = full.iter().map(|arm| (*arm, "wait-node")).collect();
            let report = Report { arms, ..Report::default() };
            let [spawned, container]: [Target; 2] = promised(&report, &full, "wait-node").try_into().unwrap();
            assert_eq!(spawned.value, None, "nobody measured it");
            (container.value, container.met, container.unjudged)
        };
        let met = (Some(20.0), Some(true), None);
        assert_eq!(judged(500, 100, &[]), met);
        assert_eq!(judged(300, 50, &[CLONE, CONTAINER]), met);
        // A handful of clones shares next to nothing.
        for (clones, containers, full, why) in [
            (499, 100, CONTAINER, "500 instances or more, and there were 499 of fork-never"),
            (500, 99, CLONE, "100 instances or more, and there were 99 of openwhisk"),
        ] {
            let why = Some(Unjudged::NotMeasured(format!("it is promised of {why}")));
            assert_eq!(judged(clones, containers, &[full]), (None, None, why));
        }
    }

    #[test]
    fn of_several_rounds_the_medians_are_shown() {
        let round = |instances: usize, pss| Density {
            instances,
            event: Some(Event::OutOfMemory),
            base: 0,
            steps: vec![(instances, 10, TreeMemory { pss, ..TreeMemory::default() })],
        };
        let row = row("a", "f", &[round(10, 1000), round(30, 1200), round(20, 4000)]);
        assert_eq!((row.n, row.instances, row.pss_bytes), (Some(3), Some(20), Some(100)));
        assert_eq!((row.series[0].at_s, row.axis), (20.0, Axis::Instances));
        assert!(row.note.unwrap().ends_with("the medians of 3 rounds, with 10, 20, 30 instances"));
    }
}
