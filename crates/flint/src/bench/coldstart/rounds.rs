//! Measures the arms of single calls one after the other in each round, so that changes of the machine affect
//! all of them alike.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use flint_lab::{Arm as _, HttpRequest, NoiseWatch, RunFolder};
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::{
    series::Series,
    way::{STANDBY, Way},
    workload::Workload,
};
use crate::bench::{
    caller::{Called, Caller},
    server::metric,
    shim_link::ShimArm,
};

/// Keep-alive of idle instances: the warm arms begin each round without one.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Time until an idle instance is gone: they are looked for every quarter of the keep-alive, and take a
/// moment to stop. Arms whose instances do not stay rest as long, so that caches and clocks are in the same
/// state.
const GONE_AFTER: Duration = Duration::from_millis(1600);
/// Attempts at a call that should be cold.
const COLD_TRIES: u32 = 3;
/// The interval of calls at which a standby clone is kept ready.
const RHYTHM: Duration = Duration::from_millis(30);
/// Calls of a round until Flint has learnt that interval.
const LEARNING: usize = 10;

/// How a call is made.
pub(super) enum Target {
    /// Through a server.
    Flint { caller: Caller, request: HttpRequest },
    /// In a process of its own, driven over its link.
    Process { argv: Vec<String>, code: PathBuf },
}

/// One function, brought up in one way.
pub(super) struct Cell {
    pub(super) way: &'static Way,
    pub(super) workload: Workload,
    pub(super) target: Result<Target, String>,
    /// Calls after a rest that had to wait for an instance; for the standby's interval, all calls.
    pub(super) cold: Series,
    /// Calls right after another one, each of which makes an instance.
    pub(super) next: Series,
    /// Calls that found an instance.
    pub(super) warm: Series,
    /// Starts of counted calls from a standby clone, and all starts, by the server's metrics.
    pub(super) standby_starts: (f64, f64),
    last: Option<Instant>,
}

impl Cell {
    pub(super) fn new(way: &'static Way, workload: Workload, target: anyhow::Result<Target>) -> Self {
        let target = target.map_err(|error| format!("{error:#}"));
        Self {
            way,
            workload,
            target,
            cold: Series::default(),
            next: Series::default(),
            warm: Series::default(),
            standby_starts: (0.0, 0.0),
            last: None,
        }
    }

    pub(super) fn target(server: std::net::SocketAddr, function: &str, workload: &Workload) -> Target {
        Target::Flint { caller: Caller::new(server), request: workload.request(server, function) }
    }

    /// The series measured as `arm`.
    pub(super) fn series(&self, arm: &str) -> Option<&Series> {
        match self.way.cold {
            Some(cold) if arm == cold => Some(&self.cold),
            Some(_) if arm == self.way.name => Some(&self.warm),
            None if arm == self.way.name => Some(&self.cold),
            None if self.way.next == Some(arm) => Some(&self.next),
            _ => None,
        }
    }

    /// Makes its calls of one round.
    async fn visit(&mut self) -> anyhow::Result<Round> {
        let mut round = Round::default();
        round.cold.begin_round();
        round.next.begin_round();
        round.warm.begin_round();
        let made = match &mut self.target {
            Err(_) => Ok(()),
            Ok(Target::Process { argv, code }) => {
                rest(self.last).await;
                processes(argv, code, &self.workload, &mut round).await
            }
            Ok(Target::Flint { caller, request }) => {
                let mut calls = Calls { caller, request, workload: &self.workload };
                match (self.way.cold, self.way.name) {
                    (Some(_), _) => calls.cold_then_warm(self.last, &mut round.cold, &mut round.warm).await,
                    (None, STANDBY) => {
                        calls.in_rhythm(&mut round.cold).await.map(|starts| round.standby_starts = starts)
                    }
                    _ => {
                        rest(self.last).await;
                        calls.cold(&mut round).await
                    }
                }
            }
        };
        self.last = Some(Instant::now());
        made.map(|()| round)
    }

    /// Makes its calls of one round; `None` if it has failed, now or earlier.
    async fn measure(&mut self, folder: &RunFolder) -> anyhow::Result<Option<Round>> {
        if self.target.is_err() {
            return Ok(None);
        }
        match self.visit().await {
            Ok(round) => Ok(Some(round)),
            Err(error) => {
                let why = format!("{error:#}");
                folder.fail(&self.name(), &why)?;
                self.target = Err(why);
                Ok(None)
            }
        }
    }

    fn take(&mut self, round: Round) {
        self.cold.append(round.cold);
        self.next.append(round.next);
        self.warm.append(round.warm);
        self.standby_starts.0 += round.standby_starts.0;
        self.standby_starts.1 += round.standby_starts.1;
    }

