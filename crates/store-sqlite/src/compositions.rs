//! The journal of compositions in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::{Attempt, Timestamp};
use flint_store::{CompositionStep, Compositions, Lease, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    fault::{sql_fault, unreadable},
    queue::call::id_bytes,
    writer::Writer,
};

/// The journal's tables.
pub(crate) struct SqliteCompositions {
    pub(crate) writer: Arc<Writer>,
}

/// Deletes a composition, within the transaction that deletes its call.
pub(crate) fn forget(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    let gone = connection.prepare_cached("DELETE FROM compositions WHERE number = ?1")?.execute([number])?;
    if gone > 0 {
        connection.prepare_cached("DELETE FROM composition_states WHERE number = ?1")?.execute([number])?;
    }
    Ok(())
}

#[async_trait]
impl Compositions for SqliteCompositions {
    async fn reach(&self, lease: Lease, state: Bytes) -> Result<(), StoreError> {
        const OPERATION: &str = "writing down a composition's step";
        self.writer
            .run_early(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                let number: Option<i64> = connection
                    .prepare_cached(
                        "INSERT INTO compositions (number, begun, earlier)
                         SELECT number, NULL, '[]' FROM calls WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5)
                         ON CONFLICT (number) DO UPDATE SET begun = NULL, earlier = '[]' RETURNING number",
                    )
                    .and_then(|mut statement| {
                        let held = params![id_bytes(lease.activation), lease.number];
                        statement.query_row(held, |row| row.get(0)).optional()
                    })
                    .map_err(&fault)?;
                let number = number.ok_or(StoreError::Conflict)?;
                connection
                    .prepare_cached(
                        "INSERT INTO composition_states (number, body) VALUES (?1, ?2)
                         ON CONFLICT (number) DO UPDATE SET body = excluded.body",
                    )
                    .and_then(|mut statement| statement.execute(params![number, state.as_ref()]))
                    .map_err(&fault)?;
                Ok(())
            })
            .await
    }

    async fn begin(&self, lease: Lease) -> Result<bool, StoreError> {
        const OPERATION: &str = "beginning a composition's step";
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE compositions SET begun = ?3 WHERE number =
                             (SELECT number FROM calls WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5))",
                    )
                    .and_then(|mut statement| {
                        let now = Timestamp::now().as_millis() as i64;
                        statement.execute(params![id_bytes(lease.activation), lease.number, now])
                    })
                    .map(|begun| begun > 0)
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn fail(&self, lease: Lease, failed: Attempt) -> Result<bool, StoreError> {
        const OPERATION: &str = "writing down a failed step";
        self.writer
            .run_early(OPERATION, move |connection| {
                let start = failed.start.as_millis() as i64;
                end_attempt(connection, lease, &failed.ended_by, Some(start))
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn take_up(&self, lease: Lease) -> Result<Option<CompositionStep>, StoreError> {
        const OPERATION: &str = "taking up a composition";
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                end_attempt(connection, lease, "server restarted", None).map_err(&fault)?;
                let found: Option<(String, Vec<u8>)> = connection
                    .prepare_cached(
                        "SELECT compositions.earlier, body FROM calls JOIN compositions USING (number)
                             JOIN composition_states USING (number)
                         WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5)",
                    )
                    .and_then(|mut statement| {
                        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                        let held = params![id_bytes(lease.activation), lease.number];
                        statement.query_row(held, read).optional()
                    })
                    .map_err(&fault)?;
                let Some((earlier, state)) = found else { return Ok(None) };
                let earlier = serde_json::from_str(&earlier)
                    .map_err(|error| unreadable(connection, "a composition's attempts", &error))?;
                Ok(Some(CompositionStep { state: state.into(), earlier }))
            })
            .await
    }
}

/// Records the end of the attempt in progress, and whether there was one; it began at `start`, or when it was counted.
fn end_attempt(
    connection: &Connection,
    lease: Lease,
    ended_by: &str,
    start: Option<i64>,
) -> rusqlite::Result<bool> {
    let ended = connection
        .prepare_cached(
            "UPDATE compositions SET begun = NULL,
                 earlier = json_insert(earlier, '$[#]', json_object('start', ifnull(?4, begun), 'ended_by', ?3))
             WHERE begun IS NOT NULL AND number =
                 (SELECT number FROM calls WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5))",
        )?
        .execute(params![id_bytes(lease.activation), lease.number, ended_by, start])?;
    Ok(ended > 0)
}
