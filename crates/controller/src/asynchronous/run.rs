//! Runs a held call.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use flint_executor::{Body, CallEnd};
use flint_invoker::{Before, Refusal};
use flint_model::{Activation, DeadLetterReason, NamespaceName};
use flint_store::{CompositionStep, QueuedCall};

use super::{
    policy,
    put_off::PutOff,
    settle::{self, Ended},
    state::Held,
};
use crate::{
    Accepts, Controller, ControllerError, ErrorKind,
    call::{Admitted, Attempted},
    composition::{Beginning, Paused},
    outcome::Verdict,
    record::{Draft, of_attempt, of_nothing},
    resolve::Callee,
};

/// First and longest delay while the scheduler refuses calls; doubled each time.
const BUSY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How the run of a held call ended.
enum End {
    /// An attempt ended.
    Ended(Ended),
    /// This host cannot run it now; it is tried again later.
    PutOff(PutOff),
    /// No attempt was made, and none will be.
    GivenUp(Activation, DeadLetterReason),
    /// The server is stopping; its next run executes the call.
    Left,
    /// The lease is lost, or may be: whoever leases the call next runs it.
    Lost,
}

impl Controller {
    pub(super) async fn run_accepted(self: &Arc<Self>, mut held: Held) {
        let recorded = match held.recorded {
            Some(recorded) => recorded,
            None => self.keeps_records(&held.call.namespace).await,
        };
        let id = held.call.activation;
        let end = self.run_to_an_end(&mut held, recorded).await;
        // A promised record is always kept, unlike those of its steps; for a namespace deleted meanwhile,
        // nothing is.
        let recorded = (recorded || held.call.promised) && held.in_flight.account().check_open().is_ok();
        match end {
            End::Ended(ended) => self.settle(held, recorded, ended).await,
            End::GivenUp(record, reason) => self.give_up_call(held, recorded, record, reason, None).await,
            End::PutOff(put_off) => self.put_off(held, put_off).await,
            End::Left => drop(self.accepted.leased().remove(&held.lease)),
            End::Lost => {
                tracing::warn!(activation = %id, "a waiting call's lease is lost; it is left to the queue");
                self.leave_to_queue(held);
            }
        }
    }

    /// Whether a namespace keeps records.
    pub(super) async fn keeps_records(&self, namespace: &NamespaceName) -> bool {
        let namespace = self.stores.catalog.namespace(namespace).await;
        !matches!(namespace, Ok(Some(namespace)) if namespace.limits.store_activations == Some(false))
    }

    async fn run_to_an_end(self: &Arc<Self>, held: &mut Held, recorded: bool) -> End {
        match self.begun(held).await {
            // The journal counts, whatever is at the path now.
            Ok(Some(step)) => self.compose_to_an_end(held, Beginning::Step(step), recorded).await,
            Ok(None) if let Some(end) = self.ended_before(&held.call, held.attempt).await => end,
            Ok(None) => self.run_when_there_is_room(held, recorded).await,
            Err(error) => failed(held, &error),
        }
    }

    /// The end of a call in an earlier run of the server that did not reach the queue: its record exists.
    async fn ended_before(&self, call: &QueuedCall, attempt: u32) -> Option<End> {
        if attempt == 1 {
            return None;
        }
        let record = self.record_of(call).await?;
        Some(match settle::dead_letter_reason(&record) {
            Some(reason) => End::GivenUp(record, reason),
            None => End::Ended(Ended { record, composition: false, not_begun: false, over: true }),
        })
    }

    /// The record of a call that is over.
    pub(super) async fn record_of(&self, call: &QueuedCall) -> Option<Activation> {
        self.stores.activations.get(&call.namespace, call.activation).await.ok().flatten()
    }

    /// The journalled step of a composition that an earlier run or attempt has begun.
    async fn begun(&self, held: &Held) -> Result<Option<CompositionStep>, ControllerError> {
        match held.is_fresh() {
            true => Ok(None),
            false => Ok(self.stores.compositions.take_up(held.lease).await?),
        }
    }

    /// Runs a composition. It may take long, so it does not occupy a place among running calls: its steps are
    /// scheduled themselves.
    async fn compose_to_an_end(
        self: &Arc<Self>,
        held: &mut Held,
        beginning: Beginning<'_>,
        recorded: bool,
    ) -> End {
        drop(held.running.take());
        self.dispatch();
        match Box::pin(self.compose_accepted(held, beginning, recorded)).await {
            Ok(Ok(record)) => End::over(*record, true),
            Ok(Err(Paused::PutOff(put_off))) => End::PutOff(put_off),
            Ok(Err(Paused::Left)) => End::Left,
            Err(error) => failed(held, &error),
        }
    }

    async fn run_when_there_is_room(self: &Arc<Self>, held: &mut Held, recorded: bool) -> End {
        let id = held.call.activation;
        let mut pause = BUSY.0;
        loop {
            if let Some(end) = self.too_old(held) {
                return end;
            }
            match self.run_once(held, recorded).await {
                Ok(end) => return end,
                Err(Refusal::ShuttingDown) => return End::Left,
                Err(Refusal::Withdrawn) => return self.too_old(held).unwrap_or(End::Lost),
                Err(refusal) => tracing::debug!(activation = %id, %refusal, "waits for its turn"),
            }
            tokio::select! {
                () = self.stopping.cancelled() => return End::Left,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(BUSY.1),
            }
        }
    }

