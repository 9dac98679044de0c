//! Backup while the server works, and restore.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use common::{count, log_files, open, record};
use flint_store::{
    Expected, StoreError,
    conformance::sample::{LONG, call, function, inhabit},
};
use flint_store_sqlite::{check_backup, restore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_a_working_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("data"), 16 << 10);
    let (catalog, queue, log, blobs) = (store.catalog(), store.queue(), store.activations(), store.blobs());
    inhabit(&*catalog).await;
    (0..500).for_each(|start| log.append(record(start)));
    let before = call("guest", 1, 3);
    queue.enqueue(before.clone(), "a", LONG).await.unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let load = {
        let (end, catalog, blobs, log) =
            (Arc::clone(&end), Arc::clone(&catalog), Arc::clone(&blobs), Arc::clone(&log));
        tokio::spawn(async move {
            for at in 0_u64.. {
                if end.load(Relaxed) {
                    return;
                }
                let mut written = function(&format!("guest/f{at}"), at);
                written.code.digest =
                    blobs.put(Bytes::from(format!("code {at}").repeat(1000))).await.unwrap();
                let revision = catalog.put_function(&written, Expected::Absent).await.unwrap();
                queue.enqueue(call("guest", at, 3), "a", LONG).await.unwrap();
                log.append(record(at));
                if at % 2 == 0 {
                    catalog.delete_function(&written.path, revision).await.unwrap();
                    let keep: Vec<_> = catalog
                        .all_functions()
                        .await
                        .unwrap()
                        .iter()
                        .map(|function| function.code.digest)
                        .collect();
                    blobs.collect(&keep, Duration::ZERO).await.unwrap();
                }
            }
        })
    };
    // Some of what is written stays: a restored copy has functions.
    while catalog.all_functions().await.unwrap().len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let reports = Arc::new(Mutex::new(Vec::new()));
    for number in 0..3 {
        let to = dir.path().join(format!("backup {number}"));
        let seen = Arc::clone(&reports);
        let summary = store.backup(&to, move |progress| seen.lock().unwrap().push(progress)).await.unwrap();
        let reports = std::mem::take(&mut *reports.lock().unwrap());
        assert!(reports.is_sorted_by_key(|progress| progress.done));
        let last = reports.last().unwrap();
        assert!(last.done == last.total && last.done > 0 && summary.files > 3);

        let from = dir.path().join(format!("restored {number}"));
        assert_eq!(restore(&to, &from, &[], |_| {}).unwrap(), summary);
        let copy = open(&from, 16 << 10);
        let functions = copy.catalog().all_functions().await.unwrap();
        assert!(!functions.is_empty());
        for function in functions {
            assert!(
                copy.blobs().get(function.code.digest).await.unwrap().is_some(),
                "{} has no code",
                function.path
            );
        }
        assert!(count(&*copy.activations()).await >= 500);
        copy.queue().release_all_except("b").await.unwrap();
        let leased = copy.queue().lease("b", usize::MAX, LONG, Arc::new(|_| usize::MAX)).await.unwrap();
        assert!(leased.iter().any(|leased| leased.call == before));
        copy.close().await.unwrap();
    }
    end.store(true, Relaxed);
    load.await.unwrap();
    let refused = store.backup(&dir.path().join("backup 0"), |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains("not empty"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_backup_or_a_used_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let store = open(&data, 4 << 10);
    (0..100).for_each(|start| store.activations().append(record(start)));
    store.backup(&backup, |_| {}).await.unwrap();
    store.close().await.unwrap();

    let refused = restore(&backup, &data, &[], |_| {}).unwrap_err();
    assert!(refused.to_string().contains("not empty"), "{refused}");
    let refused = restore(&data, &dir.path().join("new"), &[], |_| {}).unwrap_err();
    assert!(refused.to_string().contains("no complete backup"), "{refused}");
    assert!(!dir.path().join("new").exists());
    assert!(check_backup(&backup).is_ok() && check_backup(&data).is_err());

    let segment = &log_files(&backup, "seg")[0];
    let mut bytes = fs::read(segment).unwrap();
    bytes[100] ^= 1;
    fs::write(segment, &bytes).unwrap();
    let target = dir.path().join("target");
    let refused = restore(&backup, &target, &[], |_| {}).unwrap_err();
    assert!(matches!(&refused, StoreError::Damaged { path, .. } if path == segment), "{refused}");
    assert!(!target.exists(), "a restore that failed leaves nothing");
    // A directory that was there keeps the file that others may be waiting to lock.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    restore(&backup, &empty, &[], |_| {}).unwrap_err();
    let left: Vec<_> = fs::read_dir(&empty).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["flint.lock"]);
    bytes[100] ^= 1;
    fs::write(segment, &bytes).unwrap();
    restore(&backup, &dir.path().join("empty"), &[], |_| {}).unwrap();
    assert_eq!(count(&*open(&dir.path().join("empty"), 4 << 10).activations()).await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_does_not_vouch_for_damaged_code() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = open(&data, 4 << 10);
    let digest = store.blobs().put(Bytes::from_static(b"some code")).await.unwrap().to_string();
    let path = data.join("blobs").join(&digest[..2]).join(&digest[2..]);
    fs::write(&path, b"some c0de").unwrap();
    let refused = store.backup(&dir.path().join("one"), |_| {}).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Damaged { path: found, .. } if *found == path), "{refused}");
    assert!(!dir.path().join("one").exists(), "a backup that failed leaves nothing");
    // Nor for what is not there.
    fs::remove_file(&path).unwrap();
    inhabit(&*store.catalog()).await;
    let mut function = function("guest/a", 1);
    function.code.digest = digest.parse().unwrap();
    store.catalog().put_function(&function, Expected::Absent).await.unwrap();
    fs::create_dir(dir.path().join("two")).unwrap();
    let refused = store.backup(&dir.path().join("two"), |_| {}).await.unwrap_err();
    assert!(
        refused.to_string().contains(&format!("the code of /guest/a ({digest}) is missing")),
        "{refused}"
    );
    store.blobs().put(Bytes::from_static(b"some code")).await.unwrap();
    store.backup(&dir.path().join("two"), |_| {}).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_was_interrupted_is_begun_anew_and_files_beside_the_data_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (backup, target) = (dir.path().join("backup"), dir.path().join("target"));
    let store = open(&dir.path().join("data"), 4 << 10);
    (0..100).for_each(|start| store.activations().append(record(start)));
    store.backup(&backup, |_| {}).await.unwrap();
    store.close().await.unwrap();

    fs::create_dir_all(target.join("activations")).unwrap();
    for left in ["flint.lock", "flint.restoring", "flint.db", "activations/half", "a.key"] {
        fs::write(target.join(left), left).unwrap();
    }
    let refused = flint_store_sqlite::SqliteStore::open(common::config(&target, 4 << 10)).err().unwrap();
    assert!(refused.to_string().contains("restore into this directory was not completed"), "{refused}");
    restore(&backup, &target, &["a.key"], |_| {}).unwrap();
    assert_eq!(fs::read_to_string(target.join("a.key")).unwrap(), "a.key");
    assert!(!target.join("activations/half").exists() && !target.join("flint.restoring").exists());
    assert_eq!(count(&*open(&target, 4 << 10).activations()).await, 100);
    let refused = restore(&backup, &target, &["a.key"], |_| {}).unwrap_err();
    assert!(refused.to_string().contains("not empty"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_into_the_data_directory_itself_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = open(&data, 4 << 10);
    for inside in ["copies/one", "activations/copy", "../data/copy"] {
        let refused = store.backup(&data.join(inside), |_| {}).await.unwrap_err();
        assert!(refused.to_string().contains("in the data directory itself"), "{refused}");
        assert!(!data.join(inside).exists());
    }
    store.backup(&dir.path().join("data-copy"), |_| {}).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_backups_into_one_directory_one_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("data"), 4 << 10);
    (0..100).for_each(|start| store.activations().append(record(start)));
    for number in 0..10 {
        let to = dir.path().join(format!("backup {number}"));
        let (one, other) = tokio::join!(store.backup(&to, |_| {}), store.backup(&to, |_| {}));
        let refused = if one.is_ok() { other } else { one }.unwrap_err();
        assert!(refused.to_string().contains("not empty"), "{refused}");
        restore(&to, &dir.path().join(format!("restored {number}")), &[], |_| {}).unwrap();
    }
    store.close().await.unwrap();
}

