//! Revisions: every write takes the next number of one sequence, so none is used twice; a conditional write
//! names the revision it expects.

use flint_store::{Expected, StoreError};
use rusqlite::Connection;

use crate::fault::sql_fault;

/// Refuses a write whose condition does not hold; `found` is the present revision.
pub(crate) fn check(expected: Expected, found: Option<u64>) -> Result<(), StoreError> {
    let holds = match expected {
        Expected::Absent => found.is_none(),
        Expected::Revision(revision) => found == Some(revision),
    };
    if holds { Ok(()) } else { Err(StoreError::Conflict) }
}

/// The next revision, taken within the writing transaction.
pub(crate) fn next(connection: &Connection, operation: &'static str) -> Result<u64, StoreError> {
    let revision: i64 = connection
        .prepare_cached("UPDATE revisions SET last = last + 1 RETURNING last")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(sql_fault(connection, operation))?;
    Ok(revision as u64)
}
