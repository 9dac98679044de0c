//! The log of activations after a crash or a bad disk: what is lost, what is refused with which words, and what repairs itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{fs, os::unix::fs::FileExt, path::Path};

use common::{ALL, count, log_files, open, record};
use flint_model::Activation;
use flint_store::{ActivationQuery, StoreError, conformance::sample::namespace_name};
use flint_store_sqlite::SqliteStore;

#[tokio::test]
async fn a_torn_end_is_cut_off_and_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = 0;
    for garbage in [&b""[..], b"F", b"FRec", &[0; 5000], &[0xFF; 100]] {
        let store = open(dir.path(), 1 << 20);
        let log = store.activations();
        assert_eq!(count(&*log).await, expected);
        (0..10).for_each(|start| log.append(record(start)));
        store.close().await.unwrap();
        expected += 10;
        let last = log_files(dir.path(), "seg").pop().unwrap();
        let end = fs::metadata(&last).unwrap().len();
        fs::File::options().write(true).open(&last).unwrap().write_all_at(garbage, end).unwrap();
    }
    // The last record half written.
    let last = log_files(dir.path(), "seg").pop().unwrap();
    let file = fs::File::options().write(true).open(&last).unwrap();
    file.set_len(file.metadata().unwrap().len() - 101).unwrap();
    let store = open(dir.path(), 1 << 20);
    assert_eq!(count(&*store.activations()).await, expected - 1);
    // A segment that a crash left without its first bytes.
    drop(store);
    fs::write(dir.path().join("activations/0000000002.seg"), b"FLI").unwrap();
    let store = open(dir.path(), 1 << 20);
    store.activations().append(record(1));
    assert_eq!(count(&*store.activations()).await, expected);
}

#[tokio::test]
async fn a_lost_or_damaged_index_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 4 << 10);
    (0..100).for_each(|start| store.activations().append(record(start)));
    store.close().await.unwrap();
    let indexes = log_files(dir.path(), "idx");
    assert!(indexes.len() >= 3, "{indexes:?}");
    fs::remove_file(&indexes[0]).unwrap();
    fs::write(&indexes[1], b"FLINTIX1 and no more").unwrap();
    fs::copy(&indexes[3], &indexes[2]).unwrap();
    let store = open(dir.path(), 4 << 10);
    let listed = store
        .activations()
        .list(&namespace_name("guest"), &ActivationQuery::default(), ALL, true)
        .await
        .unwrap();
    assert_eq!(listed.len(), 100);
    assert!(listed.iter().all(|record| record.logs.len() == 2));
}

/// What can become of an index file, and what is in it then; `None` when it is not there any more.
type Damage = fn(Vec<u8>) -> Option<Vec<u8>>;
const DAMAGES: [Damage; 8] = [
    |_| None,
    |_| Some(Vec::new()),
    |bytes| Some(bytes[..bytes.len() / 2].to_vec()),
    |_| Some(b"FLINTIX1 and no more".to_vec()),
    |bytes| Some(vec![0xA5; bytes.len()]),
    |bytes| Some(vec![0; bytes.len()]),
    // The first two entries lead to each other's records.
    |mut bytes| {
        let entries = 16 + u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()) as usize;
        let (first, second) = bytes[entries..entries + 80].split_at_mut(40);
        first[24..].swap_with_slice(&mut second[24..]);
        Some(bytes)
    },
    // The ids are in the wrong order: the last 4 of the 48 bytes that each record has in all.
    |mut bytes| {
        let entries = 16 + u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()) as usize;
        let ids = bytes.len() - (bytes.len() - entries) / 48 * 4;
        let reversed: Vec<u8> = bytes[ids..].chunks(4).rev().flatten().copied().collect();
        bytes[ids..].copy_from_slice(&reversed);
        Some(bytes)
    },
];

/// A store with records in many finished segments.
async fn with_segments(dir: &Path) -> (SqliteStore, Vec<Activation>) {
    let store = open(dir, 4 << 10);
    let records: Vec<_> = (0..200).map(record).collect();
    records.iter().for_each(|record| store.activations().append(record.clone()));
    store.activations().flush().await.unwrap();
    (store, records)
}

