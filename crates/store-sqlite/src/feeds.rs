//! Feeds in SQLite.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use flint_model::{ByteSize, EntityPath, Feed, Timestamp};
use flint_store::{Clock, Expected, Feeds, QueuedCall, StoreError};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::{
    catalog::{READING, from_json, one, to_json},
    fault::{sql_fault, unreadable},
    queue::{self, Tally},
    readers::Readers,
    revisions,
    writer::Writer,
};

const WRITING: &str = "writing a feed";

/// The table of feeds.
pub(crate) struct SqliteFeeds {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Writes a feed, if the present revision is the expected one.
fn put(connection: &Connection, feed: &Feed, expected: Expected, most: usize) -> Result<u64, StoreError> {
    let fault = sql_fault(connection, WRITING);
    let (namespace, trigger) = (feed.namespace.as_str(), feed.trigger.as_str());
    let found: Option<i64> = connection
        .prepare_cached("SELECT revision FROM feeds WHERE namespace = ?1 AND package = '' AND trigger = ?2")
        .and_then(|mut statement| statement.query_row([namespace, trigger], |row| row.get(0)).optional())
        .map_err(&fault)?;
    revisions::check(expected, found.map(|found| found as u64))?;
    if found.is_none() {
        let count: i64 = connection
            .prepare_cached("SELECT count(*) FROM feeds WHERE namespace = ?1")
            .and_then(|mut statement| statement.query_row([namespace], |row| row.get(0)))
            .map_err(&fault)?;
        if count as usize >= most {
            return Err(StoreError::TooMany { allowed: most });
        }
    }
    let revision = revisions::next(connection, WRITING)?;
    let due = feed.due().map(|due| due.as_millis() as i64);
    let body = to_json(&Feed { revision, ..feed.clone() }, WRITING)?;
    let written = connection
        .prepare_cached(
            "INSERT INTO feeds (namespace, trigger, revision, due, body)
             SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS
                 (SELECT 1 FROM entities WHERE namespace = ?1 AND package = '' AND name = ?2 AND type = 'trigger')
             ON CONFLICT DO UPDATE SET revision = excluded.revision, due = excluded.due, body = excluded.body",
        )
        .and_then(|mut statement| statement.execute(params![namespace, trigger, revision as i64, due, body]))
        .map_err(&fault)?;
    if written == 0 { Err(StoreError::Conflict) } else { Ok(revision) }
}

/// The columns for [`read`].
macro_rules! columns {
    () => {
        "rowid, CAST(namespace AS BLOB), CAST(trigger AS BLOB), revision, body"
    };
}

/// A row that the disk or the memory has changed so that it is no feed.
struct Damaged {
    row: i64,
    trigger: String,
    error: StoreError,
}

impl Damaged {
    fn log(&self) {
        let Self { trigger, error, .. } = self;
        tracing::error!(%trigger, %error, "a trigger's feed is damaged and does not fire; the disk may be failing");
    }
}

/// Parses a row of [`columns`]. Its body has to be the feed of the other columns: a firing of another one would
/// leave this row due.
fn read(connection: &Connection, row: &Row<'_>) -> Result<Result<Feed, Damaged>, StoreError> {
    let fault = sql_fault(connection, READING);
    let name = |column: usize| row.get::<_, Vec<u8>>(column).map_err(&fault);
    let trigger = [name(1)?, name(2)?].map(|name| String::from_utf8_lossy(&name).into_owned()).join("/");
    let (revision, body) = (row.get_ref(3).map_err(&fault)?, row.get_ref(4).map_err(&fault)?);
    let body = body.as_str().map_err(|error| unreadable(connection, "a feed", error));
    let feed =
        body.and_then(|body| from_json::<Feed>(connection, "a feed", body)).and_then(|feed| {
            match feed.path().to_string() == trigger && revision.as_i64().ok() == Some(feed.revision as i64) {
                true => Ok(feed),
                false => Err(unreadable(connection, "a feed", "its name or revision is another one's")),
            }
        });
    let row = row.get(0).map_err(&fault)?;
    Ok(feed.map_err(|error| Damaged { row, trigger, error }))
}

/// The feeds of a query's rows, up to a number and a total size, but at least one, and the damaged rows among
/// them.
fn some(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    limit: usize,
    most: ByteSize,
) -> Result<(Vec<Feed>, Vec<Damaged>), StoreError> {
    let fault = sql_fault(connection, READING);
    let mut statement = connection.prepare_cached(sql).map_err(&fault)?;
    let mut rows = statement.query(params).map_err(&fault)?;
    let (mut feeds, mut damaged, mut left) = (Vec::new(), Vec::new(), most.as_u64());
    while feeds.len() < limit
        && let Some(row) = rows.next().map_err(&fault)?
    {
        let size = row.get_ref(4).map_err(&fault)?.as_bytes().map_or(0, |body| body.len() as u64);
        if size > left && !feeds.is_empty() {
            break;
        }
        match read(connection, row)? {
            Ok(feed) => {
                left = left.saturating_sub(size);
                feeds.push(feed);
            }
            Err(row) => damaged.push(row),
        }
    }
    Ok((feeds, damaged))
}

/// Makes a row that is damaged due no more, and names it in the log.
fn put_aside(connection: &Connection, row: i64) -> Result<(), StoreError> {
    let fault = sql_fault(connection, WRITING);
    let mut statement = connection
        .prepare_cached(concat!("SELECT ", columns!(), " FROM feeds WHERE rowid = ?1"))
        .map_err(&fault)?;
    let mut rows = statement.query([row]).map_err(&fault)?;
    // Written or deleted meanwhile, perhaps.
    if let Some(row) = rows.next().map_err(&fault)?
        && let Err(damaged) = read(connection, row)?
    {
        damaged.log();
        connection
            .prepare_cached("UPDATE feeds SET due = NULL WHERE rowid = ?1")
            .and_then(|mut statement| statement.execute([damaged.row]))
            .map_err(&fault)?;
    }
    Ok(())
}

#[async_trait]
impl Feeds for SqliteFeeds {
    async fn put_feed(&self, feed: &Feed, expected: Expected, most: usize) -> Result<u64, StoreError> {
        let feed = feed.clone();
        self.writer.run(WRITING, move |connection| put(connection, &feed, expected, most)).await
    }

