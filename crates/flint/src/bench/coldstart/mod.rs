//! `coldstart`: the cost of a call that needs a new instance, by how the instance is made; docs/benchmarks.md
//! describes the arms.

mod deploy;
mod figures;
mod memory;
mod numba;
mod rate;
mod rounds;
mod series;
mod way;
mod workload;

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use flint_lab::{ArmReport, Report, Unjudged};
use indicatif::ProgressBar;

pub(super) use self::memory::{WAIT_NODE, WAIT_PYTHON};
use self::{
    deploy::{Stage, shim_argv},
    figures::{Measured, memory_arm, rate_arm},
    memory::Held,
    rate::Rate,
    rounds::{Cell, Target},
    way::{
        FORK_NEVER, FORK_WARM, PROCESS, SMALL_PAGES, SPAWN_NEVER, STANDBY, Selection, UNWARMED, WAYS, Way,
    },
    workload::{Language, Sizes, Source, Workload},
};
use super::{Effort, Run, asked::numbers, janitor, run::show};

struct Scale {
    sizes: Sizes,
    rounds: usize,
    live: Vec<usize>,
    concurrency: &'static [usize],
    rate_rounds: usize,
    rate_for: Duration,
}

impl Scale {
    fn of(effort: &Effort) -> anyhow::Result<Self> {
        let (scale, live) = if effort.quick {
            let scale = Self {
                sizes: Sizes::QUICK,
                // Each has one call after a rest.
                rounds: 6,
                live: Vec::new(),
                concurrency: &[1, 4],
                rate_rounds: 1,
                rate_for: Duration::from_millis(700),
            };
            (scale, "1,20")
        } else {
            let scale = Self {
                sizes: Sizes::FULL,
                rounds: 30,
                live: Vec::new(),
                concurrency: &[1, 2, 4, 8, 16, 32],
                rate_rounds: 5,
                rate_for: Duration::from_secs(2),
            };
            (scale, "1,20,100,500")
        };
        let live = numbers("live", effort.set.get("live").map_or(live, String::as_str))?;
        let sizes = effort.set.get("sizes").map_or(Ok(scale.sizes), |name| Sizes::named(name))?;
        Ok(Self { sizes, rounds: effort.rounds(scale.rounds), live, ..scale })
    }
}

/// Ways whose memory is measured with live instances.
const MEMORY: [&str; 5] = [PROCESS, SPAWN_NEVER, UNWARMED, SMALL_PAGES, FORK_NEVER];
/// Ways that are driven in a closed loop.
const RATES: [&str; 4] = [SPAWN_NEVER, FORK_NEVER, STANDBY, FORK_WARM];
const RATE_FUNCTIONS: [&str; 2] = ["empty-node", "empty-python"];
/// Maximum number of processes that do not share their memory.
const MOST_SPAWNED: usize = 100;
/// The kernel takes a moment to end hundreds of processes; the host is probed after that.
const AT_REST: Duration = Duration::from_secs(1);

pub(super) async fn run(run: &mut Run) -> anyhow::Result<Report> {
    let scale = Scale::of(&run.effort)?;
    let samples = workload::samples();
    let workloads = workload::all(scale.sizes, samples.as_deref());
    let waiting = waiting();
    let selection = Selection::new(&run.effort.arms, &known(&workloads, &waiting))?;
    let scratch = janitor::scratch()?;
    let mut stage = Stage::new(scratch.path(), samples);
    let bar = run.bar.clone();
    let show = |name: &str, done: usize, steps: usize| show(&bar, name, done, steps);

    let mut cells = cells(&mut stage, &workloads, &selection, &bar).await;
    rounds::run(&mut cells, scale.rounds, &run.folder, &mut run.noise, &show).await?;
    let mut rates = rates(&mut stage, &workloads, &selection, &scale, &bar).await;
    rate::run(&mut rates, scale.rate_rounds, scale.rate_for, run, &show).await?;
    // The servers of the calls keep zygotes, which must not be there when memory is measured.
    stage.clear();
    let mut memory = memories(&mut stage, &waiting, &selection, &scale, run).await?;
    stage.clear();
    let mut notes = BTreeSet::new();
    if run.effort.despite_noise {
        let of_rates = rates.iter_mut().map(|rate| &mut rate.spoilt);
        let spoilt = of_rates.chain(memory.iter_mut().map(|memory| &mut memory.spoilt));
        notes.extend(spoilt.filter_map(Option::take).map(|why| format!("{why}; judged all the same")));
    }

    let mut arms: Vec<ArmReport> = cells
        .iter()
        .flat_map(|cell| {
            cell.way
                .arms()
                .filter(|arm| selection.has(arm, cell.workload.name))
                .map(|arm| cell_report(cell, arm))
                .collect::<Vec<_>>()
        })
        .collect();
    arms.extend(rates.iter().map(Rate::report));
    arms.extend(memory.iter().map(Memory::report));
    let measured = Measured { sizes: scale.sizes, cells: &cells, memory: &memory, rates: &rates };
    let (ratios, targets, comparisons) = (measured.ratios(), measured.targets(), measured.comparisons());
    let notes = notes.into_iter().collect();
    Ok(Report { arms, ratios, targets, comparisons, notes, ..run.report("coldstart") })
}

