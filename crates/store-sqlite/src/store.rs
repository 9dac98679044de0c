//! The store as a whole: opens, backs up and closes a data directory.

use std::{fs, path::Path, sync::Arc};

use flint_store::{
    ActivationLog, Apis, Blobs, Catalog, Clock, Compositions, DeadLetters, Feeds, KeyValue, Queue, Secrets,
    StoreError, Versions,
};

use crate::{
    BackupSummary, Progress, StoreConfig,
    apis::SqliteApis,
    backup,
    blobs::FileBlobs,
    catalog::SqliteCatalog,
    compositions::SqliteCompositions,
    database,
    dead_letters::SqliteDeadLetters,
    fault::{file_fault, locked},
    feeds::SqliteFeeds,
    key_value::SqliteKeyValue,
    lock::DataDirLock,
    log::SegmentLog,
    off_thread::off_thread,
    queue::{SqliteQueue, tally::Tally},
    readers::Readers,
    secrets::SqliteSecrets,
    versions::SqliteVersions,
    writer::Writer,
};

/// Names within the data directory.
pub(crate) mod layout {
    pub(crate) const DATABASE: &str = "flint.db";
    pub(crate) const ACTIVATIONS: &str = "activations";
    pub(crate) const BLOBS: &str = "blobs";
    /// Present while a restore is incomplete.
    pub(crate) const RESTORING: &str = "flint.restoring";
}

/// An open data directory.
pub struct SqliteStore {
    config: StoreConfig,
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    catalog: Arc<SqliteCatalog>,
    versions: Arc<SqliteVersions>,
    secrets: Arc<SqliteSecrets>,
    queue: Arc<SqliteQueue>,
    dead_letters: Arc<SqliteDeadLetters>,
    compositions: Arc<SqliteCompositions>,
    values: Arc<SqliteKeyValue>,
    apis: Arc<SqliteApis>,
    feeds: Arc<SqliteFeeds>,
    log: Arc<SegmentLog>,
    blobs: FileBlobs,
    lock: std::sync::Mutex<Option<DataDirLock>>,
}

/// Refuses a missing or empty database beside existing code: no function in a new database would refer to the
/// code, which would be removed as garbage.
fn refuse_lost(database: &Path, blobs: &FileBlobs) -> Result<(), StoreError> {
    let there = |path: &Path| fs::metadata(path).is_ok_and(|data| data.len() > 0);
    // A write-ahead log without its database is of no use: SQLite starts a new database.
    if there(database) {
        return Ok(());
    }
    if blobs.all().map_err(file_fault("opening the code directory", database))?.is_empty() {
        return Ok(());
    }
    let detail = "it is missing or empty, and there is code of functions beside it".to_owned();
    Err(StoreError::Damaged { path: database.to_owned(), detail })
}

impl SqliteStore {
    /// Whether a directory contains data.
    pub fn exists(data_dir: &Path) -> bool {
        data_dir.join(layout::DATABASE).exists()
    }

