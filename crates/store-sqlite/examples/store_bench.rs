//! What the store does in a second, on this disk: `cargo run --release -p flint-store-sqlite --example store_bench -- [OPTIONS]`.
//!
//! ```text
//! --dir DIR        where to write (default: a temporary directory in the current one)
//! --seconds N      how long each writing measurement takes (default 10)
//! --records N      over how many records queries are measured (default 1000000); --10m for 10 million
//! --only PART      written, append, enqueue or query
//! ```
//! CPU times are those of the store's own threads, from `/proc/self/task`.
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::{
    collections::VecDeque,
    env, fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_model::{Activation, ActivationId, LogLine, LogStream, Timestamp};
use flint_store::{ActivationLog, ActivationQuery, Lease, Page, QueuedCall, conformance::sample};
use flint_store_sqlite::{Retention, SqliteStore, StoreConfig};

struct Options {
    dir: PathBuf,
    seconds: u64,
    records: u64,
    only: Option<String>,
}

fn options() -> Options {
    let mut options = Options { dir: PathBuf::new(), seconds: 10, records: 1_000_000, only: None };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--dir" => options.dir = value().into(),
            "--seconds" => options.seconds = value().parse().unwrap(),
            "--records" => options.records = value().parse().unwrap(),
            "--10m" => options.records = 10_000_000,
            "--only" => options.only = Some(value()),
            other => panic!("{other}: see the head of this file"),
        }
    }
    options
}

/// CPU time of the threads of that name, in ticks of 10 ms.
fn cpu(name: &str) -> Duration {
    let ticks = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let fields: Vec<_> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
        let user: u64 = fields[11].parse().unwrap();
        let system: u64 = fields[12].parse().unwrap();
        Duration::from_millis((user + system) * 10)
    };
    fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| task.unwrap().path())
        .filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name))
        .map(|task| ticks(&task.join("stat")))
        .sum()
}

/// A typical record: 300 bytes of result, three log lines of some 60 characters.
fn typical(start: u64, name: &str) -> Activation {
    let mut record = sample::activation("guest", &format!("guest/{name}"), start, 0);
    record.response.result =
        Some(serde_json::from_str(&format!("{{\"body\":\"{}\"}}", "r".repeat(289))).unwrap());
    record.annotations.set("limits", serde_json::json!({"timeout": 60000, "memory": 256, "logs": 10}));
    record.logs = (0..3)
        .map(|line| LogLine {
            time_us: start * 1000 + line,
            stream: LogStream::Stdout,
            text: format!("line {line}: {}", "l".repeat(50)),
        })
        .collect();
    record
}

fn open(dir: &Path) -> SqliteStore {
    let retention = Retention { max_age: None, max_bytes: None };
    SqliteStore::open(StoreConfig { retention, ..StoreConfig::new(dir) }).unwrap()
}

