//! A data directory from a backup.

use std::{
    fs::{self, File},
    path::{Component, Path},
};

use flint_store::StoreError;

use crate::{
    BackupSummary, Progress, StoreConfig,
    backup::{Manifest, Meter, copy_file, sync_dirs},
    fault::file_fault,
    files,
    lock::DataDirLock,
    store::{SqliteStore, layout},
};

const OPERATION: &str = "restoring";

/// Makes the data directory `to`, which must be empty or missing, from the backup in `from`. Every file is checked against the
/// manifest, and the result is opened once. Blocking.
pub fn restore(
    from: &Path,
    to: &Path,
    mut report: impl FnMut(Progress),
) -> Result<BackupSummary, StoreError> {
    let manifest = Manifest::read(from)?;
    let fault = |error| file_fault(OPERATION, to)(error);
    if !files::is_empty_dir(to).map_err(fault)? {
        let detail = format!("{} is not empty: move it away, or name a new data directory", to.display());
        return Err(StoreError::Failed { operation: OPERATION, detail });
    }
    files::make_dir(to).map_err(fault)?;
    // Neither a server nor an interrupted restore may pass for a complete one.
    let lock = DataDirLock::take(to)?;
    let mark = to.join(layout::RESTORING);
    File::create(&mark).and_then(|file| file.sync_all()).and_then(|()| files::sync_dir(to)).map_err(fault)?;

    let summary = manifest.summary();
    let mut meter = Meter { progress: Progress { done: 0, total: summary.bytes }, report: &mut report };
    for entry in &manifest.files {
        let source = from.join(&entry.path);
        let damaged = |detail: &str| StoreError::Damaged { path: source.clone(), detail: detail.to_owned() };
        if !entry.path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(damaged("its path in the manifest leads out of the backup"));
        }
        let hash = copy_file(&source, &to.join(&entry.path), entry.bytes, &mut meter)
            .map_err(file_fault(OPERATION, &source))?;
        if hash != entry.hash {
            return Err(damaged("it does not have the hash that the manifest says: use another backup"));
        }
    }
    sync_dirs(to, manifest.files.iter().map(|entry| entry.path.as_path())).map_err(fault)?;
    fs::remove_file(&mark).and_then(|()| files::sync_dir(to)).map_err(fault)?;
    drop(lock);
    SqliteStore::open(StoreConfig::new(to))?.stop();
    Ok(summary)
}