    /// The end of a call that is too old for an attempt to begin.
    fn too_old(&self, held: &Held) -> Option<End> {
        let most = held.call.policy.max_age?;
        policy::is_too_old(&held.call, self.stores.clock.now(), Duration::ZERO)
            .then(|| End::GivenUp(nothing(held, Verdict::too_old(most)), DeadLetterReason::TooOld))
    }

    /// Counts the attempt once the call has its instance, unless it has become too old while it waited.
    fn beginning(&self, held: &Held) -> Before {
        let (queue, clock) = (Arc::clone(&self.stores.queue), Arc::clone(&self.stores.clock));
        let (lease, latest, begun) = (held.lease, policy::latest(&held.call), Arc::clone(&held.begun));
        Before(Box::pin(async move {
            if latest.is_some_and(|latest| clock.now() > latest) {
                return false;
            }
            let counted = queue.begin(lease).await.unwrap_or_else(|error| {
                let id = lease.activation;
                tracing::error!(activation = %id, %error, "an attempt could not be counted; trying later");
                false
            });
            begun.fetch_or(counted, Ordering::Relaxed);
            counted
        }))
    }

    /// Makes one attempt; refused when there is no instance for it now.
    async fn run_once(self: &Arc<Self>, held: &mut Held, recorded: bool) -> Result<End, Refusal> {
        let call = &held.call;
        if self.is_blocked(&call.namespace).await {
            let record = nothing(held, Verdict::blocked());
            return Ok(End::Ended(Ended { record, composition: false, not_begun: false, over: true }));
        }
        let resolved = match self.resolve_for(&call.namespace, &call.path).await {
            Ok(resolved) => resolved.pick(call.activation),
            Err(error) => {
                return Ok(match error.kind() {
                    ErrorKind::Forbidden => {
                        End::over(nothing(held, Verdict::refused(&error.to_string())), false)
                    }
                    ErrorKind::NotFound | ErrorKind::Conflict => {
                        End::GivenUp(nothing(held, Verdict::deleted()), DeadLetterReason::FunctionGone)
                    }
                    _ => not_begun(held, Verdict::not_fetched(&why(&error))),
                });
            }
        };
        let callable = match &resolved.callee {
            Callee::Function(callable) if !callable.conductor => Arc::clone(callable),
            _ => return Ok(self.compose_to_an_end(held, Beginning::First(&resolved), recorded).await),
        };
        let api_key = held.api_key.clone().filter(|_| callable.wants_key);
        let admitted = Admitted {
            id: call.activation,
            nested: 0,
            place: api_key.is_some().then(|| held.in_flight.share()),
            namespace: call.namespace.clone(),
            account: held.in_flight.account().number,
            created: held.in_flight.account().created(),
            subject: call.subject.as_str().into(),
            transaction: call.transaction.as_str().into(),
            arrived: held.arrived,
            api_key,
            accepts: Accepts::Json,
            recorded: true,
            cause: None,
            callable,
        };
        let _calls_back = self.calls_back(&admitted);
        let (draft, verdict, end) = match admitted.callable.defaults.merge(call.arguments.clone()) {
            Err(error) => refused(&error),
            Ok(arguments) => {
                match self.attempt(&admitted, Body::Full(arguments), None, Some(self.beginning(held))).await {
                    Attempted::Refused(refusal) => return Err(refusal),
                    Attempted::Over { draft, verdict, end } => (draft, verdict, end),
                    // Impossible for a caller that wants JSON.
                    Attempted::Streaming { .. } => refused(&ControllerError::Internal("a stream".into())),
                }
            }
        };
        if let Some(put_off) = self.puts_off(call, &verdict).await {
            return Ok(End::PutOff(put_off));
        }
        let record = of_attempt(&admitted, &draft, verdict, end, held.earlier.clone());
        self.count(&admitted, &draft, &record);
        Ok(End::over(record, false))
    }
}

impl End {
    fn over(record: Activation, composition: bool) -> Self {
        Self::Ended(Ended { record, composition, not_begun: false, over: false })
    }
}

/// The record of a call without an attempt.
fn nothing(held: &Held, verdict: Verdict) -> Activation {
    let call = &held.call;
    let (namespace, subject) = (call.namespace.clone(), call.subject.clone());
    let (path, attempts, created) =
        (call.path.clone(), held.earlier.clone(), held.in_flight.account().created());
    of_nothing(call.activation, namespace, subject, path, verdict, attempts, created)
}

/// The end of a call for which something of Flint failed.
fn failed(held: &Held, error: &ControllerError) -> End {
    not_begun(held, Verdict::not_provisioned(&why(error)))
}

fn why(error: &ControllerError) -> String {
    error.detail().unwrap_or_else(|| error.to_string())
}

/// The end of a call that Flint could not begin.
fn not_begun(held: &Held, verdict: Verdict) -> End {
    let record = nothing(held, verdict);
    End::Ended(Ended { record, composition: false, not_begun: true, over: false })
}

/// The end of a call that its function no longer takes, for example because a parameter became final after
/// the call was accepted.
fn refused(error: &ControllerError) -> (Draft, Verdict, CallEnd) {
    (Draft::none(), Verdict::refused(&error.to_string()), CallEnd::default())
}