#[tokio::test]
async fn whoever_reads_an_index_that_was_damaged_while_the_log_is_open_makes_it_again() {
    let guest = namespace_name("guest");
    let named = ActivationQuery { name: Some("work".to_owned()), ..ActivationQuery::default() };
    // Each kind of read comes first once.
    for first in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let (store, records) = with_segments(dir.path()).await;
        let log = store.activations();
        let indexes = log_files(dir.path(), "idx");
        assert!(indexes.len() > DAMAGES.len(), "{indexes:?}");
        for (path, damage) in indexes.iter().zip(DAMAGES) {
            match damage(fs::read(path).unwrap()) {
                Some(damaged) => fs::write(path, damaged).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }
        for read in (0..3).cycle().skip(first).take(3) {
            if read == 2 {
                for (at, record) in records.iter().enumerate() {
                    assert!(log.get(&guest, record.id).await.unwrap().is_some(), "{first}: {at}");
                }
                continue;
            }
            let query = if read == 0 { &named } else { &ActivationQuery::default() };
            let listed = log.list(&guest, query, ALL, true).await.unwrap();
            assert!(listed.iter().rev().map(|record| record.id).eq(records.iter().map(|record| record.id)));
            assert!(listed.iter().all(|record| record.logs.len() == 2));
        }
        assert_eq!((count(&*log).await, log.stats().damaged_reads), (200, 0));
        assert_eq!(log_files(dir.path(), "idx"), indexes);
        assert_eq!(log_files(dir.path(), "tmp").len(), 0);
    }
}

#[tokio::test]
async fn readers_at_once_make_an_index_again_once() {
    let dir = tempfile::tempdir().unwrap();
    let (store, records) = with_segments(dir.path()).await;
    let (log, guest, query) = (store.activations(), namespace_name("guest"), ActivationQuery::default());
    // A second time in so short a time would be refused.
    log_files(dir.path(), "idx").iter().for_each(|index| fs::remove_file(index).unwrap());
    let (one, other, got) = tokio::join!(
        log.list(&guest, &query, ALL, true),
        log.list(&guest, &query, ALL, false),
        log.get(&guest, records[0].id),
    );
    assert_eq!((one.unwrap().len(), other.unwrap().len()), (200, 200));
    assert!(got.unwrap().is_some());
}

#[tokio::test]
async fn an_index_that_readers_make_again_has_what_it_would_have_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (store, records) = with_segments(dir.path()).await;
    let (log, guest, query) = (store.activations(), namespace_name("guest"), ActivationQuery::default());
    let [segments, indexes] = ["seg", "idx"].map(|extension| log_files(dir.path(), extension));
    // A record is damaged as well: the others are there.
    let segment = |at: usize| fs::File::options().write(true).open(&segments[at]).unwrap();
    segment(0).write_all_at(b"?", 200).unwrap();
    fs::remove_file(&indexes[0]).unwrap();
    assert_eq!(log.list(&guest, &query, ALL, false).await.unwrap().len(), 199);
    assert_eq!(count(&*log).await, 199);
    assert!(log.get(&guest, records[0].id).await.unwrap().is_none());
    assert!(log.get(&guest, records[1].id).await.unwrap().is_some());
    // The end of a segment is damaged: refused, and named, as at a start.
    segment(1).set_len(fs::metadata(&segments[1]).unwrap().len() - 1).unwrap();
    fs::remove_file(&indexes[1]).unwrap();
    for _ in 0..2 {
        let refused = log.list(&guest, &query, ALL, false).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Damaged { path, .. } if *path == segments[1]), "{refused}");
        assert!(refused.to_string().contains("without this file Flint starts"), "{refused}");
    }
    assert!(log.get(&guest, records[199].id).await.unwrap().is_some());
    store.close().await.unwrap();
    let refused = SqliteStore::open(common::config(dir.path(), 4 << 10)).err().unwrap();
    assert!(matches!(&refused, StoreError::Damaged { path, .. } if *path == segments[1]), "{refused}");
}

