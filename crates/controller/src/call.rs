//! An admitted call, and one attempt at it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{Body, BodyError, BodyReceiver, Call, CallEnd, CallHead, Fault, Reply, ReplyHead};
use flint_invoker::{Before, Job, Outcome, Ran, Refusal, StreamEnd};
use flint_model::{ActivationId, ApiKey, ByteSize, NamespaceName, Timestamp};
use http::{HeaderMap, StatusCode};
use tokio::sync::oneshot;

use crate::{
    Accepts, Controller,
    account::AccountNumber,
    callable::{Callable, OnAccount},
    in_flight::Place,
    outcome::{Phase, Verdict},
    record::Draft,
    secrets::Lacks,
};

/// How much of an answer that is too long is kept.
const BEGINNING: usize = 1024 * 1024;

/// An admitted call.
#[derive(Clone)]
pub(crate) struct Admitted {
    pub(crate) id: ActivationId,
    pub(crate) callable: Arc<Callable>,
    /// On whose account.
    pub(crate) namespace: NamespaceName,
    pub(crate) account: AccountNumber,
    /// When that namespace was created: its record is not older.
    pub(crate) created: Timestamp,
    pub(crate) subject: Arc<str>,
    pub(crate) transaction: Arc<str>,
    pub(crate) arrived: Instant,
    pub(crate) api_key: Option<Arc<str>>,
    /// Its place in flight, which calls that it makes with its key may borrow.
    pub(crate) place: Option<Arc<Place>>,
    /// Length of the chain of callers that wait for it.
    pub(crate) nested: u32,
    pub(crate) accepts: Accepts,
    /// Whether its record is kept.
    pub(crate) recorded: bool,
    /// The sequence or composition that it is a step of.
    pub(crate) cause: Option<ActivationId>,
}

/// The outcome of one attempt.
#[expect(
    clippy::large_enum_variant,
    reason = "it is moved once a call, and a box would cost every call an allocation"
)]
pub(crate) enum Attempted {
    /// It never reached an instance, and may be tried again.
    Refused(Refusal),
    /// It is over.
    Over { draft: Draft, verdict: Verdict, end: CallEnd },
    /// It answers with a stream that the caller can take.
    Streaming {
        draft: Draft,
        head: (StatusCode, HeaderMap),
        body: BodyReceiver,
        end: oneshot::Receiver<StreamEnd>,
    },
}

impl Controller {
    /// Makes one attempt at a call.
    pub(crate) async fn attempt(
        &self,
        call: &Admitted,
        body: Body,
        head: Option<Box<CallHead>>,
        before: Option<Before>,
    ) -> Attempted {
        if let Some(built_in) = call.callable.built_in {
            // Boxed to keep the future of every other call small.
            return Box::pin(self.attempt_built_in(call, built_in, body, before)).await;
        }
        if let Some(lacks) = &call.callable.lacks {
            return refused(call, lacks, before).await;
        }
        let admitted_us = call.arrived.elapsed().as_micros() as u64;
        let ran = self.scheduler.run(Job { before, ..self.job(call, body, head) }).await;
        let Ran { mut timeline, start, init, instance, outcome } = ran;
        timeline.queued.get_or_insert(admitted_us);
        let limits = &call.callable.function.limits;
        let draft =
            Draft { timeline, start, init, cold_or_warm: instance.map(|_| init.is_some()), took: None };
        match outcome {
            Outcome::Refused(refusal @ (Refusal::TooLarge { .. } | Refusal::Unavailable { .. })) => {
                let why = refusal.to_string();
                let mut verdict = Verdict::not_provisioned(&why);
                verdict.untried = matches!(refusal, Refusal::Unavailable { .. }).then_some(why);
                Attempted::Over {
                    draft: Draft { took: Some(Duration::ZERO), ..draft },
                    verdict,
                    end: CallEnd::default(),
                }
            }
            Outcome::Refused(refusal) => Attempted::Refused(refusal),
            Outcome::NotStarted(failure) => {
                let verdict = Verdict::of_fault(&failure.fault, Phase::Initialisation, limits.timeout);
                let end = CallEnd { logs: failure.logs, ..CallEnd::default() };
                let draft = Draft { init: Some(failure.took), took: Some(failure.took), ..draft };
                Attempted::Over { draft, verdict, end }
            }
            Outcome::Ended { result, end } => {
                let wants_http = call.accepts != Accepts::Json;
                let verdict = match result {
                    Ok(reply) => {
                        let most = self.config.limits.bounds.max_result;
                        Verdict::of_reply(reply, wants_http.then_some(most))
                    }
                    Err(fault) => {
                        let fault = self.told(&call.namespace, fault).await;
                        Verdict::of_fault(&fault, Phase::Run, limits.timeout).for_caller(wants_http)
                    }
                };
                Attempted::Over { draft, verdict, end }
            }
            Outcome::Streaming { head, body, end } => match call.accepts {
                Accepts::Http => Attempted::Streaming { draft, head: http_head(head), body, end },
                Accepts::Json => self.collect_stream(call, draft, head, body, end).await,
                // Boxed to keep the future of every other call small.
                Accepts::Record => Box::pin(self.read_out(call, draft, http_head(head), body, end)).await,
            },
        }
    }

