//! Fills a namespace with millions of records, written through the store as a server does.

use std::{ops::Range, path::Path};

use anyhow::{Context as _, ensure};
use flint_lab::Random;
use flint_model::{
    Activation, ActivationId, LogLine, LogStream, Namespace, NamespaceLimits, NamespaceName, Timestamp,
};
use flint_store_sqlite::{Retention, SqliteStore, StoreConfig, SyncMode};
use serde_json::json;

/// The namespace of the records.
pub(super) const NAMESPACE: &str = "guest";
/// Number of records of the rare action.
const RARE_RECORDS: u64 = 100;
/// Number of actions that are called equally often; those with odd numbers are in a package.
const COMMON: u64 = 99;
/// Interval between the starts of two records, in milliseconds.
const STEP_MS: u64 = 10;
/// Size of groups that arrive in reverse order of their starts, like calls of different durations.
const TURNED: u64 = 64;
/// Numbers of records are multiples of this, for whole groups and the exact number of rare records.
pub(super) const GRAIN: u64 = 1600;
/// One id of this many records is kept for queries by id.
const KEPT_IDS: u64 = 1000;
/// Number of records written per flush: fewer than the log sheds at.
const BATCH: u64 = 10_000;

/// Approximate size of a record on disk with its index: 300 bytes of result and three log lines.
pub(super) const RECORD_BYTES: u64 = 1100;

/// The contents of the log. Record `place` of `0..records` began `place` steps after the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) records: u64,
    /// When the first one began.
    pub(super) begin: u64,
    /// The ids of some records, spread over all.
    pub(super) ids: Vec<ActivationId>,
}

impl Records {
    /// When record `place` began, in ms since the epoch.
    pub(super) fn start(&self, place: u64) -> u64 {
        self.begin + place * STEP_MS
    }

    fn action(&self, place: u64) -> Action {
        let apart = self.records / RARE_RECORDS;
        Action(if place % apart == apart / 2 { COMMON } else { place % COMMON })
    }

    /// The number of an action's records in this range of places.
    pub(super) fn count(&self, action: Action, places: Range<u64>) -> u64 {
        places.filter(|place| self.action(*place) == action).count() as u64
    }
}

/// A called action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action(u64);

impl Action {
    /// The rare action, spread over the whole time.
    pub(super) const RARE: Self = Self(COMMON);
    /// An action that was never called.
    pub(super) const ABSENT: Self = Self(COMMON + 1);

    /// One of the common actions.
    pub(super) fn common(random: &mut Random) -> Self {
        Self(random.below(COMMON as usize) as u64)
    }

    /// The name that its records are listed under.
    pub(super) fn name(self) -> String {
        match self.0 {
            COMMON => "rare".to_owned(),
            number if number % 2 == 1 => format!("tools/action-{number}"),
            number => format!("action-{number}"),
        }
    }
}

/// Writes `records` records, a multiple of [`GRAIN`], to a new data directory.
pub(super) async fn fill(data_dir: &Path, records: u64, progress: &dyn Fn(u64)) -> anyhow::Result<Records> {
    // No durability: after a power failure, the data are simply generated again.
    let config = StoreConfig {
        retention: Retention { max_age: None, max_bytes: None },
        sync: SyncMode::ProcessOnly,
        ..StoreConfig::new(data_dir)
    };
    let store =
        tokio::task::spawn_blocking(move || SqliteStore::open(config)).await.context("opening a store")??;
    let begin = Timestamp::now().as_millis().saturating_sub(records * STEP_MS);
    let mut filled = Records { records, begin, ids: Vec::new() };
    let name = NamespaceName::parse(NAMESPACE)?;
    // Records from before their namespace's creation belong to nobody.
    let created = Timestamp::from_millis(begin);
    let namespace = Namespace { name, limits: NamespaceLimits::default(), blocked: false, created };
    store.catalog().put_namespace(&namespace).await?;
    let templates: Result<Vec<_>, _> = (0..=COMMON).map(|number| template(Action(number))).collect();
    let templates = templates.context("making a record")?;
    let log = store.activations();
    for arrival in 0..records {
        let place = arrival ^ (TURNED - 1);
        let id = ActivationId::generate();
        if arrival % KEPT_IDS == 0 {
            filled.ids.push(id);
        }
        let start = filled.start(place);
        let mut record = templates[filled.action(place).0 as usize].clone();
        (record.id, record.start, record.end) =
            (id, Timestamp::from_millis(start), Timestamp::from_millis(start + 5));
        for line in &mut record.logs {
            line.time_us += start * 1000;
        }
        log.append(record);
        if arrival % BATCH == BATCH - 1 {
            log.flush().await?;
            progress(arrival);
        }
    }
    log.flush().await?;
    let stats = log.stats();
    ensure!(
        (stats.appended, stats.shed_logs, stats.shed_records) == (records, 0, 0),
        "the log did not keep every record whole: {stats:?}"
    );
    drop(log);
    store.close().await?;
    Ok(filled)
}

/// A typical record.
fn template(action: Action) -> serde_json::Result<Activation> {
    let (path, limits) =
        (action.name(), json!({"timeout": 60000, "memory": 256, "logs": 10, "concurrency": 1}));
    let bare = path.rsplit('/').next().unwrap_or(&path);
    let mut record: Activation = serde_json::from_value(json!({
        "id": ActivationId::from_u128(0), "namespace": NAMESPACE, "name": bare, "path": format!("{NAMESPACE}/{path}"),
        "version": "0.0.1", "kind": "nodejs:20", "subject": NAMESPACE, "start": 0, "end": 0,
        "duration_us": 5000, "wait_us": 100, "timeline": {"queued": 10, "placed": 20, "ran": 5020, "collected": 5100},
        "response": {"status": "success", "result": {"body": "r".repeat(289)}, "size": 300},
        "usage": {"cpu_us": 4000, "memory_peak": 40 << 20}, "annotations": [{"key": "limits", "value": limits}],
    }))?;
    record.logs = (0..3)
        .map(|line| LogLine {
            time_us: line,
            stream: LogStream::Stdout,
            text: format!("line {line}: {}", "l".repeat(50)),
        })
        .collect();
    Ok(record)
}
