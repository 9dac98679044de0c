//! Earlier versions of functions in SQLite, as rows of their own, and aliases; both are deleted with the
//! function through foreign keys.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::{Alias, AliasName, AliasTarget, Digest, Entity, Function, FunctionPath, Version};
use flint_store::{Kept, Replacing, StoreError, Versions};
use rusqlite::{Connection, Params, params, types::ValueRef};

use crate::{
    catalog::{READING, many, to_json},
    entities::{self, At},
    fault::{sql_fault, unreadable},
    readers::Readers,
    writer::Writer,
};

/// Selects those of one function.
const AT: &str = "namespace = ?1 AND package = ?2 AND name = ?3";

/// The targets of aliases: `namespace, package, name, alias, version, weight`, in their given order.
const NAMED: &str = "SELECT namespace, package, name, alias, target.key AS place,
        target.value ->> 'version' AS version, target.value ->> 'weight' AS weight
    FROM aliases, json_each(aliases.body, '$.targets') AS target";

/// A body as shown in lists, without parts that may take a megabyte each in every version.
const LISTED: &str = "json_remove(body, '$.parameters', '$.annotations', '$.snapshot.warmup')";

/// The tables of versions and aliases.
pub(crate) struct SqliteVersions {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
}

fn at(path: &FunctionPath) -> At {
    At::new(&path.namespace, path.package.as_ref(), &path.name)
}

/// Executes one statement; returns the number of changed rows.
fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<usize, StoreError> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(params))
        .map_err(sql_fault(connection, entities::WRITING))
}

/// Writes a function and keeps the previous version.
fn replace(connection: &Connection, function: &Function, how: Replacing) -> Result<u64, StoreError> {
    let at = at(&function.path);
    let there = match entities::get(connection, &at)? {
        Some(Entity::Function(function)) => Some(function),
        _ => None,
    };
    let revision = entities::put(connection, &Entity::Function(function.clone()), how.expected)?;
    let Some(there) = there else { return Ok(revision) };
    let number = function.version;
    if how.live_follows {
        follow(connection, function)?;
    }
    let others_name_it = aliases(connection, &at)?
        .iter()
        .any(|alias| alias.names(number) && !(how.live_follows && alias.name.as_str() == AliasName::LIVE));
    if others_name_it {
        return Err(StoreError::Conflict);
    }
    let [namespace, package, name] = at.params();
    let same = params![namespace, package, name, number.to_string()];
    execute(connection, &format!("DELETE FROM versions WHERE {AT} AND version = ?4"), same)?;
    if there.version != number {
        execute(
            connection,
            "INSERT INTO versions (namespace, package, name, version, revision, code, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                namespace,
                package,
                name,
                there.version.to_string(),
                there.revision as i64,
                there.code.digest.to_string(),
                to_json(&there, entities::WRITING)?
            ],
        )?;
    }
    let old = kept(connection, &at)?.into_iter().filter(|kept| !kept.named).skip(how.keep);
    for old in old {
        let one = params![namespace, package, name, old.version.to_string()];
        execute(connection, &format!("DELETE FROM versions WHERE {AT} AND version = ?4"), one)?;
    }
    Ok(revision)
}

/// Makes the alias `live`, if it exists, refer to a new version only.
fn follow(connection: &Connection, function: &Function) -> Result<(), StoreError> {
    let at = at(&function.path);
    let (path, name, updated) = (function.path.clone(), AliasName::live(), function.updated);
    let targets = vec![AliasTarget { version: function.version, weight: 1 }];
    let body = to_json(&Alias { path, name, targets, updated }, entities::WRITING)?;
    let [namespace, package, name] = at.params();
    let sql = format!("UPDATE aliases SET body = ?5 WHERE {AT} AND alias = ?4");
    execute(connection, &sql, params![namespace, package, name, AliasName::LIVE, body])?;
    Ok(())
}

fn aliases(connection: &Connection, at: &At) -> Result<Vec<Alias>, StoreError> {
    many(connection, &format!("SELECT body FROM aliases WHERE {AT} ORDER BY alias"), at.params())
}

fn kept(connection: &Connection, at: &At) -> Result<Vec<Kept>, StoreError> {
    let fault = sql_fault(connection, READING);
    let sql = format!(
        "SELECT version, revision, version IN (SELECT version FROM ({NAMED}) WHERE {AT})
         FROM versions WHERE {AT} ORDER BY revision DESC"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query(at.params()).map_err(&fault)?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        let version: String = row.get(0).map_err(&fault)?;
        let version = version.parse().map_err(|error| unreadable(connection, "a version", error))?;
        let revision: i64 = row.get(1).map_err(&fault)?;
        kept.push(Kept { version, revision: revision as u64, named: row.get(2).map_err(&fault)? });
    }
    Ok(kept)
}

/// The current or an earlier version of a function.
fn version(connection: &Connection, at: &At, version: Version) -> Result<Option<Function>, StoreError> {
    let sql = format!(
        "SELECT body, parameters FROM entities WHERE {AT} AND type = 'function' AND body ->> 'version' = ?4
         UNION ALL SELECT body, NULL FROM versions WHERE {AT} AND version = ?4 LIMIT 1"
    );
    let [namespace, package, name] = at.params();
    Ok(functions(connection, &sql, params![namespace, package, name, version.to_string()])?.pop())
}

/// The functions in rows of `body, parameters`.
fn functions(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<Function>, StoreError> {
    let fault = sql_fault(connection, READING);
    let mut statement = connection.prepare_cached(sql).map_err(&fault)?;
    let mut rows = statement.query(params).map_err(&fault)?;
    let mut functions = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        functions.push(entities::function(connection, row, 0)?);
    }
    Ok(functions)
}