    fn job(&self, call: &Admitted, body: Body, head: Option<Box<CallHead>>) -> Job {
        let function = &call.callable.function;
        let limits = &function.limits;
        let OnAccount { key, environment, .. } =
            call.callable.on_account(&call.namespace, call.account, self.api_host(call));
        Job {
            function: Arc::clone(function),
            key,
            environment,
            arrived: call.arrived,
            before: None,
            nested: call.nested,
            call: Call {
                activation: call.id,
                transaction: Arc::clone(&call.transaction),
                deadline: call.arrived + limits.timeout,
                deadline_at: Timestamp::from_millis(
                    Timestamp::now().as_millis() + limits.timeout.as_millis() as u64,
                ),
                head,
                body,
                api_key: call.api_key.as_deref().map(|key| ApiKey::of_activation(key, call.id).into()),
                max_result: self.config.limits.bounds.max_result,
                max_logs: limits.logs,
            },
        }
    }

    /// The address of Flint for this call's function: its gate, if it has one, since it reaches nothing else.
    fn api_host(&self, call: &Admitted) -> &str {
        let gate = self.config.gate.as_deref();
        gate.filter(|_| call.callable.wants_key).unwrap_or(&self.config.api_host)
    }

    /// Reads a streamed HTTP answer that nobody takes, within the limit of a result.
    pub(crate) async fn collect_http(
        &self,
        call: &Admitted,
        draft: Draft,
        (status, headers): (StatusCode, HeaderMap),
        body: BodyReceiver,
        end: oneshot::Receiver<StreamEnd>,
    ) -> (Draft, Verdict, CallEnd) {
        let time_limit = call.callable.function.limits.timeout;
        let most = self.config.limits.bounds.max_result;
        let collected = collect(body, most).await;
        let (end, draft) = ended(end, draft).await;
        let verdict = match (collected, &end.fault) {
            (_, Some(fault)) => Verdict::of_fault(fault, Phase::Run, time_limit),
            (Ok(body), None) => {
                Verdict::of_reply(Reply { head: ReplyHead::Http { status, headers }, body }, Some(most))
            }
            (Err(fault), None) => {
                Verdict::of_fault(&self.told(&call.namespace, fault).await, Phase::Run, time_limit)
            }
        };
        (draft, verdict, end)
    }

    /// Reads a streamed answer for a caller that wants JSON, within the limit of a result.
    async fn collect_stream(
        &self,
        call: &Admitted,
        draft: Draft,
        head: ReplyHead,
        body: BodyReceiver,
        end: oneshot::Receiver<StreamEnd>,
    ) -> Attempted {
        let time_limit = call.callable.function.limits.timeout;
        let collected = collect(body, self.config.limits.bounds.max_result).await;
        let (end, draft) = ended(end, draft).await;
        let verdict = match (collected, &end.fault) {
            (_, Some(fault)) => Verdict::of_fault(fault, Phase::Run, time_limit),
            (Ok(body), None) => Verdict::of_reply(Reply { head, body }, None),
            (Err(fault), None) => {
                Verdict::of_fault(&self.told(&call.namespace, fault).await, Phase::Run, time_limit)
            }
        };
        Attempted::Over { draft, verdict, end }
    }