fn bytes_in(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// Appends at a pace; prints how long after its append a record was on disk, as seen each millisecond or two.
async fn written(dir: &Path, seconds: u64) {
    println!("\nactivation log: from the append of a record until it is on disk");
    for pace in [10_u64, 1_000, 10_000, 50_000] {
        let dir = dir.join(format!("written-{pace}"));
        let store = open(&dir);
        let (log, template) = (store.activations(), typical(0, "f"));
        let (mut pending, mut waits) = (VecDeque::new(), Vec::new());
        let begin = Instant::now();
        let mut appended = 0;
        while appended < pace * seconds || !pending.is_empty() {
            let due = (begin.elapsed().as_secs_f64() * pace as f64) as u64;
            while appended < due.min(pace * seconds) {
                let (id, start) = (ActivationId::generate(), Timestamp::now());
                let record = Activation { id, start, ..template.clone() };
                pending.push_back(Instant::now());
                log.append(record);
                appended += 1;
            }
            // The log's own pending records are the latest ones: the earlier ones are synced.
            let left = log.stats().pending as usize;
            waits.extend(pending.drain(..pending.len() - left).map(|since| since.elapsed()));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let stats = log.stats();
        assert_eq!((stats.appended, stats.shed_records), (appended, 0));
        println!(
            "D5 {pace} records/s: p50 {:.1} ms, p99 {:.1} ms, worst {:.1} ms; {} logs shed",
            millis(&mut waits, 0.5),
            millis(&mut waits, 0.99),
            millis(&mut waits, 1.0),
            stats.shed_logs
        );
        store.close().await.unwrap();
        fs::remove_dir_all(dir).unwrap();
    }
}

/// Appends at a pace, and at full speed, from one thread; prints what the log took.
async fn append(dir: &Path, seconds: u64) {
    println!("\nactivation log: records of 300 B result and 3 log lines");
    println!(
        "{:>12} {:>12} {:>12} {:>11} {:>11} {:>15} {:>15}",
        "offered/s", "appended/s", "written/s", "shed logs", "shed recs", "append µs", "log thread µs"
    );
    let mut kept = 0.0_f64;
    for pace in [10_000, 50_000, 75_000, 100_000, u64::MAX] {
        let dir = dir.join(format!("append-{pace}"));
        let store = open(&dir);
        let log = store.activations();
        // Making a record costs more than appending it: a few are made before, and copied with new ids.
        let templates: Vec<_> = (0..64).map(|at| typical(at, &format!("f{}", at % 8))).collect();
        let thread_before = cpu("flint-log");
        let begin = Instant::now();
        let mut appending = Duration::ZERO;
        let mut offered = 0_u64;
        while begin.elapsed() < Duration::from_secs(seconds) {
            // A millisecond's worth at a time.
            let now = Timestamp::now();
            let batch: Vec<_> = (0..(pace / 1000).min(200))
                .map(|at| Activation {
                    id: ActivationId::generate(),
                    start: now,
                    ..templates[at as usize % 64].clone()
                })
                .collect();
            offered += batch.len() as u64;
            let before = Instant::now();
            batch.into_iter().for_each(|record| log.append(record));
            appending += before.elapsed();
            if pace < u64::MAX {
                let due = Duration::from_secs_f64(offered as f64 / pace as f64);
                tokio::time::sleep(due.saturating_sub(begin.elapsed())).await;
            }
        }
        let fed = begin.elapsed();
        log.flush().await.unwrap();
        let whole = begin.elapsed();
        let thread = cpu("flint-log") - thread_before;
        let stats = log.stats();
        println!(
            "{:>12.0} {:>12.0} {:>12.0} {:>11} {:>11} {:>15.2} {:>15.2}",
            offered as f64 / fed.as_secs_f64(),
            stats.appended as f64 / fed.as_secs_f64(),
            stats.appended as f64 / whole.as_secs_f64(),
            stats.shed_logs,
            stats.shed_records,
            appending.as_secs_f64() * 1e6 / offered as f64,
            thread.as_secs_f64() * 1e6 / stats.appended as f64,
        );
        if stats.shed_logs + stats.shed_records == 0 {
            kept = kept.max(stats.appended as f64 / fed.as_secs_f64());
        }
        store.close().await.unwrap();
        fs::remove_dir_all(dir).unwrap();
    }
    println!("S15: kept {kept:.0} /s; the most without shedding");
}

/// Accepts calls, at several concurrencies; then also records and completes them.
async fn enqueue(dir: &Path, seconds: u64) {
    println!("\nqueue: calls of 300 B arguments, each accepted durably");
    println!(
        "{:>12} {:>10} {:>12} {:>10} {:>10} {:>12}",
        "concurrency", "complete", "calls/s", "p50 ms", "p99 ms", "db thread µs"
    );
    for (concurrency, complete) in [(1, false), (8, false), (64, false), (64, true)] {
        let dir = dir.join(format!("enqueue-{concurrency}-{complete}"));
        let store = open(&dir);
        sample::inhabit(&*store.catalog()).await;
        let (queue, count) = (store.queue(), Arc::new(AtomicU64::new(0)));
        let before = cpu("flint-db");
        let begin = Instant::now();
        let tasks: Vec<_> = (0..concurrency)
            .map(|_| {
                let (queue, count) = (Arc::clone(&queue), Arc::clone(&count));
                let (log, record) = (store.activations(), typical(1_700_000_000_000, "f"));
                tokio::spawn(async move {
                    let mut waits = Vec::new();
                    while begin.elapsed() < Duration::from_secs(seconds) {
                        let arguments = Bytes::from(vec![b'x'; 300]);
                        let call = QueuedCall {
                            arguments,
                            ..sample::call("guest", Timestamp::now().as_millis(), 3)
                        };
                        let id = call.activation;
                        let before = Instant::now();
                        queue.enqueue(call, "bench", Duration::from_secs(60)).await.unwrap();
                        waits.push(before.elapsed());
                        if complete {
                            queue.begin(Lease::first(id)).await.unwrap();
                            log.append(Activation { id, ..record.clone() });
                            queue.complete(Lease::first(id)).await.unwrap();
                        }
                        count.fetch_add(1, Relaxed);
                    }
                    waits
                })
            })
            .collect();
        let mut waits = Vec::new();
        for task in tasks {
            waits.extend(task.await.unwrap());
        }
        let (elapsed, thread) = (begin.elapsed(), cpu("flint-db") - before);
        let calls = count.load(Relaxed) as f64;
        println!(
            "{concurrency:>12} {complete:>10} {:>12.0} {:>10.2} {:>10.2} {:>12.1}",
            calls / elapsed.as_secs_f64(),
            millis(&mut waits, 0.5),
            millis(&mut waits, 0.99),
            thread.as_secs_f64() * 1e6 / calls,
        );
        if (concurrency, complete) == (64, false) {
            println!("S16: accepted {:.0} /s", calls / elapsed.as_secs_f64());
        }
        store.close().await.unwrap();
        fs::remove_dir_all(dir).unwrap();
    }
}

fn millis(times: &mut [Duration], quantile: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * quantile) as usize].as_secs_f64() * 1e3
}

