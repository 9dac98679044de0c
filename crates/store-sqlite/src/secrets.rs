//! Encrypted secrets in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::{NamespaceName, SealedSecret, SecretName, Timestamp};
use flint_store::{Secrets, StoreError};
use rusqlite::{Connection, Params, Row, params};

use crate::{
    catalog::READING,
    fault::{sql_fault, unreadable},
    namespaces,
    readers::Readers,
    revisions,
    writer::Writer,
};

const WRITING: &str = "writing a secret";
const COLUMNS: &str = "namespace, name, revision, key, sealed, updated";

/// The table of secrets.
pub(crate) struct SqliteSecrets {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
}

fn select(
    connection: &Connection,
    which: &str,
    params: impl Params,
) -> Result<Vec<SealedSecret>, StoreError> {
    let fault = sql_fault(connection, READING);
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM secrets {which}")).map_err(&fault)?;
    let mut rows = statement.query(params).map_err(&fault)?;
    let mut secrets = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        secrets.push(read(connection, row)?);
    }
    Ok(secrets)
}

fn read(connection: &Connection, row: &Row<'_>) -> Result<SealedSecret, StoreError> {
    let fault = sql_fault(connection, READING);
    let text = |column| row.get::<_, String>(column).map_err(&fault);
    let number = |column| row.get::<_, i64>(column).map_err(&fault);
    let wrong = |error: String| unreadable(connection, "a secret", error);
    Ok(SealedSecret {
        namespace: NamespaceName::parse(&text(0)?).map_err(|error| wrong(error.to_string()))?,
        name: SecretName::parse(&text(1)?).map_err(|error| wrong(error.to_string()))?,
        revision: number(2)? as u64,
        key: text(3)?,
        sealed: row.get(4).map_err(&fault)?,
        updated: Timestamp::from_millis(number(5)? as u64),
    })
}

fn put(connection: &Connection, secret: &SealedSecret, most: usize) -> Result<u64, StoreError> {
    let fault = sql_fault(connection, WRITING);
    let (namespace, name) = (secret.namespace.as_str(), secret.name.as_str());
    namespaces::check(connection, &secret.namespace, WRITING)?;
    let (others, is_there): (i64, bool) = connection
        .prepare_cached("SELECT count(*), ifnull(max(name = ?2), 0) FROM secrets WHERE namespace = ?1")
        .and_then(|mut statement| {
            statement.query_row([namespace, name], |row| Ok((row.get(0)?, row.get(1)?)))
        })
        .map_err(&fault)?;
    if !is_there && others as usize >= most {
        return Err(StoreError::TooMany { allowed: most });
    }
    let revision = revisions::next(connection, WRITING)?;
    connection
        .prepare_cached(
            "INSERT INTO secrets (namespace, name, revision, key, sealed, updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET revision = excluded.revision, key = excluded.key,
                 sealed = excluded.sealed, updated = excluded.updated",
        )
        .and_then(|mut statement| {
            let updated = secret.updated.as_millis() as i64;
            statement.execute(params![namespace, name, revision as i64, secret.key, secret.sealed, updated])
        })
        .map_err(&fault)?;
    Ok(revision)
}

#[async_trait]
impl Secrets for SqliteSecrets {
    async fn put_secret(&self, secret: &SealedSecret, most: usize) -> Result<u64, StoreError> {
        let secret = secret.clone();
        self.writer.run(WRITING, move |connection| put(connection, &secret, most)).await
    }

    async fn secret(
        &self,
        namespace: &NamespaceName,
        name: &SecretName,
    ) -> Result<Option<SealedSecret>, StoreError> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.readers
            .run(READING, move |connection| {
                let which = "WHERE namespace = ?1 AND name = ?2";
                Ok(select(connection, which, [namespace.as_str(), name.as_str()])?.pop())
            })
            .await
    }

    async fn secrets(&self, namespace: &NamespaceName) -> Result<Vec<SealedSecret>, StoreError> {
        let namespace = namespace.clone();
        self.readers
            .run(READING, move |connection| {
                select(connection, "WHERE namespace = ?1 ORDER BY name", [namespace.as_str()])
            })
            .await
    }

    async fn delete_secret(&self, namespace: &NamespaceName, name: &SecretName) -> Result<bool, StoreError> {
        const OPERATION: &str = "deleting a secret";
        let (namespace, name) = (namespace.clone(), name.clone());
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached("DELETE FROM secrets WHERE namespace = ?1 AND name = ?2")
                    .and_then(|mut statement| statement.execute([namespace.as_str(), name.as_str()]))
                    .map(|deleted| deleted > 0)
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn all_secrets(
        &self,
        after: Option<&SealedSecret>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, StoreError> {
        let after = after.map(|secret| (secret.namespace.to_string(), secret.name.to_string()));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers
            .run(READING, move |connection| {
                let which = "WHERE (namespace, name) > (?1, ?2) ORDER BY namespace, name LIMIT ?3";
                let (namespace, name) = after.unwrap_or_default(); // every name is greater than none
                select(connection, which, params![namespace, name, limit])
            })
            .await
    }

    async fn reseal(&self, secret: &SealedSecret) -> Result<bool, StoreError> {
        let secret = secret.clone();
        self.writer
            .run(WRITING, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE secrets SET key = ?4, sealed = ?5 WHERE namespace = ?1 AND name = ?2 AND revision = ?3",
                    )
                    .and_then(|mut statement| {
                        let (namespace, name) = (secret.namespace.as_str(), secret.name.as_str());
                        let revision = secret.revision as i64;
                        statement.execute(params![namespace, name, revision, secret.key, secret.sealed])
                    })
                    .map(|written| written > 0)
                    .map_err(sql_fault(connection, WRITING))
            })
            .await
    }
}