    /// Reads a streamed answer to its end, however long, for a caller that wants the record. An answer longer
    /// than a result may be is left out of the record.
    async fn read_out(
        &self,
        call: &Admitted,
        draft: Draft,
        (status, headers): (StatusCode, HeaderMap),
        mut pieces: BodyReceiver,
        end: oneshot::Receiver<StreamEnd>,
    ) -> Attempted {
        let most = self.config.limits.bounds.max_result;
        let mut whole = Some(Vec::new());
        while let Some(Ok(piece)) = pieces.recv().await {
            whole = whole.filter(|whole| (whole.len() + piece.len()) as u64 <= most.as_u64());
            if let Some(whole) = &mut whole {
                whole.extend_from_slice(&piece);
            }
        }
        drop(pieces);
        let (end, draft) = ended(end, draft).await;
        let verdict = match (whole, &end.fault) {
            (_, Some(fault)) => Verdict::of_fault(fault, Phase::Run, call.callable.function.limits.timeout),
            (None, None) => Verdict::of_http_head(status, &headers).streamed(end.streamed),
            (Some(whole), None) => {
                let head = ReplyHead::Http { status, headers };
                Verdict::of_reply(Reply { head, body: whole.into() }, Some(most))
            }
        };
        Attempted::Over { draft, verdict, end }
    }

    /// Truncates a result that is too large to what its namespace may be shown.
    async fn told(&self, namespace: &NamespaceName, fault: Fault) -> Fault {
        let Fault::ResultTooLarge { size, allowed, mut beginning } = fault else { return fault };
        let owner = self.owner(namespace).await.ok().flatten();
        let bounds = owner.as_ref().map_or(&self.config.limits.bounds, |owner| &owner.limits().bounds);
        beginning.truncate(usize::try_from(bounds.truncation.as_u64()).unwrap_or(usize::MAX));
        Fault::ResultTooLarge { size, allowed, beginning }
    }
}

/// An attempt at a call that cannot run because a secret is not available.
async fn refused(call: &Admitted, lacks: &Lacks, before: Option<Before>) -> Attempted {
    let mut draft = Draft::none();
    draft.timeline.queued = Some(call.arrived.elapsed().as_micros() as u64);
    let verdict = match lacks {
        // It is the host's shortage, like that of a runtime, so that no attempt begins.
        Lacks::Key(why) => Verdict { untried: Some(why.clone()), ..Verdict::not_provisioned(why) },
        Lacks::Secret(why) => {
            if let Some(before) = before
                && !before.0.await
            {
                return Attempted::Refused(Refusal::Withdrawn);
            }
            Verdict::not_provisioned(why)
        }
    };
    Attempted::Over { draft, verdict, end: CallEnd::default() }
}

/// Waits for the end of a streamed answer, which completes the timeline.
pub(crate) async fn ended(end: oneshot::Receiver<StreamEnd>, draft: Draft) -> (CallEnd, Draft) {
    match end.await {
        Ok(StreamEnd { end, timeline }) => {
            let queued = draft.timeline.queued;
            let mut draft = Draft { timeline, ..draft };
            draft.timeline.queued = draft.timeline.queued.or(queued);
            (end, draft)
        }
        Err(_) => {
            let cause = "the invoker dropped a streamed call before its end".to_owned();
            (CallEnd { fault: Some(Fault::Platform { cause }), ..CallEnd::default() }, draft)
        }
    }
}

fn http_head(head: ReplyHead) -> (StatusCode, HeaderMap) {
    match head {
        ReplyHead::Http { status, headers } => (status, headers),
        ReplyHead::Json => {
            let json = http::HeaderValue::from_static("application/json");
            (StatusCode::OK, HeaderMap::from_iter([(http::header::CONTENT_TYPE, json)]))
        }
    }
}

/// Reads a whole body of at most `limit` bytes.
async fn collect(mut pieces: BodyReceiver, limit: ByteSize) -> Result<Bytes, Fault> {
    let mut whole = Vec::new();
    while let Some(piece) = pieces.recv().await {
        match piece {
            Ok(piece) => whole.extend_from_slice(&piece),
            Err(BodyError::TooLarge(_)) => break,
            Err(BodyError::Broken(_) | BodyError::Late) => return Err(Fault::Exited { end: None }),
        }
        if whole.len() as u64 > limit.as_u64() {
            let size = whole.len() as u64;
            whole.truncate(BEGINNING.min(limit.as_u64() as usize));
            return Err(Fault::ResultTooLarge { size, allowed: limit.as_u64(), beginning: whole.into() });
        }
    }
    Ok(whole.into())
}