/// The promises, without measurements.
pub(super) fn targets_of_nothing() -> Vec<flint_lab::Target> {
    Measured { sizes: Sizes::FULL, cells: &[], memory: &[], rates: &[] }.targets()
}

fn unavailable(arm: &str, function: &str, concurrency: Option<usize>, why: &str) -> ArmReport {
    ArmReport {
        arm: arm.to_owned(),
        function: Some(function.to_owned()),
        concurrency,
        note: Some(format!("unavailable: {why}")),
        ..ArmReport::default()
    }
}

fn cell_report(cell: &Cell, arm: &str) -> ArmReport {
    match (&cell.target, cell.series(arm)) {
        (Err(why), _) => unavailable(arm, cell.workload.name, Some(1), why),
        (Ok(_), Some(series)) if series.quantile_us(0.5).is_some() => series.report(arm, cell.workload.name),
        (Ok(_), Some(_)) if cell.way.cold == Some(arm) => unavailable(
            arm,
            cell.workload.name,
            Some(1),
            "no call was cold: its instance stayed beyond its time",
        ),
        (Ok(_), _) => unavailable(arm, cell.workload.name, Some(1), "nothing was measured"),
    }
}

/// Functions that wait for a given time.
fn waiting() -> Vec<Workload> {
    [("wait-node", Language::Node, WAIT_NODE), ("wait-python", Language::Python, WAIT_PYTHON)]
        .into_iter()
        .map(|(name, language, source)| Workload {
            name,
            language,
            source: Source::Text(source),
            kernel: "",
            body: br#"{"ms":1}"#.to_vec(),
            content_type: "application/json",
            calls: 1,
            check: std::sync::Arc::new(|body| body == b"{}"),
        })
        .collect()
}

/// All arms, with each of their functions.
fn known(workloads: &[Workload], waiting: &[Workload]) -> Vec<(String, &'static str)> {
    let mut known = Vec::new();
    for workload in workloads {
        for way in WAYS.iter().filter(|way| way.suits(workload.name, workload.language)) {
            known.extend(way.arms().map(|arm| (arm.to_owned(), workload.name)));
        }
    }
    for way in RATES {
        known.extend(RATE_FUNCTIONS.map(|function| (rate_arm(way), function)));
    }
    for way in MEMORY {
        known.extend(waiting.iter().map(|workload| (memory_arm(way), workload.name)));
    }
    known
}

/// The cells of single calls, deployed. Those that cannot be deployed have the reason.
async fn cells(
    stage: &mut Stage,
    workloads: &[Workload],
    selection: &Selection,
    bar: &ProgressBar,
) -> Vec<Cell> {
    let mut wanted = Vec::new();
    for workload in workloads {
        for way in WAYS.iter().filter(|way| way.suits(workload.name, workload.language)) {
            if way.arms().any(|arm| selection.has(arm, workload.name)) {
                wanted.push((way, workload));
            }
        }
    }
    let mut cells = Vec::new();
    for (at, (way, workload)) in wanted.iter().enumerate() {
        show(bar, &format!("deploying {} {}", way.name, workload.name), at, wanted.len());
        let target = match way.start {
            None => process(stage, way, workload, "calls").await,
            Some(_) => stage
                .deploy(way, workload, "calls")
                .await
                .map(|(server, name)| Cell::target(server, &name, workload)),
        };
        cells.push(Cell::new(way, (*workload).clone(), target));
    }
    cells
}

async fn process(
    stage: &mut Stage,
    way: &Way,
    workload: &Workload,
    purpose: &'static str,
) -> anyhow::Result<Target> {
    let code = stage.code(way, workload)?;
    let argv = shim_argv(stage.server(way.setting, purpose).await?, workload.language)?;
    Ok(Target::Process { argv, code })
}

async fn rates(
    stage: &mut Stage,
    workloads: &[Workload],
    selection: &Selection,
    scale: &Scale,
    bar: &ProgressBar,
) -> Vec<Rate> {
    let mut rates = Vec::new();
    for way in RATES.iter().filter_map(|name| Way::named(name)) {
        let arm = rate_arm(way.name);
        for workload in workloads {
            if !RATE_FUNCTIONS.contains(&workload.name) || !selection.has(&arm, workload.name) {
                continue;
            }
            show(bar, &format!("deploying {arm} {}", workload.name), 0, 1);
            let deployed = stage.deploy(way, workload, "calls").await.map_err(|error| format!("{error:#}"));
            for &concurrency in scale.concurrency {
                rates.push(Rate::new(arm.clone(), workload, deployed.clone(), concurrency));
            }
        }
    }
    rates
}

/// The memory of a number of instances of a function.
struct Memory {
    way: &'static Way,
    function: &'static str,
    live: usize,
    held: anyhow::Result<Held>,
    /// Why it is not judged: the host was noisy meanwhile.
    spoilt: Option<Unjudged>,
}

