//! Invocation: admits a call, and runs a blocking one to its answer.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use flint_executor::{Body, BodyError, CallHead, media_type, until};
use flint_model::{ActivationId, Contract};
use flint_store::QueuedCall;
use flint_telemetry::ThrottledBy;
use tokio::time::Instant;

use crate::{
    Accepts, Answer, Caller, Controller, ControllerError, Exported, HttpAnswer, Invocation, Mode,
    asynchronous::policy,
    call::{Admitted, Attempted, ended},
    callable::Callable,
    in_flight::InFlight,
    outcome::{Phase, Verdict},
    outlived::{Asked, Late, Outlived},
    record::{of_attempt, without_logs},
    resolve::{Callee, Resolved, Right},
};

impl Controller {
    /// Calls a function. Once admitted, the call runs to its end even if this future is dropped.
    pub async fn invoke(
        self: &Arc<Self>,
        caller: &Caller,
        mut invocation: Invocation,
    ) -> Result<Answer, ControllerError> {
        let key = invocation.api_key.as_deref();
        let admitted = self.admit_from(caller, key, &mut invocation.mode).await?;
        if let Some(resolved) = self.known(caller, &invocation.path)? {
            let id = ActivationId::generate();
            return self.invoke_resolved(caller, admitted, id, resolved.pick(id), invocation).await;
        }
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let found_and_called = async move {
            let id = ActivationId::generate();
            let resolved = controller.resolve(&caller, &invocation.path, Right::Activate).await?.pick(id);
            controller.invoke_resolved(&caller, admitted, id, resolved, invocation).await
        };
        self.detached(found_and_called).await
    }

    /// Calls a web action: exactly the version that was found to be one.
    pub async fn invoke_exported(
        self: &Arc<Self>,
        exported: &Exported,
        mut invocation: Invocation,
    ) -> Result<Answer, ControllerError> {
        let admitted = self.admit_from(&exported.owner, None, &mut invocation.mode).await?;
        let resolved = Arc::clone(&exported.resolved);
        self.invoke_resolved(&exported.owner, admitted, exported.id, resolved, invocation).await
    }

    async fn invoke_resolved(
        self: &Arc<Self>,
        caller: &Caller,
        (place, nested): (InFlight, u32),
        id: ActivationId,
        resolved: Arc<Resolved>,
        invocation: Invocation,
    ) -> Result<Answer, ControllerError> {
        let callable = match &resolved.callee {
            Callee::Function(callable) if !callable.conductor => Arc::clone(callable),
            _ => {
                let (controller, caller) = (Arc::clone(self), caller.clone());
                let composed = async move {
                    controller.compose(&caller, id, &resolved, invocation, place, nested).await
                };
                return self.detached(composed).await;
            }
        };
        let Invocation { path: _, body, head, mode, accepts, transaction, arrived, api_key } = invocation;
        let (body, as_it_came) = Self::arguments(caller, &callable, body, head.as_deref()).await?;
        // The body may have taken long to arrive.
        place.account().check_open()?;
        let api_key = api_key.filter(|_| callable.wants_key);
        let call = Admitted {
            id,
            nested,
            place: api_key.is_some().then(|| place.share()),
            api_key,
            callable,
            namespace: caller.namespace.name.clone(),
            account: place.account().number,
            created: caller.namespace.created,
            subject: Arc::clone(&caller.subject),
            transaction,
            arrived,
            accepts,
            recorded: caller.limits().store_activations,
            cause: None,
        };
        match (mode, head) {
            (Mode::Blocking { wait }, head) => {
                let wait = wait.min(self.config.limits.bounds.max_blocking_wait);
                let asked = Asked {
                    id,
                    callable: Arc::clone(&call.callable),
                    transaction: Arc::clone(&call.transaction),
                    arguments: head.is_none().then_some(as_it_came),
                };
                let outlived = Outlived::default();
                let serving = Arc::clone(self).serve(call, body, head, place, outlived.clone());
                let mut serving = self.detached(serving);
                match until(Instant::now() + wait, &mut serving).await {
                    Ok(answer) => answer,
                    // Boxed to keep the future of quick calls small.
                    Err(_) => Box::pin(self.answer_late(caller, asked, &outlived, serving)).await,
                }
            }
            (Mode::NonBlocking, None) => {
                let queued = QueuedCall {
                    activation: id,
                    namespace: call.namespace,
                    subject: call.subject.as_ref().to_owned(),
                    path: call.callable.asked.clone(),
                    arguments: as_it_came,
                    transaction: call.transaction.as_ref().to_owned(),
                    accepted: self.stores.clock.now(),
                    policy: policy::policy(&resolved, &self.config.asynchronous),
                    cause: None,
                    promised: false,
                };
                let accepting =
                    Arc::clone(self).accept(queued, call.arrived, call.api_key, call.recorded, place);
                self.detached(accepting).await
            }
            (Mode::NonBlocking, Some(_)) => Err(ControllerError::Invalid(
                "an asynchronous call takes a JSON object: send application/json, or make a blocking call"
                    .into(),
            )),
        }
    }

