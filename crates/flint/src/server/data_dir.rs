//! The data directory: opening it, and what is in the way.

use std::{
    fs,
    path::{Path, PathBuf},
};

use flint_model::ByteSize;
use flint_store::StoreError;
use flint_store_sqlite::{Retention, SqliteStore, StoreConfig, SyncMode};

use crate::{
    config::{Config, SyncWord},
    failure::{Exit, Failure},
};

/// Opens the store, off the threads that serve.
pub(crate) async fn open_store(config: &Config) -> Result<SqliteStore, Failure> {
    let store = &config.store;
    let store_config = StoreConfig {
        retention: Retention {
            max_age: Some(store.max_age).filter(|age| !age.is_zero()),
            max_bytes: Some(store.max_size).filter(|size| *size > ByteSize::bytes(0)),
        },
        sync: match store.sync {
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

/// A store's error as a failure; the store's own words name the repair step.
pub(crate) fn explain_store(error: StoreError) -> Failure {
    let (code, hint) = match &error {
        StoreError::InUse { .. } => ("data_dir_in_use", None),
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

/// What a start has to remove when it fails: the directories that it made.
pub(super) struct Made {
    data_dir: PathBuf,
    /// Directories that did not exist, the deepest first; empty when the data directory was there.
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

    /// The start failed: nothing of it is left.
    pub(super) fn remove(&self) {
        if self.missing.is_empty() {
            return;
        }
        // Everything in it was made by this start.
        let _ = fs::remove_dir_all(&self.data_dir);
        for parent in self.missing.iter().skip(1) {
            // Only if nobody else has put something there meanwhile.
            let _ = fs::remove_dir(parent);
        }
    }

    /// The start worked.
    pub(super) fn keep(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_start_removes_what_it_made_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let deep = base.path().join("a/b/data");
        let made = Made::in_case_of_failure(&deep);
        fs::create_dir_all(deep.join("blobs")).unwrap();
        made.remove();
        assert!(!base.path().join("a").exists() && base.path().exists());

        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("mine"), "x").unwrap();
        Made::in_case_of_failure(&deep).remove();
        assert!(deep.join("mine").exists());
    }
}