/// The targets of an alias.
fn targets(
    connection: &Connection,
    at: &At,
    alias: &AliasName,
) -> Result<Option<Vec<(u32, Function)>>, StoreError> {
    let fault = sql_fault(connection, READING);
    // A single statement, which reads one snapshot.
    let sql = format!(
        "SELECT weight, ifnull(kept.body, head.body), iif(kept.body IS NULL, head.parameters, NULL)
         FROM ({NAMED}) AS named
         LEFT JOIN versions AS kept USING (namespace, package, name, version)
         LEFT JOIN entities AS head ON head.namespace = named.namespace AND head.package = named.package
             AND head.name = named.name AND head.type = 'function' AND head.body ->> 'version' = named.version
         WHERE named.namespace = ?1 AND named.package = ?2 AND named.name = ?3 AND alias = ?4 ORDER BY place"
    );
    let [namespace, package, name] = at.params();
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query(params![namespace, package, name, alias.as_str()]).map_err(&fault)?;
    let mut targets = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        let weight: i64 = row.get(0).map_err(&fault)?;
        if row.get_ref(1).map_err(&fault)? == ValueRef::Null {
            return Err(unreadable(connection, "an alias", "a version that it names is not there"));
        }
        targets.push((weight as u32, entities::function(connection, row, 1)?));
    }
    Ok((!targets.is_empty()).then_some(targets))
}

/// Writes an alias of existing versions.
fn put_alias(connection: &Connection, alias: &Alias, most: usize) -> Result<(), StoreError> {
    let at = at(&alias.path);
    for target in &alias.targets {
        if version(connection, &at, target.version)?.is_none() {
            return Err(StoreError::Conflict);
        }
    }
    let there = aliases(connection, &at)?;
    if there.len() >= most && there.iter().all(|other| other.name != alias.name) {
        return Err(StoreError::TooMany { allowed: most });
    }
    let [namespace, package, name] = at.params();
    let body = to_json(alias, entities::WRITING)?;
    execute(
        connection,
        "INSERT INTO aliases (namespace, package, name, alias, body) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET body = excluded.body",
        params![namespace, package, name, alias.name.as_str(), body],
    )?;
    Ok(())
}

#[async_trait]
impl Versions for SqliteVersions {
    async fn replace(&self, function: &Function, how: Replacing) -> Result<u64, StoreError> {
        let function = function.clone();
        self.writer.run(entities::WRITING, move |connection| replace(connection, &function, how)).await
    }

    async fn version(&self, path: &FunctionPath, number: Version) -> Result<Option<Function>, StoreError> {
        let at = at(path);
        self.readers.run(READING, move |connection| version(connection, &at, number)).await
    }

    async fn versions(&self, path: &FunctionPath) -> Result<Vec<Function>, StoreError> {
        let at = at(path);
        let sql = format!(
            "SELECT body, NULL FROM
                 (SELECT revision, {LISTED} AS body FROM entities WHERE {AT} AND type = 'function'
                 UNION ALL SELECT revision, {LISTED} FROM versions WHERE {AT}) ORDER BY revision DESC"
        );
        self.readers.list(READING, move |connection| functions(connection, &sql, at.params())).await
    }

    async fn kept(&self, path: &FunctionPath) -> Result<Vec<Kept>, StoreError> {
        let at = at(path);
        self.readers.run(READING, move |connection| kept(connection, &at)).await
    }

    async fn targets(
        &self,
        path: &FunctionPath,
        alias: &AliasName,
    ) -> Result<Option<Vec<(u32, Function)>>, StoreError> {
        let (at, alias) = (at(path), alias.clone());
        self.readers.run(READING, move |connection| targets(connection, &at, &alias)).await
    }

    async fn aliases(&self, path: &FunctionPath) -> Result<Vec<Alias>, StoreError> {
        let at = at(path);
        self.readers.run(READING, move |connection| aliases(connection, &at)).await
    }

    async fn put_alias(&self, alias: &Alias, most: usize) -> Result<(), StoreError> {
        let alias = alias.clone();
        self.writer.run("writing an alias", move |connection| put_alias(connection, &alias, most)).await
    }

    async fn delete_alias(&self, path: &FunctionPath, alias: &AliasName) -> Result<bool, StoreError> {
        let (at, alias) = (at(path), alias.clone());
        self.writer
            .run("deleting an alias", move |connection| {
                let [namespace, package, name] = at.params();
                let one = params![namespace, package, name, alias.as_str()];
                let deleted =
                    execute(connection, &format!("DELETE FROM aliases WHERE {AT} AND alias = ?4"), one)?;
                Ok(deleted > 0)
            })
            .await
    }

    async fn kept_code(&self) -> Result<Vec<Digest>, StoreError> {
        self.readers
            .run(READING, move |connection| {
                let fault = sql_fault(connection, READING);
                let mut statement =
                    connection.prepare_cached("SELECT DISTINCT code FROM versions").map_err(&fault)?;
                let mut rows = statement.query([]).map_err(&fault)?;
                let mut code = Vec::new();
                while let Some(row) = rows.next().map_err(&fault)? {
                    let digest: String = row.get(0).map_err(&fault)?;
                    code.push(digest.parse().map_err(|error| unreadable(connection, "a version", error))?);
                }
                Ok(code)
            })
            .await
    }

    async fn named(&self) -> Result<Vec<Function>, StoreError> {
        let sql = format!(
            "SELECT {} FROM versions WHERE (namespace, package, name, version) IN
             (SELECT namespace, package, name, version FROM ({NAMED})) ORDER BY namespace, package, name, revision",
            entities::BARE
        );
        self.readers.keep_up(READING, move |connection| many(connection, &sql, [])).await
    }
}
