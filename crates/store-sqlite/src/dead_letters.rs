//! Dead letters in SQLite: calls in a state of their own, so that burying or redriving one is a single
//! update.

use std::sync::Arc;

use async_trait::async_trait;
use flint_model::{
    ActivationId, Attempt, ByteSize, DeadLetterReason, FunctionPath, NamespaceName, Timestamp,
};
use flint_store::{
    ActivationLog, Buried, Clock, DeadLetter, DeadLetterBounds, DeadLetterUsage, DeadLetters, Lease,
    LetterQuery, Page, Redrive, StoreError, WhenFull,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::{
    catalog::offset_and_limit,
    compositions,
    fault::{sql_fault, unreadable},
    log::SegmentLog,
    queue::{
        aside::with_attempt,
        call::{ARGUMENTS, COLUMNS, counted, delete, id_bytes, id_of, json, policy_text, read},
        millis_of, state,
        tally::{Counted, Tally},
    },
    readers::Readers,
    writer::Writer,
};

/// Selects those of a namespace, or of one path in it.
const OF_NAMESPACE: &str = "WHERE state = 6 AND namespace = ?1 AND (?2 IS NULL OR path = ?2)";

const READING: &str = "reading dead letters";

/// Dead letters in the table of calls.
pub(crate) struct SqliteDeadLetters {
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) log: Arc<SegmentLog>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A call to become a dead letter.
struct Burial {
    lease: Lease,
    reason: DeadLetterReason,
    failed: Option<Attempt>,
    bounds: DeadLetterBounds,
    now: i64,
}

impl Burial {
    fn carry_out(&self, connection: &Connection, tally: &Tally) -> Result<Buried, StoreError> {
        let fault = sql_fault(connection, "keeping a dead letter");
        let found: Option<(i64, Counted)> = connection
            .prepare_cached(
                "SELECT number, namespace, state, size FROM calls
                 WHERE activation = ?1 AND lease = ?2 AND state IN (0, 4, 5)",
            )
            .and_then(|mut statement| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, counted(row, 1)?));
                let one = params![id_bytes(self.lease.activation), self.lease.number];
                statement.query_row(one, read).optional()
            })
            .map_err(&fault)?;
        let Some((number, call)) = found else { return Ok(Buried::default()) };
        let failed = self.failed.as_ref().map(json).transpose().map_err(&fault)?;
        let size = call.size + failed.as_ref().map_or(0, |failed| failed.len() as u64);
        let dropped = self.make_room(connection, tally, &call.namespace, size).map_err(&fault)?;
        let Some(dropped) = dropped else {
            let gone = delete(connection, self.lease.activation).map_err(&fault)?;
            gone.iter().for_each(|gone| tally.remove(gone));
            return Ok(Buried { kept: false, dropped: 1 });
        };
        compositions::forget(connection, number).map_err(&fault)?;
        connection
            .prepare_cached(concat!(
                "UPDATE calls SET state = 6, at = ?2, reason = ?3, size = ?4, owner = '', earlier = iif(?5 IS NULL, earlier, ",
                with_attempt!("json(?5)"),
                ") WHERE number = ?1",
            ))
            .and_then(|mut statement| {
                statement.execute(params![number, self.now, self.reason.as_str(), size as i64, failed])
            })
            .map_err(&fault)?;
        tally.moved(call.state, &Counted { state: state::DEAD, size, ..call });
        Ok(Buried { kept: true, dropped })
    }

    /// Drops letters until one of `size` fits; returns how many, or `None` if it does not fit.
    fn make_room(
        &self,
        connection: &Connection,
        tally: &Tally,
        namespace: &str,
        size: u64,
    ) -> rusqlite::Result<Option<usize>> {
        let bounds = &self.bounds;
        let mut dropped = 0;
        loop {
            let there = tally.dead_of(namespace);
            if there.letters < bounds.letters && there.bytes.saturating_add(size) <= bounds.bytes.as_u64() {
                return Ok(Some(dropped));
            }
            if bounds.when_full == WhenFull::DropNewest || there.letters == 0 || size > bounds.bytes.as_u64()
            {
                return Ok(None);
            }
            let oldest: [u8; 16] = connection
                .prepare_cached(
                    "SELECT activation FROM calls WHERE state = 6 AND namespace = ?1 ORDER BY at, activation LIMIT 1",
                )?
                .query_row([namespace], |row| row.get(0))?;
            delete(connection, id_of(oldest))?.iter().for_each(|gone| tally.remove(gone));
            dropped += 1;
        }
    }
}

