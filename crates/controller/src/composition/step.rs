//! Executes one step of a composition: a function, attempted until an attempt counts.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{Body, CallEnd};
use flint_invoker::{Before, Refusal};
use flint_model::{ActivationId, Attempt, Response, Status, Timestamp};
use flint_store::{Lease, QueuedCall};
use tokio::time::timeout_at;

use super::{
    progress::{Ended, NextCall},
    run::{Composition, Paused},
};
use crate::{
    Accepts, Controller,
    asynchronous::PutOff,
    call::{Admitted, Attempted},
    callable::Callable,
    outcome::Verdict,
    record::{Draft, of_attempt, of_nothing},
};

/// Time beyond its own time limit that a step may take, including its wait for an instance.
const BEYOND: Duration = Duration::from_secs(60);

/// First and longest delay while the scheduler refuses calls; doubled each time.
const BUSY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// The result of a step.
pub(super) enum Stepped {
    Ended(Ended),
    /// It did not return in time, and may still be running, or may begin until the next step is journalled.
    TooLate,
}

/// The result of one attempt.
enum Tried {
    Over(Response, u64),
    /// Flint or the host failed.
    Failed {
        start: Timestamp,
        why: String,
    },
    /// This host cannot run it now; nothing was tried.
    PutOff(PutOff),
    Refused(Refusal),
}

