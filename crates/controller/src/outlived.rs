//! Blocking calls that take longer than their caller waits: they are answered with 202 and go on, and their result can be read later.
//!
//! From that answer on, such a call is an accepted call whose only attempt has begun. Its record is never shed, and is kept in a namespace that keeps
//! no others, too. When the server dies before the call has ended, the next one finds it in the queue and records that it failed.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flint_store::QueuedCall;
use tokio::sync::oneshot;

use crate::{
    Answer, Caller, Controller, ControllerError,
    asynchronous::policy,
    call::Admitted,
    callable::Callable,
    detached::Detached,
    in_flight::InFlight,
    outcome::Verdict,
    record::{Draft, of_attempt, of_nothing},
};

/// Whether a call's caller has gone with a 202; known to the call and to whoever answers its caller.
#[derive(Clone, Default)]
pub(crate) struct Outlived(Arc<Mutex<Option<oneshot::Receiver<()>>>>);

/// The call goes on without its caller.
pub(crate) struct Late(oneshot::Receiver<()>);

impl Outlived {
    /// The caller has been patient for long enough. The call ends not before what is given back is used or dropped.
    fn begin(&self) -> oneshot::Sender<()> {
        let (marked, waiting) = oneshot::channel();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting);
        marked
    }

    /// Asked when the call has ended: `Some` when its caller is not there any more.
    pub(crate) fn is_late(&self) -> Option<Late> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().map(Late)
    }
}

/// What a call was asked with, for when it is accepted late.
pub(crate) struct Asked {
    pub(crate) id: flint_model::ActivationId,
    pub(crate) callable: Arc<Callable>,
    pub(crate) transaction: Arc<str>,
    /// Its arguments; `None` when it came as HTTP, which is not kept.
    pub(crate) arguments: Option<Bytes>,
}

impl Controller {
    /// Answers a caller that has waited long enough. The call goes on.
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
            // Not before `marked` is told or dropped, unless it ended a moment ago.
            answer = &mut serving => return answer,
        }
        let _ = marked.send(());
        Ok(Answer::Accepted(id))
    }

    /// Makes it known to the next life that the call is under way.
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
        };
        self.accepted.leased().insert(asked.id);
        let lease = self.config.asynchronous.lease;
        if let Err(error) = self.stores.queue.enqueue_begun(queued, &self.accepted.owner, lease).await {
            self.accepted.leased().remove(&asked.id);
            tracing::error!(activation = %asked.id, %error, "a call that goes on is lost without a record if the server dies");
        }
    }

    /// The end of a call whose caller has gone with a 202.
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

    /// The same for one that never reached an instance.
    pub(crate) async fn refuse_late(&self, late: Late, call: &Admitted, why: &str, place: InFlight) {
        let (namespace, subject) = (call.namespace.clone(), call.subject.as_ref().to_owned());
        let path = call.callable.function.path.clone();
        let verdict = Verdict::not_provisioned(why);
        let record = of_nothing(call.id, namespace, subject, path, verdict, Vec::new());
        self.end_late(late, call, record, place).await;
    }

    async fn end_late(&self, late: Late, call: &Admitted, record: flint_model::Activation, place: InFlight) {
        // Dropped where it was not accepted: it ends all the same.
        let _ = late.0.await;
        // Of a namespace that was deleted meanwhile nothing is kept.
        let kept = place.account().check_open().is_err() || self.keep(record).await;
        drop(place);
        if kept {
            self.finish(call.id).await;
        }
    }
}
