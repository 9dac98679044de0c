//! Blocking calls that outlive their caller's wait: they are answered with 202 and go on, and their result
//! can be read later.
//!
//! From that answer on, such a call is an accepted call whose only attempt has begun. Its record is never
//! shed, and is kept even in a namespace that keeps no others. If the server dies before the call has ended,
//! the next run finds it in the queue and records its failure.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flint_store::{Lease, QueuedCall};
use tokio::sync::oneshot;

use crate::{
    Answer, Caller, Controller, ControllerError,
    asynchronous::{Done, policy},
    call::Admitted,
    callable::Callable,
    detached::Detached,
    in_flight::InFlight,
    outcome::Verdict,
    record::{Draft, of_attempt, of_nothing},
};

/// Whether a call's caller was answered with 202; shared by the call and the task that answers the caller.
#[derive(Clone, Default)]
pub(crate) struct Outlived(Arc<Mutex<Option<oneshot::Receiver<()>>>>);

/// Proof that the call's caller was answered with 202.
pub(crate) struct Late(oneshot::Receiver<()>);

impl Outlived {
    /// Marks the call as outlived. The call does not end before the returned sender is used or dropped.
    fn begin(&self) -> oneshot::Sender<()> {
        let (marked, waiting) = oneshot::channel();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting);
        marked
    }

    /// Asked when the call has ended: `Some` if its caller is gone.
    pub(crate) fn is_late(&self) -> Option<Late> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(Late)
    }
}

/// The request, for accepting the call late.
pub(crate) struct Asked {
    pub(crate) id: flint_model::ActivationId,
    pub(crate) callable: Arc<Callable>,
    pub(crate) transaction: Arc<str>,
    /// Its arguments; `None` if it came as HTTP, which is not stored.
    pub(crate) arguments: Option<Bytes>,
}

impl Controller {
    /// Answers a caller whose wait is over. The call goes on.
    pub(crate) async fn answer_late(
        self: &Arc<Self>,
        caller: &Caller,
        asked: Asked,
        outlived: &Outlived,
        mut serving: Detached<'_, Result<Answer, ControllerError>>,
    ) -> Result<Answer, ControllerError> {
        let (id, marked) = (asked.id, outlived.begin());
        let accepting = self.accept_late(caller, asked);
        tokio::pin!(accepting);
        tokio::select! {
            biased;
            () = &mut accepting => {}
            // Only if it had ended already; otherwise it waits for `marked`.
            answer = &mut serving => return answer,
        }
        let _ = marked.send(());
        Ok(Answer::Accepted(id))
    }

    /// Makes the call durable, so that the next run of the server learns of it.
    async fn accept_late(&self, caller: &Caller, asked: Asked) {
        let Some(arguments) = asked.arguments else { return };
        let Ok(_namespace) = self.hold_namespace(caller.account()).await else { return };
        let queued = QueuedCall {
            activation: asked.id,
            namespace: caller.namespace.name.clone(),
            subject: caller.subject.as_ref().to_owned(),
            path: asked.callable.asked.clone(),
            arguments,
            transaction: asked.transaction.as_ref().to_owned(),
            accepted: self.stores.clock.now(),
            policy: policy::of_outlived(),
            cause: None,
            promised: true,
        };
        let (lease, time) = (Lease::first(asked.id), self.config.asynchronous.lease);
        self.accepted.leased().insert(lease);
        if let Err(error) = self.stores.queue.enqueue_begun(queued, &self.accepted.owner, time).await {
            self.accepted.leased().remove(&lease);
            tracing::error!(activation = %asked.id, %error, "a call that goes on is lost without a record if the server dies");
        }
    }

    /// Ends a call whose caller was answered with 202.
    pub(crate) async fn conclude_late(
        &self,
        late: Late,
        call: &Admitted,
        draft: &Draft,
        verdict: Verdict,
        end: flint_executor::CallEnd,
        place: InFlight,
    ) {
        let verdict = verdict.collectable(self.config.limits.bounds.max_result);
        let record = of_attempt(call, draft, verdict, end, Vec::new());
        self.count(call, draft, &record);
        self.end_late(late, call, record, place).await;
    }

    /// The same for a call that never reached an instance.
    pub(crate) async fn refuse_late(&self, late: Late, call: &Admitted, why: &str, place: InFlight) {
        let (namespace, subject) = (call.namespace.clone(), call.subject.as_ref().to_owned());
        let path = call.callable.function.path.clone();
        let verdict = Verdict::not_provisioned(why);
        let record = of_nothing(call.id, namespace, subject, path, verdict, Vec::new(), call.created);
        self.end_late(late, call, record, place).await;
    }

    async fn end_late(&self, late: Late, call: &Admitted, record: flint_model::Activation, place: InFlight) {
        // An error means that it was not accepted: it ends all the same.
        let _ = late.0.await;
        // Nothing is kept for a namespace that was deleted meanwhile.
        let kept = place.account().check_open().is_err() || self.keep(record).await;
        drop(place);
        if kept {
            self.finish(Done { lease: Lease::first(call.id), first: None }).await;
        }
    }
}
