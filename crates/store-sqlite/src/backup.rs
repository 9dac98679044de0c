//! Backup: a consistent copy of all data, while the server runs.
//!
//! The order makes it consistent: first the database as of one moment, then what it refers to. Code is kept
//! from garbage collection meanwhile. A call that completes meanwhile is in the copy both as accepted and as
//! recorded; running it again keeps the first record. The manifest is written last: a directory without one
//! is not a backup.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use flint_model::Timestamp;
use flint_store::StoreError;
use rusqlite::{Connection, backup::Backup};
use serde::{Deserialize, Serialize};

use crate::{
    SyncMode,
    blobs::FileBlobs,
    database,
    fault::{database_fault, file_fault, sql_fault},
    files,
    log::SegmentLog,
    store::layout,
};

const OPERATION: &str = "backing up";
/// Database pages between two progress reports.
const PAGES: i32 = 1024;
/// The format of the manifest.
const FORMAT: u32 = 1;

/// Progress of a backup or a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes copied.
    pub done: u64,
    /// Bytes to copy; may grow while the server writes.
    pub total: u64,
}

/// The result of a backup or a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// Number of files.
    pub files: usize,
    /// Their total size.
    pub bytes: u64,
}

/// The manifest of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u32,
    pub(crate) created: Timestamp,
    pub(crate) files: Vec<Entry>,
}

/// One file of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its path within the data directory.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Its BLAKE3 hash, in hex.
    pub(crate) hash: String,
}

impl Manifest {
    pub(crate) const FILE: &str = "manifest.json";

    /// Reads the manifest of a backup.
    pub(crate) fn read(backup: &Path) -> Result<Self, StoreError> {
        let path = backup.join(Self::FILE);
        let damaged = |detail: String| StoreError::Damaged { path: path.clone(), detail };
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged("it is missing: this is no complete backup".to_owned()));
            }
            other => other.map_err(file_fault("restoring", &path))?,
        };
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if manifest.format > FORMAT {
            return Err(StoreError::TooNew { found: manifest.format, known: FORMAT });
        }
        Ok(manifest)
    }

    pub(crate) fn summary(&self) -> BackupSummary {
        BackupSummary { files: self.files.len(), bytes: self.files.iter().map(|entry| entry.bytes).sum() }
    }
}

/// Counts bytes and reports them.
pub(crate) struct Meter<'a> {
    pub(crate) progress: Progress,
    pub(crate) report: &'a mut dyn FnMut(Progress),
}

impl Meter<'_> {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.progress.done += bytes;
        self.progress.total = self.progress.total.max(self.progress.done);
        (self.report)(self.progress);
    }
}

/// Copies the first `bytes` bytes of a file durably, readable by this user only; returns the hash of the
/// copy.
pub(crate) fn copy_file(from: &Path, to: &Path, bytes: u64, meter: &mut Meter<'_>) -> io::Result<String> {
    let mut input = File::open(from)?.take(bytes);
    if let Some(parent) = to.parent() {
        files::make_dir(parent, SyncMode::Durable)?;
    }
    let mut output = files::create_new(to)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = input.read(&mut buffer)?;
        let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { break };
        hasher.update(part);
        output.write_all(part)?;
        meter.add(part.len() as u64);
    }
    output.sync_all()?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Syncs the directories of copied files, which makes their names durable.
pub(crate) fn sync_dirs<'a>(root: &Path, copied: impl Iterator<Item = &'a Path>) -> io::Result<()> {
    let mut dirs: Vec<PathBuf> = copied.flat_map(Path::ancestors).map(|dir| root.join(dir)).collect();
    dirs.sort_unstable();
    dirs.dedup();
    dirs.retain(|dir| dir.is_dir());
    dirs.iter().try_for_each(|dir| files::sync_dir(dir))
}

/// Copies everything to `to`; on failure nothing is left there.
pub(crate) fn run(
    data_dir: &Path,
    log: &SegmentLog,
    blobs: &FileBlobs,
    to: &Path,
    report: &mut dyn FnMut(Progress),
) -> Result<BackupSummary, StoreError> {
    let fault = |error| file_fault(OPERATION, to)(error);
    if is_within(to, data_dir).map_err(fault)? {
        let detail = format!(
            "{} is in the data directory itself and would be lost with it: name a directory outside of {}",
            to.display(),
            data_dir.display()
        );
        return Err(StoreError::Failed { operation: OPERATION, detail });
    }
    let not_empty = || {
        let detail = format!("{} is not empty: name a new directory", to.display());
        StoreError::Failed { operation: OPERATION, detail }
    };
    if !files::is_empty_dir(to).map_err(fault)? {
        return Err(not_empty());
    }
    let made = !to.exists();
    files::make_dir(to, SyncMode::Durable).map_err(fault)?;
    let begun = match files::create_new(&to.join(layout::DATABASE)) {
        // Of two concurrent backups to one place, the first wins.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(not_empty()),
        begun => begun.map_err(fault),
    };
    begun.and_then(|_| copy_all(data_dir, log, blobs, to, report)).map_err(|error| {
        let _ = if made { fs::remove_dir_all(to) } else { clear(to) }; // the error is what matters
        match error {
            StoreError::Full { .. } => {
                let detail = format!(
                    "no space left on the volume of {}: free some, or name another directory",
                    to.display()
                );
                StoreError::Failed { operation: OPERATION, detail }
            }
            other => other,
        }
    })
}

