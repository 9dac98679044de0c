//! Old records go, by age and by size; the log sheds by its policy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{fs, time::Duration};

use common::{ALL, config, count, log_files, open, record};
use flint_model::{Activation, ByteSize, Timestamp};
use flint_store::{ActivationLog, ActivationQuery, conformance::sample::namespace_name};
use flint_store_sqlite::{Retention, SqliteStore, StoreConfig};

/// Waits for the log's thread to do something, for as long as nobody would wait.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..2400 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never came that {what}");
}

async fn starts(log: &dyn ActivationLog) -> Vec<u64> {
    let listed = log.list(&namespace_name("guest"), &ActivationQuery::default(), ALL, false).await.unwrap();
    listed.iter().map(|record| record.start.as_millis()).collect()
}

#[tokio::test]
async fn the_oldest_go_when_there_are_too_many_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let retention = Retention { max_age: None, max_bytes: Some(ByteSize::kib(64)) };
    let store = SqliteStore::open(StoreConfig { retention, ..config(dir.path(), 4 << 10) }).unwrap();
    let log = store.activations();
    for start in 0..1000 {
        log.append(record(start));
        if start % 10 == 0 {
            log.flush().await.unwrap();
        }
    }
    log.flush().await.unwrap();
    let bytes = || {
        let files = ["seg", "idx"].map(|extension| log_files(dir.path(), extension)).concat();
        files.iter().map(|path| fs::metadata(path).map_or(0, |data| data.len())).sum::<u64>()
    };
    until("only the newest are left", async || {
        let expired = log.stats().expired;
        bytes() <= 64 << 10 && count(&*log).await as u64 + expired == 1000
    })
    .await;
    let starts = starts(&*log).await;
    assert!(starts.iter().copied().eq((0..1000).rev().take(starts.len())), "the newest stay: {starts:?}");
    assert!(bytes() > 20 << 10, "no more goes than must: {} bytes are left", bytes());
}

#[tokio::test]
async fn the_old_go_by_age_also_when_nothing_new_comes() {
    let dir = tempfile::tempdir().unwrap();
    let retention = Retention { max_age: Some(Duration::from_secs(3600)), max_bytes: None };
    let store = SqliteStore::open(StoreConfig { retention, ..config(dir.path(), 1 << 20) }).unwrap();
    let log = store.activations();
    let now = Timestamp::now().as_millis();
    (0..10).for_each(|at| log.append(record(now - 7_200_000 + at)));
    store.close().await.unwrap();
    let store = SqliteStore::open(StoreConfig { retention, ..config(dir.path(), 1 << 20) }).unwrap();
    let log = store.activations();
    until("old records expired", async || log.stats().expired == 10).await;
    log.append(record(now));
    assert_eq!(count(&*log).await, 1);
}

/// Whether its log lines are shed, and it says so.
fn is_left_out(record: &Activation) -> bool {
    let said = "There was an issue while collecting your logs. Data might be missing.";
    matches!(&record.logs[..], [line] if line.text.starts_with(said))
}

#[tokio::test]
async fn what_the_log_takes_it_keeps_and_what_it_does_not_take_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), 1 << 20);
    config.log.pending_records = 200;
    let store = SqliteStore::open(config).unwrap();
    let log = store.activations();
    for at in 0..20_000 {
        log.append(record(at));
        assert!(at % 100 > 0 || log.stats().pending <= 200);
    }
    let stats = log.stats();
    assert_eq!(stats.appended + stats.shed_records, 20_000);
    assert!(
        stats.shed_records > 0 && stats.shed_logs > 0,
        "20,000 records at once are more than 200: {stats:?}"
    );
    log.flush().await.unwrap();
    let listed = log.list(&namespace_name("guest"), &ActivationQuery::default(), ALL, true).await.unwrap();
    assert_eq!(listed.len() as u64, stats.appended);
    assert_eq!(listed.iter().filter(|record| is_left_out(record)).count() as u64, stats.shed_logs);
    drop(store);
}

