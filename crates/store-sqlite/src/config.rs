//! The store's configuration.

use std::{path::PathBuf, sync::Arc, time::Duration};

use flint_model::ByteSize;
use flint_store::{Clock, SystemClock};

/// Where the store is and how it behaves.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The data directory; created when missing. One server at a time.
    pub data_dir: PathBuf,
    /// How long activation records are kept.
    pub retention: Retention,
    /// What an acknowledged write survives.
    pub sync: SyncMode,
    /// Sizing of the activation log.
    pub log: LogTuning,
    /// The clock for leases and delays of accepted calls.
    pub clock: Arc<dyn Clock>,
}

impl StoreConfig {
    /// The defaults, in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            retention: Retention::default(),
            sync: SyncMode::default(),
            log: LogTuning::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// Retention of activation records; the bound reached first applies. Records are removed by whole segments,
/// so a record may outlive a bound by up to 1/64 of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age; `None` = unbounded.
    pub max_age: Option<Duration>,
    /// Maximum size of all records and their indexes; the oldest are removed first; `None` = bounded by the
    /// disk only.
    pub max_bytes: Option<ByteSize>,
}

impl Retention {
    /// Removes nothing, for commands that only read or copy.
    pub const NONE: Self = Self { max_age: None, max_bytes: None };
}

impl Default for Retention {
    /// 7 days and 10 GB.
    fn default() -> Self {
        Self { max_age: Some(Duration::from_secs(7 * 24 * 3600)), max_bytes: Some(ByteSize::mib(10 * 1024)) }
    }
}

/// Durability of an acknowledged write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Survives a power failure: fsync before each acknowledgement.
    #[default]
    Durable,
    /// Survives the end of the process, but not a power failure: no fsync. For tests and disposable servers.
    ProcessOnly,
}

/// Sizing of the activation log. The defaults suit a server; tests use smaller values.
#[derive(Clone, Copy, Debug)]
pub struct LogTuning {
    /// Maximum number of records accepted and not yet durable.
    pub pending_records: usize,
    /// Maximum memory of those records.
    pub pending_bytes: ByteSize,
    /// How long the first of them waits for more, so that they share a write.
    pub gather: Duration,
    /// Segment size; `None` = 1/64 of `Retention::max_bytes`, between 1 MB and 256 MB.
    pub segment_bytes: Option<ByteSize>,
}

impl Default for LogTuning {
    fn default() -> Self {
        Self {
            pending_records: 65_536,
            pending_bytes: ByteSize::mib(128),
            gather: Duration::from_millis(20),
            segment_bytes: None,
        }
    }
}
