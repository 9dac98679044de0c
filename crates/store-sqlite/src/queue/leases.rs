//! The ends of leases: their time has come, their server is gone, or their call has no attempt left.

use flint_store::{LeasedCall, StoreError};
use rusqlite::Connection;

use super::{
    call::{ARGUMENTS, COLUMNS, read},
    tally::Tally,
};
use crate::fault::sql_fault;

/// Ends the leases and delays whose time has come.
pub(super) fn advance(connection: &Connection, tally: &Tally, now: i64) -> Result<(), StoreError> {
    let fault = sql_fault(connection, "ending leases");
    let run = |sql| {
        connection.prepare_cached(sql).and_then(|mut statement| statement.execute([now])).map_err(&fault)
    };
    let begun = run(
        "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 7), at = accepted,
             earlier = json_insert(earlier, '$[#]', json_object('start', started, 'ended_by', 'lease expired'))
         WHERE state = 5 AND at <= ?1",
    )?;
    let held =
        run("UPDATE calls SET state = iif(attempt = 0, 2, 7), at = accepted WHERE state = 0 AND at <= ?1")?;
    run("UPDATE calls SET state = 7, at = accepted WHERE state = 1 AND at <= ?1")?;
    if begun + held > 0 {
        tally.recount(connection)?;
    }
    Ok(())
}

/// Ends what servers before `owner` have held and begun; gives how many calls that were.
pub(super) fn release(connection: &Connection, tally: &Tally, owner: &str) -> Result<usize, StoreError> {
    let fault = sql_fault(connection, "releasing calls");
    let run = |sql| {
        connection.prepare_cached(sql).and_then(|mut statement| statement.execute([owner])).map_err(&fault)
    };
    // Whoever had been handed them.
    run("UPDATE calls SET state = 3 WHERE state = 4 AND ?1 IS NOT NULL")?;
    let waiting = run(
        "UPDATE calls SET state = iif(attempt = 0, 2, 7), at = accepted WHERE state = 0 AND owner <> ?1",
    )?;
    let begun = run(
        "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 7), at = accepted,
             earlier = json_insert(earlier, '$[#]', json_object('start', started, 'ended_by', 'server restarted'))
         WHERE state = 5 AND owner <> ?1",
    )?;
    tally.recount(connection)?;
    Ok(waiting + begun)
}

/// Calls that had all their attempts, the oldest first, each once.
pub(super) fn hand_out_exhausted(
    connection: &Connection,
    limit: usize,
) -> Result<Vec<LeasedCall>, StoreError> {
    let fault = sql_fault(connection, "taking exhausted calls");
    let sql =
        format!("SELECT {COLUMNS}, {ARGUMENTS} FROM calls WHERE state = 3 ORDER BY at, activation LIMIT ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)]).map_err(&fault)?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        calls.push(read(connection, row)?);
    }
    drop(rows);
    let mut hand_out =
        connection.prepare_cached("UPDATE calls SET state = 4 WHERE number = ?1").map_err(&fault)?;
    for (number, _) in &calls {
        hand_out.execute([number]).map_err(&fault)?;
    }
    Ok(calls.into_iter().map(|(_, exhausted)| exhausted).collect())
}