#[tokio::test]
async fn what_was_promised_is_given_back_and_not_shed() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), 1 << 20);
    (config.log.pending_records, config.log.pending_bytes) = (4, ByteSize::mib(1));
    config.log.gather = Duration::from_secs(3600);
    let store = SqliteStore::open(config).unwrap();
    let log = store.activations();
    let (mut kept, mut given_back) = (0, None);
    // Until the log's thread has too much to do.
    while given_back.is_none() {
        given_back = log.offer(record(kept)).err();
        kept += 1;
    }
    let given_back = *given_back.unwrap();
    assert_eq!(
        (given_back.start.as_millis(), is_left_out(&given_back)),
        (kept - 1, true),
        "its lines may go"
    );
    let id = given_back.id;
    log.flush().await.unwrap();
    log.offer(given_back).unwrap();
    let guest = namespace_name("guest");
    assert!(log.get(&guest, id).await.unwrap().is_some());
    log.flush().await.unwrap();
    let mut huge = record(1_000_000);
    huge.response.result = Some(serde_json::from_str(&format!("\"{}\"", "x".repeat(2 << 20))).unwrap());
    let id = huge.id;
    log.offer(huge).unwrap();
    assert!(log.get(&guest, id).await.unwrap().is_some(), "it fits where nothing else is");
    assert_eq!((log.stats().shed_records, log.stats().appended), (0, kept + 1));
}

#[tokio::test]
async fn the_bound_is_on_bytes_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), 1 << 20);
    config.log.pending_bytes = ByteSize::mib(1);
    let store = SqliteStore::open(config).unwrap();
    let log = store.activations();
    let mut alone = record(1);
    alone.logs[0].text = "x".repeat((1 << 20) - (16 << 10));
    let id = alone.id;
    log.append(alone);
    log.flush().await.unwrap();
    let alone = log.get(&namespace_name("guest"), id).await.unwrap().unwrap();
    assert!(alone.logs[0].text.len() > 1 << 19, "it is large and fits");
    let mut large = record(2);
    large.logs[0].text = "x".repeat(2 << 20);
    log.append(large);
    let mut huge = record(3);
    huge.response.result = Some(serde_json::from_str(&format!("\"{}\"", "x".repeat(2 << 20))).unwrap());
    log.append(huge);
    let stats = log.stats();
    assert_eq!((stats.appended, stats.shed_logs, stats.shed_records), (2, 1, 1));
}

#[tokio::test]
async fn a_record_that_no_frame_has_room_for_is_kept_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    let log = store.activations();
    // MB of a result, of annotations and of a log line; and which of them are left out.
    let cases = [
        ([65, 0, 65], [true, false, true]),
        ([47, 18, 0], [true, false, false]),
        ([18, 47, 63], [false, true, false]),
        ([65, 65, 0], [true, true, false]),
        ([63, 0, 63], [false, false, false]),
    ];
    for (at, (sizes, left_out)) in cases.into_iter().enumerate() {
        let [result, annotation, line] = sizes.map(|size| "x".repeat(size << 20));
        let mut large = record(at as u64);
        large.response.result = Some(serde_json::from_str(&format!("\"{result}\"")).unwrap());
        large.annotations.set("large", annotation);
        large.logs[0].text = line;
        let id = large.id;
        log.append(large);
        // As it waits to be written, and as it was written.
        for _ in 0..2 {
            let kept = log.get(&namespace_name("guest"), id).await.unwrap().unwrap();
            let result = kept.response.result.as_ref().unwrap();
            assert_eq!(result.get().contains("left out"), left_out[0], "{sizes:?}: {result:.100}");
            assert_eq!(kept.annotations.get("left_out").is_some(), left_out[1], "{sizes:?}");
            assert_eq!(kept.annotations.get("large").is_none(), left_out[1], "{sizes:?}");
            assert_eq!(is_left_out(&kept), left_out[2], "{sizes:?}: {:.100}", kept.logs[0].text);
            log.flush().await.unwrap();
        }
    }
    assert_eq!((log.stats().appended, log.stats().shed_records), (cases.len() as u64, 0));
}
