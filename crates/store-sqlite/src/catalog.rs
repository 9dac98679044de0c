//! The catalog in SQLite: each entity, namespace and key is a JSON body beside the columns used for
//! searching.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::{
    ByteSize, Collection, Entity, EntityName, EntityPath, Function, FunctionPath, KeyId, KeyRecord,
    Namespace, NamespaceName, Package, Rule, Sequence,
};
use flint_store::{Catalog, Expected, Page, StoreError};
use rusqlite::{Connection, OptionalExtension, Params, params};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    entities::{self, At, List, Type},
    fault::{sql_fault, unreadable},
    queue::tally::Tally,
    readers::Readers,
    writer::Writer,
};

pub(crate) const READING: &str = "reading the catalog";

/// The catalog's tables.
pub(crate) struct SqliteCatalog {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) tally: Arc<Tally>,
}

/// Serialises a row's body, provided that it can be read back: one that is nested too deeply would break
/// every list that contains it.
pub(crate) fn to_json<T: Serialize + DeserializeOwned>(
    entity: &T,
    operation: &'static str,
) -> Result<String, StoreError> {
    let fault = |error: serde_json::Error| StoreError::Failed { operation, detail: error.to_string() };
    let body = serde_json::to_string(entity).map_err(fault)?;
    serde_json::from_str::<T>(&body).map_err(fault)?;
    Ok(body)
}

pub(crate) fn from_json<T: DeserializeOwned>(
    connection: &Connection,
    what: &str,
    body: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(body).map_err(|error| unreadable(connection, what, error))
}

