//! The table of entities: functions, sequences, packages, triggers and rules.

use std::mem;

use flint_model::{
    ByteSize, Collection, Entity, EntityName, EntityPath, Function, FunctionPath, NamespaceName, Parameters,
};
use flint_store::{Expected, Page, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter, types::Value};

use crate::{
    catalog::{READING, from_json, offset_and_limit, to_json},
    fault::{sql_fault, unreadable},
    namespaces, revisions,
};

pub(crate) const WRITING: &str = "writing an entity";
pub(crate) const DELETING: &str = "deleting an entity";

/// The body of a function for upkeep, which has those of all tenants in memory at once: without the parts that
/// may take a megabyte each. What artefacts are found by stays.
pub(crate) const BARE: &str = "json_remove(body, '$.parameters', '$.annotations', '$.snapshot', '$.wasm')";

/// The type of a row's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Function,
    Sequence,
    Package,
    Trigger,
    Rule,
}

impl Type {
    fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Sequence => "sequence",
            Self::Package => "package",
            Self::Trigger => "trigger",
            Self::Rule => "rule",
        }
    }
}

impl From<&Entity> for Type {
    fn from(entity: &Entity) -> Self {
        match entity {
            Entity::Function(_) => Self::Function,
            Entity::Sequence(_) => Self::Sequence,
            Entity::Package(_) => Self::Package,
            Entity::Trigger(_) => Self::Trigger,
            Entity::Rule(_) => Self::Rule,
        }
    }
}

/// The columns that locate an entity.
pub(crate) struct At {
    namespace: NamespaceName,
    package: Option<EntityName>,
    name: EntityName,
}

impl At {
    pub(crate) fn new(namespace: &NamespaceName, package: Option<&EntityName>, name: &EntityName) -> Self {
        Self { namespace: namespace.clone(), package: package.cloned(), name: name.clone() }
    }

    /// Namespace, package, name.
    pub(crate) fn params(&self) -> [&str; 3] {
        [self.namespace.as_str(), self.package(), self.name.as_str()]
    }

    pub(crate) fn package(&self) -> &str {
        self.package.as_ref().map_or("", EntityName::as_str)
    }
}

/// The entities of a list.
pub(crate) struct List {
    namespace: NamespaceName,
    collection: Collection,
    package: Option<EntityName>,
    only: Option<Type>,
    /// Only published packages.
    shared: bool,
}

impl List {
    pub(crate) fn new(
        namespace: &NamespaceName,
        collection: Collection,
        package: Option<&EntityName>,
    ) -> Self {
        let (namespace, package) = (namespace.clone(), package.cloned());
        Self { namespace, collection, package, only: None, shared: false }
    }

    pub(crate) fn of_functions(namespace: &NamespaceName, package: Option<&EntityName>) -> Self {
        Self { only: Some(Type::Function), ..Self::new(namespace, Collection::Actions, package) }
    }

    pub(crate) fn of_sequences(namespace: &NamespaceName) -> Self {
        Self { only: Some(Type::Sequence), ..Self::new(namespace, Collection::Actions, None) }
    }

    pub(crate) fn of_shared_packages(namespace: &NamespaceName) -> Self {
        Self { shared: true, ..Self::new(namespace, Collection::Packages, None) }
    }

    /// The SQL condition of this list, with its parameters from `?1` on.
    fn condition(&self) -> (String, Vec<Value>) {
        let mut sql = "namespace = ?1 AND collection = ?2".to_owned();
        let mut values: Vec<Value> =
            vec![self.namespace.to_string().into(), self.collection.as_str().to_owned().into()];
        if let Some(package) = &self.package {
            values.push(package.to_string().into());
            sql += &format!(" AND package = ?{}", values.len());
        }
        if let Some(only) = self.only {
            values.push(only.as_str().to_owned().into());
            sql += &format!(" AND type = ?{}", values.len());
        }
        if self.shared {
            sql += " AND body ->> 'publish' = 1 AND body ->> 'binding' IS NULL";
        }
        (sql, values)
    }
}

