//! Runs a composition step by step, across restarts of the server.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use flint_model::{Activation, ActivationId, Attempt, NamespaceName, Status, Timestamp};
use flint_store::{Lease, QueuedCall, StoreError};

use super::{
    conductor::TOO_LONG as COMPOSITION_TOO_LONG,
    primary::{failure_text, gave_up, record_of, timeout_text},
    progress::{Closed, Progress, Role, Work, error},
    step::Stepped,
};
use crate::{
    Controller, ControllerError, ErrorKind, account::AccountNumber, asynchronous::PutOff, callable::Callable,
    in_flight::Place, outcome::Verdict, resolve::Callee,
};

const SEQUENCE_TOO_LONG: &str = "Too many actions in the sequence.";
const NO_COMPONENT: &str = "Sequence component does not exist.";

/// The constant part of a composition.
pub(crate) struct Composition {
    /// Its own activation.
    pub(crate) id: ActivationId,
    /// The lease under which its steps are journalled.
    pub(crate) lease: Lease,
    /// The account and rights under which it runs.
    pub(crate) namespace: NamespaceName,
    pub(crate) account: AccountNumber,
    /// When that namespace was created: no record is older.
    pub(crate) created: Timestamp,
    pub(crate) subject: Arc<str>,
    pub(crate) transaction: Arc<str>,
    pub(crate) api_key: Option<Arc<str>>,
    /// Its place in flight, which calls made by its steps with its key may borrow.
    pub(crate) place: Option<Arc<Place>>,
    /// Length of the chain of callers that wait for it.
    pub(crate) nested: u32,
    pub(crate) arrived: Instant,
    /// Whether records are kept.
    pub(crate) recorded: bool,
    /// The accepted call that it is, unless a caller waits for it: one whose next step this host cannot run is
    /// put off.
    pub(crate) accepted: Option<Arc<QueuedCall>>,
}

/// The record of a composition that is over, or why it is not.
pub(crate) type CompositionEnd = Result<Box<Activation>, Paused>;

/// Why a run of a composition, or of one of its steps, ended before the composition is over.
pub(crate) enum Paused {
    /// This host cannot run the next step now; it is tried again later. Only where no caller waits.
    PutOff(PutOff),
    /// The server is stopping; its next run resumes it.
    Left,
}

/// The result of one transition.
enum Doing {
    /// The current call was itself a composition: its first call is the current one now.
    Entered,
    /// Frames were closed.
    Closed(Vec<Closed>),
}

impl Controller {
    /// Runs a composition to its end, or until the server stops. `earlier` counts the attempts of earlier
    /// runs at the current step; `None` if the step is not in the journal yet. Records of nested compositions
    /// are kept here, its own by the caller.
    pub(crate) async fn run_composition(
        self: &Arc<Self>,
        whose: &Composition,
        mut progress: Progress,
        mut earlier: Option<Vec<Attempt>>,
    ) -> CompositionEnd {
        loop {
            if self.stopping.is_cancelled() {
                // Journalled, since the previous step is done and must not be repeated after a restart.
                if earlier.is_none()
                    && let Err(error) = self.journal(whose.lease, &progress).await
                {
                    tracing::error!(activation = %whose.id, %error, "a composition's last step will be repeated");
                }
                return Err(Paused::Left);
            }
            match self.go_on(whose, &mut progress, earlier.take()).await? {
                Doing::Entered => {}
                Doing::Closed(closed) => {
                    for closed in closed {
                        let outermost = closed.cause.is_none();
                        let record = record_of(whose, closed);
                        if outermost {
                            return Ok(Box::new(record));
                        }
                        if whose.recorded {
                            self.stores.activations.append(record);
                        }
                    }
                }
            }
        }
    }

