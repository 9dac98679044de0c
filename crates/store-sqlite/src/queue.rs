//! Accepted calls in SQLite.
//!
//! A call is in one state (`calls.state`), and `calls.at` says when that ends. The index over both finds what is
//! due, oldest first, and what has to change its state, without looking at anything else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::{ActivationId, Attempt, NamespaceName, Timestamp};
use flint_store::{ActivationLog, LeasedCall, Queue, QueuedCall, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    compositions,
    fault::{locked, sql_fault, unreadable},
    log::SegmentLog,
    writer::Writer,
};

// The values of `calls.state` are written out in the statements below: 0 leased, 1 delayed, 2 due, 3 exhausted, 4 handed out, 5 begun.

const COLUMNS: &str =
    "number, activation, namespace, subject, path, transaction_id, accepted, max_attempts, attempt, earlier";

/// The queue's tables.
pub(crate) struct SqliteQueue {
    writer: Arc<Writer>,
    depth: Arc<Depth>,
    log: Arc<SegmentLog>,
}

/// How many calls each namespace has in the queue: asked for at every admission, so kept in memory.
#[derive(Default)]
pub(crate) struct Depth(Mutex<HashMap<String, usize>>);

impl Depth {
    /// Counts anew: at open, and after a transaction was lost.
    pub(crate) fn recount(&self, connection: &Connection) -> Result<(), StoreError> {
        let counted = connection
            .prepare_cached("SELECT namespace, count(*) FROM calls GROUP BY namespace")
            .and_then(|mut statement| {
                statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize)))?.collect()
            })
            .map_err(sql_fault(connection, "counting the queue"))?;
        *locked(&self.0) = counted;
        Ok(())
    }

    fn add(&self, namespace: &str) {
        let mut counts = locked(&self.0);
        match counts.get_mut(namespace) {
            Some(count) => *count += 1,
            None => drop(counts.insert(namespace.to_owned(), 1)),
        }
    }

    fn remove(&self, namespace: &str) {
        let mut counts = locked(&self.0);
        if let Some(count) = counts.get_mut(namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(namespace);
            }
        }
    }

    fn of(&self, namespace: Option<&NamespaceName>) -> usize {
        let counts = locked(&self.0);
        match namespace {
            Some(namespace) => counts.get(namespace.as_str()).copied().unwrap_or(0),
            None => counts.values().sum(),
        }
    }
}

impl SqliteQueue {
    pub(crate) fn new(writer: Arc<Writer>, depth: Arc<Depth>, log: Arc<SegmentLog>) -> Self {
        Self { writer, depth, log }
    }
}

pub(crate) fn id_bytes(activation: ActivationId) -> [u8; 16] {
    activation.as_u128().to_be_bytes()
}

fn now_millis() -> i64 {
    Timestamp::now().as_millis() as i64
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

/// Ends the leases and delays whose time has come.
fn advance(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 2), at = accepted,
                 earlier = json_insert(earlier, '$[#]', json_object('start', started, 'ended_by', 'lease expired'))
             WHERE state = 5 AND at <= ?1",
        )?
        .execute([now])?;
    connection
        .prepare_cached("UPDATE calls SET state = 2, at = accepted WHERE state IN (0, 1) AND at <= ?1")?
        .execute([now])?;
    Ok(())
}

/// The first `limit` calls of a state, with the number of their row.
fn first(connection: &Connection, state: i64, limit: usize) -> Result<Vec<(i64, LeasedCall)>, StoreError> {
    let fault = sql_fault(connection, "reading the queue");
    let sql = format!(
        "SELECT {COLUMNS}, (SELECT body FROM arguments WHERE arguments.number = calls.number)
         FROM calls WHERE state = ?1 ORDER BY at, activation LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(&fault)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![state, limit]).map_err(&fault)?;
    let mut calls = Vec::new();
    while let Some(row) = rows.next().map_err(&fault)? {
        calls.push(read_call(connection, row)?);
    }
    Ok(calls)
}

fn read_call(connection: &Connection, row: &Row<'_>) -> Result<(i64, LeasedCall), StoreError> {
    let fault = sql_fault(connection, "reading the queue");
    let text = |column: usize| row.get::<_, String>(column).map_err(&fault);
    let number = |column: usize| row.get::<_, i64>(column).map_err(&fault);
    let bad = |error: &dyn std::fmt::Display| unreadable(connection, "an accepted call", error);
    let activation: [u8; 16] = row.get(1).map_err(&fault)?;
    let call = QueuedCall {
        activation: ActivationId::from_u128(u128::from_be_bytes(activation)),
        namespace: text(2)?.parse().map_err(|error| bad(&error))?,
        subject: text(3)?,
        path: text(4)?.parse().map_err(|error| bad(&error))?,
        transaction: text(5)?,
        accepted: Timestamp::from_millis(number(6)? as u64),
        max_attempts: number(7)? as u32,
        arguments: Bytes::from(row.get::<_, Vec<u8>>(10).map_err(&fault)?),
    };
    let earlier: Vec<Attempt> = serde_json::from_str(&text(9)?).map_err(|error| bad(&error))?;
    Ok((number(0)?, LeasedCall { call, attempt: number(8)? as u32, earlier }))
}

