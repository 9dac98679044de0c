//! Opens the data directory, and explains failures.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use flint_model::ByteSize;
use flint_store::StoreError;
use flint_store_sqlite::{DataDirLock, Retention, SqliteStore, StoreConfig, SyncMode};

use crate::{
    config::{Config, SyncWord},
    failure::{Exit, Failure},
};

/// The error code when another server uses the data directory.
const IN_USE: &str = "data_dir_in_use";

/// Opens the store on a blocking thread.
pub(super) async fn open_store(config: &Config, made: &Made) -> Result<SqliteStore, Failure> {
    let store = &config.store;
    let retention = Retention {
        max_age: Some(store.max_age).filter(|age| !age.is_zero()),
        max_bytes: Some(store.max_size).filter(|size| *size > ByteSize::bytes(0)),
    };
    let lock = lock(config).await?;
    made.locked(lock.clone());
    open(config, retention, lock).await
}

/// The same for a command that works on data without a server. It applies no retention, which is configured
/// for the server, possibly where the command does not look.
pub(crate) async fn open_unserved(config: &Config) -> Result<SqliteStore, Failure> {
    open(config, Retention::NONE, lock(config).await?).await
}

async fn lock(config: &Config) -> Result<DataDirLock, Failure> {
    let data_dir = config.server.data_dir.clone();
    off_thread(move || DataDirLock::take(&data_dir)).await
}

async fn open(config: &Config, retention: Retention, lock: DataDirLock) -> Result<SqliteStore, Failure> {
    let store_config = StoreConfig {
        retention,
        sync: match config.store.sync {
            SyncWord::Durable => SyncMode::Durable,
            SyncWord::ProcessOnly => SyncMode::ProcessOnly,
        },
        ..StoreConfig::new(&config.server.data_dir)
    };
    off_thread(move || SqliteStore::open_with(store_config, lock)).await
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(explain_opening),
        Err(error) => Err(Failure::local(format!("opening the store failed: {error}"))),
    }
}

/// The failure of opening a store. A damaged file of activation records is in the way of nothing else.
fn explain_opening(error: StoreError) -> Failure {
    match &error {
        StoreError::Damaged { path, detail } if path.extension().is_some_and(|end| end == "seg") => {
            let path = path.display();
            Failure::new(Exit::Local, "data_damaged", format!("{path} is damaged: {detail}")).hint(format!(
                "move {path} to another directory and start again: its activation records are lost, and all else is kept; or flint restore BACKUP --force"
            ))
        }
        _ => explain_store(error),
    }
}

