//! Starts a composition: from a newly admitted call, or from one accepted by an earlier run of the server.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use flint_executor::CallHead;
use flint_model::{ActivationId, FunctionPath, Sequence};
use flint_store::{Lease, QueuedCall};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{progress::Progress, run::Composition};
use crate::{
    Answer, Caller, Controller, ControllerError, ErrorKind, Invocation, Mode,
    arguments::Defaults,
    asynchronous::{Done, policy},
    in_flight::InFlight,
    invoke::{is_json_object, json_body},
    record::without_logs,
    resolve::{Callee, Resolved, Right},
};

impl Controller {
    /// Calls a sequence or a conductor.
    pub(crate) async fn compose(
        self: &Arc<Self>,
        caller: &Caller,
        id: ActivationId,
        composition: &Arc<Resolved>,
        invocation: Invocation,
        place: InFlight,
        nested: u32,
    ) -> Result<Answer, ControllerError> {
        let Invocation { path, body, head, mode, accepts: _, transaction, arrived, api_key } = invocation;
        let body = json_body(caller, body).await?;
        check_head(head.as_deref(), &body)?;
        let arguments = object_of(&body)?;
        match &composition.callee {
            Callee::Function(conductor) => drop(conductor.defaults.merge(body.clone())?),
            Callee::Sequence(sequence) => self.may_call_components(caller, sequence).await?,
        }
        let recorded = caller.limits().store_activations;
        let queued = QueuedCall {
            activation: id,
            namespace: caller.namespace.name.clone(),
            subject: caller.subject.as_ref().to_owned(),
            path,
            arguments: body,
            transaction: transaction.as_ref().to_owned(),
            accepted: self.stores.clock.now(),
            policy: match mode {
                Mode::NonBlocking => policy::policy(composition, &self.config.asynchronous),
                // Its caller learns the result, so the whole is not retried.
                Mode::Blocking { .. } => policy::of_composition(&self.config.asynchronous),
            },
            cause: None,
            // Its caller may be answered with 202 at any moment. Who has the answer can do without the record,
            // but a run of the server after this one does not know who has.
            promised: matches!(mode, Mode::Blocking { .. }),
        };
        match mode {
            Mode::NonBlocking => {
                let accepting = Arc::clone(self).accept(queued, arrived, api_key, recorded, place);
                self.detached(accepting).await
            }
            Mode::Blocking { wait } => {
                let wait = wait.min(self.config.limits.bounds.max_blocking_wait);
                let (namespace, subject) = (caller.namespace.name.clone(), Arc::clone(&caller.subject));
                let whose = Composition {
                    id,
                    lease: Lease::first(id),
                    namespace,
                    account: place.account().number,
                    created: caller.namespace.created,
                    subject,
                    transaction,
                    place: api_key.is_some().then(|| place.share()),
                    nested,
                    api_key,
                    arrived,
                    recorded,
                    accepted: None,
                };
                let progress = self.beginning_of(&whose, &queued.path, composition, arguments);
                let (taken, durable) = oneshot::channel();
                let late = Arc::new(OnceLock::new());
                let telling = (taken, Arc::clone(&late));
                let serving = Arc::clone(self).serve_composition(queued, whose, progress, place, telling);
                answer_of(id, self.detached(serving), durable, wait, &late).await
            }
        }
    }

    /// Runs a blocking composition from its admission to its answer. It is accepted like an asynchronous
    /// call, so that it survives a restart of the server; `taken` is told once it does. `late` says whether
    /// its caller was answered with 202 before the end.
    async fn serve_composition(
        self: Arc<Self>,
        queued: QueuedCall,
        whose: Composition,
        progress: Progress,
        place: InFlight,
        (taken, late): (oneshot::Sender<()>, Arc<OnceLock<bool>>),
    ) -> Result<Answer, ControllerError> {
        let id = whose.id;
        let namespace = self.hold_namespace(place.account()).await?;
        let lease = self.take(queued).await?;
        drop(namespace);
        // A caller that is still waiting does not need this signal.
        let _ = taken.send(());
        let Ok(mut record) = self.run_composition(&whose, progress, None).await else {
            // The server is stopping, since what a caller waits for is never put off. Its next run resumes it.
            self.accepted.leased().remove(&lease);
            place.leave_to_queue(true);
            return Ok(Answer::Accepted(id));
        };
        let answer = Answer::Finished(Box::new(without_logs(&mut record)));
        // A promised record is always kept; for a namespace deleted meanwhile, nothing is.
        let promised = whose.recorded || *late.get_or_init(|| false);
        let recorded = promised && place.account().check_open().is_ok();
        let done = Done { lease, first: Some(Arc::clone(place.account())) };
        drop(place);
        let controller = Arc::clone(&self);
        // Its caller need not wait for that.
        self.calls.spawn(async move {
            if !recorded || controller.keep(*record).await {
                controller.finish(done).await;
            }
        });
        Ok(answer)
    }

