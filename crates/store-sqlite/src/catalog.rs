//! Entities in SQLite: each a JSON body beside the columns that are searched.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::{EntityName, Function, FunctionPath, KeyId, KeyRecord, Namespace, NamespaceName};
use flint_store::{Catalog, Expected, Page, StoreError};
use rusqlite::{Connection, OptionalExtension, Params, params};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    fault::{sql_fault, unreadable},
    readers::Readers,
    writer::Writer,
};

const READING: &str = "reading the catalog";

/// The catalog's tables.
pub(crate) struct SqliteCatalog {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
}

/// A path's package as it is stored.
fn package_text(package: Option<&EntityName>) -> &str {
    package.map_or("", EntityName::as_str)
}

fn to_json(entity: &impl Serialize, operation: &'static str) -> Result<String, StoreError> {
    serde_json::to_string(entity).map_err(|error| StoreError::Failed { operation, detail: error.to_string() })
}

fn from_json<T: DeserializeOwned>(connection: &Connection, what: &str, body: &str) -> Result<T, StoreError> {
    serde_json::from_str(body).map_err(|error| unreadable(connection, what, error))
}

/// The entity in the one row's only column.
fn one<T: DeserializeOwned>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Option<T>, StoreError> {
    let body: Option<String> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(params, |row| row.get(0)).optional())
        .map_err(sql_fault(connection, READING))?;
    body.map(|body| from_json(connection, "an entity", &body)).transpose()
}

/// The entities in every row's only column.
fn many<T: DeserializeOwned>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<T>, StoreError> {
    let fault = sql_fault(connection, READING);
    let mut statement = connection.prepare_cached(sql).map_err(&fault)?;
    let mut rows = statement.query(params).map_err(&fault)?;
    let mut entities = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        let body = row.get_ref(0).map_err(&fault)?;
        let body = body.as_str().map_err(|error| unreadable(connection, "an entity", error))?;
        entities.push(from_json(connection, "an entity", body)?);
    }
    Ok(entities)
}

/// A page's numbers as SQL takes them.
fn offset_and_limit(page: Page) -> (i64, i64) {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    (number(page.skip), number(page.limit))
}