    fn name(&self) -> String {
        format!("{} {}", self.way.name, self.workload.name)
    }

    fn key(&self, round: usize) -> String {
        format!("{} round {round}", self.name())
    }
}

/// The measurements of one round.
#[derive(Default, Serialize, Deserialize)]
struct Round {
    cold: Series,
    next: Series,
    warm: Series,
    standby_starts: (f64, f64),
}

impl Round {
    /// The series of a call that made its own instance, by its place in the round.
    const fn of_call(&mut self, place: usize) -> &mut Series {
        match place {
            0 => &mut self.cold,
            _ => &mut self.next,
        }
    }
}

struct Calls<'a> {
    caller: &'a mut Caller,
    request: &'a HttpRequest,
    workload: &'a Workload,
}

impl Calls<'_> {
    async fn call(&mut self) -> anyhow::Result<Called> {
        self.caller.call(self.request, &|body| self.workload.verify(body)).await
    }

    /// One call after a rest, then some right after each other.
    async fn cold(&mut self, round: &mut Round) -> anyhow::Result<()> {
        self.caller.reconnect();
        for place in 0..=self.workload.calls {
            let called = self.call().await?;
            round.of_call(place).add(called.latency, self.caller.stations(&called).await?);
        }
        Ok(())
    }

    /// One call after the last instance has gone, then some that find the new one.
    async fn cold_then_warm(
        &mut self,
        last: Option<Instant>,
        cold: &mut Series,
        warm: &mut Series,
    ) -> anyhow::Result<()> {
        self.caller.reconnect();
        let mut since = last.map_or(GONE_AFTER, |last| last.elapsed());
        for attempt in 1.. {
            sleep(GONE_AFTER.saturating_sub(since)).await;
            let called = self.call().await?;
            let stations = self.caller.stations(&called).await?;
            if stations.start_us.is_some() {
                cold.add(called.latency, stations);
                break;
            }
            // The report says that no call was cold; the warm ones are valid all the same.
            if attempt == COLD_TRIES {
                break;
            }
            since = Duration::ZERO;
        }
        // An instance's second call differs from its hundredth; half of the calls are for settling.
        let mut made = Vec::with_capacity(2 * self.workload.calls);
        for _ in 0..2 * self.workload.calls {
            made.push(self.call().await?);
        }
        for called in made.split_off(self.workload.calls) {
            let stations = self.caller.stations(&called).await?;
            if stations.start_us.is_none() {
                warm.add(called.latency, stations);
            }
        }
        Ok(())
    }

    /// Calls at an interval; returns how many starts were from a standby clone, and all starts.
    async fn in_rhythm(&mut self, series: &mut Series) -> anyhow::Result<(f64, f64)> {
        self.caller.reconnect();
        let mut ticks = interval(RHYTHM);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..LEARNING {
            ticks.tick().await;
            self.call().await?;
        }
        let before = starts(self.caller.address()).await;
        let mut made = Vec::new();
        for _ in 0..self.workload.calls {
            ticks.tick().await;
            made.push(self.call().await?);
        }
        let after = starts(self.caller.address()).await;
        // Reading the records in between would be a load of its own.
        for called in made {
            series.add(called.latency, self.caller.stations(&called).await?);
        }
        Ok((after.0 - before.0, after.1 - before.1))
    }
}

/// Waits until as much time has passed since the last call as idle instances are given to go.
async fn rest(last: Option<Instant>) {
    if let Some(last) = last {
        sleep(GONE_AFTER.saturating_sub(last.elapsed())).await;
    }
}

