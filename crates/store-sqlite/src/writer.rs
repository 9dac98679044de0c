//! The single writer of the database: a thread with group commit.
//!
//! No write is delayed for the sake of grouping: a lone write is committed at once, and under load the writes
//! that arrive during the fsync of one commit form the next.

use std::{sync::Mutex, thread::JoinHandle};

use flint_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::fault::{closed, database_fault, locked, same};

/// Maximum number of writes per commit, which bounds how long one waits for the others.
const BATCH: usize = 256;
/// Capacity of the writer's queue; further callers wait for a place in it.
const WAITING: usize = 1024;

/// One write, from its caller to its answer.
trait Job: Send {
    /// Executes it within the open transaction; repeated if that transaction is lost.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;

    /// Answers once the transaction is committed or lost.
    fn finish(&mut self, outcome: Result<(), &StoreError>);

    /// Whether it has been answered already, so that it must be repeated if its transaction is lost.
    fn is_owed(&self) -> bool;
}

enum Message {
    Write(Box<dyn Job>),
    Stop,
}

/// The handle of the writer thread.
pub(crate) struct Writer {
    messages: mpsc::Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread. `resync` is called whenever writes that had run, or had failed halfway, were undone.
    pub(crate) fn start(
        connection: Connection,
        resync: impl Fn(&Connection) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (messages, inbox) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("flint-db".to_owned())
            .spawn(move || Loop { connection, inbox, owed: Vec::new(), resync: Box::new(resync) }.run())
            .map_err(|error| StoreError::Failed {
                operation: "starting the writer",
                detail: error.to_string(),
            })?;
        Ok(Self { messages, thread: Mutex::new(Some(thread)) })
    }

    /// Runs `work` in a transaction; returns once that is committed and fsynced. An error of `work` rolls
    /// back `work` only. Dropping the future does not cancel the write.
    pub(crate) async fn run<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.send(operation, work, false).await
    }

    /// Runs `work` in a transaction; returns before the commit. Later writes see its effect; a crash may undo
    /// it.
    pub(crate) async fn run_early<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.send(operation, work, true).await
    }

    async fn send<T, F>(&self, operation: &'static str, work: F, early: bool) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Pending { work, early, result: None, reply: Some(reply) };
        self.messages.send(Message::Write(Box::new(job))).await.map_err(|_| closed(operation))?;
        answer.await.unwrap_or_else(|_| Err(closed(operation)))
    }

    /// Whether the thread has ended, by [`Self::stop`] or by itself.
    pub(crate) fn is_gone(&self) -> bool {
        self.messages.is_closed()
    }

    /// Commits the writes sent so far, then ends the thread.
    pub(crate) fn stop(&self) {
        let Some(thread) = locked(&self.thread).take() else { return };
        let mut message = Message::Stop;
        // The channel may stay full for the time of one commit.
        while let Err(mpsc::error::TrySendError::Full(unsent)) = self.messages.try_send(message) {
            message = unsent;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if thread.join().is_err() {
            tracing::error!("the writer of the database panicked");
        }
    }
}

/// A job for a closure.
struct Pending<T, F> {
    work: F,
    early: bool,
    result: Option<Result<T, StoreError>>,
    reply: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T, F> Pending<T, F> {
    fn answer(&mut self, result: Result<T, StoreError>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(result); // a caller that has gone needs no answer
        }
    }
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, StoreError> + Send> Job for Pending<T, F> {
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let result = (self.work)(connection);
        let status = result.as_ref().map(|_| ()).map_err(same);
        if self.early && result.is_ok() {
            self.answer(result);
        } else {
            self.result = Some(result);
        }
        status
    }

    fn finish(&mut self, outcome: Result<(), &StoreError>) {
        let result = self.result.take();
        match outcome {
            Ok(()) => {
                if let Some(result) = result {
                    self.answer(result);
                }
            }
            Err(error) => self.answer(Err(same(error))),
        }
    }

    fn is_owed(&self) -> bool {
        self.early && self.reply.is_none()
    }
}

/// The thread's own state.
struct Loop {
    connection: Connection,
    inbox: mpsc::Receiver<Message>,
    /// Answered but uncommitted jobs: they run first in the next transaction.
    owed: Vec<Box<dyn Job>>,
    resync: Box<dyn Fn(&Connection) + Send>,
}

impl Loop {
    fn run(mut self) {
        let mut batch: Vec<Box<dyn Job>> = Vec::with_capacity(BATCH);
        let mut stopping = false;
        while !stopping {
            match self.inbox.blocking_recv() {
                Some(Message::Write(job)) => batch.push(job),
                Some(Message::Stop) | None => {
                    stopping = true;
                    self.inbox.close();
                }
            }
            loop {
                while batch.len() < BATCH {
                    match self.inbox.try_recv() {
                        Ok(Message::Write(job)) => batch.push(job),
                        Ok(Message::Stop) => stopping = true,
                        Err(_) => break,
                    }
                }
                if batch.is_empty() {
                    break;
                }
                self.commit(&mut batch);
            }
        }
        // Leaves a single tidy file; a failure only costs time at the next start.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    /// Commits the batch in one transaction, and empties it.
    fn commit(&mut self, batch: &mut Vec<Box<dyn Job>>) {
        let mut jobs = std::mem::take(&mut self.owed);
        jobs.append(batch);
        let outcome = self.transact(&mut jobs);
        if let Err(error) = &outcome {
            tracing::warn!(%error, writes = jobs.len(), "a commit failed");
            (self.resync)(&self.connection);
        }
        for mut job in jobs {
            if outcome.is_err() && job.is_owed() {
                self.owed.push(job);
            } else {
                job.finish(outcome.as_ref().copied());
            }
        }
    }

    fn transact(&self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        let result = self.transact_inner(jobs);
        if result.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK"); // nothing more can be done about it, and the error is told
        }
        result
    }

    fn transact_inner(&self, jobs: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
        self.statement("BEGIN IMMEDIATE")?;
        let mut undone = false;
        for job in jobs {
            self.statement("SAVEPOINT job")?;
            let before = self.connection.total_changes();
            if let Err(error) = job.run(&self.connection) {
                // SQLite itself rolls back the whole transaction on some errors, such as a full disk.
                if self.connection.is_autocommit() {
                    return Err(error);
                }
                self.statement("ROLLBACK TO job")?;
                // Most errors are answers, before anything is written.
                undone |= self.connection.total_changes() != before;
            }
            self.statement("RELEASE job")?;
        }
        if undone {
            (self.resync)(&self.connection);
        }
        self.statement("COMMIT")
    }

    fn statement(&self, sql: &str) -> Result<(), StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_| ())
            .map_err(|error| {
                database_fault(self.connection.path().unwrap_or("flint.db").as_ref(), "committing", &error)
            })
    }
}