    /// A composition that is about to begin.
    pub(crate) fn beginning_of(
        &self,
        whose: &Composition,
        path: &FunctionPath,
        composition: &Resolved,
        arguments: Box<RawValue>,
    ) -> Progress {
        let bounds = &self.config.limits.bounds;
        let wait_us = whose.arrived.elapsed().as_micros() as u64;
        let mut progress = Progress::new(whose.namespace.clone(), whose.id, path.clone(), arguments, bounds);
        progress.enter(composition, wait_us);
        progress
    }

    /// Refuses, before anything runs, a sequence of which the caller may not call a component. One that is
    /// missing ends the sequence when its turn comes.
    pub(crate) async fn may_call_components(
        &self,
        caller: &Caller,
        sequence: &Sequence,
    ) -> Result<(), ControllerError> {
        for component in &sequence.components {
            // What is in a package may be reached through a binding, of which the provider is another's.
            if component.package.is_none() && component.namespace == caller.namespace.name {
                continue;
            }
            if let Err(error) = self.resolve(caller, component, Right::Activate).await {
                match error.kind() {
                    ErrorKind::Forbidden | ErrorKind::Internal | ErrorKind::Unavailable => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The answer of `serving`, or that the call is accepted: once `wait` is over and the call is `durable`, not
/// earlier. A 202 is a promise, however short the wait; `late` is set when it is given, unless the call has
/// ended first.
async fn answer_of(
    id: ActivationId,
    mut serving: impl Future<Output = Result<Answer, ControllerError>> + Unpin,
    durable: oneshot::Receiver<()>,
    wait: Duration,
    late: &OnceLock<bool>,
) -> Result<Answer, ControllerError> {
    if let Ok(answer) = tokio::time::timeout(wait, &mut serving).await {
        return answer;
    }
    if !*late.get_or_init(|| true) {
        return serving.await;
    }
    tokio::select! {
        biased;
        answer = &mut serving => answer,
        // Otherwise it could not be made durable, and `serving` says why.
        Ok(()) = durable => Ok(Answer::Accepted(id)),
    }
}

/// A composition's arguments: the body's object, `{}` if the body is empty.
pub(crate) fn object_of(body: &Bytes) -> Result<Box<RawValue>, ControllerError> {
    let object = Defaults::default().merge(body.clone())?;
    serde_json::from_slice(&object).map_err(|error| ControllerError::Malformed(error.to_string()))
}

/// A body sent as HTTP has to be a JSON object too.
fn check_head(head: Option<&CallHead>, body: &Bytes) -> Result<(), ControllerError> {
    match head {
        Some(head) if !body.trim_ascii().is_empty() && !is_json_object(head, body) => {
            Err(ControllerError::Invalid(
                "a sequence or composition takes a JSON object: send one, as application/json".into(),
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use tokio::time::timeout;

    use super::*;

    type Answered = Result<Answer, ControllerError>;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// A serving that answers what is sent, the signal that it is durable, and what its caller is answered.
    fn serving(
        late: &OnceLock<bool>,
    ) -> (oneshot::Sender<Answered>, oneshot::Sender<()>, impl Future<Output = Answered>) {
        let (serve, served) = oneshot::channel();
        let (taken, durable) = oneshot::channel();
        let serving = Box::pin(async { served.await.unwrap() });
        (serve, taken, answer_of(ActivationId::generate(), serving, durable, PATIENCE, late))
    }

    /// Ends the caller's wait on a paused clock.
    async fn not_answered(answer: Pin<&mut impl Future<Output = Answered>>) {
        assert!(timeout(100 * PATIENCE, answer).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_202_comes_when_the_call_is_durable() {
        let late = OnceLock::new();
        let (_serve, taken, answer) = serving(&late);
        let mut answer = pin!(answer);
        not_answered(answer.as_mut()).await;
        taken.send(()).unwrap();
        assert!(matches!(answer.await, Ok(Answer::Accepted(_))));
        assert_eq!(late.get(), Some(&true));
    }

    #[tokio::test(start_paused = true)]
    async fn what_ended_first_without_a_record_is_answered_and_not_promised() {
        let late = OnceLock::new();
        let (serve, taken, answer) = serving(&late);
        let mut answer = pin!(answer);
        taken.send(()).unwrap();
        late.set(false).unwrap();
        not_answered(answer.as_mut()).await;
        serve.send(Err(ControllerError::NotFound)).unwrap();
        assert!(matches!(answer.await, Err(ControllerError::NotFound)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_made_durable_is_refused() {
        let late = OnceLock::new();
        let (serve, taken, answer) = serving(&late);
        let mut answer = pin!(answer);
        drop(taken);
        not_answered(answer.as_mut()).await;
        serve.send(Err(ControllerError::Internal("the disk is full".into()))).unwrap();
        assert!(matches!(answer.await, Err(ControllerError::Internal(_))));
    }
}