/// Starts from a standby clone and all starts by fork since the server began; zeros if unknown.
async fn starts(server: std::net::SocketAddr) -> (f64, f64) {
    let count = async |by: &str| {
        metric(server, &format!(r#"flint_snapshot_starts_total{{by="{by}"}}"#)).await.unwrap_or(0.0)
    };
    let standby = count("standby").await;
    (standby, standby + count("forked").await + count("fresh").await)
}

/// Starts a runtime for each call, without sandbox, server or HTTP.
async fn processes(
    argv: &[String],
    code: &std::path::Path,
    workload: &Workload,
    round: &mut Round,
) -> anyhow::Result<()> {
    for place in 0..=workload.calls {
        let arm = ShimArm::new(
            argv.to_vec(),
            code.to_owned(),
            Bytes::from(workload.body.clone()),
            Arc::clone(&workload.check),
        );
        let begin = Instant::now();
        let mut connection = arm.connect().await.context("starting an unsandboxed process")?;
        let start = begin.elapsed();
        connection.call().await?;
        round.of_call(place).add_parts(start, begin.elapsed() - start);
    }
    Ok(())
}

/// An arm that has failed in an earlier start of the run is not tried again; that one could not be brought up
/// is kept, unless it has all its rounds.
pub(super) fn honour<T>(
    folder: &RunFolder,
    arm: &str,
    target: &mut Result<T, String>,
    is_kept: bool,
) -> anyhow::Result<()> {
    match (folder.failed(arm), &*target) {
        (Some(why), _) => *target = Err(why),
        (None, Err(why)) if !is_kept => folder.fail(arm, why)?,
        _ => {}
    }
    Ok(())
}

/// The key of the probes.
const PART: &str = "calls";

/// Measures all cells `rounds` times, after an uncounted round, and repeats rounds during which the host was
/// noisy. Rounds stored in `folder` are not repeated. A cell that fails is skipped from then on.
pub(super) async fn run(
    cells: &mut [Cell],
    rounds: usize,
    folder: &RunFolder,
    noise: &mut NoiseWatch,
    progress: &dyn Fn(&str, usize, usize),
) -> anyhow::Result<()> {
    let count = cells.len();
    if count == 0 {
        return Ok(());
    }
    let tell = |cell: &Cell, round: usize, at: usize| {
        progress(&cell.name(), round * count + at, (rounds.max(round) + 1) * count);
    };
    for (at, cell) in cells.iter_mut().enumerate() {
        tell(cell, 0, at);
        let is_kept = (1..=rounds).all(|round| folder.has(&cell.key(round)));
        honour(folder, &cell.name(), &mut cell.target, is_kept)?;
        if !is_kept {
            cell.measure(folder).await?;
        }
    }
    let (mut round, mut measured) = (0, Vec::new());
    while noise.needs_another(PART, rounds, round).await? {
        round += 1;
        if cells.iter().any(|cell| cell.target.is_ok() && !folder.has(&cell.key(round))) {
            noise.look_before(PART, round).await?;
        }
        for (at, cell) in cells.iter_mut().enumerate() {
            tell(cell, round, at);
            let key = cell.key(round);
            if let Some(kept) = folder.get::<Round>(&key) {
                measured.push((round, at, kept));
            } else if let Some(new) = cell.measure(folder).await? {
                folder.put(&key, &new)?;
                measured.push((round, at, new));
            }
        }
    }
    let counted = noise.counted(PART, rounds, round);
    for (round, at, one) in measured {
        if counted.contains(&round) {
            cells[at].take(one);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flint_lab::Identity;

    use super::*;
    use crate::bench::{
        caller::Stations,
        coldstart::way::{FORK_NEVER, FORK_NEXT},
        coldstart::workload::{Sizes, all},
    };

    #[tokio::test]
    async fn a_cell_that_has_failed_is_not_tried_again_by_the_next_start() {
        let scratch = tempfile::tempdir().unwrap();
        let identity = Identity {
            experiment: "x".into(),
            commit: "c".into(),
            program: "p".into(),
            host: serde_json::json!(1),
            settings: serde_json::json!(2),
            workloads: None,
        };
        let start = async |target| {
            let folder = RunFolder::open(&scratch.path().join("run"), &identity).unwrap();
            let workload = all(Sizes::QUICK, None).remove(0);
            let mut cells = [Cell::new(Way::named(FORK_NEVER).unwrap(), workload, target)];
            let mut noise = NoiseWatch::start().without_waits();
            run(&mut cells, 1, &folder, &mut noise, &|_, _, _| {}).await.unwrap();
            let [cell] = cells;
            cell.target.err().unwrap()
        };
        assert_eq!(start(Err(anyhow::anyhow!("a wrong answer"))).await, "a wrong answer");
        let argv = vec!["/no/such/program".to_owned()];
        let now = start(Ok(Target::Process { argv, code: "nowhere".into() })).await;
        assert!(now.starts_with("a wrong answer (not tried again"), "{now}");
    }

    #[test]
    fn only_the_call_after_a_rest_is_cold() {
        let way = Way::named(FORK_NEVER).unwrap();
        let mut cell = Cell::new(way, all(Sizes::QUICK, None).remove(0), Err(anyhow::anyhow!("no server")));
        for us in [900, 800] {
            let mut round = Round::default();
            round.cold.begin_round();
            round.next.begin_round();
            for (place, us) in [us, 300, 310].into_iter().enumerate() {
                let stations = Stations { start_us: Some(us / 2), ..Stations::default() };
                round.of_call(place).add(Duration::from_micros(us), stations);
            }
            cell.take(round);
        }
        let latencies = |arm| cell.series(arm).unwrap().latencies();
        assert_eq!(latencies(FORK_NEVER), [900.0, 800.0]);
        assert_eq!(latencies(FORK_NEXT), [300.0, 310.0, 300.0, 310.0]);
    }
}