/// Writes an entity, if the present revision is the expected one.
pub(crate) fn put(connection: &Connection, entity: &Entity, expected: Expected) -> Result<u64, StoreError> {
    let fault = sql_fault(connection, WRITING);
    let at = At::new(entity.namespace(), entity.package(), entity.name());
    namespaces::check(connection, &at.namespace, WRITING)?;
    let collection = entity.collection().as_str();
    let found: Option<(i64, String)> = connection
        .prepare_cached(
            "SELECT revision, collection FROM entities WHERE namespace = ?1 AND package = ?2 AND name = ?3",
        )
        .and_then(|mut statement| {
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            statement
                .query_row(params![at.namespace.as_str(), at.package(), at.name.as_str()], row)
                .optional()
        })
        .map_err(&fault)?;
    let holds = match (expected, found) {
        (Expected::Absent, found) => found.is_none(),
        (Expected::Revision(revision), Some((found, of))) => found as u64 == revision && of == collection,
        (Expected::Revision(_), None) => false,
    };
    if !holds {
        return Err(StoreError::Conflict);
    }
    let revision = revisions::next(connection, WRITING)?;
    let updated = entity.updated().as_millis() as i64;
    let mut entity = entity.clone().with_revision(revision);
    let parameters = match entity.parameters_mut().map(mem::take) {
        Some(parameters) if !parameters.is_empty() => Some(to_json(&parameters, WRITING)?),
        _ => None,
    };
    let of = Type::from(&entity);
    let (trigger, body) = match &entity {
        Entity::Function(one) => (None, to_json(one, WRITING)?),
        Entity::Sequence(one) => (None, to_json(one, WRITING)?),
        Entity::Package(one) => (None, to_json(one, WRITING)?),
        Entity::Trigger(one) => (None, to_json(one, WRITING)?),
        Entity::Rule(one) => (Some(one.trigger.to_string()), to_json(one, WRITING)?),
    };
    connection
        .prepare_cached(
            "INSERT INTO entities (namespace, package, name, collection, type, trigger, revision, updated, body, parameters)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO UPDATE SET type = excluded.type, trigger = excluded.trigger, revision = excluded.revision,
                 updated = excluded.updated, body = excluded.body, parameters = excluded.parameters",
        )
        .and_then(|mut statement| {
            let (namespace, name) = (at.namespace.as_str(), at.name.as_str());
            statement.execute(params![
                namespace, at.package(), name, collection, of.as_str(), trigger, revision as i64, updated, body, parameters
            ])
        })
        .map_err(&fault)?;
    if of != Type::Function {
        // An entity that replaces a function does not inherit its history.
        for table in ["versions", "aliases"] {
            let sql = format!("DELETE FROM {table} WHERE namespace = ?1 AND package = ?2 AND name = ?3");
            connection
                .prepare_cached(&sql)
                .and_then(|mut statement| statement.execute(at.params()))
                .map_err(&fault)?;
        }
    }
    Ok(revision)
}

/// The entity at a location.
pub(crate) fn get(connection: &Connection, at: &At) -> Result<Option<Entity>, StoreError> {
    let fault = sql_fault(connection, READING);
    let mut statement = connection
        .prepare_cached(
            "SELECT type, body, parameters FROM entities WHERE namespace = ?1 AND package = ?2 AND name = ?3",
        )
        .map_err(&fault)?;
    let mut rows = statement.query(at.params()).map_err(&fault)?;
    let Some(row) = rows.next().map_err(&fault)? else { return Ok(None) };
    let mut entity = read(connection, text(connection, row, 0)?, text(connection, row, 1)?)?;
    if let (Some(apart), Some(parameters)) = (apart(connection, row, 2)?, entity.parameters_mut()) {
        *parameters = apart;
    }
    Ok(Some(entity))
}

/// The function in a row's columns from `first` on: its body, and its parameters if stored separately.
pub(crate) fn function(connection: &Connection, row: &Row<'_>, first: usize) -> Result<Function, StoreError> {
    let mut function: Function = from_json(connection, "a function", text(connection, row, first)?)?;
    if let Some(apart) = apart(connection, row, first + 1)? {
        function.parameters = apart;
    }
    Ok(function)
}

/// Deletes the entity at a location, if it has that revision and type.
pub(crate) fn delete(
    connection: &Connection,
    at: &At,
    revision: u64,
    only: Option<Type>,
) -> Result<(), StoreError> {
    let deleted = connection
        .prepare_cached(
            "DELETE FROM entities WHERE namespace = ?1 AND package = ?2 AND name = ?3 AND revision = ?4
             AND (?5 IS NULL OR type = ?5)",
        )
        .and_then(|mut statement| {
            let (namespace, name) = (at.namespace.as_str(), at.name.as_str());
            let only = only.map(Type::as_str);
            statement.execute(params![namespace, at.package(), name, revision as i64, only])
        })
        .map_err(sql_fault(connection, DELETING))?;
    if deleted == 0 { Err(StoreError::Conflict) } else { Ok(()) }
}