/// A row as a letter.
fn letter(connection: &Connection, row: &Row<'_>) -> Result<DeadLetter, StoreError> {
    let fault = sql_fault(connection, READING);
    let number = |column: usize| row.get::<_, i64>(column).map_err(&fault);
    let reason: String = row.get(16).map_err(&fault)?;
    let reason = reason.parse().map_err(|error| unreadable(connection, "a dead letter", error))?;
    let (died, arguments) = (Timestamp::from_millis(number(15)? as u64), ByteSize::bytes(number(17)? as u64));
    let (_, leased) = read(connection, row)?;
    Ok(DeadLetter { call: leased.call, arguments, reason, died, attempts: leased.earlier })
}

/// Letters in the rows of `which`, a clause after `FROM calls`; with or without their arguments.
fn letters(
    connection: &Connection,
    with_arguments: bool,
    which: &str,
    params: impl Params,
) -> Result<Vec<DeadLetter>, StoreError> {
    let fault = sql_fault(connection, READING);
    let arguments = if with_arguments { ARGUMENTS } else { "x''" };
    let sql = format!(
        "SELECT {COLUMNS}, {arguments}, at, reason,
             ifnull((SELECT length(body) FROM arguments WHERE arguments.number = calls.number), 0)
         FROM calls {which}"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let mut rows = statement.query(params).map_err(&fault)?;
    let mut letters = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        match letter(connection, row) {
            Ok(letter) => letters.push(letter),
            // It takes no others with it. Whoever asks for it alone is told.
            Err(error) if !with_arguments => {
                let activation = row.get(1).map(id_of).map(|id| id.to_string()).unwrap_or_default();
                tracing::error!(activation, %error, "a dead letter is damaged and left out of lists; the disk may be failing");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(letters)
}

impl SqliteDeadLetters {
    /// Deletes the letters selected by `which` in one transaction; returns how many.
    async fn remove_all(
        &self,
        operation: &'static str,
        which: impl Fn(&Connection) -> rusqlite::Result<Vec<[u8; 16]>> + Send + 'static,
    ) -> Result<usize, StoreError> {
        let tally = Arc::clone(&self.tally);
        self.writer
            .run(operation, move |connection| {
                let fault = sql_fault(connection, operation);
                let letters = which(connection).map_err(&fault)?;
                for letter in &letters {
                    let gone = delete(connection, id_of(*letter)).map_err(&fault)?;
                    gone.iter().for_each(|gone| tally.remove(gone));
                }
                Ok(letters.len())
            })
            .await
    }
}

#[async_trait]
impl DeadLetters for SqliteDeadLetters {
    async fn bury(
        &self,
        lease: Lease,
        reason: DeadLetterReason,
        failed: Option<Attempt>,
        bounds: DeadLetterBounds,
    ) -> Result<Buried, StoreError> {
        self.log.flush().await?;
        let burial = Burial { lease, reason, failed, bounds, now: millis_of(self.clock.now()) };
        let tally = Arc::clone(&self.tally);
        self.writer.run("keeping a dead letter", move |connection| burial.carry_out(connection, &tally)).await
    }

    async fn list(
        &self,
        namespace: &NamespaceName,
        query: &LetterQuery,
        page: Page,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let (namespace, function) = (namespace.to_string(), query.function.as_ref().map(ToString::to_string));
        let (offset, limit) = offset_and_limit(page);
        let order = if query.oldest_first { "ASC" } else { "DESC" };
        self.readers
            .list(READING, move |connection| {
                let which =
                    format!("{OF_NAMESPACE} ORDER BY at {order}, activation {order} LIMIT ?4 OFFSET ?3");
                letters(connection, false, &which, params![namespace, function, offset, limit])
            })
            .await
    }

    async fn get(
        &self,
        namespace: &NamespaceName,
        activation: ActivationId,
    ) -> Result<Option<DeadLetter>, StoreError> {
        let namespace = namespace.to_string();
        self.readers
            .run(READING, move |connection| {
                let which = "WHERE activation = ?1 AND namespace = ?2 AND state = 6";
                Ok(letters(connection, true, which, params![id_bytes(activation), namespace])?.pop())
            })
            .await
    }

    async fn redrive(
        &self,
        namespace: &NamespaceName,
        letter: ActivationId,
        redrive: Redrive,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "redriving a dead letter";
        let (namespace, tally) = (namespace.to_string(), Arc::clone(&self.tally));
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                let was: Option<Counted> = connection
                    .prepare_cached(
                        "SELECT namespace, state, size FROM calls WHERE activation = ?1 AND namespace = ?2 AND state = 6",
                    )
                    .and_then(|mut statement| {
                        let one = params![id_bytes(letter), namespace];
                        statement.query_row(one, |row| counted(row, 0)).optional()
                    })
                    .map_err(&fault)?;
                let Some(was) = was else { return Ok(false) };
                let is: Counted = connection
                    .prepare_cached(
                        "UPDATE calls SET activation = ?2, cause = ?1, transaction_id = ?3, accepted = ?4, at = ?4,
                             max_attempts = ?5, policy = ?6, state = 2, attempt = 0, started = 0, reason = NULL,
                             earlier = '[]', promised = 0,
                             size = 256 + ifnull((SELECT length(body) FROM arguments WHERE arguments.number = calls.number), 0)
                         WHERE activation = ?1 RETURNING namespace, state, size",
                    )
                    .and_then(|mut statement| {
                        statement.query_row(
                            params![
                                id_bytes(letter),
                                id_bytes(redrive.activation),
                                redrive.transaction,
                                millis_of(redrive.at),
                                redrive.policy.max_attempts,
                                policy_text(&redrive.policy)?,
                            ],
                            |row| counted(row, 0),
                        )
                    })
                    .map_err(&fault)?;
                tally.remove(&was);
                tally.add(&is);
                Ok(true)
            })
            .await
    }

    async fn remove(&self, namespace: &NamespaceName, letter: ActivationId) -> Result<bool, StoreError> {
        let namespace = namespace.to_string();
        let removed = self.remove_all("removing a dead letter", move |connection| {
            connection
                .prepare_cached(
                    "SELECT activation FROM calls WHERE activation = ?1 AND namespace = ?2 AND state = 6",
                )?
                .query_map(params![id_bytes(letter), namespace], |row| row.get(0))?
                .collect()
        });
        Ok(removed.await? > 0)
    }

    async fn remove_some(
        &self,
        namespace: &NamespaceName,
        function: Option<&FunctionPath>,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let (namespace, function) = (namespace.to_string(), function.map(ToString::to_string));
        let which = format!("SELECT activation FROM calls {OF_NAMESPACE} ORDER BY at, activation LIMIT ?3");
        self.remove_all("removing dead letters", move |connection| {
            connection
                .prepare_cached(&which)?
                .query_map(params![namespace, function, limit as i64], |row| row.get(0))?
                .collect()
        })
        .await
    }

    async fn expire(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.remove_all("removing old dead letters", move |connection| {
            connection
                .prepare_cached(
                    "SELECT activation FROM calls INDEXED BY calls_by_state WHERE state = 6 AND at < ?1
                     ORDER BY at LIMIT ?2",
                )?
                .query_map(params![millis_of(before), limit as i64], |row| row.get(0))?
                .collect()
        })
        .await
    }

    async fn usage(&self, namespace: Option<&NamespaceName>) -> Result<DeadLetterUsage, StoreError> {
        Ok(self.tally.dead(namespace))
    }
}