    async fn feed(&self, trigger: &EntityPath) -> Result<Option<Feed>, StoreError> {
        let EntityPath { namespace, name } = trigger.clone();
        let sql = "SELECT body FROM feeds WHERE namespace = ?1 AND package = '' AND trigger = ?2";
        self.readers
            .run(READING, move |connection| one(connection, sql, [namespace.as_str(), name.as_str()]))
            .await
    }

    async fn feeds(
        &self,
        after: Option<&EntityPath>,
        limit: usize,
        most: ByteSize,
    ) -> Result<Vec<Feed>, StoreError> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM feeds WHERE (namespace, package, trigger) > (?1, '', ?2) ORDER BY namespace, package, trigger",
        );
        let after = after.map(|path| (path.namespace.to_string(), path.name.to_string()));
        self.readers
            .list(READING, move |connection| {
                let (namespace, name) = after.unwrap_or_default(); // every name is greater than none
                let (feeds, damaged) = some(connection, sql, [namespace, name], limit, most)?;
                damaged.iter().for_each(Damaged::log);
                Ok(feeds)
            })
            .await
    }

    async fn delete_feed(&self, trigger: &EntityPath) -> Result<bool, StoreError> {
        const OPERATION: &str = "deleting a feed";
        let EntityPath { namespace, name } = trigger.clone();
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "DELETE FROM feeds WHERE namespace = ?1 AND package = '' AND trigger = ?2",
                    )
                    .and_then(|mut statement| statement.execute([namespace.as_str(), name.as_str()]))
                    .map(|deleted| deleted > 0)
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn identity(&self) -> Result<String, StoreError> {
        self.readers
            .run(READING, move |connection| {
                connection
                    .query_row("SELECT id FROM identity", [], |row| row.get(0))
                    .map_err(sql_fault(connection, READING))
            })
            .await
    }

    async fn due_feeds(&self, now: Timestamp, limit: usize, most: ByteSize) -> Result<Vec<Feed>, StoreError> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM feeds WHERE due <= ?1 ORDER BY due, namespace, trigger LIMIT ?2",
        );
        let (now, rows) = (now.as_millis() as i64, i64::try_from(limit).unwrap_or(i64::MAX));
        loop {
            let reading = move |connection: &_| some(connection, sql, [now, rows], limit, most);
            let (feeds, damaged) = self.readers.run(READING, reading).await?;
            let none = damaged.is_empty();
            for Damaged { row, .. } in damaged {
                self.writer.run(WRITING, move |connection| put_aside(connection, row)).await?;
            }
            // Those behind them come in their places; there are ever fewer.
            if none || !feeds.is_empty() {
                return Ok(feeds);
            }
        }
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers
            .run(READING, move |connection| {
                let due: Option<i64> = connection
                    .prepare_cached(
                        "SELECT min(due) FROM feeds WHERE due IS NOT NULL AND typeof(due) = 'integer'",
                    )
                    .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
                    .map_err(sql_fault(connection, READING))?;
                Ok(due.map(|due| Timestamp::from_millis(due as u64)))
            })
            .await
    }

    async fn go_on(
        &self,
        feed: &Feed,
        calls: Vec<QueuedCall>,
        holder: Option<(&str, Duration)>,
    ) -> Result<u64, StoreError> {
        let (feed, tally, now) = (feed.clone(), Arc::clone(&self.tally), self.clock.now());
        let lease = holder.map(|(owner, lease)| (owner.to_owned(), lease));
        self.writer
            .run("firing a feed", move |connection| {
                let revision = put(connection, &feed, Expected::Revision(feed.revision), 0)?;
                queue::accept(connection, &tally, &calls, &lease, now)?;
                Ok(revision)
            })
            .await
    }
}