impl Controller {
    /// Executes a step that has had `earlier` attempts and is in the journal.
    pub(super) async fn step(
        self: &Arc<Self>,
        whose: &Composition,
        call: &NextCall,
        cause: Option<ActivationId>,
        callable: &Arc<Callable>,
        mut earlier: Vec<Attempt>,
    ) -> Result<Stepped, Paused> {
        let max_attempts = self.config.asynchronous.policy().max_attempts as usize;
        let until = Instant::now() + callable.function.limits.timeout + BEYOND;
        let memory = callable.function.limits.memory;
        let ended = |response, duration_us| Ok(Stepped::Ended(Ended { response, duration_us, memory }));
        if earlier.len() >= max_attempts {
            return ended(self.give_up(whose, call, cause, earlier), 0);
        }
        let mut pause = BUSY.0;
        loop {
            let last = earlier.len() + 1 >= max_attempts;
            let admitted = Admitted {
                id: call.id,
                callable: Arc::clone(callable),
                namespace: whose.namespace.clone(),
                account: whose.account,
                created: whose.created,
                subject: Arc::clone(&whose.subject),
                transaction: Arc::clone(&whose.transaction),
                arrived: Instant::now(),
                api_key: whose.api_key.clone().filter(|_| callable.wants_key),
                place: whose.place.clone(),
                nested: whose.nested,
                accepts: Accepts::Json,
                recorded: whose.recorded,
                cause,
            };
            let arguments = Bytes::copy_from_slice(call.arguments.get().as_bytes());
            let accepted = whose.accepted.clone();
            let attempt =
                Arc::clone(self).try_step(whose.lease, admitted, arguments, earlier.clone(), last, accepted);
            let wait = match timeout_at(until.into(), &mut self.detached(attempt)).await {
                Err(_) => return Ok(Stepped::TooLate),
                Ok(Tried::Over(response, duration_us)) => return ended(response, duration_us),
                Ok(Tried::PutOff(put_off)) => return Err(Paused::PutOff(put_off)),
                Ok(Tried::Refused(Refusal::ShuttingDown)) => return Err(Paused::Left),
                Ok(Tried::Refused(refusal)) => {
                    tracing::debug!(activation = %call.id, %refusal, "a step waits for its turn");
                    let wait = pause;
                    pause = (pause * 2).min(BUSY.1);
                    wait
                }
                Ok(Tried::Failed { start, why }) => {
                    tracing::warn!(activation = %call.id, attempt = earlier.len() + 1, why, "step failed, it is repeated");
                    let wait = self.config.asynchronous.policy().delay(call.id, earlier.len() as u32 + 1);
                    earlier.push(Attempt::new(start, why));
                    self.metrics.async_retried();
                    wait
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => return Err(Paused::Left),
                () = tokio::time::sleep_until(until.into()) => return Ok(Stepped::TooLate),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Makes one attempt, and its record unless another attempt follows. `accepted`: the call that can be put off.
    async fn try_step(
        self: Arc<Self>,
        composition: Lease,
        call: Admitted,
        arguments: Bytes,
        earlier: Vec<Attempt>,
        last: bool,
        accepted: Option<Arc<QueuedCall>>,
    ) -> Tried {
        let arguments = match arguments.first() {
            // Defaults can only be merged with an object.
            Some(b'{') | None => call.callable.defaults.merge(arguments),
            Some(_) => Ok(arguments),
        };
        let begun = Arc::new(Mutex::new(false));
        let (draft, verdict, end) = match arguments {
            Err(error) => (Draft::none(), Verdict::refused(&error.to_string()), CallEnd::default()),
            Ok(arguments) => {
                let _calls_back = self.calls_back(&call);
                let before = self.step_begins(composition, call.id, Arc::clone(&begun));
                match self.attempt(&call, Body::Full(arguments), None, Some(before)).await {
                    Attempted::Refused(refusal) => return Tried::Refused(refusal),
                    Attempted::Over { draft, verdict, end } => (draft, verdict, end),
                    // Impossible for a caller that wants JSON.
                    Attempted::Streaming { draft, .. } => {
                        (draft, Verdict::refused("The action answered with a stream."), CallEnd::default())
                    }
                }
            }
        };
        if let Some(accepted) = accepted
            && let Some(put_off) = self.puts_off(&accepted, &verdict).await
        {
            return Tried::PutOff(put_off);
        }
        let record = of_attempt(&call, &draft, verdict, end, earlier);
        if record.response.status == Status::InternalError && !last {
            self.count(&call, &draft, &record);
            let why =
                record.response.result.as_ref().map_or_else(String::new, |result| result.get().to_owned());
            let failed = Attempt::new(record.start, why.clone());
            // A failure before there was an instance counts as an attempt too.
            let begun = *begun.lock().unwrap_or_else(PoisonError::into_inner);
            let journal = &self.stores.compositions;
            let counted = match begun {
                true => Ok(true),
                false => journal.begin(composition, call.id).await,
            };
            let written = match counted {
                Ok(_) => journal.fail(composition, call.id, failed).await,
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                tracing::error!(activation = %call.id, %error, "a failed attempt at a step could not be written down");
            }
            return Tried::Failed { start: record.start, why };
        }
        if record.response.status == Status::InternalError {
            self.metrics.async_exhausted();
        }
        let (response, duration_us) = (record.response.clone(), record.duration_us);
        self.conclude(&call, &draft, record);
        Tried::Over(response, duration_us)
    }

    /// Counts the attempt once the call has its instance, unless its composition has gone on without it.
    fn step_begins(&self, composition: Lease, step: ActivationId, begun: Arc<Mutex<bool>>) -> Before {
        let journal = Arc::clone(&self.stores.compositions);
        Before(Box::pin(async move {
            let counted = journal.begin(composition, step).await.unwrap_or_else(|error| {
                let id = composition.activation;
                tracing::error!(activation = %id, %error, "an attempt at a step could not be counted; trying later");
                false
            });
            *begun.lock().unwrap_or_else(PoisonError::into_inner) = counted;
            counted
        }))
    }

    /// The record of a step that used up its attempts in earlier runs.
    fn give_up(
        &self,
        whose: &Composition,
        call: &NextCall,
        cause: Option<ActivationId>,
        attempts: Vec<Attempt>,
    ) -> Response {
        let last = attempts.last().map_or("unknown", |attempt| attempt.ended_by.as_str());
        let verdict = Verdict::given_up(attempts.len() as u32, last);
        tracing::warn!(activation = %call.id, function = %call.path, "a step of a composition is given up");
        self.metrics.async_exhausted();
        let (namespace, subject) = (whose.namespace.clone(), whose.subject.as_ref().to_owned());
        let path = call.path.clone();
        let mut record = of_nothing(call.id, namespace, subject, path, verdict, attempts, whose.created);
        record.cause = cause;
        record.annotations.set("causedBy", "sequence");
        let response = record.response.clone();
        if whose.recorded {
            self.stores.activations.append(record);
        }
        response
    }
}
