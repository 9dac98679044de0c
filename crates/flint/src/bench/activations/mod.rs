//! `activation-queries`: the time to list, filter and count activations of a namespace with ten million of
//! them, through a server's API; docs/benchmarks.md describes the arms.

mod cache;
mod fill;
mod questions;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flint_lab::{
    Arm, ArmPlan, ArmReport, ArmRounds, HttpArm, HttpClient, HttpRequest, Latency, Load, ProcessTree, Report,
    Target, quantile, run_rounds,
};

use self::{
    cache::Files,
    fill::{GRAIN, RECORD_BYTES, Records},
    questions::{KINDS, Kind, Question},
};
use super::{
    Run,
    asked::{check_arms, option},
    holds::Holds,
    janitor,
    run::show,
    server::Server,
};
use crate::client::GUEST_KEY;

/// Every kind of query in turn, from [`CLIENTS`] clients.
const ALL: &str = "all";
const CLIENTS: usize = 8;
/// The suffix of arms that find nothing of the log in memory.
const UNCACHED: &str = "-uncached";
/// The promised maximum time of a query.
const MOST_MS: f64 = 50.0;
/// The number of records for which it is promised.
const PROMISED: u64 = 10_000_000;
/// Number of different queries of each kind.
const DIFFERENT: usize = 500;
/// Number of them that are verified before the measurement.
const CHECKED: usize = 3;

struct Scale {
    rounds: usize,
    round: Duration,
    /// Queries of each kind with an empty cache.
    uncached: usize,
    millions: f64,
}

const FULL: Scale = Scale { rounds: 3, round: Duration::from_secs(1), uncached: 100, millions: 10.0 };
const QUICK: Scale = Scale { rounds: 1, round: Duration::from_millis(200), uncached: 5, millions: 0.1 };

/// All arms.
fn names() -> Vec<String> {
    let kinds = KINDS.iter().map(|kind| kind.name.to_owned());
    kinds.chain([ALL.to_owned()]).chain(KINDS.iter().filter(|kind| kind.uncached).map(uncached_arm)).collect()
}

fn uncached_arm(kind: &Kind) -> String {
    format!("{}{UNCACHED}", kind.name)
}

pub(super) async fn run(run: &mut Run) -> anyhow::Result<Report> {
    let mut scale = if run.effort.quick { QUICK } else { FULL };
    scale.rounds = run.effort.rounds(scale.rounds);
    let names = names();
    let asked = run.effort.arms.clone();
    check_arms(&asked, names.iter().map(String::as_str))?;
    let chosen = |name: &str| asked.is_empty() || asked.iter().any(|arm| arm == name);
    let wanted = (option(run, "millions", scale.millions)? * 1e6) as u64;
    let count = wanted.max(100_000).next_multiple_of(GRAIN);

    let scratch = janitor::scratch()?;
    enough_space(scratch.path(), count)?;
    let data = scratch.path().join("data");
    let bar = run.bar.clone();
    let begin = Instant::now();
    let records =
        fill::fill(&data, count, &|done| show(&bar, "writing records", done as usize, count as usize))
            .await?;
    let filled = begin.elapsed();
    let bytes = size_of_files(&data.join("activations"))?;

    let begin = Instant::now();
    // Declared after the directory, and so dropped before it.
    let server = Server::start_with(
        scratch.path(),
        &[("FLINT_STORE__MAX_AGE", "0ms"), ("FLINT_STORE__MAX_SIZE", "0B")],
    )
    .await?;
    let started = begin.elapsed();
    check(&server, &records, run.effort.seed).await?;
    let arms = cached(&server, &records, &scale, &chosen, run).await?;
    let uncached = uncached(&server, &records, &scale, &data, &chosen, run).await?;
    let mut report = report(run.report("activation-queries"), count, &arms, uncached);
    report.notes.push(format!(
        "{count} records of 300 bytes of result and three lines of log, {} MiB on disk with their index, written in {:.0} s; the server was ready after {:.0} ms.",
        bytes >> 20,
        filled.as_secs_f64(),
        started.as_secs_f64() * 1e3
    ));
    Ok(report)
}

/// Refuses to fill the disk.
fn enough_space(folder: &Path, records: u64) -> anyhow::Result<()> {
    let disk = rustix::fs::statvfs(folder).context("asking for the space on the disk")?;
    let (free, needed) = (disk.f_bavail * disk.f_frsize, records * RECORD_BYTES);
    ensure!(
        free > needed + needed / 4,
        "{} has {} MiB free, and {records} records need {}: choose another disk with TMPDIR, or fewer with --set millions=N",
        folder.display(),
        free >> 20,
        (needed + needed / 4) >> 20
    );
    Ok(())
}