fn copy_all(
    data_dir: &Path,
    log: &SegmentLog,
    blobs: &FileBlobs,
    to: &Path,
    report: &mut dyn FnMut(Progress),
) -> Result<BackupSummary, StoreError> {
    let fault = |error| file_fault(OPERATION, to)(error);
    let mut meter = Meter { progress: Progress { done: 0, total: 0 }, report };
    let _code = blobs.hold();
    let mut manifest = Manifest { format: FORMAT, created: Timestamp::now(), files: Vec::new() };

    let source = copy_database(&data_dir.join(layout::DATABASE), &to.join(layout::DATABASE), &mut meter)?;
    let (segments, _records) = log.files();
    let code = blobs.all().map_err(fault)?.into_iter().map(|(digest, path)| {
        let bytes = fs::metadata(&path).map_or(0, |data| data.len());
        (path, bytes, Some(digest.to_string()))
    });
    let segments = segments.into_iter().map(|(path, bytes)| (path, bytes, None));
    let sources: Vec<_> = segments.chain(code).collect();
    let there = sources.iter().filter_map(|(.., address)| address.as_deref()).collect();
    refuse_missing_code(&source, &there, data_dir)?;
    drop(source);
    meter.progress.total = meter.progress.done + sources.iter().map(|(_, bytes, _)| bytes).sum::<u64>();

    let database = to.join(layout::DATABASE);
    let bytes = fs::metadata(&database).map_err(fault)?.len();
    let hash = hash_file(&database).map_err(fault)?;
    manifest.files.push(Entry { path: layout::DATABASE.into(), bytes, hash });
    for (source, bytes, address) in sources {
        let path = source.strip_prefix(data_dir).unwrap_or(&source).to_owned();
        let target = to.join(&path);
        let hash = copy_file(&source, &target, bytes, &mut meter).map_err(file_fault(OPERATION, &source))?;
        if address.is_some_and(|address| address != hash) {
            // Damaged code must not become content that the manifest vouches for.
            let detail = "its content does not have the hash that is its name: deploy what it is the code of again, or remove it";
            return Err(StoreError::Damaged { path: source, detail: detail.to_owned() });
        }
        manifest.files.push(Entry { path, bytes, hash });
    }
    sync_dirs(to, manifest.files.iter().map(|entry| entry.path.as_path())).map_err(fault)?;
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| StoreError::Failed { operation: OPERATION, detail: error.to_string() })?;
    let path = to.join(Manifest::FILE);
    files::write_whole(&path.with_extension("tmp"), &path, SyncMode::Durable, |file| file.write_all(&text))
        .map_err(fault)?;
    Ok(manifest.summary())
}

/// Without this check, functions whose code is missing would be noticed only when they are needed. It asks what was
/// copied from: SQLite would make files beside the copy that belong to no backup.
fn refuse_missing_code(
    copied: &Connection,
    there: &BTreeSet<&str>,
    data_dir: &Path,
) -> Result<(), StoreError> {
    const REFERRED: &str = "SELECT namespace, package, name, json_extract(body, '$.code.digest') FROM entities WHERE type = 'function'
         UNION SELECT namespace, package, name || '@' || version, code FROM versions";
    let fault = sql_fault(copied, OPERATION);
    let mut statement = copied.prepare(REFERRED).map_err(&fault)?;
    let mut rows = statement.query([]).map_err(&fault)?;
    while let Some(row) = rows.next().map_err(&fault)? {
        let [namespace, package, name, code]: [String; 4] =
            [row.get(0), row.get(1), row.get(2), row.get(3)].map(|value| value.unwrap_or_default());
        if !there.contains(code.as_str()) {
            let package = if package.is_empty() { package } else { format!("{package}/") };
            let detail = format!(
                "the code of /{namespace}/{package}{name} ({code}) is missing: deploy it again, or remove it"
            );
            return Err(StoreError::Damaged { path: data_dir.join(layout::BLOBS), detail });
        }
    }
    Ok(())
}

/// Empties a directory that was empty before.
fn clear(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == "lost+found" => {}
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Whether a path, whose last components may not exist yet, leads into a directory.
fn is_within(path: &Path, dir: &Path) -> io::Result<bool> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find_map(|ancestor| fs::canonicalize(ancestor).ok());
    Ok(there.is_some_and(|there| fs::canonicalize(dir).is_ok_and(|dir| there.starts_with(dir))))
}

/// Copies the database as of now into an existing empty file; writers go on meanwhile. Returns a connection that sees
/// what was copied.
fn copy_database(from: &Path, to: &Path, meter: &mut Meter<'_>) -> Result<Connection, StoreError> {
    let fault = |error: rusqlite::Error| database_fault(from, OPERATION, &error);
    let source = database::open_reader(from)?;
    // The read transaction pins one snapshot: without it, every commit would restart the copy.
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(fault)?;
    let page: u64 =
        source.query_row("PRAGMA page_size", [], |row| row.get::<_, i64>(0)).map_err(fault)? as u64;
    let mut target = Connection::open(to).map_err(fault)?;
    {
        let backup = Backup::new(&source, &mut target).map_err(fault)?;
        let mut copied = 0;
        loop {
            let step = backup.step(PAGES).map_err(fault)?;
            let state = backup.progress();
            let done = (state.pagecount - state.remaining) as u64 * page;
            meter.progress.total = state.pagecount as u64 * page;
            meter.add(done.saturating_sub(copied));
            copied = copied.max(done);
            match step {
                rusqlite::backup::StepResult::Done => break,
                rusqlite::backup::StepResult::More => {}
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    target.close().map_err(|(_, error)| fault(error))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(file_fault(OPERATION, to))?;
    Ok(source)
}

fn hash_file(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}
