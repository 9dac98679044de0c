//! Checks that a namespace exists within the transaction that writes for it: a late write would otherwise go
//! to a later namespace of the same name.

use flint_model::{NamespaceName, Timestamp};
use flint_store::StoreError;
use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::sql_fault;

pub(crate) fn check(
    connection: &Connection,
    namespace: &NamespaceName,
    operation: &'static str,
) -> Result<(), StoreError> {
    let there = connection
        .prepare_cached("SELECT 1 FROM namespaces WHERE name = ?1")
        .and_then(|mut statement| statement.exists([namespace.as_str()]))
        .map_err(sql_fault(connection, operation))?;
    if there { Ok(()) } else { Err(StoreError::NoNamespace(namespace.to_string())) }
}

/// Whether the namespace was there at that time already, and not only another one of its name; `None` if there
/// is none.
pub(crate) fn was_there(
    connection: &Connection,
    namespace: &NamespaceName,
    at: Timestamp,
    operation: &'static str,
) -> Result<Option<bool>, StoreError> {
    connection
        .prepare_cached("SELECT json_extract(body, '$.created') <= ?2 FROM namespaces WHERE name = ?1")
        .and_then(|mut statement| {
            let place = params![namespace.as_str(), at.as_millis() as i64];
            statement.query_row(place, |row| row.get(0)).optional()
        })
        .map_err(sql_fault(connection, operation))
}
