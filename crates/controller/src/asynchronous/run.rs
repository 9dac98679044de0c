//! Running an accepted call.

use std::{sync::Arc, time::Duration};

use flint_executor::{Body, CallEnd};
use flint_invoker::{Before, Refusal};
use flint_model::{Activation, ActivationId, Attempt, Status, Timestamp};
use flint_store::CompositionStep;

use super::state::Held;
use crate::{
    Accepts, Controller, ControllerError, ErrorKind,
    account::InFlight,
    call::{Admitted, Attempted},
    composition::{Beginning, CompositionEnd},
    outcome::Verdict,
    record::{Draft, of_attempt, of_nothing},
    resolve::Callee,
};

/// How long to wait when the scheduler takes no more calls: doubled each time, up to the last.
const BUSY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// What became of an accepted call in this server's hands.
enum End {
    /// It is over.
    Over(Activation),
    /// Flint or the host failed: it may be tried again.
    Failed { start: Timestamp, why: String, record: Activation },
    /// The server is stopping; the next one runs it.
    Left,
    /// This server does not hold it any more, or cannot know: whoever leases it next runs it.
    Lost,
}

impl Controller {
    pub(super) async fn run_accepted(self: &Arc<Self>, mut held: Held) {
        let recorded = self.records_of(&held).await;
        let end = self.run_to_an_end(&mut held, recorded).await;
        let Held { call, attempt, in_flight, room, .. } = held;
        let id = call.activation;
        let record = match end {
            End::Left => {
                self.accepted.leased().remove(&id);
                return;
            }
            End::Lost => {
                tracing::warn!(activation = %id, "a waiting call's lease is lost; it is left to the queue");
                self.leave_to_queue(id, in_flight);
                return;
            }
            End::Failed { start, why, .. } if attempt < call.max_attempts => {
                let delay = self.config.asynchronous.retry_delay * 2_u32.saturating_pow(attempt - 1);
                tracing::warn!(activation = %id, attempt, why, "attempt failed, the call is repeated");
                let failed = Attempt { start, ended_by: why };
                if let Err(error) = self.stores.queue.retry(id, failed, delay).await {
                    // Its lease ends by itself, and the call comes back then.
                    tracing::error!(activation = %id, %error, "a failed attempt could not be written down");
                }
                self.metrics.async_retried();
                self.leave_to_queue(id, in_flight);
                return;
            }
            End::Failed { record, .. } => {
                self.metrics.async_exhausted();
                record
            }
            End::Over(record) => record,
        };
        if recorded {
            self.stores.activations.append(record);
        }
        drop((in_flight, room));
        self.finish(id).await;
        if self.accepted.left() > 0 {
            self.accepted.hungry.notify_one();
        }
    }

    /// The call is in the durable queue alone from now on, and is leased again when it is due.
    fn leave_to_queue(&self, id: ActivationId, in_flight: InFlight) {
        self.accepted.leased().remove(&id);
        in_flight.leave_counted();
        self.accepted.leave_one();
        self.accepted.hungry.notify_one();
    }

    /// Whether the namespace keeps records.
    async fn records_of(&self, held: &Held) -> bool {
        if let Some(recorded) = held.recorded {
            return recorded;
        }
        let namespace = self.stores.catalog.namespace(&held.call.namespace).await;
        !matches!(namespace, Ok(Some(namespace)) if namespace.limits.store_activations == Some(false))
    }

    async fn run_to_an_end(self: &Arc<Self>, held: &mut Held, recorded: bool) -> End {
        let id = held.call.activation;
        let end = match self.begun(held).await {
            // Whatever is at its path now.
            Ok(Some(step)) => self.compose_to_an_end(held, Beginning::Step(step), recorded).await,
            Ok(None) => self.run_when_there_is_room(held, recorded).await,
            Err(error) => failed(held, &error),
        };
        // An instance that did not start, for example, was an attempt too; one that was counted already is not again.
        if matches!(end, End::Failed { .. })
            && let Err(error) = self.stores.queue.begin(&self.accepted.owner, id).await
        {
            tracing::error!(activation = %id, %error, "an attempt could not be counted");
        }
        end
    }

    /// Where the call was, when it is a composition that an earlier life or attempt has begun.
    async fn begun(&self, held: &Held) -> Result<Option<CompositionStep>, ControllerError> {
        match held.is_fresh() {
            true => Ok(None),
            false => Ok(self.stores.compositions.take_up(held.call.activation).await?),
        }
    }

