//! The queue of accepted calls in SQLite.
//!
//! A call is in one state (`calls.state`), and `calls.at` is when that ends. The index over both finds the
//! calls whose state has to change, oldest first, without reading others; due calls have an index of their
//! own, by namespace ([`turns`]). `calls.reason` tells why a call is a dead letter, or was put off.

pub(crate) mod aside;
pub(crate) mod call;
mod leases;
mod look;
pub(crate) mod tally;
#[cfg(test)]
mod tests;
mod turns;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use flint_model::{ActivationId, Attempt, NamespaceName, Timestamp};
use flint_store::{
    ActivationLog, CallState, Clock, Holds, Lease, LeasedCall, Places, Queue, QueuedCall, StoreError, Waiting,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    compositions,
    fault::{closed, locked, sql_fault},
    log::SegmentLog,
    writer::Writer,
};
use aside::with_attempt;
use call::{Beginning, counted, delete_leased, id_bytes, insert, json};
use tally::Counted;
pub(crate) use tally::Tally;
use turns::Taking;

/// Values of `calls.state`. SQL statements contain them as literals, so that SQLite uses its partial indexes.
pub(crate) mod state {
    /// Leased by a server.
    pub(crate) const LEASED: i64 = 0;
    /// Failed before, or given back, and delayed until the next attempt.
    pub(crate) const DELAYED: i64 = 1;
    /// Without an attempt, and not leased.
    pub(crate) const DUE: i64 = 2;
    // 3: exhausted. 4: exhausted, and handed out to be recorded.
    /// An attempt is in progress.
    pub(crate) const BEGUN: i64 = 5;
    /// A dead letter.
    pub(crate) const DEAD: i64 = 6;
    /// Due for a retry, and not leased.
    pub(crate) const DUE_AGAIN: i64 = 7;
    /// Cannot be read, and put aside.
    pub(crate) const UNREADABLE: i64 = 8;
}

/// The queue's tables.
pub(crate) struct SqliteQueue {
    pub(crate) writer: Arc<Writer>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) log: Arc<SegmentLog>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The namespaces served last, for first attempts and for retries.
    pub(crate) turns: [Arc<Mutex<String>>; 2],
    /// Owners that can be asked what they hold.
    pub(crate) holders: Arc<Mutex<Holders>>,
}

/// By owner, a function that tells what it holds.
pub(crate) type Holders = HashMap<String, Holds>;