    /// Makes one transition.
    async fn go_on(
        self: &Arc<Self>,
        whose: &Composition,
        progress: &mut Progress,
        earlier: Option<Vec<Attempt>>,
    ) -> Result<Doing, Paused> {
        if self.is_blocked(&whose.namespace).await {
            return Ok(Doing::Closed(progress.failed(Verdict::blocked().response)));
        }
        let conducting = progress.next.role == Role::Conductor;
        let resolved = match self.resolve_for(&whose.namespace, &progress.next.path).await {
            Ok(resolved) => resolved.pick(whose.id),
            Err(why) => return Ok(Doing::Closed(unresolved(progress, &why))),
        };
        Ok(match &resolved.callee {
            _ if progress.is_too_long() => {
                Doing::Closed(progress.failed(error(Status::ApplicationError, SEQUENCE_TOO_LONG)))
            }
            Callee::Sequence(_) if conducting => {
                Doing::Closed(unresolved(progress, &ControllerError::NotFound))
            }
            Callee::Function(callable) if conducting || !callable.conductor => {
                Doing::Closed(self.call(whose, progress, callable, earlier).await?)
            }
            Callee::Function(_) if progress.has_conducted_enough() => {
                Doing::Closed(progress.refused(error(Status::ApplicationError, COMPOSITION_TOO_LONG)))
            }
            _ => {
                progress.enter(&resolved, 0);
                Doing::Entered
            }
        })
    }

    /// Calls the function of the current step; returns the frames that this closes.
    async fn call(
        self: &Arc<Self>,
        whose: &Composition,
        progress: &mut Progress,
        callable: &Arc<Callable>,
        earlier: Option<Vec<Attempt>>,
    ) -> Result<Vec<Closed>, Paused> {
        let earlier = match earlier {
            Some(earlier) => earlier,
            None => match self.journal(whose.lease, progress).await {
                Ok(()) => Vec::new(),
                Err(why) => {
                    tracing::error!(activation = %whose.id, %why, "a composition could not be journalled and ends");
                    let text = failure_text(progress.frames.last());
                    return Ok(progress.failed(gave_up(text, Some(&why.to_string()))));
                }
            },
        };
        let frame = progress.frames.last();
        let cause = frame.map(|frame| frame.id);
        Ok(match self.step(whose, &progress.next, cause, callable, earlier).await? {
            Stepped::Ended(ended) => progress.ended(ended),
            Stepped::TooLate => {
                let text = timeout_text(frame, progress.next.id);
                progress.lost(gave_up(&text, None))
            }
        })
    }

    /// Journals the current call, durably before it begins.
    async fn journal(&self, lease: Lease, progress: &Progress) -> Result<(), StoreError> {
        let state = serde_json::to_vec(progress).map_err(|error| StoreError::Failed {
            operation: "writing down a composition",
            detail: error.to_string(),
        })?;
        self.stores.compositions.reach(lease, progress.next.id, Bytes::from(state)).await
    }
}

/// The current call could not be resolved.
fn unresolved(progress: &mut Progress, why: &ControllerError) -> Vec<Closed> {
    let path = &progress.next.path;
    let broken = matches!(why.kind(), ErrorKind::Internal | ErrorKind::Unavailable);
    let missing = why.kind() != ErrorKind::Forbidden;
    match (progress.frames.last().map(|frame| &frame.work), progress.next.role) {
        _ if broken => {
            let cause = why.detail().unwrap_or_else(|| why.to_string());
            tracing::error!(function = %path, cause, "a step of a composition could not be looked up");
            let text = failure_text(progress.frames.last());
            progress.failed(gave_up(text, None))
        }
        (Some(Work::Conductor { .. }), Role::Component) => {
            let what = if missing { "to resolve" } else { "entitlement check for" };
            let text = format!("Failed {what} action with name '{path}' during composition.");
            progress.refused(error(Status::ApplicationError, &text))
        }
        (Some(Work::Conductor { .. }), Role::Conductor) => {
            let text = failure_text(progress.frames.last());
            progress.failed(gave_up(text, Some("The conductor could not be found or may have been deleted.")))
        }
        _ if missing => progress.failed(error(Status::ApplicationError, NO_COMPONENT)),
        _ => {
            let text = why.to_string();
            progress.failed(error(Status::ApplicationError, &text))
        }
    }
}
