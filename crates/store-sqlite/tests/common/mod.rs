//! What several tests of this driver need.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "not every test needs all of it")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use flint_model::{Activation, ByteSize};
use flint_store::{ActivationLog, ActivationQuery, Page, conformance::sample};
use flint_store_sqlite::{LogTuning, Retention, SqliteStore, StoreConfig};

/// A whole list.
pub const ALL: Page = Page { skip: 0, limit: usize::MAX };

/// Segments of `segment_bytes`, and no retention: the records of tests are of 1970.
pub fn config(dir: &Path, segment_bytes: u64) -> StoreConfig {
    let log = LogTuning { segment_bytes: Some(ByteSize::bytes(segment_bytes)), ..LogTuning::default() };
    StoreConfig { log, retention: Retention { max_age: None, max_bytes: None }, ..StoreConfig::new(dir) }
}

/// Opens a data directory in that way.
pub fn open(dir: &Path, segment_bytes: u64) -> SqliteStore {
    SqliteStore::open(config(dir, segment_bytes)).unwrap()
}

/// A record of `guest`.
pub fn record(start: u64) -> Activation {
    sample::activation("guest", "guest/work", start, 2)
}

/// How many records `guest` has.
pub async fn count(log: &dyn ActivationLog) -> usize {
    log.count(&sample::namespace_name("guest"), &ActivationQuery::default()).await.unwrap()
}

/// The files of the log with that extension, in order.
pub fn log_files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir.join("activations"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}
