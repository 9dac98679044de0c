//! APIs of the API gateway in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::{Api, NamespaceName};
use flint_store::{Apis, Expected, StoreError};
use rusqlite::{OptionalExtension, params};

use crate::{
    catalog::{READING, many, one, to_json},
    fault::sql_fault,
    namespaces,
    readers::Readers,
    revisions,
    writer::Writer,
};

/// The table of APIs.
pub(crate) struct SqliteApis {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
}

#[async_trait]
impl Apis for SqliteApis {
    async fn put_api(&self, api: &Api, expected: Expected) -> Result<u64, StoreError> {
        const OPERATION: &str = "writing an API";
        let api = api.clone();
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                namespaces::check(connection, &api.namespace, OPERATION)?;
                let (namespace, base_path) = (api.namespace.as_str(), api.base_path.as_str());
                let found: Option<i64> = connection
                    .prepare_cached("SELECT revision FROM apis WHERE namespace = ?1 AND base_path = ?2")
                    .and_then(|mut statement| {
                        statement.query_row([namespace, base_path], |row| row.get(0)).optional()
                    })
                    .map_err(&fault)?;
                revisions::check(expected, found.map(|found| found as u64))?;
                let revision = revisions::next(connection, OPERATION)?;
                let body = to_json(&Api { revision, ..api.clone() }, OPERATION)?;
                connection
                    .prepare_cached(
                        "INSERT INTO apis (namespace, base_path, revision, body) VALUES (?1, ?2, ?3, ?4)
                         ON CONFLICT DO UPDATE SET revision = excluded.revision, body = excluded.body",
                    )
                    .and_then(|mut statement| {
                        statement.execute(params![namespace, base_path, revision as i64, body])
                    })
                    .map_err(&fault)?;
                Ok(revision)
            })
            .await
    }

    async fn api(&self, namespace: &NamespaceName, base_path: &str) -> Result<Option<Api>, StoreError> {
        let (namespace, base_path) = (namespace.clone(), base_path.to_owned());
        let sql = "SELECT body FROM apis WHERE namespace = ?1 AND base_path = ?2";
        self.readers
            .run(READING, move |connection| one(connection, sql, [namespace.as_str(), &base_path]))
            .await
    }

    async fn apis(&self, namespace: &NamespaceName) -> Result<Vec<Api>, StoreError> {
        let namespace = namespace.clone();
        let sql = "SELECT body FROM apis WHERE namespace = ?1 ORDER BY base_path";
        self.readers.list(READING, move |connection| many(connection, sql, [namespace.as_str()])).await
    }

    async fn delete_api(
        &self,
        namespace: &NamespaceName,
        base_path: &str,
        revision: u64,
    ) -> Result<(), StoreError> {
        const OPERATION: &str = "deleting an API";
        let (namespace, base_path) = (namespace.clone(), base_path.to_owned());
        self.writer
            .run(OPERATION, move |connection| {
                let deleted = connection
                    .prepare_cached(
                        "DELETE FROM apis WHERE namespace = ?1 AND base_path = ?2 AND revision = ?3",
                    )
                    .and_then(|mut statement| {
                        statement.execute(params![namespace.as_str(), base_path, revision as i64])
                    })
                    .map_err(sql_fault(connection, OPERATION))?;
                if deleted == 0 { Err(StoreError::Conflict) } else { Ok(()) }
            })
            .await
    }
}
