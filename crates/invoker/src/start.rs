//! Starts an instance, from the reservation of its memory to the lease on it.

use std::{sync::Arc, time::Duration};

use flint_executor::{BRING_UP, Fault, PrepareError, StartContext, StartFailure};
use flint_model::{ActivationId, Function, InstanceId, Timestamp};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{InstanceKey, Invoker, Lease, StartReport, entry::Entry, keeper, lease::OVERDUE, shared::Shared};

/// How long a start in progress may go on while the invoker shuts down.
const CLOSING_PATIENCE: Duration = Duration::from_secs(2);

/// A reservation of memory for an instance, and its id. Dropping it gives the memory back.
pub struct Permit {
    shared: Arc<Shared>,
    pub(crate) key: Arc<InstanceKey>,
    pub(crate) function: Arc<Function>,
    pub(crate) id: InstanceId,
    used: bool,
    /// Makes shutdown wait for the start.
    _awaited: TaskTrackerToken,
}

impl Permit {
    pub(crate) fn new(
        shared: Arc<Shared>,
        key: Arc<InstanceKey>,
        function: Arc<Function>,
        id: InstanceId,
    ) -> Self {
        let awaited = shared.tasks.token();
        Self { shared, key, function, id, used: false, _awaited: awaited }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.used {
            self.shared.pool().not_started(self.id);
            self.shared.capacity.notify_one();
        }
    }
}

/// The call that causes a start.
#[derive(Clone, Debug)]
pub struct StartFor {
    /// Its activation.
    pub activation: ActivationId,
    /// Its request's transaction id.
    pub transaction: Arc<str>,
    /// Environment for loading the code, in addition to the function's `init` parameters.
    pub environment: Arc<[(String, String)]>,
}

/// Why there is no instance.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This host cannot run the function.
    #[error("{0}")]
    Unavailable(String),
    /// Its code is at fault: every further start would fail in the same way.
    #[error("{0}")]
    Code(StartFailure),
    /// Too many functions are being prepared; a later start will succeed.
    #[error("{0}")]
    Busy(StartFailure),
    /// This start failed.
    #[error("{0}")]
    Failed(StartFailure),
}

impl Invoker {
    /// Starts an instance, and prepares its function first if that was not done since Flint started.
    ///
    /// To be called from a task that runs to its end: a start dropped halfway leaves cleaning up to the
    /// executor.
    pub async fn start(&self, mut permit: Permit, call: StartFor) -> Result<Lease, StartError> {
        let started = self.try_start(&mut permit, call).await;
        if started.is_err() {
            self.shared.totals.failed.add(1);
        }
        started
    }

    async fn try_start(&self, permit: &mut Permit, call: StartFor) -> Result<Lease, StartError> {
        let function = Arc::clone(&permit.function);
        // Preparation, which may compile, has no deadline.
        let prepared = tokio::select! {
            prepared = self.prepared(&function) => prepared.map_err(cannot_prepare)?,
            () = self.given_up() => return Err(shut_down(Duration::ZERO)),
        };
        let executor = self.executor_for(&function).map_err(cannot_prepare)?;
        let (began, began_at) = (Instant::now(), Timestamp::now());
        self.shared.note_start();
        let deadline = began + function.limits.timeout;
        let mut environment: Vec<_> = function.parameters.environment().collect();
        environment.extend_from_slice(&call.environment);
        let context = StartContext {
            id: permit.id,
            namespace: Some(permit.key.namespace.clone()),
            activation: Some(call.activation),
            transaction: call.transaction,
            deadline: deadline.into_std(),
            environment,
            max_logs: function.limits.logs,
        };
        let start = timeout_at(deadline + BRING_UP + OVERDUE, executor.start(&prepared, context));
        let outcome = tokio::select! {
            outcome = start => outcome,
            () = self.given_up() => return Err(shut_down(began.elapsed())),
        };
        let started = match outcome {
            Ok(Ok(started)) => started,
            Ok(Err(failure)) => return Err(StartError::Failed(failure)),
            Err(_) => {
                self.shared.totals.overdue.add(1);
                tracing::error!(function = %function.path, executor = executor.name(),
                    "the executor did not give up a start at its deadline");
                return Err(StartError::Failed(failure(Fault::Deadline, began.elapsed())));
            }
        };
        let totals = &self.shared.totals;
        match (started.started.is_zero(), started.restored) {
            (_, Some(_)) => totals.restored.add(1),
            (true, None) => totals.prewarmed.add(1),
            (false, None) => totals.cold.add(1),
        }
        let report = StartReport {
            began,
            began_at,
            started: started.started,
            restored: started.restored,
            initialised: started.initialised,
            logs: started.logs,
        };
        if report.started.is_zero() || report.made_a_snapshot() {
            // The memory of prewarmed runtimes or of snapshots has changed: it has to be measured before the
            // next start.
            self.shared.prewarm.notify_one();
        }
        let entry = Arc::new(Entry::new(
            Arc::clone(&permit.key),
            function,
            prepared.strategy,
            started.instance,
            report,
            permit.id,
        ));
        permit.used = true;
        self.shared.pool().started(&entry, Instant::now());
        self.shared.tasks.spawn(keeper::keep(Arc::clone(&self.shared), Arc::clone(&entry)));
        Ok(Lease::new(Arc::clone(&self.shared), entry))
    }

    /// Resolves when a start in progress is to be given up.
    async fn given_up(&self) {
        self.shared.closing.cancelled().await;
        sleep(CLOSING_PATIENCE).await;
    }
}

fn failure(fault: Fault, took: Duration) -> StartFailure {
    StartFailure { fault, took, logs: Vec::new() }
}

fn shut_down(took: Duration) -> StartError {
    StartError::Failed(failure(Fault::Platform { cause: "the server is shutting down".to_owned() }, took))
}

fn cannot_prepare(error: PrepareError) -> StartError {
    match error {
        PrepareError::Unavailable { .. } => StartError::Unavailable(error.to_string()),
        PrepareError::Code(message) => {
            StartError::Code(failure(Fault::Developer { message }, Duration::ZERO))
        }
        PrepareError::OverQuota(_) => {
            // Without figures: the caller need not be the owner.
            let message = "the function's code cannot be unpacked: that of its namespace takes as much of the server's disk as it may (prepare.per_namespace). Delete functions of the namespace that are not needed, or have the server's operator raise it".to_owned();
            StartError::Code(failure(Fault::Developer { message }, Duration::ZERO))
        }
        PrepareError::Busy(cause) => StartError::Busy(failure(Fault::Platform { cause }, Duration::ZERO)),
        PrepareError::NoRoom(_) | PrepareError::Failed { .. } => {
            StartError::Failed(failure(Fault::Platform { cause: error.to_string() }, Duration::ZERO))
        }
    }
}