    /// Admits one more call of this caller; checked before any work is done for it.
    pub(crate) fn admit(&self, caller: &Caller) -> Result<InFlight, ControllerError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(ControllerError::ShuttingDown);
        }
        Self::count_in(caller).map_err(|error| self.throttled(caller, error))
    }

    /// Takes a place in flight for the caller; a refusal is not counted in the metrics.
    pub(crate) fn count_in(caller: &Caller) -> Result<InFlight, ControllerError> {
        let limits = caller.limits();
        caller.account().admit(limits.invocations_per_minute, limits.concurrent_invocations)
    }

    /// Counts a call that is refused by its namespace's limits.
    pub(crate) fn throttled(&self, caller: &Caller, error: ControllerError) -> ControllerError {
        let by = match error {
            ControllerError::Rate { .. } => ThrottledBy::Rate,
            ControllerError::Concurrency { .. } => ThrottledBy::Concurrency,
            _ => return error,
        };
        self.metrics.throttled(caller.namespace.name.as_str(), by);
        error
    }

    /// The body for the function, and the JSON that was sent. A JSON object is merged over the function's
    /// defaults, even when sent as HTTP if it is the function's arguments; any other HTTP body is passed on
    /// as it is.
    async fn arguments(
        caller: &Caller,
        callable: &Callable,
        body: Body,
        head: Option<&CallHead>,
    ) -> Result<(Body, Bytes), ControllerError> {
        let Some(head) = head else {
            let body = json_body(caller, body).await?;
            return Ok((Body::Full(callable.defaults.merge(body.clone())?), body));
        };
        if callable.defaults.is_empty() {
            return Ok((body, Bytes::new()));
        }
        let whole = match callable.function.contract {
            // These contracts take any body as their arguments.
            Contract::OpenWhisk | Contract::ActionLoop | Contract::Skeleton => true,
            // The shims read JSON bodies whole.
            Contract::Handler => is_json(head),
            _ => false,
        };
        let body = match body {
            body @ Body::Stream(_) if whole => Body::Full(json_body(caller, body).await?),
            body => body,
        };
        let is_arguments = |body: &Bytes| match body.trim_ascii_start().first() {
            Some(first) => *first == b'{' && (whole || is_json(head)),
            None => whole,
        };
        let body = match body {
            Body::Full(body) if is_arguments(&body) => Body::Full(callable.defaults.merge(body)?),
            body => body,
        };
        Ok((body, Bytes::new()))
    }

    /// Runs a blocking call from its admission to its answer.
    async fn serve(
        self: Arc<Self>,
        mut call: Admitted,
        body: Body,
        head: Option<Box<CallHead>>,
        place: InFlight,
        outlived: Outlived,
    ) -> Result<Answer, ControllerError> {
        let calls_back = self.calls_back(&call);
        let attempted = self.attempt(&call, body, head, None).await;
        if let Some(late) = outlived.is_late() {
            let id = call.id;
            Box::pin(self.serve_late(late, call, attempted, place)).await;
            return Ok(Answer::Accepted(id));
        }
        call.recorded &= is_kept_for(&place);
        match attempted {
            Attempted::Refused(refusal) => Err(ControllerError::Refused(refusal)),
            Attempted::Over { draft, mut verdict, end } => {
                let wants_record = call.accepts == Accepts::Record;
                let http = verdict.http.take().filter(|_| !wants_record);
                let mut record = of_attempt(&call, &draft, verdict, end, Vec::new());
                let answer = match http {
                    Some((status, headers, body)) => {
                        self.conclude(&call, &draft, record);
                        let (activation, body) = (call.id, Body::Full(body));
                        Answer::Http(HttpAnswer { activation, status, headers, body })
                    }
                    None if call.recorded => {
                        let shown = match wants_record {
                            true => record.clone(),
                            false => without_logs(&mut record),
                        };
                        self.conclude(&call, &draft, record);
                        Answer::Finished(Box::new(shown))
                    }
                    None => {
                        self.count(&call, &draft, &record);
                        if !wants_record {
                            record.logs = Vec::new();
                        }
                        Answer::Finished(Box::new(record))
                    }
                };
                drop(place);
                Ok(answer)
            }
            Attempted::Streaming { draft, head: (status, headers), body, end } => {
                let verdict = Verdict::of_http_head(status, &headers);
                let answer = HttpAnswer { activation: call.id, status, headers, body: Body::Stream(body) };
                let controller = Arc::clone(&self);
                self.calls.spawn(async move {
                    let (end, draft) = ended(end, draft).await;
                    drop(calls_back);
                    let time_limit = call.callable.function.limits.timeout;
                    let verdict = match &end.fault {
                        Some(fault) => Verdict::of_fault(fault, Phase::Run, time_limit),
                        None => verdict.streamed(end.streamed),
                    };
                    let record = of_attempt(&call, &draft, verdict, end, Vec::new());
                    call.recorded &= is_kept_for(&place);
                    controller.conclude(&call, &draft, record);
                    drop(place);
                });
                Ok(Answer::Http(answer))
            }
        }
    }
}

