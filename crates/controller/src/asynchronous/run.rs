//! Running an accepted call.

use std::{sync::Arc, time::Duration};

use flint_executor::{Body, CallEnd};
use flint_invoker::{Before, Refusal};
use flint_model::{Activation, ActivationId, Attempt, Status, Timestamp};

use super::state::Held;
use crate::{
    Accepts, Controller, ControllerError,
    account::InFlight,
    call::{Admitted, Attempted},
    outcome::Verdict,
    record::{Draft, of_attempt, of_nothing},
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
    pub(super) async fn run_accepted(self: &Arc<Self>, held: Held) {
        let recorded = self.records_of(&held).await;
        let end = self.run_to_an_end(&held).await;
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
        // Only a server that is gone takes no finished calls; the call is then run again.
        let _ = self.accepted.finished.send(id).await;
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

    async fn run_to_an_end(&self, held: &Held) -> End {
        let mut pause = BUSY.0;
        loop {
            let id = held.call.activation;
            match self.run_once(held).await {
                Ok(end) => {
                    // An instance that did not start, for example, was an attempt too; one that was counted already is not again.
                    if matches!(end, End::Failed { .. })
                        && let Err(error) = self.stores.queue.begin(&self.accepted.owner, id).await
                    {
                        tracing::error!(activation = %id, %error, "an attempt could not be counted");
                    }
                    return end;
                }
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
    async fn run_once(&self, held: &Held) -> Result<End, Refusal> {
        let call = &held.call;
        let nothing = |verdict| {
            let (namespace, subject) = (call.namespace.clone(), call.subject.clone());
            of_nothing(call.activation, namespace, subject, call.path.clone(), verdict, held.earlier.clone())
        };
        let callable = match self.load(&call.path).await {
            Ok(Some(callable)) => callable,
            Ok(None) => return Ok(End::Over(nothing(Verdict::deleted()))),
            Err(error) => {
                let why = error.detail().unwrap_or_else(|| error.to_string());
                let record = nothing(Verdict::not_provisioned(&why));
                return Ok(End::Failed { start: Timestamp::now(), why, record });
            }
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

/// The function's parameters became final after the call was accepted, for example.
fn refused(error: &ControllerError) -> (Draft, Verdict, CallEnd) {
    (Draft::none(), Verdict::refused(&error.to_string()), CallEnd::default())
}