/// Who holds a call from its acceptance on, and for how long.
type FirstLease = Option<(String, Duration)>;

fn enqueue(connection: &Connection, call: &QueuedCall, lease: &FirstLease) -> Result<(), StoreError> {
    let accepted = call.accepted.as_millis() as i64;
    let (state, at, owner) = match lease {
        Some((owner, lease)) => (0, now_millis().saturating_add(millis(*lease)), owner.as_str()),
        None => (2, accepted, ""),
    };
    let inserted = connection
        .prepare_cached(
            "INSERT INTO calls (activation, namespace, subject, path, transaction_id, accepted, max_attempts,
                 attempt, started, earlier, state, at, owner)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, '[]', ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                id_bytes(call.activation),
                call.namespace.as_str(),
                call.subject,
                call.path.to_string(),
                call.transaction,
                accepted,
                call.max_attempts,
                state,
                at,
                owner,
            ])
        })
        .map_err(sql_fault(connection, "accepting a call"))?;
    if inserted == 0 {
        return Err(StoreError::Conflict);
    }
    connection
        .prepare_cached("INSERT INTO arguments (number, body) VALUES (?1, ?2)")
        .and_then(|mut statement| {
            statement.execute(params![connection.last_insert_rowid(), call.arguments.as_ref()])
        })
        .map_err(sql_fault(connection, "accepting a call"))?;
    Ok(())
}

