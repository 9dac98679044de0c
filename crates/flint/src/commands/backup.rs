//! `flint backup` and `flint restore`: copy a server's data, and put it back.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use flint_store::StoreError;
use flint_store_sqlite::{DataDirLock, check_backup, restorable};
use http::Method;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{
    admin::{Admin, check_data},
    cli::{BackupArgs, RestoreArgs},
    client::{collect, parsed},
    config,
    failure::{Exit, Failure},
    output::{Progress, human_size, print_json, print_line, tell},
    server::{KEY_FILE, Owner, explain_store, open_unserved},
};

/// Files that may be in a data directory before a restore.
const BESIDE: &[&str] = &[KEY_FILE];

pub(crate) async fn backup(args: &BackupArgs, json: bool) -> anyhow::Result<Exit> {
    let config = config::load(&args.data, None)?.config;
    let data_dir = &config.server.data_dir;
    check_data(data_dir)?;
    let target = std::path::absolute(&args.target)
        .map_err(|error| Failure::usage(format!("{}: {error}", args.target.display())))?;
    let Some(shown) = target.to_str() else {
        return Err(Failure::usage(format!("{}: the path is not UTF-8", target.display())).into());
    };
    // What cannot be seen from here is for the server to say.
    let mut there = fs::read_dir(&target).into_iter().flatten().flatten();
    if there.any(|entry| entry.file_name() != "lost+found") {
        return Err(Failure::usage(format!("{shown} is not empty: name a new directory")).into());
    }
    let progress = Progress::start(format!("copying {}", data_dir.display()));
    let (files, bytes) = match Admin::server_of(&config).await? {
        Some(client) => {
            let body = json!({ "to": shown }).to_string().into();
            let answer = client
                .request(Method::POST, "/v1/backup", "application/json", Some(("application/json", body)))
                .await?;
            let copied: serde_json::Value = parsed(&collect(answer).await?)?;
            (copied["files"].as_u64().unwrap_or_default(), copied["bytes"].as_u64().unwrap_or_default())
        }
        None => {
            let store = open_unserved(&config).await?;
            let copied = store.backup(&target, |_| {}).await.map_err(|error| match error {
                // Of the target, as a rule: what it says is all there is to say.
                StoreError::Failed { .. } => Failure::new(Exit::Local, "backup_failed", error.to_string()),
                error => explain_store(error),
            });
            let closed = store.close().await.map_err(explain_store);
            let copied = copied?;
            closed?;
            (copied.files as u64, copied.bytes)
        }
    };
    drop(progress);
    match json {
        true => print_json(&json!({ "to": shown, "files": files, "bytes": bytes }))?,
        false => print_line(&format!("copied {files} files ({}) to {shown}", human_size(bytes)))?,
    }
    Ok(Exit::Ok)
}