fn size_of_files(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).context("reading the log's folder")? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// A query with a client's key.
fn request(server: &Server, records: &Records, question: &Question) -> HttpRequest {
    let headers = [format!("authorization: Basic {}", BASE64.encode(GUEST_KEY))];
    HttpRequest::new("GET", &question.path(records), server.address, &headers, b"", 200)
}

/// Verifies responses: a fast wrong one is no measurement.
async fn check(server: &Server, records: &Records, seed: u64) -> anyhow::Result<()> {
    let mut client = HttpClient::connect(server.address).await?;
    for kind in KINDS {
        for question in kind.questions(records, seed, CHECKED) {
            let answer = client.exchange(&request(server, records, &question)).await?;
            question.check(records, &answer).with_context(|| kind.name)?;
        }
    }
    Ok(())
}

/// Each kind from one client, and all kinds from several.
async fn cached(
    server: &Server,
    records: &Records,
    scale: &Scale,
    chosen: &dyn Fn(&str) -> bool,
    run: &mut Run,
) -> anyhow::Result<Vec<ArmRounds>> {
    let plan = |name: &str, concurrency, requests| ArmPlan {
        name: name.to_owned(),
        function: None,
        arm: Box::new(HttpArm::new(server.address, requests)) as Box<dyn Arm>,
        load: Load { concurrency, duration: scale.round, warm_up: 10 },
        process: Some(ProcessTree::new(server.pid())),
    };
    let requests = |kind: &Kind| -> Vec<HttpRequest> {
        let questions = kind.questions(records, run.effort.seed, DIFFERENT);
        questions.iter().map(|question| request(server, records, question)).collect()
    };
    let mut plans: Vec<ArmPlan> = KINDS
        .iter()
        .filter(|kind| chosen(kind.name))
        .map(|kind| plan(kind.name, 1, requests(kind)))
        .collect();
    if chosen(ALL) {
        let mut kinds: Vec<_> = KINDS.iter().map(|kind| requests(kind).into_iter()).collect();
        // The kinds alternate.
        let turns =
            (0..DIFFERENT).flat_map(|_| kinds.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>());
        plans.push(plan(ALL, CLIENTS, turns.collect()));
    }
    let bar = run.bar.clone();
    let progress = |arm: &str, done: usize, steps: usize| show(&bar, arm, done, steps);
    let pause = Duration::from_millis(50);
    let how = (scale.rounds, pause);
    Ok(run_rounds("questions", plans, how, &run.folder, &mut run.noise, &progress).await?)
}

/// Some kinds with the log's files evicted from the page cache before each query: name, and latencies in µs.
async fn uncached(
    server: &Server,
    records: &Records,
    scale: &Scale,
    data: &Path,
    chosen: &dyn Fn(&str) -> bool,
    run: &mut Run,
) -> anyhow::Result<Vec<(String, Vec<f64>)>> {
    let kinds: Vec<&Kind> =
        KINDS.iter().filter(|kind| kind.uncached && chosen(&uncached_arm(kind))).collect();
    let files = Files::of(&data.join("activations")).context("writing the log to the disk")?;
    let mut client = HttpClient::connect(server.address).await?;
    let mut measured = Vec::new();
    for (step, kind) in kinds.iter().enumerate() {
        let name = uncached_arm(kind);
        run.show(&name, step, kinds.len());
        run.look(&name, [name.clone()]).await?;
        let questions = kind.questions(records, run.effort.seed, scale.uncached);
        let times = run
            .kept(&name, async || {
                let mut times = Vec::new();
                for question in &questions {
                    files.evict().context("taking the log out of the page cache")?;
                    let request = request(server, records, question);
                    let begin = Instant::now();
                    let answer = client.exchange(&request).await?;
                    times.push(begin.elapsed().as_secs_f64() * 1e6);
                    ensure!(answer.status == 200, "{} was answered with {}", kind.name, answer.status);
                }
                Ok(times)
            })
            .await?;
        measured.push((name, times));
    }
    Ok(measured)
}

/// The promises, without measurements.
pub(super) fn targets_of_nothing() -> Vec<Target> {
    report(Report::default(), PROMISED, &[], Vec::new()).targets
}