impl Memory {
    /// The key of its result and of the probes around it.
    fn key(way: &Way, function: &str, live: usize) -> String {
        format!("{} {function} × {live}", memory_arm(way.name))
    }

    fn report(&self) -> ArmReport {
        let arm = memory_arm(self.way.name);
        match &self.held {
            Ok(held) => held.report(&arm, self.function),
            Err(error) => unavailable(&arm, self.function, Some(self.live), &format!("{error:#}")),
        }
    }
}

async fn memories(
    stage: &mut Stage,
    waiting: &[Workload],
    selection: &Selection,
    scale: &Scale,
    run: &mut Run,
) -> anyhow::Result<Vec<Memory>> {
    let mut memories = Vec::new();
    for way in MEMORY.iter().filter_map(|name| Way::named(name)) {
        let arm = memory_arm(way.name);
        for workload in waiting.iter().filter(|workload| selection.has(&arm, workload.name)) {
            for &live in scale.live.iter().filter(|live| way.is_fork() || **live <= MOST_SPAWNED) {
                let key = Memory::key(way, workload.name, live);
                run.show(&key, 0, 1);
                run.look(&key, [key.clone()]).await?;
                let held = run
                    .kept_of(&key, &key, async || {
                        let held = memory(stage, way, workload, live).await;
                        tokio::time::sleep(AT_REST).await;
                        held
                    })
                    .await;
                memories.push(Memory { way, function: workload.name, live, held, spoilt: None });
            }
        }
    }
    // The last one has a probe after it too.
    run.noise.end().await?;
    for memory in &mut memories {
        let key = Memory::key(memory.way, memory.function, memory.live);
        memory.spoilt = run.noise.spoilt(&key).map(|why| Unjudged::Noise(format!("{key}: {why}")));
    }
    Ok(memories)
}

async fn memory(stage: &mut Stage, way: &Way, workload: &Workload, live: usize) -> anyhow::Result<Held> {
    let Some(_) = way.start else {
        let Target::Process { argv, code } = process(stage, way, workload, "memory").await? else {
            anyhow::bail!("an unsandboxed process has a command line");
        };
        return memory::processes(&argv, code, live).await;
    };
    let (address, function): (SocketAddr, String) = stage.deploy(way, workload, "memory").await?;
    let pid = stage.server(way.setting, "memory").await?.pid();
    memory::held(address, pid, &function, live, way.is_fork()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Exit, Failure};

    #[test]
    fn every_arm_of_the_issue_is_there_for_every_function() {
        let workloads = workload::all(Sizes::QUICK, None);
        let waiting = waiting();
        let known = known(&workloads, &waiting);
        let has = |arm: &str, function: &str| known.iter().any(|(name, of)| name == arm && *of == function);
        for workload in &workloads {
            for arm in
                ["spawn-never", "spawn-warm-cold", "spawn-warm", "fork-never", "fork-warm-cold", "fork-warm"]
            {
                assert!(has(arm, workload.name), "{arm} {}", workload.name);
            }
        }
        assert!(has("fork-never-standby", "empty-node") && !has("fork-never-standby", "fact-node"));
        assert!(has("process", "fact-python") && !has("process", "fact-numba"));
        assert!(has("memory-fork-never", "wait-node") && has("rate-fork-never", "empty-python"));
    }

    #[test]
    fn sizes_are_chosen_by_name_and_those_of_a_quick_run_are_quick() {
        let sizes = |quick, name: Option<&str>| {
            let effort = Effort {
                quick,
                size: crate::bench::Size::Small,
                arms: Vec::new(),
                repeat: None,
                seed: 1,
                set: name.map(|name| ("sizes".to_owned(), name.to_owned())).into_iter().collect(),
                out: None,
                despite_noise: false,
            };
            Scale::of(&effort).map(|scale| scale.sizes)
        };
        assert_eq!(sizes(true, None).unwrap(), Sizes::QUICK);
        assert_eq!(sizes(false, None).unwrap(), Sizes::FULL);
        assert_eq!(sizes(true, Some("full")).unwrap(), Sizes::FULL);
        assert_eq!(sizes(false, Some("quick")).unwrap(), Sizes::QUICK);
        let refused = sizes(true, Some("small")).unwrap_err().downcast::<Failure>().unwrap();
        assert_eq!(
            (refused.exit, &*refused.message),
            (Exit::Usage, "--set sizes=small: it is full or quick")
        );
    }

    #[test]
    fn an_arm_that_cannot_be_measured_says_why() {
        let way = Way::named(FORK_NEVER).unwrap();
        let workload = workload::all(Sizes::QUICK, None).remove(0);
        let cell = Cell::new(way, workload, Err(anyhow::anyhow!("no pip")));
        let report = serde_json::to_value(cell_report(&cell, FORK_NEVER)).unwrap();
        let expected = serde_json::json!({
            "arm": "fork-never", "function": "empty-node", "concurrency": 1, "note": "unavailable: no pip",
        });
        assert_eq!(report, expected);
    }
}
