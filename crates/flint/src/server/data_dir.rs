//! Opens the data directory, and explains failures.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flint_model::ByteSize;
use flint_store::StoreError;
use flint_store_sqlite::{Retention, SqliteStore, StoreConfig, SyncMode};

use crate::{
    config::{Config, SyncWord},
    failure::{Exit, Failure},
};

/// The error code when another server uses the data directory.
const IN_USE: &str = "data_dir_in_use";

/// Opens the store on a blocking thread.
pub(super) async fn open_store(config: &Config) -> Result<SqliteStore, Failure> {
    let store = &config.store;
    let retention = Retention {
        max_age: Some(store.max_age).filter(|age| !age.is_zero()),
        max_bytes: Some(store.max_size).filter(|size| *size > ByteSize::bytes(0)),
    };
    open(config, retention).await
}

/// The same for a command that works on data without a server. It applies no retention, which is configured
/// for the server, possibly where the command does not look.
pub(crate) async fn open_unserved(config: &Config) -> Result<SqliteStore, Failure> {
    open(config, Retention::NONE).await
}

async fn open(config: &Config, retention: Retention) -> Result<SqliteStore, Failure> {
    let store_config = StoreConfig {
        retention,
        sync: match config.store.sync {
            SyncWord::Durable => SyncMode::Durable,
            SyncWord::ProcessOnly => SyncMode::ProcessOnly,
        },
        ..StoreConfig::new(&config.server.data_dir)
    };
    match tokio::task::spawn_blocking(move || SqliteStore::open(store_config)).await {
        Ok(opened) => opened.map_err(explain_store),
        Err(error) => Err(Failure::local(format!("opening the store failed: {error}"))),
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
}

impl Made {
    pub(super) fn in_case_of_failure(data_dir: &Path) -> Self {
        let missing = data_dir
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .map(Path::to_owned);
        Self { data_dir: data_dir.to_owned(), missing: missing.collect() }
    }

    /// Removes what the failed start created.
    pub(super) fn remove(&self, reason: &anyhow::Error) {
        let is_others = reason.downcast_ref::<Failure>().is_some_and(|failure| failure.code == IN_USE);
        if self.missing.is_empty() || is_others {
            return;
        }
        // Everything in it was created by this start.
        let _ = fs::remove_dir_all(&self.data_dir);
        for parent in self.missing.iter().skip(1) {
            // Only if nobody has put anything there meanwhile.
            let _ = fs::remove_dir(parent);
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

    #[test]
    fn a_failed_start_removes_what_it_made_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a/b/data");
        let made = Made::in_case_of_failure(&deep);
        fs::create_dir_all(deep.join("blobs")).unwrap();
        // Another server was first, and created it.
        made.remove(&explain_store(StoreError::InUse { path: deep.clone(), pid: 1 }).into());
        assert!(deep.join("blobs").exists());
        let failed = anyhow::anyhow!("it failed");
        made.remove(&failed);
        assert!(!base.path().join("a").exists() && base.path().exists());

        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("mine"), "x").unwrap();
        Made::in_case_of_failure(&deep).remove(&failed);
        assert!(deep.join("mine").exists());
    }
}