/// Deletes a package that is empty or whose contents may be deleted too.
pub(crate) fn delete_package(
    connection: &Connection,
    path: &EntityPath,
    revision: u64,
    with_contents: bool,
) -> Result<(), StoreError> {
    let fault = sql_fault(connection, DELETING);
    delete(connection, &At::new(&path.namespace, None, &path.name), revision, Some(Type::Package))?;
    let inside = params![path.namespace.as_str(), path.name.as_str()];
    if with_contents {
        let sql = "DELETE FROM entities WHERE namespace = ?1 AND package = ?2";
        connection.prepare_cached(sql).and_then(|mut statement| statement.execute(inside)).map_err(fault)?;
        return Ok(());
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM entities WHERE namespace = ?1 AND package = ?2)";
    let full: bool = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(inside, |row| row.get(0)))
        .map_err(fault)?;
    // The error rolls the deletion back.
    if full { Err(StoreError::Conflict) } else { Ok(()) }
}

/// A page of a list, without parameters, of at most `most` bytes.
pub(crate) fn list(
    connection: &Connection,
    list: &List,
    page: Page,
    most: ByteSize,
) -> Result<Vec<Entity>, StoreError> {
    let fault = sql_fault(connection, READING);
    let (condition, mut values) = list.condition();
    let (skip, limit) = offset_and_limit(page);
    values.extend([limit.into(), skip.into()]);
    let last = values.len();
    let sql = format!(
        "SELECT type, body FROM entities WHERE {condition} ORDER BY updated DESC, package, name LIMIT ?{} OFFSET ?{last}",
        last - 1
    );
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query(params_from_iter(values)).map_err(&fault)?;
    let (mut entities, mut left) = (Vec::new(), most.as_u64());
    while let Some(row) = rows.next().map_err(&fault)? {
        let body = text(connection, row, 1)?;
        // A single entity is listed whatever its size.
        if body.len() as u64 > left && !entities.is_empty() {
            return Err(StoreError::ListTooLarge { allowed: most });
        }
        left = left.saturating_sub(body.len() as u64);
        entities.push(read(connection, text(connection, row, 0)?, body)?);
    }
    Ok(entities)
}

/// Paths and revisions of a list's functions.
pub(crate) fn revisions(
    connection: &Connection,
    list: &List,
) -> Result<Vec<(FunctionPath, u64)>, StoreError> {
    let fault = sql_fault(connection, READING);
    let (condition, values) = list.condition();
    let sql =
        format!("SELECT package, name, revision FROM entities WHERE {condition} ORDER BY package, name");
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query(params_from_iter(values)).map_err(&fault)?;
    let name = |text: &str| EntityName::parse(text).map_err(|error| unreadable(connection, "a name", error));
    let mut revisions = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        let package = match text(connection, row, 0)? {
            "" => None,
            package => Some(name(package)?),
        };
        let path = FunctionPath {
            namespace: list.namespace.clone(),
            package,
            name: name(text(connection, row, 1)?)?,
        };
        let revision: i64 = row.get(2).map_err(&fault)?;
        revisions.push((path, revision as u64));
    }
    Ok(revisions)
}

/// The length of a list.
pub(crate) fn count(connection: &Connection, list: &List) -> Result<usize, StoreError> {
    let (condition, values) = list.condition();
    let count: i64 = connection
        .prepare_cached(&format!("SELECT count(*) FROM entities WHERE {condition}"))
        .and_then(|mut statement| statement.query_row(params_from_iter(values), |row| row.get(0)))
        .map_err(sql_fault(connection, READING))?;
    Ok(count as usize)
}

/// The text in a column.
fn text<'a>(connection: &Connection, row: &'a Row<'_>, column: usize) -> Result<&'a str, StoreError> {
    let value = row.get_ref(column).map_err(sql_fault(connection, READING))?;
    value.as_str().map_err(|error| unreadable(connection, "an entity", error))
}

/// The parameters in a column, if stored separately from their entity.
fn apart(connection: &Connection, row: &Row<'_>, column: usize) -> Result<Option<Parameters>, StoreError> {
    let value = row.get_ref(column).map_err(sql_fault(connection, READING))?;
    let text = value.as_str_or_null().map_err(|error| unreadable(connection, "parameters", error))?;
    text.map(|text| from_json(connection, "parameters", text)).transpose()
}

/// Parses an entity of that type.
fn read(connection: &Connection, of: &str, body: &str) -> Result<Entity, StoreError> {
    Ok(match of {
        "function" => Entity::Function(from_json(connection, "a function", body)?),
        "sequence" => Entity::Sequence(from_json(connection, "a sequence", body)?),
        "package" => Entity::Package(from_json(connection, "a package", body)?),
        "trigger" => Entity::Trigger(from_json(connection, "a trigger", body)?),
        "rule" => Entity::Rule(from_json(connection, "a rule", body)?),
        other => return Err(unreadable(connection, "an entity", format!("its type is '{other}'"))),
    })
}
