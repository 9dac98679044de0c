//! A full disk, on a small file system of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bytes::Bytes;
use common::{count, open, record};
use flint_store::{
    Expected, StoreError,
    conformance::sample::{LONG, call, everybody, function, inhabit},
};
use tempfile::TempDir;

/// A mounted tmpfs of 24 MB, a third of it taken by a file that can be removed.
struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(dir.path()).output();
        match mounted {
            Ok(output) if output.status.success() => {
                let disk = Self { dir };
                fs::write(disk.ballast(), vec![1; 8 << 20]).unwrap();
                Some(disk)
            }
            Ok(output) => {
                println!(
                    "not checked: no tmpfs can be mounted here: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
                None
            }
            Err(error) => {
                println!("not checked: no tmpfs can be mounted here: {error}");
                None
            }
        }
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Takes what is left, to the last byte.
    fn fill(&self) {
        let path: &Path = &self.dir.path().join("filling");
        let _ = fs::write(path, vec![1; 24 << 20]);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_refused_whole_and_accepted_again_when_there_is_space() {
    let Some(disk) = SmallDisk::mount() else { return };
    let store = open(&disk.data(), 1 << 20);
    let (queue, catalog, blobs) = (store.queue(), store.catalog(), store.blobs());
    inhabit(&*catalog).await;
    let first = catalog.put_function(&function("guest/a", 1), Expected::Absent).await.unwrap();
    let mut accepted = Vec::new();
    let refused = loop {
        let mut large = call("guest", accepted.len() as u64, 3);
        large.arguments = Bytes::from(vec![b'x'; 100_000]);
        let id = large.activation;
        match queue.enqueue(large, "a", LONG).await {
            Ok(()) => accepted.push(id),
            Err(error) => break error,
        }
        assert!(accepted.len() < 1000, "the disk does not fill");
    };
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    disk.fill();
    // Small writes may still find room in what the database has reserved; then they are refused as well.
    let mut written = 1;
    for round in 0..3 {
        let refused = loop {
            match catalog.put_function(&function(&format!("guest/f{written}"), 1), Expected::Absent).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 100_000, "the disk does not fill");
        };
        assert!(matches!(refused, StoreError::Full { .. }), "round {round}: {refused}");
        let refused = blobs.put(Bytes::from(vec![7; 1 << 20])).await.unwrap_err();
        assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    }
    // Reads go on, and show nothing half written.
    assert_eq!(queue.depth(None).await.unwrap(), accepted.len());
    assert_eq!(catalog.all_functions().await.unwrap().len(), written);

    fs::remove_file(disk.ballast()).unwrap();
    assert!(catalog.put_function(&function("guest/b", 1), Expected::Absent).await.unwrap() > first);
    queue.enqueue(call("guest", 9999, 3), "a", LONG).await.unwrap();
    let digest = blobs.put(Bytes::from(vec![7; 1 << 20])).await.unwrap();
    store.close().await.unwrap();

    let store = open(&disk.data(), 1 << 20);
    assert_eq!(store.queue().depth(None).await.unwrap(), accepted.len() + 1);
    assert_eq!(store.queue().release_all_except("b").await.unwrap(), accepted.len() + 1);
    for leased in store.queue().lease("b", accepted.len(), LONG, everybody()).await.unwrap() {
        assert!(accepted.contains(&leased.call.activation));
        assert!(store.queue().complete(leased.lease).await.unwrap());
    }
    assert_eq!(store.queue().depth(None).await.unwrap(), 1);
    assert_eq!(store.catalog().all_functions().await.unwrap().len(), written + 1);
    assert!(store.blobs().get(digest).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_sheds_and_counts_and_recovers() {
    let Some(disk) = SmallDisk::mount() else { return };
    let mut config = common::config(&disk.data(), 1 << 20);
    config.log.pending_records = 100;
    let store = flint_store_sqlite::SqliteStore::open(config).unwrap();
    let log = store.activations();
    let large = |start| {
        let mut large = record(start);
        large.response.result = Some(serde_json::from_str(&format!("\"{}\"", "x".repeat(100_000))).unwrap());
        large
    };
    let mut sent = 0;
    let refused = loop {
        log.append(large(sent));
        sent += 1;
        if let Err(error) = log.flush().await {
            break error;
        }
        assert!(sent < 1000, "the disk does not fill");
    };
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    // The server goes on: half of the room is for whole records, half for such without logs, and the rest is dropped.
    for _ in 0..200 {
        log.append(record(sent));
        sent += 1;
    }
    let stats = log.stats();
    assert_eq!(stats.appended + stats.shed_records, sent, "{stats:?}");
    assert!(stats.shed_records > 0 && stats.shed_logs > 0 && stats.pending <= 100, "{stats:?}");
    assert_eq!(count(&*log).await as u64, stats.appended, "what is not written is seen all the same");

    fs::remove_file(disk.ballast()).unwrap();
    log.flush().await.unwrap();
    log.append(record(sent));
    log.flush().await.unwrap();
    assert_eq!(count(&*log).await as u64, stats.appended + 1);
    assert_eq!(log.stats().pending, 0);
    store.close().await.unwrap();
    let store = open(&disk.data(), 1 << 20);
    assert_eq!(count(&*store.activations()).await as u64, stats.appended + 1);
}