/// Forgets a call; gives its namespace when there was one.
fn complete(connection: &Connection, activation: ActivationId) -> rusqlite::Result<Option<String>> {
    let gone: Option<(i64, String)> = connection
        .prepare_cached("DELETE FROM calls WHERE activation = ?1 RETURNING number, namespace")?
        .query_row([id_bytes(activation)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((number, namespace)) = gone else { return Ok(None) };
    connection.prepare_cached("DELETE FROM arguments WHERE number = ?1")?.execute([number])?;
    compositions::forget(connection, number)?;
    Ok(Some(namespace))
}

impl SqliteQueue {
    async fn accept(&self, call: QueuedCall, lease: FirstLease) -> Result<(), StoreError> {
        let depth = Arc::clone(&self.depth);
        self.writer
            .run("accepting a call", move |connection| {
                enqueue(connection, &call, &lease)?;
                depth.add(call.namespace.as_str());
                Ok(())
            })
            .await
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    async fn enqueue(&self, call: QueuedCall, owner: &str, lease: Duration) -> Result<(), StoreError> {
        self.accept(call, Some((owner.to_owned(), lease))).await
    }

    async fn enqueue_due(&self, call: QueuedCall) -> Result<(), StoreError> {
        self.accept(call, None).await
    }

    async fn enqueue_all(
        &self,
        calls: Vec<QueuedCall>,
        holder: Option<(&str, Duration)>,
    ) -> Result<(), StoreError> {
        let depth = Arc::clone(&self.depth);
        let lease = holder.map(|(owner, lease)| (owner.to_owned(), lease));
        self.writer
            .run("accepting calls", move |connection| {
                calls.iter().try_for_each(|call| enqueue(connection, call, &lease))?;
                calls.iter().for_each(|call| depth.add(call.namespace.as_str()));
                Ok(())
            })
            .await
    }

    async fn lease(&self, owner: &str, limit: usize, lease: Duration) -> Result<Vec<LeasedCall>, StoreError> {
        const OPERATION: &str = "leasing calls";
        let owner = owner.to_owned();
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                let now = now_millis();
                advance(connection, now).map_err(&fault)?;
                let mut calls = first(connection, 2, limit)?;
                for (number, leased) in &mut calls {
                    leased.attempt += 1;
                    connection
                        .prepare_cached("UPDATE calls SET state = 0, at = ?2, owner = ?3 WHERE number = ?1")
                        .and_then(|mut statement| {
                            let until = now.saturating_add(millis(lease));
                            statement.execute(params![*number, until, owner])
                        })
                        .map_err(&fault)?;
                }
                Ok(calls.into_iter().map(|(_, leased)| leased).collect())
            })
            .await
    }

    async fn begin(&self, owner: &str, activation: ActivationId) -> Result<bool, StoreError> {
        const OPERATION: &str = "beginning a call";
        let owner = owner.to_owned();
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE calls SET state = 5, attempt = attempt + 1, started = ?3
                         WHERE activation = ?1 AND state = 0 AND owner = ?2",
                    )
                    .and_then(|mut statement| {
                        statement.execute(params![id_bytes(activation), owner, now_millis()])
                    })
                    .map(|begun| begun > 0)
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn unbegin(&self, owner: &str, activation: ActivationId) -> Result<(), StoreError> {
        const OPERATION: &str = "taking back an attempt";
        let owner = owner.to_owned();
        self.writer
            .run_early(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE calls SET state = 0, attempt = attempt - 1
                         WHERE activation = ?1 AND state = 5 AND owner = ?2",
                    )
                    .and_then(|mut statement| statement.execute(params![id_bytes(activation), owner]))
                    .map(|_| ())
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn extend(
        &self,
        owner: &str,
        activations: &[ActivationId],
        lease: Duration,
    ) -> Result<(), StoreError> {
        const OPERATION: &str = "extending leases";
        let (owner, activations) = (owner.to_owned(), activations.to_vec());
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                let until = now_millis().saturating_add(millis(lease));
                let mut statement = connection
                    .prepare_cached(
                        "UPDATE calls SET at = ?3 WHERE activation = ?1 AND state IN (0, 5) AND owner = ?2",
                    )
                    .map_err(&fault)?;
                for activation in &activations {
                    statement.execute(params![id_bytes(*activation), owner, until]).map_err(&fault)?;
                }
                Ok(())
            })
            .await
    }

    async fn complete(&self, activation: ActivationId) -> Result<(), StoreError> {
        let depth = Arc::clone(&self.depth);
        // A log that cannot write keeps the record pending. Running the call again would not make it write.
        let _ = self.log.flush().await;
        self.writer
            .run_early("completing a call", move |connection| {
                let gone =
                    complete(connection, activation).map_err(sql_fault(connection, "completing a call"))?;
                if let Some(namespace) = gone {
                    depth.remove(&namespace);
                }
                Ok(())
            })
            .await
    }

    async fn retry(
        &self,
        activation: ActivationId,
        failed: Attempt,
        delay: Duration,
    ) -> Result<(), StoreError> {
        const OPERATION: &str = "putting a call back";
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 1), at = iif(attempt >= max_attempts, accepted, ?2),
                             earlier = json_insert(earlier, '$[#]', json_object('start', ?3, 'ended_by', ?4))
                         WHERE activation = ?1 AND state = 5",
                    )
                    .and_then(|mut statement| {
                        let due = now_millis().saturating_add(millis(delay));
                        statement.execute(params![
                            id_bytes(activation),
                            due,
                            failed.start.as_millis() as i64,
                            failed.ended_by
                        ])
                    })
                    .map(|_| ())
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn release_all_except(&self, owner: &str) -> Result<usize, StoreError> {
        const OPERATION: &str = "releasing calls";
        let owner = owner.to_owned();
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                connection
                    .prepare_cached("UPDATE calls SET state = 3 WHERE state = 4")
                    .and_then(|mut statement| statement.execute([]))
                    .map_err(&fault)?;
                let waiting = connection
                    .prepare_cached(
                        "UPDATE calls SET state = 2, at = accepted WHERE state = 0 AND owner <> ?1",
                    )
                    .and_then(|mut statement| statement.execute([&owner]))
                    .map_err(&fault)?;
                let begun = connection
                    .prepare_cached(
                        "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 2), at = accepted,
                             earlier = json_insert(earlier, '$[#]', json_object('start', started, 'ended_by', 'server restarted'))
                         WHERE state = 5 AND owner <> ?1",
                    )
                    .and_then(|mut statement| statement.execute([&owner]))
                    .map_err(&fault)?;
                Ok(waiting + begun)
            })
            .await
    }

    async fn take_exhausted(&self, limit: usize) -> Result<Vec<LeasedCall>, StoreError> {
        const OPERATION: &str = "taking exhausted calls";
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                advance(connection, now_millis()).map_err(&fault)?;
                let calls = first(connection, 3, limit)?;
                for (number, _) in &calls {
                    connection
                        .prepare_cached("UPDATE calls SET state = 4 WHERE number = ?1")
                        .and_then(|mut statement| statement.execute([number]))
                        .map_err(&fault)?;
                }
                Ok(calls.into_iter().map(|(_, exhausted)| exhausted).collect())
            })
            .await
    }

    async fn depth(&self, namespace: Option<&NamespaceName>) -> Result<usize, StoreError> {
        Ok(self.depth.of(namespace))
    }
}
