//! The store of one server: SQLite for entities and accepted calls, segment files for activation records, plain files for code.
//!
//! ```text
//! DATA_DIR/
//!   flint.lock           flock of the running server, its process id inside
//!   flint.db             catalog and queue; WAL, fsync at every commit, one writer thread with group commit
//!   activations/N.seg    activation records in order of arrival, as checksummed frames
//!   activations/N.idx    the sorted index of a finished segment; rebuilt from it when missing or damaged
//!   blobs/ab/cdef…       code under its BLAKE3 hash
//! ```
//!
//! [`SqliteStore::open`] gives the contracts of `flint_store`; [`SqliteStore::backup`] and [`restore`](restore()) copy all of it.
#![forbid(unsafe_code)]

mod apis;
mod backup;
mod blobs;
mod catalog;
mod compositions;
mod config;
mod database;
mod dead_letters;
mod entities;
mod fault;
mod feeds;
mod files;
mod key_value;
mod lock;
mod log;
mod namespaces;
mod off_thread;
mod queue;
mod readers;
mod restore;
mod revisions;
mod schema;
mod secrets;
mod store;
mod versions;
mod writer;

pub use backup::{BackupSummary, Progress};
pub use config::{LogTuning, Retention, StoreConfig, SyncMode};
pub use lock::DataDirLock;
pub use restore::{check_backup, restorable, restore};
pub use store::SqliteStore;

/// Parses a segment's bytes as recovery does; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub use log::fuzz_segment;
