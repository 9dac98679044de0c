//! Restores a data directory from a backup.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    path::{Component, Path},
};

use flint_store::StoreError;

use crate::{
    BackupSummary, Progress, Retention, StoreConfig, SyncMode,
    backup::{Manifest, Meter, copy_file, sync_dirs},
    fault::file_fault,
    files,
    lock::DataDirLock,
    store::{SqliteStore, layout},
};

const OPERATION: &str = "restoring";

/// Whether `to` can take a restore: it is missing, contains only files named in `beside`, or what an
/// interrupted restore left.
pub fn restorable(to: &Path, beside: &[&str]) -> io::Result<bool> {
    let names = match fs::read_dir(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        other => other?.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?,
    };
    let foreign = |name: &OsString| *name != DataDirLock::FILE && !stays(name, beside);
    Ok(names.iter().any(|name| name == layout::RESTORING) || !names.iter().any(foreign))
}

/// Whether there is a backup in `from` that this version can read. Its files are looked at by a restore only.
pub fn check_backup(from: &Path) -> Result<(), StoreError> {
    Manifest::read(from).map(drop)
}

/// Creates the data directory `to` from the backup in `from`, if it is [`restorable`]. Files named in
/// `beside` stay. Every file is checked against the manifest, and the result is opened once; on failure, what
/// was copied is removed again. Blocking.
pub fn restore(
    from: &Path,
    to: &Path,
    beside: &[&str],
    mut report: impl FnMut(Progress),
) -> Result<BackupSummary, StoreError> {
    let manifest = Manifest::read(from)?;
    let fault = |error| file_fault(OPERATION, to)(error);
    let check = || match restorable(to, beside).map_err(fault)? {
        true => Ok(()),
        false => {
            let detail = format!("{} is not empty: move it away, or name a new data directory", to.display());
            Err(StoreError::Failed { operation: OPERATION, detail })
        }
    };
    check()?;
    let made = !to.exists();
    files::make_dir(to, SyncMode::Durable).map_err(fault)?;
    // Neither a running server nor an interrupted restore may be mistaken for a complete one.
    let lock = DataDirLock::take(to)?;
    check()?; // a server may have come and gone since
    let mark = to.join(layout::RESTORING);
    let copied = File::create(&mark)
        .and_then(|file| file.sync_all())
        .and_then(|()| files::sync_dir(to))
        .and_then(|()| clear(to, beside))
        .map_err(fault)
        .and_then(|()| copy(&manifest, from, to, &mut report));
    // The first error is returned; what cannot be removed still has the mark beside it.
    let undo = |error: StoreError| {
        let _ = clear(to, beside).and_then(|()| remove(&mark)).and_then(|()| match made {
            true => remove(&to.join(DataDirLock::FILE)).and_then(|()| fs::remove_dir(to)),
            // A directory that stays keeps the file: two processes could each have locked one of their own.
            false => Ok(()),
        });
        error
    };
    copied.map_err(undo)?;
    let config = StoreConfig { retention: Retention::NONE, ..StoreConfig::new(to) };
    let opened = SqliteStore::open_locked(config, lock.clone()).map_err(undo)?;
    fs::remove_file(&mark).and_then(|()| files::sync_dir(to)).map_err(fault)?;
    opened.stop();
    Ok(manifest.summary())
}

/// Copies every file in the manifest.
fn copy(
    manifest: &Manifest,
    from: &Path,
    to: &Path,
    report: &mut dyn FnMut(Progress),
) -> Result<(), StoreError> {
    let mut meter = Meter { progress: Progress { done: 0, total: manifest.summary().bytes }, report };
    for entry in &manifest.files {
        let source = from.join(&entry.path);
        let damaged = |detail: &str| StoreError::Damaged { path: source.clone(), detail: detail.to_owned() };
        if !entry.path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(damaged("its path in the manifest leads out of the backup"));
        }
        if !source.exists() {
            return Err(damaged("it is missing: use another backup"));
        }
        let hash = copy_file(&source, &to.join(&entry.path), entry.bytes, &mut meter)
            .map_err(file_fault(OPERATION, &source))?;
        if hash != entry.hash {
            return Err(damaged("it does not have the hash that the manifest says: use another backup"));
        }
    }
    sync_dirs(to, manifest.files.iter().map(|entry| entry.path.as_path())).map_err(file_fault(OPERATION, to))
}

/// Removes what a restore has created except its mark and the lock.
fn clear(to: &Path, beside: &[&str]) -> io::Result<()> {
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == layout::RESTORING || name == DataDirLock::FILE || stays(&name, beside) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Whether an entry is not part of a store: a file named by the caller, or what `mkfs` leaves in a mount
/// point.
fn stays(name: &OsStr, beside: &[&str]) -> bool {
    name == "lost+found" || beside.iter().any(|beside| name == *beside)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