pub(crate) async fn restore(args: &RestoreArgs, json: bool) -> anyhow::Result<Exit> {
    let config = config::load(&args.data, None)?.config;
    // Where it is a link, what it leads to is replaced.
    let data_dir = fs::canonicalize(&config.server.data_dir).unwrap_or(config.server.data_dir);
    check_source(&args.source, &data_dir)?;
    let free = restorable(&data_dir, BESIDE)
        .map_err(|error| Failure::local(format!("{}: {error}", data_dir.display())))?;
    let owner = Owner::of(&data_dir);
    let aside = match (free, args.force) {
        (true, _) => None,
        (false, true) => Some(move_aside(&data_dir).await?),
        (false, false) => {
            return Err(Failure::usage(format!("{} has data already", data_dir.display()))
                .hint("choose another --data-dir, or say --force: the old data is kept beside under another name")
                .into());
        }
    };
    if owner.is_some() && aside.is_none() {
        Owner::take(&data_dir)
            .map_err(|error| Failure::local(format!("cannot take {}: {error}", data_dir.display())))?;
    }
    let kept_key = match &aside {
        None => false,
        Some(aside) => keep_key(aside, &data_dir).inspect_err(|_| put_back(aside, &data_dir))?,
    };
    let progress = Progress::start(format!("restoring {}", data_dir.display()));
    let (source, target) = (args.source.clone(), data_dir.clone());
    let restored =
        spawn_blocking(move || flint_store_sqlite::restore(&source, &target, BESIDE, |_| {})).await?;
    let summary = match restored {
        Ok(summary) => summary,
        Err(error) => {
            match (&aside, owner) {
                (Some(aside), _) => put_back(aside, &data_dir),
                (None, Some(owner)) => drop(owner.give_all(&data_dir)), // the first error is the one to tell
                (None, None) => {}
            }
            return Err(not_restored(error, &args.source, &data_dir).into());
        }
    };
    if let Some(owner) = owner {
        owner.give_all(&data_dir).map_err(|error| {
            Failure::local(format!(
                "the data is restored, but {} cannot be given back to its user: {error}",
                data_dir.display()
            ))
            .hint("give it to the user that runs the server: chown -R USER DIRECTORY")
        })?;
    }
    drop(progress);
    if json {
        print_json(
            &json!({ "to": data_dir.to_string_lossy(), "files": summary.files, "bytes": summary.bytes, "old_data": aside.map(|aside| aside.to_string_lossy().into_owned()), "kept_key": kept_key }),
        )?;
    } else {
        print_line(&format!(
            "restored {} files ({}) to {}",
            summary.files,
            human_size(summary.bytes),
            data_dir.display()
        ))?;
        if let Some(aside) = aside {
            print_line(&format!("the old data is in {}", aside.display()))?;
            if kept_key {
                print_line(&format!(
                    "its {KEY_FILE} was copied to {}: a backup has none, and the secrets need the key that they were written with",
                    data_dir.display()
                ))?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Refuses what cannot be restored from, before any data is moved.
fn check_source(source: &Path, data_dir: &Path) -> Result<(), Failure> {
    let shown = source.display();
    if !source.is_dir() {
        return Err(Failure::usage(format!("{shown} is not a directory that `flint backup` made")));
    }
    if fs::canonicalize(source).is_ok_and(|source| source.starts_with(data_dir)) {
        return Err(Failure::usage(format!("{shown} is in {}, which it would replace", data_dir.display()))
            .hint("move the backup to another place first"));
    }
    check_backup(source).map_err(|error| not_restored(error, source, data_dir))
}

/// The failure of a restore. What is damaged in the backup is not damaged in the data.
fn not_restored(error: StoreError, source: &Path, data_dir: &Path) -> Failure {
    match error {
        StoreError::Damaged { path, detail } if path.starts_with(source) => {
            Failure::new(Exit::Local, "data_damaged", format!("{} is damaged: {detail}", path.display()))
                .hint(format!("restore another backup; {} is as it was", data_dir.display()))
        }
        error => explain_store(error),
    }
}

/// Renames a data directory that no server uses.
async fn move_aside(data_dir: &Path) -> Result<PathBuf, Failure> {
    let path = data_dir.to_owned();
    let locked = spawn_blocking(move || DataDirLock::take(&path)).await;
    // Until it has its new name: a server that starts meanwhile would have its data moved away.
    let _lock =
        match locked.map_err(|error| Failure::local(format!("looking at the old data failed: {error}")))? {
            Ok(lock) => Some(lock),
            Err(error @ StoreError::InUse { .. }) => return Err(explain_store(error)),
            // Damaged data is what a restore is for.
            Err(_) => None,
        };
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = data_dir
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|| "data".to_owned());
    let aside = data_dir.with_file_name(format!("{name}.before-restore-{stamp}"));
    fs::rename(data_dir, &aside).map_err(|error| {
        Failure::local(format!("cannot move {} to {}: {error}", data_dir.display(), aside.display()))
            .hint("restore into a new --data-dir instead")
    })?;
    Ok(aside)
}

/// Copies the encryption key of secrets, which backups do not contain, from the data that was moved aside;
/// returns whether there was one.
fn keep_key(aside: &Path, data_dir: &Path) -> Result<bool, Failure> {
    let (from, to) = (aside.join(KEY_FILE), data_dir.join(KEY_FILE));
    if !from.is_file() {
        return Ok(false);
    }
    // With the file's own permissions, which exclude others.
    let copied = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data_dir)
        .and_then(|()| fs::copy(&from, &to))
        .and_then(|_| File::open(&to)?.sync_all());
    copied.map(|()| true).map_err(|error| {
        Failure::local(format!("cannot copy {} to {}: {error}", from.display(), to.display()))
    })
}

/// Moves the old data back after a failed restore, unless a server has started there meanwhile.
fn put_back(aside: &Path, data_dir: &Path) {
    let cleared = || match DataDirLock::take(data_dir) {
        Ok(lock) if restorable(data_dir, BESIDE)? => lock.remove_dir(data_dir),
        Ok(_) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        Err(error) => Err(io::Error::other(error)),
    };
    if cleared().and_then(|()| fs::rename(aside, data_dir)).is_err() {
        tell!("note: the old data is in {}", aside.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn data_that_a_server_uses_stays_and_whoever_waits_for_it_does_not_follow_it() {
        let base = tempfile::tempdir().unwrap();
        let data_dir = base.path().join("data");
        let server = DataDirLock::take(&data_dir).unwrap();
        assert_eq!(move_aside(&data_dir).await.unwrap_err().code, "data_dir_in_use");
        drop(server);
        fs::write(data_dir.join("flint.db"), "old").unwrap();
        let aside = move_aside(&data_dir).await.unwrap();
        let next = DataDirLock::take(&data_dir).unwrap();
        assert!(aside.join("flint.db").exists() && !data_dir.join("flint.db").exists());
        drop(next);
    }

    #[test]
    fn a_backup_is_not_restored_over_itself() {
        let base = tempfile::tempdir().unwrap();
        let data_dir = base.path().canonicalize().unwrap().join("data");
        let (inside, beside) = (data_dir.join("backup"), base.path().join("beside"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir(&beside).unwrap();
        let refused = |source: &Path| check_source(source, &data_dir).unwrap_err();
        for source in [&data_dir, &inside] {
            assert!(refused(source).message.contains("which it would replace"), "{}", source.display());
        }
        let (missing, empty) = (refused(&base.path().join("none")), refused(&beside));
        assert_eq!((missing.exit, empty.exit), (Exit::Usage, Exit::Local));
        assert!(empty.message.contains("no complete backup"), "{empty}");
    }

    #[test]
    fn old_data_comes_back_where_nobody_else_has_begun() {
        let base = tempfile::tempdir().unwrap();
        let (aside, data_dir) = (base.path().join("aside"), base.path().join("data"));
        let old = || {
            fs::create_dir(&aside).unwrap();
            fs::write(aside.join("flint.db"), "old").unwrap();
        };
        let database = || fs::read_to_string(data_dir.join("flint.db")).unwrap();
        old();
        put_back(&aside, &data_dir);
        assert_eq!(database(), "old");
        fs::rename(&data_dir, &aside).unwrap();
        // One that is about to begin keeps it.
        let server = DataDirLock::take(&data_dir).unwrap();
        put_back(&aside, &data_dir);
        assert!(data_dir.join(DataDirLock::FILE).exists() && aside.exists());
        drop(server);
        fs::write(data_dir.join(KEY_FILE), "a copy").unwrap();
        put_back(&aside, &data_dir);
        assert_eq!((database().as_str(), data_dir.join(KEY_FILE).exists()), ("old", false));
        // Data of a newly started server stays, and the old data too.
        fs::write(data_dir.join("flint.db"), "new").unwrap();
        old();
        put_back(&aside, &data_dir);
        assert_eq!((database().as_str(), aside.join("flint.db").exists()), ("new", true));
    }
}