fn report(empty: Report, records: u64, arms: &[ArmRounds], uncached: Vec<(String, Vec<f64>)>) -> Report {
    let mut reports: Vec<ArmReport> = arms.iter().map(ArmReport::from).collect();
    reports.extend(uncached.into_iter().map(|(arm, times)| {
        let at = |share| quantile(&times, share).unwrap_or(0.0);
        ArmReport {
            arm,
            concurrency: Some(1),
            n: Some(times.len() as u64),
            latency_us: Some(Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99) }),
            note: Some("the log's files were taken out of the page cache before each question".into()),
            ..ArmReport::default()
        }
    }));
    let slowest = |of: &dyn Fn(&str) -> bool| {
        let p99s = reports
            .iter()
            .filter(|report| of(&report.arm))
            .filter_map(|report| report.latency_us.as_ref().map(|latency| latency.p99 / 1e3));
        p99s.max_by(f64::total_cmp)
    };
    let target = |name: &str, of: &dyn Fn(&str) -> bool| {
        let fewer = (records < PROMISED).then(|| format!("of {records}"));
        let is_there = |name: &String| reports.iter().any(|report| report.arm == *name);
        let missing = names().into_iter().find(|name| of(name) && !is_there(name));
        let without = missing.map(|name| format!("without {name}"));
        let holds = Holds::default()
            .of_the_procedure("ten million records", fewer.as_deref())
            .of_the_procedure("all kinds of questions", without.as_deref());
        Target::at_most(name, slowest(of), MOST_MS).unless(holds.unjudged())
    };
    let targets = vec![
        target("p99 of the slowest kind of question, ms", &|arm| arm != ALL && !arm.ends_with(UNCACHED)),
        target("p99 of all kinds, 8 clients, ms", &|arm| arm == ALL),
        target("p99 of the slowest kind with nothing of the log in memory, ms", &|arm| {
            arm.ends_with(UNCACHED)
        }),
    ];
    Report { arms: reports, targets, ..empty }
}

#[cfg(test)]
mod tests {
    use flint_lab::Unjudged;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_log_that_was_filled_answers_every_kind_of_question() {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        let records = fill::fill(&data, 100_800, &|_| ()).await.unwrap();
        let store =
            flint_store_sqlite::SqliteStore::open(flint_store_sqlite::StoreConfig::new(&data)).unwrap();
        let log = store.activations();
        let name = flint_model::NamespaceName::parse(fill::NAMESPACE).unwrap();
        let count = async |action: fill::Action| {
            let query = flint_store::ActivationQuery { name: Some(action.name()), ..Default::default() };
            log.count(&name, &query).await.unwrap() as u64
        };
        for action in
            [fill::Action::RARE, fill::Action::ABSENT, fill::Action::common(&mut flint_lab::Random::new(3))]
        {
            assert_eq!(count(action).await, records.count(action, 0..100_800), "{}", action.name());
        }
        assert_eq!(records.count(fill::Action::RARE, 0..100_800), 100);
        assert!(log.get(&name, records.ids[7]).await.unwrap().is_some_and(|record| record.logs.len() == 3));
        Files::of(&data.join("activations")).unwrap().evict().unwrap();
        assert_eq!(count(fill::Action::RARE).await, 100);
    }

    #[test]
    fn questions_are_the_same_of_one_seed() {
        let records = Records {
            records: 100_800,
            ids: vec![flint_model::ActivationId::from_u128(7)],
            ..Records::default()
        };
        for kind in KINDS {
            let asked = |seed| -> Vec<String> {
                kind.questions(&records, seed, 5).iter().map(|one| one.path(&records)).collect()
            };
            assert_eq!(asked(1), asked(1), "{}", kind.name);
        }
    }

    #[test]
    fn the_slowest_kind_of_all_is_judged_with_ten_million_records() {
        let judged = |records, without: Option<&str>| {
            let kinds = names().into_iter().filter(|name| name.ends_with(UNCACHED));
            let kinds = kinds.filter(|name| Some(name.as_str()) != without);
            let times = kinds.enumerate().map(|(at, kind)| (kind, vec![10_000.0 + at as f64; 3])).collect();
            report(Report::default(), records, &[], times).targets.remove(2)
        };
        let all = judged(10_000_000, None);
        assert_eq!((all.value.map(f64::floor), all.met), (Some(10.0), Some(true)));
        for (part, why) in [
            (judged(100_800, None), "ten million records, and this is of 100800"),
            (
                judged(10_000_000, Some("by-id-uncached")),
                "all kinds of questions, and this is without by-id-uncached",
            ),
        ] {
            let why = Some(Unjudged::NotMeasured(format!("it is promised of {why}")));
            assert_eq!((part.value, part.met, part.unjudged), (None, None, why));
        }
    }
}