/// The entity in the only column of the only row.
pub(crate) fn one<T: DeserializeOwned>(
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

/// The entities in the only column of every row.
pub(crate) fn many<T: DeserializeOwned>(
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

/// A page's offset and limit for SQL.
pub(crate) fn offset_and_limit(page: Page) -> (i64, i64) {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    (number(page.skip), number(page.limit))
}

#[async_trait]
impl Catalog for SqliteCatalog {
    async fn put_entity(&self, entity: &Entity, expected: Expected) -> Result<u64, StoreError> {
        let entity = entity.clone();
        self.writer
            .run(entities::WRITING, move |connection| entities::put(connection, &entity, expected))
            .await
    }

    async fn entity(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        name: &EntityName,
    ) -> Result<Option<Entity>, StoreError> {
        let at = At::new(namespace, package, name);
        self.readers.run(READING, move |connection| entities::get(connection, &at)).await
    }

    async fn delete_entity(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        name: &EntityName,
        revision: u64,
    ) -> Result<(), StoreError> {
        let at = At::new(namespace, package, name);
        self.writer
            .run(entities::DELETING, move |connection| entities::delete(connection, &at, revision, None))
            .await
    }

    async fn delete_package(
        &self,
        path: &EntityPath,
        revision: u64,
        with_contents: bool,
    ) -> Result<(), StoreError> {
        let path = path.clone();
        self.writer
            .run(entities::DELETING, move |connection| {
                entities::delete_package(connection, &path, revision, with_contents)
            })
            .await
    }

    async fn entities(
        &self,
        namespace: &NamespaceName,
        collection: Collection,
        package: Option<&EntityName>,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Entity>, StoreError> {
        let list = List::new(namespace, collection, package);
        self.readers.list(READING, move |connection| entities::list(connection, &list, page, most)).await
    }

    async fn count_entities(
        &self,
        namespace: &NamespaceName,
        collection: Collection,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError> {
        let list = List::new(namespace, collection, package);
        self.readers.run(READING, move |connection| entities::count(connection, &list)).await
    }

    async fn rules_of(&self, trigger: &EntityPath) -> Result<Vec<Rule>, StoreError> {
        let sql = "SELECT body FROM entities WHERE trigger = ?1 ORDER BY namespace, name";
        let trigger = trigger.to_string();
        self.readers.run(READING, move |connection| many(connection, sql, [trigger])).await
    }

    async fn put_function(&self, function: &Function, expected: Expected) -> Result<u64, StoreError> {
        let entity = Entity::Function(function.clone());
        self.writer
            .run(entities::WRITING, move |connection| entities::put(connection, &entity, expected))
            .await
    }

    async fn function(&self, path: &FunctionPath) -> Result<Option<Function>, StoreError> {
        let at = At::new(&path.namespace, path.package.as_ref(), &path.name);
        let found = self.readers.run(READING, move |connection| entities::get(connection, &at)).await?;
        Ok(found.and_then(|entity| match entity {
            Entity::Function(function) => Some(function),
            _ => None,
        }))
    }

    async fn delete_function(&self, path: &FunctionPath, revision: u64) -> Result<(), StoreError> {
        let at = At::new(&path.namespace, path.package.as_ref(), &path.name);
        self.writer
            .run(entities::DELETING, move |connection| {
                entities::delete(connection, &at, revision, Some(Type::Function))
            })
            .await
    }

    async fn functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Function>, StoreError> {
        let list = List::of_functions(namespace, package);
        let read = move |connection: &Connection| entities::list(connection, &list, page, most);
        let listed = self.readers.list(READING, read).await?;
        let function = |entity| match entity {
            Entity::Function(function) => Some(function),
            _ => None,
        };
        Ok(listed.into_iter().filter_map(function).collect())
    }

    async fn count_functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError> {
        let list = List::of_functions(namespace, package);
        self.readers.list(READING, move |connection| entities::count(connection, &list)).await
    }

    async fn sequences(
        &self,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Sequence>, StoreError> {
        let list = List::of_sequences(namespace);
        let read = move |connection: &Connection| entities::list(connection, &list, page, most);
        let listed = self.readers.list(READING, read).await?;
        let sequence = |entity| match entity {
            Entity::Sequence(sequence) => Some(sequence),
            _ => None,
        };
        Ok(listed.into_iter().filter_map(sequence).collect())
    }

    async fn shared_packages(
        &self,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Package>, StoreError> {
        let list = List::of_shared_packages(namespace);
        let read = move |connection: &Connection| entities::list(connection, &list, page, most);
        let listed = self.readers.list(READING, read).await?;
        let package = |entity| match entity {
            Entity::Package(package) => Some(package),
            _ => None,
        };
        Ok(listed.into_iter().filter_map(package).collect())
    }

    async fn count_shared_packages(&self, namespace: &NamespaceName) -> Result<usize, StoreError> {
        let list = List::of_shared_packages(namespace);
        self.readers.list(READING, move |connection| entities::count(connection, &list)).await
    }

    async fn function_revisions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<Vec<(FunctionPath, u64)>, StoreError> {
        let list = List::of_functions(namespace, package);
        // On the readers for single entities: this is short, and the caller holds a lock that accepted calls
        // wait for.
        self.readers.run(READING, move |connection| entities::revisions(connection, &list)).await
    }

    async fn all_functions(&self) -> Result<Vec<Function>, StoreError> {
        let sql = format!(
            "SELECT {} FROM entities WHERE type = 'function' ORDER BY namespace, package, name",
            entities::BARE
        );
        // One statement sees one moment, and has one row in memory at a time.
        self.readers.keep_up(READING, move |connection| many(connection, &sql, [])).await
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
        let tally = Arc::clone(&self.tally);
        self.writer
            .run(OPERATION, move |connection| {
                let delete = |sql: &str| {
                    connection
                        .prepare_cached(sql)
                        .and_then(|mut statement| statement.execute([name.as_str()]))
                        .map_err(sql_fault(connection, OPERATION))
                };
                delete("DELETE FROM entities WHERE namespace = ?1")?;
                delete("DELETE FROM key_values WHERE namespace = ?1")?;
                delete("DELETE FROM key_value_usage WHERE namespace = ?1")?;
                // A later namespace of the same name must not inherit its calls.
                let calls = "(SELECT number FROM calls WHERE namespace = ?1)";
                for table in ["arguments", "compositions", "composition_states"] {
                    delete(&format!("DELETE FROM {table} WHERE number IN {calls}"))?;
                }
                delete("DELETE FROM calls WHERE namespace = ?1")?;
                let deleted = delete("DELETE FROM namespaces WHERE name = ?1")?; // its keys and APIs go by their foreign key
                tally.forget(name.as_str());
                Ok(deleted > 0)
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
