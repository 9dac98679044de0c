//! Checks that a namespace exists within the transaction that writes for it: a late write would otherwise go
//! to a later namespace of the same name.

use flint_model::NamespaceName;
use flint_store::StoreError;
use rusqlite::Connection;

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