    /// Opens the data directory, and creates it if missing. Blocking: recovery after a crash reads up to one
    /// segment (256 MB) of the activation log.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        let lock = DataDirLock::take(&config.data_dir)?;
        Self::open_with(config, lock)
    }

    /// The same for a caller that has locked the directory, and may keep it locked beyond the store's end.
    pub fn open_with(config: StoreConfig, lock: DataDirLock) -> Result<Self, StoreError> {
        let mark = config.data_dir.join(layout::RESTORING);
        if mark.exists() {
            let detail =
                "a restore into this directory was not completed: `flint restore` it again, or empty the directory".to_owned();
            return Err(StoreError::Damaged { path: mark, detail });
        }
        Self::open_locked(config, lock)
    }

    /// The same whatever marks it contains.
    pub(crate) fn open_locked(config: StoreConfig, lock: DataDirLock) -> Result<Self, StoreError> {
        let dir = config.data_dir.clone();
        let database = dir.join(layout::DATABASE);
        let blobs = FileBlobs::open(dir.join(layout::BLOBS), config.sync)?;
        refuse_lost(&database, &blobs)?;
        let connection = database::open_writer(&database, config.sync)?;
        let tally = Arc::new(Tally::default());
        tally.recount(&connection)?;
        let log = Arc::new(SegmentLog::open(dir.join(layout::ACTIVATIONS), &config)?);
        let counted = Arc::clone(&tally);
        let writer = Arc::new(Writer::start(connection, move |connection| {
            if let Err(error) = counted.recount(connection) {
                tracing::warn!(%error, "the counts of the queue may be wrong until the next start");
            }
        })?);
        let readers = Arc::new(Readers::new(database));
        Ok(Self {
            catalog: Arc::new(SqliteCatalog {
                writer: Arc::clone(&writer),
                readers: Arc::clone(&readers),
                tally: Arc::clone(&tally),
            }),
            versions: Arc::new(SqliteVersions { writer: Arc::clone(&writer), readers: Arc::clone(&readers) }),
            secrets: Arc::new(SqliteSecrets { writer: Arc::clone(&writer), readers: Arc::clone(&readers) }),
            values: Arc::new(SqliteKeyValue { writer: Arc::clone(&writer), readers: Arc::clone(&readers) }),
            apis: Arc::new(SqliteApis { writer: Arc::clone(&writer), readers: Arc::clone(&readers) }),
            feeds: Arc::new(SqliteFeeds {
                writer: Arc::clone(&writer),
                readers: Arc::clone(&readers),
                tally: Arc::clone(&tally),
                clock: Arc::clone(&config.clock),
            }),
            compositions: Arc::new(SqliteCompositions {
                writer: Arc::clone(&writer),
                clock: Arc::clone(&config.clock),
            }),
            queue: Arc::new(SqliteQueue {
                writer: Arc::clone(&writer),
                tally: Arc::clone(&tally),
                log: Arc::clone(&log),
                clock: Arc::clone(&config.clock),
                turns: Default::default(),
                holders: Arc::default(),
            }),
            dead_letters: Arc::new(SqliteDeadLetters {
                writer: Arc::clone(&writer),
                readers: Arc::clone(&readers),
                tally,
                log: Arc::clone(&log),
                clock: Arc::clone(&config.clock),
            }),
            config,
            writer,
            readers,
            log,
            blobs,
            lock: std::sync::Mutex::new(Some(lock)),
        })
    }

    /// The clock for leases, delays and feeds.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.config.clock)
    }

    /// Entities.
    pub fn catalog(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.catalog) as Arc<dyn Catalog>
    }

    /// Earlier versions of functions.
    pub fn versions(&self) -> Arc<dyn Versions> {
        Arc::clone(&self.versions) as Arc<dyn Versions>
    }

    /// Encrypted secrets.
    pub fn secrets(&self) -> Arc<dyn Secrets> {
        Arc::clone(&self.secrets) as Arc<dyn Secrets>
    }

    /// Activation records.
    pub fn activations(&self) -> Arc<dyn ActivationLog> {
        Arc::clone(&self.log) as Arc<dyn ActivationLog>
    }

    /// Accepted calls.
    pub fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.queue) as Arc<dyn Queue>
    }

    /// Calls that failed for good.
    pub fn dead_letters(&self) -> Arc<dyn DeadLetters> {
        Arc::clone(&self.dead_letters) as Arc<dyn DeadLetters>
    }

    /// The journal of compositions.
    pub fn compositions(&self) -> Arc<dyn Compositions> {
        Arc::clone(&self.compositions) as Arc<dyn Compositions>
    }

    /// Key-value data of functions.
    pub fn values(&self) -> Arc<dyn KeyValue> {
        Arc::clone(&self.values) as Arc<dyn KeyValue>
    }

    /// APIs of the gateway.
    pub fn apis(&self) -> Arc<dyn Apis> {
        Arc::clone(&self.apis) as Arc<dyn Apis>
    }

    /// Feeds, which fire triggers.
    pub fn feeds(&self) -> Arc<dyn Feeds> {
        Arc::clone(&self.feeds) as Arc<dyn Feeds>
    }

    /// Function code.
    pub fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(self.blobs.clone())
    }

    /// Copies everything, as of one moment, into the directory `to`, which must be empty or missing. The
    /// store stays in use meanwhile. `report` is called from another thread.
    pub async fn backup(
        &self,
        to: &Path,
        mut report: impl FnMut(Progress) + Send + 'static,
    ) -> Result<BackupSummary, StoreError> {
        self.log.flush().await?;
        let (data_dir, to) = (self.config.data_dir.clone(), to.to_owned());
        let (log, blobs) = (Arc::clone(&self.log), self.blobs.clone());
        off_thread("backing up", move || backup::run(&data_dir, &log, &blobs, &to, &mut report)).await
    }

    /// Writes everything out and releases the data directory. Later requests to its parts are refused.
    pub async fn close(self) -> Result<(), StoreError> {
        let flushed = self.log.flush().await;
        self.readers.close().await;
        off_thread("closing the store", move || {
            self.stop();
            Ok(())
        })
        .await?;
        flushed
    }

    /// Ends the threads, which releases the data directory. Blocking.
    pub(crate) fn stop(&self) {
        self.log.stop();
        self.writer.stop();
        locked(&self.lock).take();
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.stop();
    }
}
