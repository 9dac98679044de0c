//! Ends leases: when they expire, when their server is gone, or when their call has no attempts left.

use std::sync::Mutex;

use flint_store::{Lease, LeasedCall, StoreError};
use rusqlite::Connection;

use super::{
    Holders, aside,
    aside::with_attempt,
    call::{ARGUMENTS, COLUMNS, id_of, read},
    tally::Tally,
};
use crate::fault::{locked, sql_fault};

/// Extension, in ms, of an expired lease whose owner still holds the call; the owner extends it further.
const GRACE: i64 = 60_000;

/// Ends expired leases and delays.
pub(super) fn advance(
    connection: &Connection,
    tally: &Tally,
    holders: &Mutex<Holders>,
    now: i64,
) -> Result<(), StoreError> {
    let fault = sql_fault(connection, "ending leases");
    keep_held(connection, &locked(holders), now).map_err(&fault)?;
    let run = |sql| {
        connection.prepare_cached(sql).and_then(|mut statement| statement.execute([now])).map_err(&fault)
    };
    let begun = run(concat!(
        "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 7), at = accepted, earlier = ",
        with_attempt!("json_object('start', started, 'ended_by', 'lease expired')"),
        " WHERE state = 5 AND at <= ?1",
    ))?;
    let held =
        run("UPDATE calls SET state = iif(attempt = 0, 2, 7), at = accepted WHERE state = 0 AND at <= ?1")?;
    run("UPDATE calls SET state = 7, at = accepted WHERE state = 1 AND at <= ?1")?;
    if begun + held > 0 {
        tally.recount(connection)?;
    }
    Ok(())
}

/// Extends expired leases of calls that their owners still hold.
fn keep_held(connection: &Connection, holders: &Holders, now: i64) -> rusqlite::Result<()> {
    let mut over = connection.prepare_cached(
        "SELECT number, activation, owner, lease FROM calls WHERE state IN (0, 5) AND at <= ?1",
    )?;
    let mut rows = over.query([now])?;
    let mut held: Vec<i64> = Vec::new();
    while let Some(row) = rows.next()? {
        // One that cannot be read is nobody's.
        let (Ok(id), Ok(owner), Ok(number)) = (row.get(1), row.get::<_, String>(2), row.get(3)) else {
            continue;
        };
        let lease = Lease { activation: id_of(id), number };
        if holders.get(&owner).is_some_and(|holds| holds(lease)) {
            held.push(row.get(0)?);
        }
    }
    let mut prolong = connection.prepare_cached("UPDATE calls SET at = ?2 WHERE number = ?1")?;
    for number in held {
        prolong.execute([number, now.saturating_add(GRACE)])?;
    }
    Ok(())
}

/// Ends the leases and attempts of servers before `owner`; returns the number of calls.
pub(super) fn release(connection: &Connection, tally: &Tally, owner: &str) -> Result<usize, StoreError> {
    let fault = sql_fault(connection, "releasing calls");
    let run = |sql| {
        connection.prepare_cached(sql).and_then(|mut statement| statement.execute([owner])).map_err(&fault)
    };
    // Whichever server they were handed to.
    run("UPDATE calls SET state = 3 WHERE state = 4 AND ?1 IS NOT NULL")?;
    let waiting = run(
        "UPDATE calls SET state = iif(attempt = 0, 2, 7), at = accepted WHERE state = 0 AND owner <> ?1",
    )?;
    let begun = run(concat!(
        "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 7), at = accepted, earlier = ",
        with_attempt!("json_object('start', started, 'ended_by', 'server restarted')"),
        " WHERE state = 5 AND owner <> ?1",
    ))?;
    tally.recount(connection)?;
    Ok(waiting + begun)
}

/// Hands out calls without attempts left, oldest first, each once.
pub(super) fn hand_out_exhausted(
    connection: &Connection,
    tally: &Tally,
    limit: usize,
) -> Result<Vec<LeasedCall>, StoreError> {
    let fault = sql_fault(connection, "taking exhausted calls");
    let sql =
        format!("SELECT {COLUMNS}, {ARGUMENTS} FROM calls WHERE state = 3 ORDER BY at, activation LIMIT ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)]).map_err(&fault)?;
    let (mut calls, mut unreadable) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next().map_err(&fault)? {
        match read(connection, row) {
            Ok(call) => calls.push(call),
            Err(error) => unreadable.push((row.get(0).map_err(&fault)?, error)),
        }
    }
    drop(rows);
    if !unreadable.is_empty() {
        aside::put(connection, tally, &unreadable)?;
        // Those behind them come in their places; there are ever fewer.
        return hand_out_exhausted(connection, tally, limit);
    }
    let mut hand_out = connection
        .prepare_cached("UPDATE calls SET state = 4, lease = lease + 1 WHERE number = ?1")
        .map_err(&fault)?;
    let mut handed_out = Vec::with_capacity(calls.len());
    for (number, mut exhausted) in calls {
        exhausted.lease.number += 1;
        hand_out.execute([number]).map_err(&fault)?;
        handed_out.push(exhausted);
    }
    Ok(handed_out)
}
