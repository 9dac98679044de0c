//! A call as a database row.

use bytes::Bytes;
use flint_model::{ActivationId, Attempt, RetryPolicy, Timestamp};
use flint_store::{Lease, LeasedCall, QueuedCall, StoreError};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::{state, tally::Counted};
use crate::{
    compositions,
    fault::{sql_fault, unreadable},
    namespaces,
};

/// The columns for [`read`], except the arguments.
pub(crate) const COLUMNS: &str = "number, activation, namespace, subject, path, transaction_id, accepted, max_attempts, attempt, earlier, policy, cause, promised, lease";

/// The arguments, as the column after them.
pub(crate) const ARGUMENTS: &str = "(SELECT body FROM arguments WHERE arguments.number = calls.number)";

/// Approximate size of a call without its arguments and attempts.
const AROUND: usize = 256;

pub(crate) fn id_bytes(activation: ActivationId) -> [u8; 16] {
    activation.as_u128().to_be_bytes()
}

pub(crate) fn id_of(bytes: [u8; 16]) -> ActivationId {
    ActivationId::from_u128(u128::from_be_bytes(bytes))
}

/// Parses a row of [`COLUMNS`] and [`ARGUMENTS`] (or another expression that yields bytes); returns its
/// number too. The `attempt` is the last one begun, and the lease the last one there was.
pub(crate) fn read(connection: &Connection, row: &Row<'_>) -> Result<(i64, LeasedCall), StoreError> {
    let fault = sql_fault(connection, "reading the queue");
    let text = |column: usize| row.get::<_, String>(column).map_err(&fault);
    let number = |column: usize| row.get::<_, i64>(column).map_err(&fault);
    let bad = |error: &dyn std::fmt::Display| unreadable(connection, "an accepted call", error);
    let max_attempts = number(7)? as u32;
    let policy = match row.get::<_, Option<String>>(10).map_err(&fault)? {
        Some(policy) => serde_json::from_str(&policy).map_err(|error| bad(&error))?,
        // Accepted before there were retry policies.
        None => RetryPolicy { max_attempts, ..RetryPolicy::default() },
    };
    let call = QueuedCall {
        activation: id_of(row.get(1).map_err(&fault)?),
        namespace: text(2)?.parse().map_err(|error| bad(&error))?,
        subject: text(3)?,
        path: text(4)?.parse().map_err(|error| bad(&error))?,
        transaction: text(5)?,
        accepted: Timestamp::from_millis(number(6)? as u64),
        policy,
        cause: row.get::<_, Option<[u8; 16]>>(11).map_err(&fault)?.map(id_of),
        promised: row.get(12).map_err(&fault)?,
        arguments: Bytes::from(row.get::<_, Vec<u8>>(14).map_err(&fault)?),
    };
    let lease = Lease { activation: call.activation, number: number(13)? as u32 };
    let earlier: Vec<Attempt> = serde_json::from_str(&text(9)?).map_err(|error| bad(&error))?;
    Ok((number(0)?, LeasedCall { call, lease, attempt: number(8)? as u32, earlier }))
}

/// The state in which a call is accepted, until when, and its owner.
pub(super) struct Beginning<'a> {
    pub(super) state: i64,
    pub(super) at: i64,
    pub(super) owner: &'a str,
}

/// Inserts an accepted call. One that somebody has from the beginning has had its first lease.
pub(super) fn insert(
    connection: &Connection,
    call: &QueuedCall,
    beginning: &Beginning<'_>,
) -> Result<Counted, StoreError> {
    const OPERATION: &str = "accepting a call";
    namespaces::check(connection, &call.namespace, OPERATION)?;
    let size = AROUND + call.arguments.len();
    let inserted = connection
        .prepare_cached(
            "INSERT INTO calls (activation, namespace, subject, path, transaction_id, accepted, max_attempts,
                 attempt, started, earlier, state, at, owner, policy, cause, size, promised,
                 lease)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, '[]', ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT DO NOTHING",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                id_bytes(call.activation),
                call.namespace.as_str(),
                call.subject,
                call.path.to_string(),
                call.transaction,
                call.accepted.as_millis() as i64,
                call.policy.max_attempts,
                beginning.state,
                beginning.at,
                beginning.owner,
                policy_text(&call.policy)?,
                call.cause.map(id_bytes),
                size as i64,
                call.promised,
                beginning.state == state::LEASED,
            ])
        })
        .map_err(sql_fault(connection, OPERATION))?;
    if inserted == 0 {
        return Err(StoreError::Conflict);
    }
    connection
        .prepare_cached("INSERT INTO arguments (number, body) VALUES (?1, ?2)")
        .and_then(|mut statement| {
            statement.execute(params![connection.last_insert_rowid(), call.arguments.as_ref()])
        })
        .map_err(sql_fault(connection, OPERATION))?;
    Ok(Counted { namespace: call.namespace.to_string(), state: beginning.state, size: size as u64 })
}

/// The policy for its column; absent if the other columns imply it.
pub(crate) fn policy_text(policy: &RetryPolicy) -> rusqlite::Result<Option<String>> {
    let plain = RetryPolicy { max_attempts: policy.max_attempts, ..RetryPolicy::default() };
    match *policy == plain {
        true => Ok(None),
        false => Ok(Some(json(policy)?)),
    }
}

/// A value as the text of a column.
pub(crate) fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Deletes a call with its dependent rows; returns its counts.
pub(crate) fn delete(connection: &Connection, activation: ActivationId) -> rusqlite::Result<Option<Counted>> {
    const DELETE: &str = "DELETE FROM calls WHERE activation = ?1 RETURNING number, namespace, state, size";
    delete_by(connection, DELETE, [id_bytes(activation)])
}

/// The same under a lease; `None`, and nothing is deleted, when that is over.
pub(super) fn delete_leased(connection: &Connection, lease: Lease) -> rusqlite::Result<Option<Counted>> {
    const DELETE: &str = "DELETE FROM calls WHERE activation = ?1 AND lease = ?2 AND state IN (0, 4, 5)
         RETURNING number, namespace, state, size";
    delete_by(connection, DELETE, params![id_bytes(lease.activation), lease.number])
}

fn delete_by(
    connection: &Connection,
    delete: &str,
    params: impl Params,
) -> rusqlite::Result<Option<Counted>> {
    let gone: Option<(i64, Counted)> = connection
        .prepare_cached(delete)?
        .query_row(params, |row| Ok((row.get(0)?, counted(row, 1)?)))
        .optional()?;
    let Some((number, counted)) = gone else { return Ok(None) };
    connection.prepare_cached("DELETE FROM arguments WHERE number = ?1")?.execute([number])?;
    compositions::forget(connection, number)?;
    Ok(Some(counted))
}

/// The counts of a call, in the columns `namespace, state, size` from `first`.
pub(crate) fn counted(row: &Row<'_>, first: usize) -> rusqlite::Result<Counted> {
    // A size that is damaged keeps no call from ending.
    let (state, size): (i64, i64) = (row.get(first + 1)?, row.get(first + 2).unwrap_or_default());
    Ok(Counted { namespace: row.get(first)?, state, size: size as u64 })
}