impl Controller {
    /// Ends a call whose caller was answered with 202.
    async fn serve_late(&self, late: Late, call: Admitted, attempted: Attempted, place: InFlight) {
        match attempted {
            Attempted::Refused(refusal) => self.refuse_late(late, &call, &refusal.to_string(), place).await,
            Attempted::Over { draft, verdict, end } => {
                self.conclude_late(late, &call, &draft, verdict, end, place).await;
            }
            Attempted::Streaming { draft, head, body, end } => {
                let (draft, verdict, end) = self.collect_http(&call, draft, head, body, end).await;
                self.conclude_late(late, &call, &draft, verdict, end, place).await;
            }
        }
    }
}

/// Whether the call's namespace still exists. Nothing is kept for a deleted one: a namespace of its name
/// created since would find the record of a call that began after its creation among its own.
fn is_kept_for(place: &InFlight) -> bool {
    place.account().check_open().is_ok()
}

/// Reads a body that has to be JSON.
pub(crate) async fn json_body(caller: &Caller, body: Body) -> Result<Bytes, ControllerError> {
    let size = if let Body::Full(body) = &body { body.len() as u64 } else { 0 };
    let allowed = caller.limits().bounds.max_payload.as_u64();
    body.collect(allowed).await.map_err(|error| match error {
        BodyError::TooLarge(_) => {
            ControllerError::TooLarge { what: "Request", size: size.max(allowed + 1), allowed }
        }
        BodyError::Broken(why) => ControllerError::Malformed(why),
        BodyError::Late => ControllerError::Late(error),
    })
}

/// Whether a request declares its body as JSON, or declares nothing.
fn is_json(head: &CallHead) -> bool {
    media_type(&head.headers).is_none_or(|media| media.eq_ignore_ascii_case(b"application/json"))
}

pub(crate) fn is_json_object(head: &CallHead, body: &Bytes) -> bool {
    is_json(head) && body.trim_ascii_start().starts_with(b"{")
}