/// A store's error as a failure; its own text contains the next step.
pub(crate) fn explain_store(error: StoreError) -> Failure {
    let (code, hint) = match &error {
        StoreError::InUse { .. } => (IN_USE, None),
        StoreError::Damaged { .. } => {
            ("data_damaged", Some("flint restore BACKUP --force, which keeps the damaged data beside"))
        }
        StoreError::TooNew { .. } => ("data_too_new", None),
        StoreError::Full { .. } => ("disk_full", None),
        _ => ("store_failed", Some("check that --data-dir is on a writable disk and belongs to this user")),
    };
    let failure = Failure::new(Exit::Local, code, error.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A warning if other users could replace the server's data, which includes the runtimes' code.
pub(super) fn open_to_others(data_dir: &Path) -> Option<String> {
    let data = fs::metadata(data_dir).ok()?;
    let own = [0, rustix::process::geteuid().as_raw()];
    if data.mode() & 0o002 != 0 {
        return Some(format!("everybody can write to {}: chmod 700", data_dir.display()));
    }
    (!own.contains(&data.uid()))
        .then(|| format!("{} belongs to another user, {}: chown it", data_dir.display(), data.uid()))
}

/// The directories that a start has created, to be removed if it fails.
pub(super) struct Made {
    data_dir: PathBuf,
    /// Directories that did not exist, the deepest first; empty if the data directory existed.
    missing: Vec<PathBuf>,
    /// Kept until the removal is done: data that another process writes there meanwhile would be lost.
    lock: OnceLock<DataDirLock>,
}

impl Made {
    pub(super) fn in_case_of_failure(data_dir: &Path) -> Self {
        let missing = data_dir
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .map(Path::to_owned);
        Self { data_dir: data_dir.to_owned(), missing: missing.collect(), lock: OnceLock::new() }
    }

    /// The start has locked the data directory. What is there already was written by another process, which came
    /// first and has ended.
    fn locked(&self, lock: DataDirLock) {
        let is_new = fs::read_dir(&self.data_dir)
            .is_ok_and(|mut there| there.all(|it| it.is_ok_and(|it| it.file_name() == DataDirLock::FILE)));
        if is_new {
            let _ = self.lock.set(lock); // a start locks it once
        }
    }

    /// Removes what the failed start created.
    pub(super) fn remove(self) {
        if self.missing.is_empty() {
            return;
        }
        // Without the lock, it is another's, or as good as empty.
        let removed = match self.lock.into_inner() {
            Some(lock) => lock.remove_dir(&self.data_dir),
            None => fs::remove_dir(&self.data_dir),
        };
        if removed.is_ok() {
            for parent in self.missing.iter().skip(1) {
                // Only if nobody has put anything there meanwhile.
                let _ = fs::remove_dir(parent);
            }
        }
    }

    /// The start succeeded: nothing is removed.
    pub(super) fn keep(self) {}
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flint_model::NamespaceName;
    use flint_store::ActivationQuery;

    use super::*;

    #[tokio::test]
    async fn a_command_removes_no_records() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.server.data_dir = dir.path().join("data");
        config.store.max_age = Duration::from_secs(1);
        let record = serde_json::json!({
            "id": "1".repeat(32), "namespace": "guest", "name": "work", "path": "guest/work", "version": "0.0.1",
            "subject": "guest", "start": 1000, "end": 1000, "duration_us": 1, "wait_us": 2, "timeline": {},
            "response": {"status": "success"}
        });
        let store = open_unserved(&config).await.unwrap();
        store.activations().append(serde_json::from_value(record).unwrap());
        store.close().await.unwrap();
        let store = open_unserved(&config).await.unwrap();
        // Longer than a record's retention and the log's interval.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let (guest, all) = (NamespaceName::parse("guest").unwrap(), ActivationQuery::default());
        assert_eq!(store.activations().count(&guest, &all).await.unwrap(), 1);
        store.close().await.unwrap();
    }

    #[test]
    fn a_data_directory_that_others_could_change_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |mode| {
            fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            open_to_others(dir.path())
        };
        assert_eq!((mode(0o700), mode(0o755)), (None, None));
        assert!(mode(0o777).unwrap().contains("chmod 700"));
        if rustix::process::geteuid().is_root() {
            mode(0o755);
            std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
            assert!(open_to_others(dir.path()).unwrap().contains("65534"));
        }
    }

    fn failed_start(made: Made) {
        let lock = DataDirLock::take(&made.data_dir).unwrap();
        made.locked(lock);
        fs::create_dir_all(made.data_dir.join("blobs")).unwrap();
        made.remove();
    }

    #[test]
    fn damaged_records_are_moved_away_and_other_data_is_restored() {
        let refused = |file: &str| {
            let path = PathBuf::from("/data").join(file);
            explain_opening(StoreError::Damaged { path, detail: "x".to_owned() })
        };
        let hint = refused("activations/0000000001.seg").hint.unwrap();
        assert!(hint.starts_with("move /data/activations/0000000001.seg "), "{hint}");
        assert!(refused("flint.db").hint.unwrap().starts_with("flint restore"));
    }

    #[test]
    fn a_failed_start_removes_what_it_made_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a/b/data");
        failed_start(Made::in_case_of_failure(&deep));
        assert!(!base.path().join("a").exists() && base.path().exists());
        // One that did not get as far as the data directory.
        let made = Made::in_case_of_failure(&deep);
        fs::create_dir_all(&deep).unwrap();
        made.remove();
        assert!(!base.path().join("a").exists());

        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("mine"), "x").unwrap();
        failed_start(Made::in_case_of_failure(&deep));
        assert!(deep.join("mine").exists());
    }

    #[test]
    fn what_another_process_writes_first_outlives_a_failed_start() {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join("a/data");
        // It uses the directory still.
        let made = Made::in_case_of_failure(&data);
        let other = DataDirLock::take(&data).unwrap();
        fs::write(data.join("flint.db"), "committed").unwrap();
        made.remove();
        assert!(data.join("flint.db").exists());
        drop(other);
        fs::remove_dir_all(&data).unwrap();
        // It has come and gone before the start had the lock.
        let made = Made::in_case_of_failure(&data);
        drop(DataDirLock::take(&data).unwrap());
        fs::write(data.join("flint.db"), "committed").unwrap();
        failed_start(made);
        assert!(data.join("flint.db").exists());
    }

    /// Others wait until the removal is done, and begin anew.
    #[tokio::test]
    async fn a_failed_start_keeps_the_directory_locked_until_it_is_gone() {
        let base = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.server.data_dir = base.path().join("data");
        let made = Made::in_case_of_failure(&config.server.data_dir);
        drop(open_store(&config, &made).await.unwrap());
        let refused = open_unserved(&config).await.err().unwrap();
        assert_eq!(refused.code, IN_USE);
        made.remove();
        assert!(!config.server.data_dir.exists());
        open_unserved(&config).await.unwrap().close().await.unwrap();
    }
}