    /// Goes through a composition. That may take long, so it keeps no other call from running: its steps have turns of their own.
    async fn compose_to_an_end(
        self: &Arc<Self>,
        held: &mut Held,
        beginning: Beginning<'_>,
        recorded: bool,
    ) -> End {
        drop(held.running.take());
        self.dispatch();
        match Box::pin(self.compose_accepted(held, beginning, recorded)).await {
            Ok(CompositionEnd::Over(record)) => End::Over(*record),
            Ok(CompositionEnd::Left) => End::Left,
            Err(error) => failed(held, &error),
        }
    }

    async fn run_when_there_is_room(self: &Arc<Self>, held: &mut Held, recorded: bool) -> End {
        let id = held.call.activation;
        let mut pause = BUSY.0;
        loop {
            match self.run_once(held, recorded).await {
                Ok(end) => return end,
                Err(Refusal::ShuttingDown) => return End::Left,
                Err(Refusal::Withdrawn) => return End::Lost,
                Err(refusal) => tracing::debug!(activation = %id, %refusal, "waits for its turn"),
            }
            tokio::select! {
                () = self.stopping.cancelled() => return End::Left,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(BUSY.1),
            }
        }
    }

    /// Counts the attempt once the call has its instance.
    fn beginning(&self, id: ActivationId) -> Before {
        let (queue, owner) = (Arc::clone(&self.stores.queue), self.accepted.owner.clone());
        Before(Box::pin(async move {
            queue.begin(&owner, id).await.unwrap_or_else(|error| {
                tracing::error!(activation = %id, %error, "an attempt could not be counted; trying later");
                false
            })
        }))
    }

    /// One attempt; refused when there is no instance for it now.
    async fn run_once(self: &Arc<Self>, held: &mut Held, recorded: bool) -> Result<End, Refusal> {
        let call = &held.call;
        let resolved = match self.resolve_for(&call.namespace, &call.path).await {
            Ok(resolved) => resolved,
            Err(error) => {
                return Ok(match error.kind() {
                    ErrorKind::Forbidden => End::Over(nothing(held, Verdict::refused(&error.to_string()))),
                    ErrorKind::NotFound | ErrorKind::Conflict => End::Over(nothing(held, Verdict::deleted())),
                    _ => failed(held, &error),
                });
            }
        };
        let callable = match &resolved.callee {
            Callee::Function(callable) if !callable.conductor => Arc::clone(callable),
            _ => return Ok(self.compose_to_an_end(held, Beginning::First(&resolved), recorded).await),
        };
        let admitted = Admitted {
            id: call.activation,
            namespace: call.namespace.clone(),
            subject: call.subject.as_str().into(),
            transaction: call.transaction.as_str().into(),
            arrived: held.arrived,
            api_key: held.api_key.clone().filter(|_| callable.wants_key),
            accepts: Accepts::Json,
            recorded: true,
            cause: None,
            callable,
        };
        let (draft, verdict, end) = match admitted.callable.defaults.merge(call.arguments.clone()) {
            Err(error) => refused(&error),
            Ok(arguments) => match self
                .attempt(&admitted, Body::Full(arguments), None, Some(self.beginning(call.activation)))
                .await
            {
                Attempted::Refused(refusal) => return Err(refusal),
                Attempted::Over { draft, verdict, end } => (draft, verdict, end),
                // Not for a caller that wants JSON.
                Attempted::Streaming { .. } => refused(&ControllerError::Internal("a stream".into())),
            },
        };
        let record = of_attempt(&admitted, &draft, verdict, end, held.earlier.clone());
        self.count(&admitted, &draft, &record);
        Ok(match record.response.status {
            Status::InternalError => {
                let why = record
                    .response
                    .result
                    .as_ref()
                    .map_or_else(String::new, |result| result.get().to_owned());
                End::Failed { start: record.start, why, record }
            }
            _ => End::Over(record),
        })
    }
}

/// The record of a call that came to nothing.
fn nothing(held: &Held, verdict: Verdict) -> Activation {
    let call = &held.call;
    let (namespace, subject) = (call.namespace.clone(), call.subject.clone());
    of_nothing(call.activation, namespace, subject, call.path.clone(), verdict, held.earlier.clone())
}

/// What is to be called could not be looked up.
fn failed(held: &Held, error: &ControllerError) -> End {
    let why = error.detail().unwrap_or_else(|| error.to_string());
    let record = nothing(held, Verdict::not_provisioned(&why));
    End::Failed { start: Timestamp::now(), why, record }
}

/// The function's parameters became final after the call was accepted, for example.
fn refused(error: &ControllerError) -> (Draft, Verdict, CallEnd) {
    (Draft::none(), Verdict::refused(&error.to_string()), CallEnd::default())
}