#[tokio::test]
async fn a_damaged_record_is_all_that_is_lost_of_the_segment_that_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    let records: Vec<_> = (0..10).map(record).collect();
    records.iter().for_each(|record| store.activations().append(record.clone()));
    store.close().await.unwrap();
    let last = log_files(dir.path(), "seg").pop().unwrap();
    fs::File::options().write(true).open(&last).unwrap().write_all_at(b"?", 200).unwrap();
    for _ in 0..2 {
        let store = open(dir.path(), 1 << 20);
        assert_eq!(count(&*store.activations()).await, 9);
        store.close().await.unwrap();
    }
    let store = open(dir.path(), 1 << 20);
    store.activations().append(record(10));
    assert_eq!(count(&*store.activations()).await, 10);
}

#[tokio::test]
async fn damaged_headers_lose_their_records_and_none_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    let records: Vec<_> = (0..300).map(record).collect();
    records.iter().for_each(|record| store.activations().append(record.clone()));
    store.close().await.unwrap();
    let path = log_files(dir.path(), "seg").pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let headers: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"FRec")).collect();
    assert_eq!(headers.len(), 300);
    bytes[headers[50] + 6] ^= 1;
    // From the middle of one to the middle of another, as a page that is lost.
    bytes[headers[100] + 100..headers[110] + 100].fill(0);
    fs::write(&path, &bytes).unwrap();
    let guest = namespace_name("guest");
    for _ in 0..2 {
        let store = open(dir.path(), 1 << 20);
        let log = store.activations();
        assert_eq!(count(&*log).await, 300 - 12);
        for (at, record) in records.iter().enumerate() {
            let there = log.get(&guest, record.id).await.unwrap().is_some();
            assert_eq!(there, at != 50 && !(100..=110).contains(&at), "{at}");
        }
        store.close().await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64, "nothing is cut off");
    }
    // Only what is behind the last whole one is.
    bytes[headers[299] + 6] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let store = open(dir.path(), 1 << 20);
    assert_eq!(count(&*store.activations()).await, 300 - 13);
    assert_eq!(fs::metadata(&path).unwrap().len(), headers[299] as u64);
    store.activations().append(record(300));
    store.close().await.unwrap();
    // It is finished as any other, and its index can be made again.
    let small = open(dir.path(), 4 << 10);
    (301..400).for_each(|start| small.activations().append(record(start)));
    small.close().await.unwrap();
    for _ in 0..2 {
        let store = open(dir.path(), 4 << 10);
        assert_eq!(count(&*store.activations()).await, 400 - 13);
        store.close().await.unwrap();
        fs::remove_file(&log_files(dir.path(), "idx")[0]).unwrap();
    }
}

#[tokio::test]
async fn a_damaged_record_is_named_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 4 << 10);
    let records: Vec<_> = (0..100).map(record).collect();
    records.iter().for_each(|record| store.activations().append(record.clone()));
    store.close().await.unwrap();
    let first = &log_files(dir.path(), "seg")[0];
    fs::File::options().write(true).open(first).unwrap().write_all_at(b"?", 200).unwrap();
    let store = open(dir.path(), 4 << 10);
    let (log, guest) = (store.activations(), namespace_name("guest"));
    let refused = log.get(&guest, records[0].id).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Damaged { path, .. } if path == first), "{refused}");
    for record in &records[1..] {
        assert!(log.get(&guest, record.id).await.unwrap().is_some());
    }
    // Lists have all but that one, with their logs and without.
    for with_logs in [false, true] {
        let listed = log.list(&guest, &ActivationQuery::default(), ALL, with_logs).await.unwrap();
        assert_eq!(listed.len(), 99);
        assert!(listed.iter().all(|record| record.id != records[0].id));
    }
    assert_eq!(log.stats().damaged_reads, 2);
    // Its index made again has the others.
    drop(store);
    fs::remove_file(&log_files(dir.path(), "idx")[0]).unwrap();
    let store = open(dir.path(), 4 << 10);
    assert_eq!(count(&*store.activations()).await, 99);
    drop(store);
    // Where the rest of a segment cannot be read: refused, and named.
    fs::remove_file(&log_files(dir.path(), "idx")[0]).unwrap();
    let file = fs::File::options().write(true).open(first).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let refused = SqliteStore::open(common::config(dir.path(), 4 << 10)).err().unwrap();
    assert!(matches!(&refused, StoreError::Damaged { path, .. } if path == first), "{refused}");
}
