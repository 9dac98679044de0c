//! `fireworks-density`: how many instances of one function live in so much memory. Identical instances are started one after the other,
//! each holding a call, until the kernel has nothing left to give.

mod group;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use flint_lab::{ArmReport, HttpClient, HttpRequest, Point, ProcessTree, Report, TreeMemory, memory_of};
use serde::{Deserialize, Serialize};
use tokio::{task::JoinSet, time::sleep};

use self::group::{Event, Group};
use super::{
    caller::post,
    coldstart::{WAIT_NODE, WAIT_PYTHON},
    overhead::python_kind,
    run::Run,
    server::{Server, metric},
};

/// An arm: its name, `--start`, and whether the function was called before its snapshot was taken.
type Way = (&'static str, &'static str, bool);
const WAYS: [Way; 3] =
    [("container", "spawn", false), ("snapshot-loaded", "fork", false), ("snapshot-compiled", "fork", true)];
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
    if let Some(unknown) = run.effort.arms.iter().find(|asked| !WAYS.iter().any(|way| way.0 == **asked)) {
        bail!("there is no arm '{unknown}': choose from container, snapshot-loaded, snapshot-compiled");
    }
    let number = |name: &str, usual: u64| match run.effort.set.get(name) {
        None => Ok(usual),
        Some(text) => text.parse().with_context(|| format!("--set {name}={text} is not a number")),
    };
    let limit = number("memory_mb", if run.effort.quick { 512 } else { 4096 })? << 20;
    let most = number("most", if run.effort.quick { 12 } else { 5000 })? as usize;
    let mut report = run.report("fireworks-density");
    let languages = [("wait-node", "nodejs", WAIT_NODE), ("wait-python", "python", WAIT_PYTHON)];
    let ways: Vec<Way> = WAYS
        .into_iter()
        .filter(|way| run.effort.arms.is_empty() || run.effort.arms.iter().any(|name| name == way.0))
        .collect();
    let steps = languages.len() * ways.len();
    for (at, (function, kind, code)) in languages.into_iter().enumerate() {
        let mut counts = Vec::new();
        for (step, way) in ways.iter().enumerate() {
            let name = format!("{} {function}", way.0);
            run.show(&name, at * ways.len() + step, steps);
            run.noise.look().await;
            let measured =
                run.kept(&name, async || fill(*way, (function, kind, code), limit, most).await).await;
            match measured {
                Ok(density) => {
                    report.arms.push(row(way.0, function, &density));
                    if density.event.is_some() {
                        counts.push((way.0, density.instances as f64));
                    }
                }
                Err(error) => report.arms.push(ArmReport {
                    arm: way.0.to_owned(),
                    function: Some(function.to_owned()),
                    note: Some(format!("unavailable: {error:#}")),
                    ..ArmReport::default()
                }),
            }
        }
        if let Some((_, container)) = counts.iter().find(|(name, count)| *name == "container" && *count > 0.0)
        {
            for (name, count) in counts.iter().filter(|(name, _)| *name != "container") {
                report.ratios.insert(format!("{function}: {name} / container, instances"), count / container);
            }
        }
    }
    report
        .notes
        .push(format!("The server and everything it starts are in one group of {} MiB.", limit >> 20));
    Ok(report)
}

async fn fill(
    (_, start, warmed_up): Way,
    (function, kind, code): (&str, &str, &str),
    limit: u64,
    most: usize,
) -> anyhow::Result<Density> {
    let scratch = tempfile::tempdir().context("making a scratch directory")?;
    // Declared before the server, and so removed after it.
    let group = Group::make(limit)?;
    let settings =
        [("FLINT_POOL__MEMORY", "1024GB"), ("FLINT_POOL__PREWARM", "0"), ("FLINT_SNAPSHOT__STANDBYS", "0")];
    let server = Server::start_in(scratch.path(), &settings, Some(group.folder())).await?;
    let before: Vec<u32> = ProcessTree::new(server.pid()).pids();
    let file = scratch.path().join(if kind == "python" { "wait.py" } else { "wait.js" });
    std::fs::write(&file, code).context("writing the function")?;
    let event = scratch.path().join("event.json");
    std::fs::write(&event, r#"{"ms":1}"#).context("writing the warm-up event")?;
    let kind = if kind == "python" { python_kind()? } else { kind.to_owned() };
    let event = if warmed_up { event.display().to_string() } else { "none".to_owned() };
    let reuse = if start == "fork" { "never" } else { "warm" };
    let mut options =
        vec!["--start", start, "--reuse", reuse, "--memory", "256", "--timeout", "300s", "--kind", &kind];
    if start == "fork" {
        options.extend(["--warmup", event.as_str()]);
    }
    server.deploy(&file, function, &options)?;
    ensure!(
        group.has(server.pid())?,
        "the server is not in its group: this experiment needs to be run as root"
    );

    let memory = || -> TreeMemory {
        let pids = ProcessTree::new(server.pid()).pids();
        pids.into_iter().filter(|pid| !before.contains(pid)).map(memory_of).sum()
    };
    let base = group.used()?;
    let mut density = Density { instances: 0, event: None, base, steps: vec![(0, base, memory())] };
    let body = format!(r#"{{"ms":{}}}"#, HOLD.as_millis());
    let mut calls = JoinSet::new();
    while density.instances < most {
        let request = post(server.address, function, "application/json", body.as_bytes());
        calls.spawn(hold(server.address, request));
        density.event = next(&group, server.address, density.instances + 1, &mut calls).await?;
        if density.event.is_some() {
            break;
        }
        density.instances += 1;
        if density.instances.is_power_of_two()
            || density.instances.is_multiple_of(10)
            || density.instances == most
        {
            density.steps.push((density.instances, group.used()?, memory()));
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
    server: SocketAddr,
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
        match metric(server, r#"flint_instances{state="busy"}"#).await {
            Ok(busy) if busy as usize >= instances => return Ok(None),
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
    fn memory_is_that_of_one_instance() {
        let memory = TreeMemory { rss: 900, pss: 300, private: 90 };
        let density = Density {
            instances: 3,
            event: Some(Event::OutOfMemory),
            base: 0,
            steps: vec![(0, 0, TreeMemory::default()), (3, 10, memory)],
        };
        let row = row("container", "wait-node", &density);
        assert_eq!((row.instances, row.pss_bytes, row.private_bytes), (Some(3), Some(100), Some(30)));
        assert!(row.note.unwrap().contains("ended by a process that the kernel ended"));
        let none = Density { instances: 0, event: None, base: 0, steps: vec![(0, 0, TreeMemory::default())] };
        assert_eq!(super::row("a", "f", &none).pss_bytes, None);
    }
}