fn put_function(connection: &Connection, function: &Function, expected: Expected) -> Result<u64, StoreError> {
    const OPERATION: &str = "writing a function";
    let fault = sql_fault(connection, OPERATION);
    let path = &function.path;
    let package = package_text(path.package.as_ref());
    let found: Option<i64> = connection
        .prepare_cached("SELECT revision FROM functions WHERE namespace = ?1 AND package = ?2 AND name = ?3")
        .and_then(|mut statement| {
            statement
                .query_row(params![path.namespace.as_str(), package, path.name.as_str()], |row| row.get(0))
                .optional()
        })
        .map_err(&fault)?;
    let holds = match expected {
        Expected::Absent => found.is_none(),
        Expected::Revision(revision) => found.is_some_and(|found| found as u64 == revision),
    };
    if !holds {
        return Err(StoreError::Conflict);
    }
    let revision: i64 = connection
        .prepare_cached("UPDATE revisions SET last = last + 1 RETURNING last")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(&fault)?;
    let stored = Function { revision: revision as u64, ..function.clone() };
    let body = to_json(&stored, OPERATION)?;
    connection
        .prepare_cached(
            "INSERT INTO functions (namespace, package, name, revision, updated, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET revision = excluded.revision, updated = excluded.updated, body = excluded.body",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                path.namespace.as_str(),
                package,
                path.name.as_str(),
                revision,
                function.updated.as_millis() as i64,
                body,
            ])
        })
        .map_err(&fault)?;
    Ok(stored.revision)
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn put_function(&self, function: &Function, expected: Expected) -> Result<u64, StoreError> {
        let function = function.clone();
        self.writer
            .run("writing a function", move |connection| put_function(connection, &function, expected))
            .await
    }

    async fn function(&self, path: &FunctionPath) -> Result<Option<Function>, StoreError> {
        let path = path.clone();
        self.readers
            .run(READING, move |connection| {
                let sql = "SELECT body FROM functions WHERE namespace = ?1 AND package = ?2 AND name = ?3";
                let package = package_text(path.package.as_ref());
                one(connection, sql, params![path.namespace.as_str(), package, path.name.as_str()])
            })
            .await
    }

    async fn delete_function(&self, path: &FunctionPath, revision: u64) -> Result<(), StoreError> {
        const OPERATION: &str = "deleting a function";
        let path = path.clone();
        self.writer
            .run(OPERATION, move |connection| {
                let package = package_text(path.package.as_ref());
                let deleted = connection
                    .prepare_cached(
                        "DELETE FROM functions WHERE namespace = ?1 AND package = ?2 AND name = ?3 AND revision = ?4",
                    )
                    .and_then(|mut statement| {
                        statement.execute(params![path.namespace.as_str(), package, path.name.as_str(), revision as i64])
                    })
                    .map_err(sql_fault(connection, OPERATION))?;
                if deleted == 0 { Err(StoreError::Conflict) } else { Ok(()) }
            })
            .await
    }

    async fn functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        page: Page,
    ) -> Result<Vec<Function>, StoreError> {
        let (namespace, package) = (namespace.clone(), package.cloned());
        let (skip, limit) = offset_and_limit(page);
        self.readers
            .run(READING, move |connection| match &package {
                None => many(
                    connection,
                    "SELECT body FROM functions WHERE namespace = ?1 ORDER BY updated DESC, package, name LIMIT ?2 OFFSET ?3",
                    params![namespace.as_str(), limit, skip],
                ),
                Some(package) => many(
                    connection,
                    "SELECT body FROM functions WHERE namespace = ?1 AND package = ?2
                     ORDER BY updated DESC, name LIMIT ?3 OFFSET ?4",
                    params![namespace.as_str(), package.as_str(), limit, skip],
                ),
            })
            .await
    }

    async fn count_functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError> {
        let (namespace, package) = (namespace.clone(), package.cloned());
        self.readers
            .run(READING, move |connection| {
                let sql =
                    "SELECT count(*) FROM functions WHERE namespace = ?1 AND (?2 IS NULL OR package = ?2)";
                let count: i64 = connection
                    .prepare_cached(sql)
                    .and_then(|mut statement| {
                        let package = package.as_ref().map(EntityName::as_str);
                        statement.query_row(params![namespace.as_str(), package], |row| row.get(0))
                    })
                    .map_err(sql_fault(connection, READING))?;
                Ok(count as usize)
            })
            .await
    }

    async fn all_functions(&self) -> Result<Vec<Function>, StoreError> {
        let sql = "SELECT body FROM functions ORDER BY namespace, package, name";
        self.readers.run(READING, move |connection| many(connection, sql, [])).await
    }

    async fn put_namespace(&self, namespace: &Namespace) -> Result<(), StoreError> {
        const OPERATION: &str = "writing a namespace";
        let (name, body) = (namespace.name.clone(), to_json(namespace, OPERATION)?);
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO namespaces (name, body) VALUES (?1, ?2)
                         ON CONFLICT DO UPDATE SET body = excluded.body",
                    )
                    .and_then(|mut statement| statement.execute(params![name.as_str(), body]))
                    .map(|_| ())
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn namespace(&self, name: &NamespaceName) -> Result<Option<Namespace>, StoreError> {
        let name = name.clone();
        let sql = "SELECT body FROM namespaces WHERE name = ?1";
        self.readers.run(READING, move |connection| one(connection, sql, [name.as_str()])).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        let sql = "SELECT body FROM namespaces ORDER BY name";
        self.readers.run(READING, move |connection| many(connection, sql, [])).await
    }

    async fn delete_namespace(&self, name: &NamespaceName) -> Result<bool, StoreError> {
        const OPERATION: &str = "deleting a namespace";
        let name = name.clone();
        self.writer
            .run(OPERATION, move |connection| {
                let delete = |sql| {
                    connection
                        .prepare_cached(sql)
                        .and_then(|mut statement| statement.execute([name.as_str()]))
                        .map_err(sql_fault(connection, OPERATION))
                };
                delete("DELETE FROM functions WHERE namespace = ?1")?;
                delete("DELETE FROM key_values WHERE namespace = ?1")?;
                delete("DELETE FROM key_value_usage WHERE namespace = ?1")?;
                Ok(delete("DELETE FROM namespaces WHERE name = ?1")? > 0) // its keys go by their foreign key
            })
            .await
    }

    async fn put_key(&self, key: &KeyRecord) -> Result<(), StoreError> {
        const OPERATION: &str = "writing a key";
        let (id, namespace, created) = (key.id, key.namespace.clone(), key.created.as_millis() as i64);
        let body = to_json(key, OPERATION)?;
        self.writer
            .run(OPERATION, move |connection| {
                let written = connection
                    .prepare_cached(
                        "INSERT INTO keys (id, namespace, created, body)
                         SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM namespaces WHERE name = ?2)
                         ON CONFLICT DO NOTHING",
                    )
                    .and_then(|mut statement| {
                        statement.execute(params![
                            id.0.as_bytes().as_slice(),
                            namespace.as_str(),
                            created,
                            body
                        ])
                    })
                    .map_err(sql_fault(connection, OPERATION))?;
                if written == 0 { Err(StoreError::Conflict) } else { Ok(()) }
            })
            .await
    }

    async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
        let sql = "SELECT body FROM keys WHERE id = ?1";
        self.readers.run(READING, move |connection| one(connection, sql, [id.0.as_bytes().as_slice()])).await
    }

    async fn keys(&self, namespace: &NamespaceName) -> Result<Vec<KeyRecord>, StoreError> {
        let namespace = namespace.clone();
        let sql = "SELECT body FROM keys WHERE namespace = ?1 ORDER BY created, id";
        self.readers.run(READING, move |connection| many(connection, sql, [namespace.as_str()])).await
    }

    async fn delete_key(&self, id: KeyId) -> Result<bool, StoreError> {
        const OPERATION: &str = "deleting a key";
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached("DELETE FROM keys WHERE id = ?1")
                    .and_then(|mut statement| statement.execute([id.0.as_bytes().as_slice()]))
                    .map(|deleted| deleted > 0)
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }
}