/// A time as stored in `calls.at`.
pub(crate) fn millis_of(time: Timestamp) -> i64 {
    time.as_millis() as i64
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

/// Owner and duration of the lease that a call is accepted with.
pub(crate) type FirstLease = Option<(String, Duration)>;

/// Accepts several calls, all or none. Leases begin `now`.
pub(crate) fn accept(
    connection: &Connection,
    tally: &Tally,
    calls: &[QueuedCall],
    lease: &FirstLease,
    now: Timestamp,
) -> Result<(), StoreError> {
    let beginning = |call: &QueuedCall| match lease {
        Some((owner, lease)) => {
            Beginning { state: state::LEASED, at: millis_of(now).saturating_add(millis(*lease)), owner }
        }
        None => Beginning { state: state::DUE, at: millis_of(call.accepted), owner: "" },
    };
    let accepted: Result<Vec<_>, _> =
        calls.iter().map(|call| insert(connection, call, &beginning(call))).collect();
    accepted?.iter().for_each(|call| tally.add(call));
    Ok(())
}

impl SqliteQueue {
    fn now(&self) -> i64 {
        millis_of(self.clock.now())
    }

    async fn accept(&self, calls: Vec<QueuedCall>, lease: FirstLease) -> Result<(), StoreError> {
        let (tally, now) = (Arc::clone(&self.tally), self.clock.now());
        self.writer
            .run("accepting calls", move |connection| accept(connection, &tally, &calls, &lease, now))
            .await
    }

    /// Leases calls of a line: 0 for first attempts, 1 for retries.
    async fn take(
        &self,
        line: usize,
        owner: &str,
        limit: usize,
        lease: Duration,
        places: Places,
    ) -> Result<Vec<LeasedCall>, StoreError> {
        let state = [state::DUE, state::DUE_AGAIN][line];
        let (owner, now) = (owner.to_owned(), self.now());
        let (tally, turns) = (Arc::clone(&self.tally), Arc::clone(&self.turns[line]));
        let holders = Arc::clone(&self.holders);
        self.writer
            .run("leasing calls", move |connection| {
                leases::advance(connection, &tally, &holders, now)?;
                let until = now.saturating_add(millis(lease));
                let taking = Taking { connection, tally: &tally, state, owner: &owner, until };
                let places = |name: &str| name.parse().map_or(usize::MAX, |name| places(&name));
                let taken = taking.take(limit, &mut locked(&turns), places)?;
                let leased = |(call, size): (LeasedCall, u64)| {
                    let namespace = call.call.namespace.to_string();
                    tally.moved(state, &Counted { namespace, state: state::LEASED, size });
                    call
                };
                Ok(taken.into_iter().map(leased).collect())
            })
            .await
    }

    /// Gives up a lease until the call is due again; `why` if it is put off.
    async fn delay(&self, lease: Lease, delay: Duration, why: Option<&str>) -> Result<bool, StoreError> {
        const OPERATION: &str = "giving a call back";
        let (tally, due) = (Arc::clone(&self.tally), self.now().saturating_add(millis(delay)));
        let why = why.map(str::to_owned);
        self.writer
            .run_early(OPERATION, move |connection| {
                let given = connection
                    .prepare_cached(
                        "UPDATE calls SET state = 1, at = ?3, reason = ?4
                         WHERE activation = ?1 AND lease = ?2 AND state = 0 RETURNING namespace, state, size",
                    )
                    .and_then(|mut statement| {
                        let one = params![id_bytes(lease.activation), lease.number, due, why];
                        statement.query_row(one, |row| counted(row, 0)).optional()
                    })
                    .map_err(sql_fault(connection, OPERATION))?;
                given.iter().for_each(|call| tally.moved(state::LEASED, call));
                Ok(given.is_some())
            })
            .await
    }
}

#[async_trait]
impl Queue for SqliteQueue {
    async fn enqueue(&self, call: QueuedCall, owner: &str, lease: Duration) -> Result<(), StoreError> {
        self.accept(vec![call], Some((owner.to_owned(), lease))).await
    }

    async fn enqueue_due(&self, call: QueuedCall) -> Result<(), StoreError> {
        self.accept(vec![call], None).await
    }

    async fn enqueue_begun(&self, call: QueuedCall, owner: &str, lease: Duration) -> Result<(), StoreError> {
        const OPERATION: &str = "accepting a call that runs";
        let (tally, owner, now) = (Arc::clone(&self.tally), owner.to_owned(), self.now());
        self.writer
            .run(OPERATION, move |connection| {
                let at = now.saturating_add(millis(lease));
                let accepted =
                    insert(connection, &call, &Beginning { state: state::LEASED, at, owner: &owner })?;
                connection
                    .prepare_cached(
                        "UPDATE calls SET state = 5, attempt = 1, started = ?2 WHERE activation = ?1",
                    )
                    .and_then(|mut statement| statement.execute(params![id_bytes(call.activation), now]))
                    .map_err(sql_fault(connection, OPERATION))?;
                tally.add(&accepted);
                Ok(())
            })
            .await
    }

    async fn enqueue_all(
        &self,
        calls: Vec<QueuedCall>,
        holder: Option<(&str, Duration)>,
    ) -> Result<(), StoreError> {
        self.accept(calls, holder.map(|(owner, lease)| (owner.to_owned(), lease))).await
    }

    async fn lease(
        &self,
        owner: &str,
        limit: usize,
        lease: Duration,
        places: Places,
    ) -> Result<Vec<LeasedCall>, StoreError> {
        self.take(0, owner, limit, lease, places).await
    }

    async fn lease_again(
        &self,
        owner: &str,
        limit: usize,
        lease: Duration,
        places: Places,
    ) -> Result<Vec<LeasedCall>, StoreError> {
        self.take(1, owner, limit, lease, places).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.writer.run("reading the queue", look::next_due).await
    }

    fn keep_while(&self, owner: &str, holds: Holds) {
        locked(&self.holders).insert(owner.to_owned(), holds);
    }

    async fn begin(&self, lease: Lease) -> Result<bool, StoreError> {
        const OPERATION: &str = "beginning a call";
        let now = self.now();
        self.writer
            .run(OPERATION, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE calls SET state = 5, attempt = attempt + 1, started = ?3
                         WHERE activation = ?1 AND lease = ?2 AND state = 0",
                    )
                    .and_then(|mut statement| {
                        statement.execute(params![id_bytes(lease.activation), lease.number, now])
                    })
                    .map(|begun| begun > 0)
                    .map_err(sql_fault(connection, OPERATION))
            })
            .await
    }

    async fn extend(&self, leases: &[Lease], time: Duration) -> Result<usize, StoreError> {
        const OPERATION: &str = "extending leases";
        let (leases, until) = (leases.to_vec(), self.now().saturating_add(millis(time)));
        self.writer
            .run(OPERATION, move |connection| {
                let fault = sql_fault(connection, OPERATION);
                let mut statement = connection
                    .prepare_cached(
                        "UPDATE calls SET at = ?3 WHERE activation = ?1 AND lease = ?2 AND state IN (0, 5)",
                    )
                    .map_err(&fault)?;
                let mut extended = 0;
                for lease in &leases {
                    let one = params![id_bytes(lease.activation), lease.number, until];
                    extended += statement.execute(one).map_err(&fault)?;
                }
                Ok(extended)
            })
            .await
    }

    async fn complete(&self, lease: Lease) -> Result<bool, StoreError> {
        const OPERATION: &str = "completing a call";
        let tally = Arc::clone(&self.tally);
        self.log.flush().await?;
        self.writer
            .run_early(OPERATION, move |connection| {
                let gone = delete_leased(connection, lease).map_err(sql_fault(connection, OPERATION))?;
                gone.iter().for_each(|gone| tally.remove(gone));
                Ok(gone.is_some())
            })
            .await
    }

    async fn retry(
        &self,
        lease: Lease,
        failed: Attempt,
        delay: Duration,
        anew: bool,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "putting a call back";
        let (tally, due) = (Arc::clone(&self.tally), self.now().saturating_add(millis(delay)));
        self.writer
            .run(OPERATION, move |connection| {
                let put_back = || -> rusqlite::Result<Option<Counted>> {
                    let found: Option<(i64, Counted)> = connection
                        .prepare_cached(concat!(
                            "UPDATE calls SET state = iif(attempt >= max_attempts, 3, 1), at = iif(attempt >= max_attempts, accepted, ?2),
                                 reason = NULL, size = size + length(?3), earlier = ",
                            with_attempt!("json(?3)"),
                            " WHERE activation = ?1 AND lease = ?4 AND state = 5 RETURNING number, namespace, state, size",
                        ))?
                        .query_row(
                            params![id_bytes(lease.activation), due, json(&failed)?, lease.number],
                            |row| Ok((row.get(0)?, counted(row, 1)?)),
                        )
                        .optional()?;
                    let Some((number, counted)) = found else { return Ok(None) };
                    if anew {
                        compositions::forget(connection, number)?;
                    }
                    Ok(Some(counted))
                };
                let put_back = put_back().map_err(sql_fault(connection, OPERATION))?;
                put_back.iter().for_each(|call| tally.moved(state::LEASED, call));
                Ok(put_back.is_some())
            })
            .await
    }

    async fn give_back(&self, lease: Lease, delay: Duration) -> Result<bool, StoreError> {
        self.delay(lease, delay, None).await
    }

    async fn put_off(&self, lease: Lease, delay: Duration, why: &str) -> Result<bool, StoreError> {
        self.delay(lease, delay, Some(why)).await
    }

    async fn release_all_except(&self, owner: &str) -> Result<usize, StoreError> {
        let (owner, tally) = (owner.to_owned(), Arc::clone(&self.tally));
        self.writer
            .run("releasing calls", move |connection| leases::release(connection, &tally, &owner))
            .await
    }

    async fn take_exhausted(&self, limit: usize) -> Result<Vec<LeasedCall>, StoreError> {
        let (tally, holders, now) = (Arc::clone(&self.tally), Arc::clone(&self.holders), self.now());
        self.writer
            .run("taking exhausted calls", move |connection| {
                leases::advance(connection, &tally, &holders, now)?;
                leases::hand_out_exhausted(connection, &tally, limit)
            })
            .await
    }

    async fn find(
        &self,
        namespace: &NamespaceName,
        activation: ActivationId,
    ) -> Result<Option<CallState>, StoreError> {
        let namespace = namespace.to_string();
        let find = move |connection: &_| look::find(connection, &namespace, activation);
        self.writer.run("looking up a call", find).await
    }

    async fn waiting_first(&self, namespace: Option<&NamespaceName>) -> Result<usize, StoreError> {
        Ok(self.tally.waiting_first(namespace))
    }

    async fn waiting_again(&self, namespace: Option<&NamespaceName>) -> Result<Waiting, StoreError> {
        Ok(self.tally.waiting_again(namespace))
    }

    async fn unreadable(&self) -> Result<usize, StoreError> {
        Ok(self.tally.unreadable())
    }

    async fn depth(&self, namespace: Option<&NamespaceName>) -> Result<usize, StoreError> {
        // The count is kept outside the database, and is of no use without it.
        if self.writer.is_gone() {
            return Err(closed("counting calls"));
        }
        Ok(self.tally.depth(namespace))
    }
}
