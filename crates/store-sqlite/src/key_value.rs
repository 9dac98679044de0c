//! The key-value data of functions in SQLite, with each namespace's usage counted in a row of its own.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::NamespaceName;
use flint_store::{
    BucketPath, Change, KeyValue, KeyValueError, KeyValueQuota, KeyValueUsage, Page, StoreError,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{fault::sql_fault, namespaces, readers::Readers, writer::Writer};

const READING: &str = "reading values";
const WRITING: &str = "writing values";

/// The tables of values.
pub(crate) struct SqliteKeyValue {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
}

/// The result of a write within its transaction: a refusal is not a fault of the store, but rolls the write
/// back all the same.
type Written<T> = Result<T, KeyValueError>;

fn value(connection: &Connection, at: &BucketPath, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    connection
        .prepare_cached("SELECT value FROM key_values WHERE namespace = ?1 AND bucket = ?2 AND key = ?3")
        .and_then(|mut statement| {
            statement.query_row(params![at.namespace.as_str(), at.bucket, key], |row| row.get(0)).optional()
        })
        .map_err(sql_fault(connection, READING))
}

fn usage(connection: &Connection, namespace: &NamespaceName) -> Result<KeyValueUsage, StoreError> {
    let found: Option<(i64, i64)> = connection
        .prepare_cached("SELECT keys, bytes FROM key_value_usage WHERE namespace = ?1")
        .and_then(|mut statement| {
            statement.query_row([namespace.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(sql_fault(connection, READING))?;
    Ok(found.map_or_else(KeyValueUsage::default, |(keys, bytes)| KeyValueUsage {
        keys: keys as u64,
        bytes: bytes as u64,
    }))
}

/// What was just found, if no other namespace has the name. Checked afterwards: what was there before is of this
/// one, or of one before it.
fn of_its_namespace<T>(
    connection: &Connection,
    at: &BucketPath,
    found: Result<T, StoreError>,
) -> Result<T, StoreError> {
    match namespaces::was_there(connection, &at.namespace, at.as_of, READING)? {
        Some(false) => Err(StoreError::NoNamespace(at.namespace.to_string())),
        _ => found,
    }
}

/// Checks the total effect of the changes before making any of them.
fn write(connection: &Connection, at: &BucketPath, changes: &[Change], quota: KeyValueQuota) -> Written<()> {
    let fault = sql_fault(connection, WRITING);
    if namespaces::was_there(connection, &at.namespace, at.as_of, WRITING)? != Some(true) {
        return Err(StoreError::NoNamespace(at.namespace.to_string()).into());
    }
    let before = usage(connection, &at.namespace)?;
    let mut after = before;
    let mut length = connection
        .prepare_cached(
            "SELECT length(value) FROM key_values WHERE namespace = ?1 AND bucket = ?2 AND key = ?3",
        )
        .map_err(&fault)?;
    // A key may be changed several times: each change starts from the result of the one before.
    let mut lengths = std::collections::HashMap::new();
    for Change { key, value } in changes {
        let old = match lengths.get(key.as_str()) {
            Some(old) => *old,
            None => length
                .query_row(params![at.namespace.as_str(), at.bucket, key], |row| row.get::<_, i64>(0))
                .optional()
                .map_err(&fault)?
                .map(|length| length as u64),
        };
        let new = value.as_ref().map(|value| value.len() as u64);
        let size = |length: Option<u64>| length.map_or(0, |length| key.len() as u64 + length);
        after.keys = after.keys + u64::from(new.is_some()) - u64::from(old.is_some());
        after.bytes = after.bytes + size(new) - size(old);
        lengths.insert(key.as_str(), new);
    }
    let exceeds =
        after.keys > quota.keys.max(before.keys) || after.bytes > quota.bytes.as_u64().max(before.bytes);
    if exceeds {
        return Err(KeyValueError::Quota { usage: after, quota });
    }
    for Change { key, value } in changes {
        let place = params![at.namespace.as_str(), at.bucket, key, value];
        let (sql, place) = match value {
            Some(_) => (
                "INSERT INTO key_values (namespace, bucket, key, value) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET value = excluded.value",
                place,
            ),
            None => ("DELETE FROM key_values WHERE namespace = ?1 AND bucket = ?2 AND key = ?3", &place[..3]),
        };
        connection.prepare_cached(sql).and_then(|mut statement| statement.execute(place)).map_err(&fault)?;
    }
    if after != before {
        connection
            .prepare_cached(
                "INSERT INTO key_value_usage (namespace, keys, bytes) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET keys = excluded.keys, bytes = excluded.bytes",
            )
            .and_then(|mut statement| {
                statement.execute(params![at.namespace.as_str(), after.keys as i64, after.bytes as i64])
            })
            .map_err(&fault)?;
    }
    Ok(())
}

fn increment(
    connection: &Connection,
    at: &BucketPath,
    key: &str,
    delta: u64,
    quota: KeyValueQuota,
) -> Written<u64> {
    let no_counter = || KeyValueError::NoCounter { key: key.to_owned(), delta };
    let number = match value(connection, at, key)? {
        None => 0,
        Some(text) => {
            std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).ok_or_else(no_counter)?
        }
    };
    let sum: u64 = u64::checked_add(number, delta).ok_or_else(no_counter)?;
    let change = Change { key: key.to_owned(), value: Some(sum.to_string().into_bytes()) };
    write(connection, at, &[change], quota)?;
    Ok(sum)
}

/// Turns a refusal into a value of a transaction that has changed nothing.
fn refusals_apart<T>(written: Written<T>) -> Result<Written<T>, StoreError> {
    match written {
        Err(KeyValueError::Store(fault)) => Err(fault),
        other => Ok(other),
    }
}

#[async_trait]
impl KeyValue for SqliteKeyValue {
    async fn read(&self, at: &BucketPath, keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let at = at.clone();
        self.readers
            .values(READING, move |connection| {
                let found = keys.iter().map(|key| value(connection, &at, key)).collect();
                of_its_namespace(connection, &at, found)
            })
            .await
    }

    async fn write(&self, at: &BucketPath, changes: Vec<Change>, quota: KeyValueQuota) -> Written<()> {
        let at = at.clone();
        self.writer
            .run(WRITING, move |connection| refusals_apart(write(connection, &at, &changes, quota)))
            .await?
    }

    async fn increment(&self, at: &BucketPath, key: &str, delta: u64, quota: KeyValueQuota) -> Written<u64> {
        let (at, key) = (at.clone(), key.to_owned());
        self.writer
            .run(WRITING, move |connection| refusals_apart(increment(connection, &at, &key, delta, quota)))
            .await?
    }

    async fn keys(&self, at: &BucketPath, page: Page) -> Result<Vec<String>, StoreError> {
        let at = at.clone();
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.readers
            .values(READING, move |connection| {
                let sql = "SELECT key FROM key_values WHERE namespace = ?1 AND bucket = ?2 ORDER BY key LIMIT ?3 OFFSET ?4";
                let place = params![at.namespace.as_str(), at.bucket, number(page.limit), number(page.skip)];
                let found = connection
                    .prepare_cached(sql)
                    .and_then(|mut statement| statement.query_map(place, |row| row.get(0))?.collect())
                    .map_err(sql_fault(connection, READING));
                of_its_namespace(connection, &at, found)
            })
            .await
    }

    async fn usage(&self, namespace: &NamespaceName) -> Result<KeyValueUsage, StoreError> {
        let namespace = namespace.clone();
        self.readers.run(READING, move |connection| usage(connection, &namespace)).await
    }
}
