//! `fireworks-density`: how many instances of one function live in so much memory. Identical instances are started one after the other,
//! each holding a call, until the kernel has nothing left to give.

mod group;
mod place;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::ensure;
use flint_lab::{ArmReport, HttpClient, HttpRequest, Point, Report, Target, TreeMemory};
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
    janitor,
    run::Run,
};

/// In which language a function waits.
type Language = (&'static str, &'static str, &'static str);
const LANGUAGES: [Language; 2] = [("wait-node", "nodejs", WAIT_NODE), ("wait-python", "python", WAIT_PYTHON)];
/// A call holds its instance this long, a little less than a function may take.
const HOLD: Duration = Duration::from_secs(290);
/// How Flint says that the kernel ended an instance for want of memory.
const EXHAUSTED: &str = "exhausted its memory";
/// An instance that has not come up by then does not: the machine is at its end.
const UP_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Density {
    /// Instances that lived at once before the event.
    instances: usize,
    /// What ended it; nothing when the experiment's own bound did.
    event: Option<Event>,
    /// Used by the group before the first instance.
    base: u64,
    /// Instances, bytes used by the group, PSS of what belongs to the function.
    steps: Vec<(usize, u64, TreeMemory)>,
}

pub(super) async fn run(run: &mut Run) -> anyhow::Result<Report> {
    check_arms(&run.effort.arms, WAYS.iter().map(|way| way.name))?;
    let quick = run.effort.quick;
    let limit = (at_least_one(run, "memory_mb", 4096.0)? as u64) << 20;
    let most = at_least_one(run, "most", if quick { 40.0 } else { 5000.0 })? as usize;
    let mut report = run.report("fireworks-density");
    let ways: Vec<&Way> = WAYS
        .iter()
        .filter(|way| run.effort.arms.is_empty() || run.effort.arms.iter().any(|name| name == way.name))
        .collect();
    let steps = LANGUAGES.len() * ways.len();
    for (at, language) in LANGUAGES.into_iter().enumerate() {
        let mut counts = Vec::new();
        for (step, way) in ways.iter().enumerate() {
            let function = if way.is_wasm() { "pause" } else { language.0 };
            // It is not of any of the languages.
            if way.is_wasm() && at > 0 {
                continue;
            }
            let name = format!("{} {function}", way.name);
            run.show(&name, at * ways.len() + step, steps);
            run.look(&name, [name.clone()]).await?;
            let measured = run.kept(&name, async || fill(way, language, limit, most).await).await;
            match measured {
                Ok(density) => {
                    report.arms.push(row(way.name, function, &density));
                    if density.event.is_some() {
                        counts.push((way.name, density.instances as f64));
                    }
                }
                Err(error) => report.arms.push(ArmReport {
                    arm: way.name.to_owned(),
                    function: Some(function.to_owned()),
                    note: Some(format!("unavailable: {error:#}")),
                    ..ArmReport::default()
                }),
            }
        }
        ratios(&mut report, language.0, &counts);
    }
    report.targets = targets(&report);
    report
        .notes
        .push(format!("The server and everything it starts are in one group of {} MiB.", limit >> 20));
    Ok(report)
}

/// How many live in the same memory; only where memory ended both.
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

fn targets(report: &Report) -> Vec<Target> {
    LANGUAGES.iter().flat_map(|language| promised(report, language.0)).collect()
}

/// What is promised, of nothing that was measured.
#[cfg(test)]
pub(super) fn targets_of_nothing() -> Vec<Target> {
    targets(&Report::default())
}

/// What a clone takes, beside a sandbox with a runtime of its own and a container.
fn promised(report: &Report, function: &str) -> Vec<Target> {
    let each = |arm: &str| {
        let row = report.arms.iter().find(|row| row.arm == arm && row.function.as_deref() == Some(function));
        row.and_then(|row| row.pss_bytes).map(|bytes| bytes as f64)
    };
    let clone = each(CLONE).filter(|bytes| *bytes > 0.0);
    let target = |reference| {
        let times = each(reference).zip(clone).map(|(theirs, clone)| theirs / clone);
        let name = format!(
            "{function}: an instance of {reference} takes as many times the memory of one of {CLONE}"
        );
        Target::at_least(&name, times, 7.0).of("E5")
    };
    [SPAWN, CONTAINER].map(target).into()
}

async fn fill(way: &Way, language: Language, limit: u64, most: usize) -> anyhow::Result<Density> {
    let scratch = janitor::scratch()?;
    // Declared before the place, and so removed after it.
    let group = Group::make(limit)?;
    let place = Place::open(way, language, &group, scratch.path()).await?;
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

/// A call that keeps its instance; that it ends is what is noticed.
async fn hold(server: SocketAddr, request: HttpRequest) -> String {
    let called = async { HttpClient::connect(server).await?.exchange(&request).await };
    match called.await {
        Ok(answer) => format!("status {}: {}", answer.status, String::from_utf8_lossy(&answer.body)),
        Err(error) => error.to_string(),
    }
}

/// Waits until so many instances are busy; the event when memory ends before.
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
            // Version 1 counts a process that it ended in the group of that process, which is the sandbox's and gone.
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

fn row(arm: &str, function: &str, density: &Density) -> ArmReport {
    let last = density.steps.last().filter(|step| step.0 > 0);
    let each = |bytes: u64| last.map(|step| bytes / step.0 as u64);
    let series = density.steps.iter().map(|(instances, used, _)| Point {
        // Of this picture the axis is instances.
        at_s: *instances as f64,
        memory_bytes: Some(*used),
        ..Point::default()
    });
    let ended = match &density.event {
        None => "the experiment's own bound: raise it with --set most=N".to_owned(),
        Some(event) => event.to_string(),
    };
    ArmReport {
        arm: arm.to_owned(),
        function: Some(function.to_owned()),
        instances: Some(density.instances as u64),
        pss_bytes: last.and_then(|step| each(step.2.pss)),
        private_bytes: last.and_then(|step| each(step.2.private)),
        rss_bytes: last.and_then(|step| each(step.2.rss)),
        series: series.collect(),
        note: Some(format!(
            "ended by {ended}; {} MiB used before the first instance; over-time pictures count instances",
            density.base >> 20
        )),
        ..ArmReport::default()
    }
}

#[cfg(test)]
mod tests {
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
        let container = row(CONTAINER, "wait-node", &density);
        let seen = (container.instances, container.pss_bytes, container.private_bytes);
        assert_eq!(seen, (Some(3), Some(100), Some(30)));
        assert!(container.note.as_ref().unwrap().contains("ended by a process that the kernel ended"));
        let none = Density { instances: 0, event: None, base: 0, steps: vec![(0, 0, TreeMemory::default())] };
        assert_eq!(row("a", "f", &none).pss_bytes, None);
        let small = TreeMemory { pss: 30, ..memory };
        let clone = Density { instances: 6, steps: vec![(6, 10, small)], ..density };
        let mut report =
            Report { arms: vec![container, row(CLONE, "wait-node", &clone)], ..Report::default() };
        let met: Vec<_> = promised(&report, "wait-node").iter().map(|one| (one.value, one.met)).collect();
        assert_eq!(met, [(None, None), (Some(20.0), Some(true))]);
        ratios(&mut report, "wait-node", &[(CONTAINER, 3.0), (CLONE, 6.0)]);
        assert_eq!(report.ratios["wait-node: fork-never / openwhisk, instances"], 2.0);
    }
}
