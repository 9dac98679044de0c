//! The contracts of `flint_store`, on this driver.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{env, path::PathBuf, process::Command};

use async_trait::async_trait;
use flint_model::ByteSize;
use flint_store::conformance::{Driver, Opened, crash};
use flint_store_sqlite::{LogTuning, SqliteStore, StoreConfig};
use tempfile::TempDir;

/// A data directory, with or without an owner.
struct Sqlite {
    dir: PathBuf,
    segment_bytes: Option<ByteSize>,
    _owner: Option<TempDir>,
}

impl Sqlite {
    fn empty() -> Self {
        let owner = tempfile::tempdir().unwrap();
        Self { dir: owner.path().to_owned(), segment_bytes: None, _owner: Some(owner) }
    }

    /// With segments so small that every case makes several.
    fn in_small_segments() -> Self {
        Self { segment_bytes: Some(ByteSize::kib(2)), ..Self::empty() }
    }
}

#[async_trait]
impl Driver for Sqlite {
    async fn open(&self) -> Opened {
        let log = LogTuning { segment_bytes: self.segment_bytes, ..LogTuning::default() };
        // The records of the cases are of 1970.
        let retention = flint_store_sqlite::Retention { max_age: None, ..Default::default() };
        let store = SqliteStore::open(StoreConfig { log, retention, ..StoreConfig::new(&self.dir) }).unwrap();
        Opened {
            catalog: store.catalog(),
            versions: store.versions(),
            activations: store.activations(),
            queue: store.queue(),
            dead_letters: store.dead_letters(),
            compositions: store.compositions(),
            blobs: store.blobs(),
            values: store.values(),
            apis: store.apis(),
            feeds: store.feeds(),
            secrets: store.secrets(),
            close: Box::pin(async move { store.close().await.unwrap() }),
        }
    }
}

flint_store::conformance_suite!(Sqlite::empty());

mod in_small_segments {
    use super::*;
    flint_store::conformance_suite!(@ Sqlite::in_small_segments(), activation_log, activations:
        a_record_is_seen_at_once, a_list_is_in_order_and_paged, filters_agree_with_a_plain_list,
        a_name_is_that_of_the_call, logs_come_on_request, a_page_is_bounded, values_survive, the_first_of_two_is_kept,
        namespaces_are_apart, what_was_done_is_counted, reads_and_appends_go_together);
}

/// Names the data directory of the child.
const CHILD: &str = "FLINT_STORE_CHILD";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kill_9() {
    let driver = Sqlite { segment_bytes: Some(ByteSize::kib(64)), ..Sqlite::empty() };
    let child = || {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "the_child_that_is_killed", "--ignored", "--nocapture"])
            .env(CHILD, &driver.dir);
        command
    };
    crash::killed(&driver, child, 12).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by nothing_acknowledged_is_lost_by_kill_9"]
async fn the_child_that_is_killed() {
    let Some(dir) = env::var_os(CHILD) else { return };
    let driver = Sqlite { dir: dir.into(), segment_bytes: Some(ByteSize::kib(64)), _owner: None };
    crash::work(&driver.open().await).await;
}
