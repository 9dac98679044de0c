//! Reads of the queue, executed by the writer: a call completed a moment ago must not be seen any more.

use flint_model::{ActivationId, Timestamp};
use flint_store::{CallPhase, CallState, LeasedCall, StoreError};
use rusqlite::{Connection, params};

use super::{
    call::{COLUMNS, id_bytes, read},
    state,
};
use crate::fault::sql_fault;

const READING: &str = "reading the queue";

/// When the next retry is due; for one that is due already, when it was accepted.
pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    connection
        .prepare_cached(
            "SELECT min(ifnull(due, delayed), ifnull(delayed, due)) FROM (SELECT
                 (SELECT min(at) FROM calls WHERE state = 7) AS due,
                 (SELECT min(at) FROM calls WHERE state = 1) AS delayed)",
        )
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, Option<i64>>(0)))
        .map(|at| at.map(|at| Timestamp::from_millis(at as u64)))
        .map_err(sql_fault(connection, READING))
}

/// The state of a call.
pub(super) fn find(
    connection: &Connection,
    namespace: &str,
    activation: ActivationId,
) -> Result<Option<CallState>, StoreError> {
    let fault = sql_fault(connection, READING);
    // A composition counts attempts at its steps in its journal, and none of its own.
    let sql = format!(
        "SELECT {COLUMNS}, x'', state, at, EXISTS (SELECT 1 FROM compositions WHERE compositions.number = calls.number), reason
             FROM calls WHERE activation = ?1 AND namespace = ?2"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query(params![id_bytes(activation), namespace]).map_err(&fault)?;
    let Some(row) = rows.next().map_err(&fault)? else { return Ok(None) };
    let (state, at): (i64, i64) = (row.get(15).map_err(&fault)?, row.get(16).map_err(&fault)?);
    let is_at_a_step: bool = row.get(17).map_err(&fault)?;
    let reason: Option<String> = row.get(18).map_err(&fault)?;
    let (_, LeasedCall { call, attempt: begun, earlier: attempts, .. }) = read(connection, row)?;
    let until = Timestamp::from_millis(at as u64);
    let phase = match state {
        state::DELAYED => reason.map_or(CallPhase::Delayed(until), |why| CallPhase::PutOff { until, why }),
        state::DEAD => CallPhase::Dead,
        state::BEGUN => CallPhase::Running,
        state::LEASED if is_at_a_step => CallPhase::Running,
        state::LEASED | state::DUE | state::DUE_AGAIN => CallPhase::Waiting,
        _ => CallPhase::Exhausted,
    };
    Ok(Some(CallState { call, phase, begun, attempts }))
}