/// A number below `bound`, different each time.
fn random(bound: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % bound
}

async fn ask(what: &str, times: u32, mut work: impl AsyncFnMut() -> usize) {
    let mut waits = Vec::new();
    let mut found = 0;
    for _ in 0..times {
        let before = Instant::now();
        found += work().await;
        waits.push(before.elapsed());
    }
    let mean = found as f64 / f64::from(times);
    println!(
        "{what:<58} {:>10.3} {:>10.3} {:>10.3} {mean:>14.1}",
        millis(&mut waits, 0.5),
        millis(&mut waits, 0.99),
        millis(&mut waits, 1.0)
    );
}

/// Fills a log with records of a namespace, then asks.
async fn query(dir: &Path, records: u64) {
    const FUNCTIONS: u64 = 100;
    /// One record a millisecond.
    const BEGIN: u64 = 1_700_000_000_000;
    let dir = dir.join("query");
    let store = open(&dir);
    let log = store.activations();
    let begin = Instant::now();
    let templates: Vec<_> = (0..FUNCTIONS).map(|at| typical(0, &format!("f{at}"))).collect();
    let mut ids = Vec::new();
    for at in 0..records {
        // Every function as often as another, but one that is rare; starts are not quite in order.
        let function = if at % 100_000 == 7 { 0 } else { 1 + at % (FUNCTIONS - 1) };
        let start = Timestamp::from_millis(BEGIN + at + at * 7919 % 200);
        let id = ActivationId::generate();
        if at % 1000 == 0 {
            ids.push(id);
        }
        log.append(Activation { id, start, ..templates[function as usize].clone() });
        if at % 10_000 == 0 {
            log.flush().await.unwrap();
        }
    }
    log.flush().await.unwrap();
    let stats = log.stats();
    assert_eq!((stats.appended, stats.shed_logs), (records, 0));
    let bytes = bytes_in(&dir.join("activations"));
    println!(
        "\nqueries over {records} records ({:.0} s to write, {} MB, {} B a record)",
        begin.elapsed().as_secs_f64(),
        bytes >> 20,
        bytes / records
    );
    store.close().await.unwrap();
    let begin = Instant::now();
    let store = open(&dir);
    println!("opened again after a good end in {:.0} ms", begin.elapsed().as_secs_f64() * 1e3);
    let log = store.activations();
    let guest = sample::namespace_name("guest");
    let log: &dyn ActivationLog = &*log;
    let named = |name: u64| ActivationQuery { name: Some(format!("f{name}")), ..Default::default() };
    let range = |name: Option<u64>| {
        let (a, b) = (random(records), random(records));
        ActivationQuery {
            name: name.map(|name| format!("f{name}")),
            since: Some(Timestamp::from_millis(BEGIN + a.min(b))),
            upto: Some(Timestamp::from_millis(BEGIN + a.max(b))),
        }
    };
    let list = async |query: ActivationQuery, skip: u64, limit: usize, logs: bool| {
        log.list(&guest, &query, Page { skip: skip as usize, limit }, logs).await.unwrap().len()
    };
    println!("{:<58} {:>10} {:>10} {:>10} {:>14}", "", "p50 ms", "p99 ms", "max ms", "mean result");
    ask("latest 30", 500, async || list(Default::default(), 0, 30, false).await).await;
    ask("latest 200", 500, async || list(Default::default(), 0, 200, false).await).await;
    ask("latest 200, with logs", 500, async || list(Default::default(), 0, 200, true).await).await;
    ask("latest 200 of one function", 500, async || {
        list(named(1 + random(FUNCTIONS - 1)), 0, 200, false).await
    })
    .await;
    ask("latest 200 of the rare function", 500, async || list(named(0), 0, 200, false).await).await;
    ask("200 at a random time", 500, async || list(range(None), 0, 200, false).await).await;
    ask("200 of one function at a random time", 500, async || list(range(Some(5)), 0, 200, false).await)
        .await;
    ask("200 after a random skip", 500, async || list(Default::default(), random(records), 200, false).await)
        .await;
    ask("200 of one function after a random skip", 500, async || {
        list(named(3), random(records / FUNCTIONS), 200, false).await
    })
    .await;
    let count = async |query: ActivationQuery| log.count(&guest, &query).await.unwrap();
    ask("count all", 500, async || count(Default::default()).await).await;
    ask("count one function", 500, async || count(named(1 + random(FUNCTIONS - 1))).await).await;
    ask("count in a random time", 500, async || count(range(None)).await).await;
    ask("count one function in a random time", 500, async || count(range(Some(5))).await).await;
    let get = async || log.get(&guest, ids[random(ids.len() as u64) as usize]).await.unwrap().iter().count();
    ask("one record, by id", 500, get).await;
    ask("one record that is not there", 500, async || {
        log.get(&guest, ActivationId::from_u128(ids[0].as_u128() + 1)).await.unwrap().iter().count()
    })
    .await;
    store.close().await.unwrap();
    fs::remove_dir_all(dir).unwrap();
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let options = options();
    let _owner;
    let dir = if options.dir.as_os_str().is_empty() {
        let owner = tempfile::tempdir_in(".").unwrap();
        let dir = owner.path().to_owned();
        _owner = owner;
        dir
    } else {
        options.dir
    };
    let wanted = |part: &str| options.only.as_ref().is_none_or(|only| only == part);
    if wanted("written") {
        written(&dir, options.seconds).await;
    }
    if wanted("append") {
        append(&dir, options.seconds).await;
    }
    if wanted("enqueue") {
        enqueue(&dir, options.seconds).await;
    }
    if wanted("query") {
        query(&dir, options.records).await;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?");
    println!("\npeak memory {}", peak.trim());
}
