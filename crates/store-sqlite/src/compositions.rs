//! The journal of compositions in SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::{ActivationId, Attempt};
use flint_store::{Clock, CompositionStep, Compositions, Lease, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    fault::{sql_fault, unreadable},
    queue::{call::id_bytes, millis_of},
    writer::Writer,
};

/// The journal's tables.
pub(crate) struct SqliteCompositions {
    pub(crate) writer: Arc<Writer>,
    pub(crate) clock: Arc<dyn Clock>,
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
    async fn reach(&self, lease: Lease, step: ActivationId, state: Bytes) -> Result<(), StoreError> {
        const OPERATION: &str = "writing down a composition's step";
        self.writer
            .run_early(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                let number: Option<i64> = connection
                    .prepare_cached(
                        "INSERT INTO compositions (number, begun, earlier, step)
                         SELECT number, NULL, '[]', ?3 FROM calls WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5)
                         ON CONFLICT (number) DO UPDATE SET begun = NULL, earlier = '[]', step = excluded.step
                         RETURNING number",
                    )
                    .and_then(|mut statement| {
                        let held = params![id_bytes(lease.activation), lease.number, id_bytes(step)];
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

    async fn begin(&self, lease: Lease, step: ActivationId) -> Result<bool, StoreError> {
        const OPERATION: &str = "beginning a composition's step";
        let now = millis_of(self.clock.now());
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE compositions SET begun = ?3, earlier = iif(begun IS NULL, earlier,
                             json_insert(earlier, '$[#]', json_object('start', begun, 'ended_by', 'unknown')))
                         WHERE (step IS NULL OR step = ?4) AND number =
                             (SELECT number FROM calls WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5))",
                    )
                    .and_then(|mut statement| {
                        let held = params![id_bytes(lease.activation), lease.number, now, id_bytes(step)];
                        statement.execute(held)
                    })
                    .map(|begun| begun > 0)
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn fail(&self, lease: Lease, step: ActivationId, failed: Attempt) -> Result<bool, StoreError> {
        const OPERATION: &str = "writing down a failed step";
        self.writer
            .run_early(OPERATION, move |connection| {
                let start = failed.start.as_millis() as i64;
                end_attempt(connection, lease, Some(step), &failed.ended_by, Some(start))
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn take_up(&self, lease: Lease) -> Result<Option<CompositionStep>, StoreError> {
        const OPERATION: &str = "taking up a composition";
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                end_attempt(connection, lease, None, "server restarted", None).map_err(&fault)?;
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

/// Records the end of the attempt in progress at this step, or at whichever it is, and whether there was one; it began at `start`, or when it
/// was counted.
fn end_attempt(
    connection: &Connection,
    lease: Lease,
    step: Option<ActivationId>,
    ended_by: &str,
    start: Option<i64>,
) -> rusqlite::Result<bool> {
    let ended = connection
        .prepare_cached(
            "UPDATE compositions SET begun = NULL,
                 earlier = json_insert(earlier, '$[#]', json_object('start', ifnull(?4, begun), 'ended_by', ?3))
             WHERE begun IS NOT NULL AND (?5 IS NULL OR step IS NULL OR step = ?5) AND number =
                 (SELECT number FROM calls WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5))",
        )?
        .execute(params![id_bytes(lease.activation), lease.number, ended_by, start, step.map(id_bytes)])?;
    Ok(ended > 0)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use flint_model::Timestamp;
    use flint_store::conformance::sample::{LONG, call, inhabit};

    use super::*;
    use crate::{SqliteStore, StoreConfig};

    const THEN: Timestamp = Timestamp::from_millis(5000);

    /// It is always then.
    #[derive(Debug)]
    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            THEN
        }

        fn until(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn an_attempt_begins_by_the_stores_clock() {
        let dir = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::open(StoreConfig { clock: Arc::new(Stopped), ..StoreConfig::new(dir.path()) })
                .unwrap();
        inhabit(&*store.catalog()).await;
        let call = call("guest", 1, 3);
        let held = Lease::first(call.activation);
        store.queue().enqueue(call, "a", LONG).await.unwrap();
        let journal = store.compositions();
        let step = ActivationId::generate();
        journal.reach(held, step, "s".into()).await.unwrap();
        assert!(journal.begin(held, step).await.unwrap());
        let step = journal.take_up(held).await.unwrap().unwrap();
        assert_eq!(step.earlier[0].start, THEN);
        store.close().await.unwrap();
    }
}