/// Also in a directory that others may look into.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("open to all");
    fs::create_dir(&to).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    let store = open(&dir.path().join("data"), 4 << 10);
    store.activations().append(record(1));
    let digest = store.blobs().put(Bytes::from_static(b"some code")).await.unwrap().to_string();
    store.backup(&to, |_| {}).await.unwrap();
    store.close().await.unwrap();
    let code = to.join("blobs").join(&digest[..2]).join(&digest[2..]);
    for file in log_files(&to, "seg").into_iter().chain([to.join("flint.db"), code]) {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_cannot_be_opened_is_not_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (backup, target) = (dir.path().join("backup"), dir.path().join("target"));
    let store = open(&dir.path().join("data"), 4 << 10);
    store.backup(&backup, |_| {}).await.unwrap();
    store.close().await.unwrap();
    // As a newer version makes it.
    let path = backup.join("flint.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 1000).unwrap();
    drop(database);
    let manifest = backup.join("manifest.json");
    let mut said: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    assert_eq!(said["files"][0]["path"], "flint.db");
    said["files"][0]["hash"] = blake3::hash(&fs::read(&path).unwrap()).to_hex().to_string().into();
    fs::write(&manifest, said.to_string()).unwrap();

    let refused = restore(&backup, &target, &[], |_| {}).unwrap_err();
    assert!(matches!(refused, StoreError::TooNew { found: 1000, .. }), "{refused}");
    assert!(!target.exists());
    fs::create_dir(&target).unwrap();
    fs::write(target.join("a.key"), "a.key").unwrap();
    restore(&backup, &target, &["a.key"], |_| {}).unwrap_err();
    let mut left: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.key", "flint.lock"], "it is as it was, but for the lock");
}

/// What a manifest does not list is not checked by a restore, and not restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_has_what_its_manifest_lists_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let store = open(&data, 4 << 10);
    inhabit(&*store.catalog()).await;
    let mut written = function("guest/a", 1);
    written.code.digest = store.blobs().put(Bytes::from_static(b"some code")).await.unwrap();
    store.catalog().put_function(&written, Expected::Absent).await.unwrap();
    (0..100).for_each(|start| store.activations().append(record(start)));
    store.backup(&backup, |_| {}).await.unwrap();
    store.close().await.unwrap();
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(backup.join("manifest.json")).unwrap()).unwrap();
    let listed = manifest["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap());
    let mut listed: Vec<_> = listed.map(|path| backup.join(path)).collect();
    listed.push(backup.join("manifest.json"));
    listed.sort();
    let (mut there, mut folders) = (Vec::new(), vec![backup]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { there.push(path) }
        }
    }
    there.sort();
    assert_eq!(there, listed);
}
