//! What an operator chooses about the store.

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
    /// Sizes of the activation log.
    pub log: LogTuning,
    /// What leases and delays of accepted calls end by.
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

/// How long activation records are kept. What is reached first counts. Records go a segment at a time, so a record may
/// stay by up to 1/64 of a bound beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Removed when this old; `None` = at any age.
    pub max_age: Option<Duration>,
    /// The oldest are removed when all records and their index take more than this; `None` = no bound but the disk's.
    pub max_bytes: Option<ByteSize>,
}

impl Retention {
    /// Nothing is removed: for those who only look, or copy.
    pub const NONE: Self = Self { max_age: None, max_bytes: None };
}

impl Default for Retention {
    /// 7 days and 10 GB.
    fn default() -> Self {
        Self { max_age: Some(Duration::from_secs(7 * 24 * 3600)), max_bytes: Some(ByteSize::mib(10 * 1024)) }
    }
}

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// A power cut: fsync before each acknowledgement.
    #[default]
    Durable,
    /// The death of the process only, not a power cut: no fsync. For tests and throw-away servers.
    ProcessOnly,
}

/// Sizes of the activation log. The defaults suit a server; tests make them small.
#[derive(Clone, Copy, Debug)]
pub struct LogTuning {
    /// Most records accepted and not yet written and durable.
    pub pending_records: usize,
    /// Most memory that those records may take.
    pub pending_bytes: ByteSize,
    /// How long the first of them waits for company.
    pub gather: Duration,
    /// A segment is finished at this size; `None` = 1/64 of `Retention::max_bytes`, between 1 MB and 256 MB.
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
