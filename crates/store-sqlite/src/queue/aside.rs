//! Calls that cannot be read, because the disk or the memory has changed them: they are put aside, so that they hold
//! up no others.

use flint_store::StoreError;
use rusqlite::{Connection, params};

use super::tally::Tally;
use crate::fault::{sql_fault, unreadable};

const OPERATION: &str = "putting aside calls that cannot be read";

/// Adds an attempt, given as the second argument of `json_insert`, to those that ended. If those are no JSON, they
/// stay as they are: an error would end the statement, which is about all calls, and they are noticed when they are
/// read.
macro_rules! with_attempt {
    ($attempt:literal) => {
        concat!("iif(json_valid(earlier), json_insert(earlier, '$[#]', ", $attempt, "), earlier)")
    };
}
pub(crate) use with_attempt;

/// Puts calls, given by their numbers, into a state of their own and names them in the log.
pub(super) fn put(
    connection: &Connection,
    tally: &Tally,
    unreadable: &[(i64, StoreError)],
) -> Result<(), StoreError> {
    let fault = sql_fault(connection, OPERATION);
    let mut aside = connection
        .prepare_cached(
            "UPDATE calls SET state = 8 WHERE number = ?1 RETURNING lower(hex(activation)), CAST(namespace AS BLOB)",
        )
        .map_err(&fault)?;
    for (number, error) in unreadable {
        let named = aside.query_row([number], |row| Ok((row.get(0)?, row.get(1)?)));
        let (activation, namespace): (String, Vec<u8>) = named.map_err(&fault)?;
        let namespace = String::from_utf8_lossy(&namespace);
        tracing::error!(activation, %namespace, %error, "an accepted call is damaged and will not run; the disk may be failing");
    }
    tally.recount(connection)
}

/// The same for those in a line of a namespace whose name cannot be read: text that is no UTF-8, or bytes.
pub(super) fn put_line(
    connection: &Connection,
    tally: &Tally,
    state: i64,
    namespace: &[u8],
    is_text: bool,
) -> Result<(), StoreError> {
    let fault = sql_fault(connection, OPERATION);
    let mut line = connection
        .prepare_cached(
            "SELECT number FROM calls WHERE state = ?1 AND namespace = iif(?3, CAST(?2 AS TEXT), ?2)",
        )
        .map_err(&fault)?;
    let numbers = line.query_map(params![state, namespace, is_text], |row| row.get(0)).map_err(&fault)?;
    let numbers: Vec<i64> = numbers.collect::<rusqlite::Result<_>>().map_err(&fault)?;
    let error = || unreadable(connection, "an accepted call", "its namespace is not UTF-8");
    if numbers.is_empty() {
        return Err(error());
    }
    let line: Vec<_> = numbers.into_iter().map(|number| (number, error())).collect();
    put(connection, tally, &line)
}
