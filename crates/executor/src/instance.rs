//! A running copy of a function.

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use flint_model::{ActivationId, ByteSize, InstanceId, LogLine, NamespaceName};

use crate::{Call, Fault, Invoked};

/// A running copy of a function, alone in its sandbox. Dropping it ends it.
#[async_trait]
pub trait Instance: Send + Sync {
    /// Which instance.
    fn id(&self) -> InstanceId;

    /// Serves one call. Returns when the answer is complete or begins to stream, or at the deadline, at which the instance is
    /// ended within 50 ms. An implementation for concurrency 1 may refuse overlapping calls with [`Fault::Platform`]. Not
    /// cancellation-safe: an instance whose `invoke` was dropped must be stopped.
    async fn invoke(&self, call: Call) -> Invoked;

    /// Memory in use; `None` where the host cannot tell.
    async fn memory(&self) -> Option<ByteSize>;

    /// Takes the processor away until [`Self::resume`]; memory stays. A no-op where the host cannot.
    async fn pause(&self);

    /// Gives the processor back.
    async fn resume(&self);

    /// Resolves when the instance has ended by itself.
    async fn ended(&self);

    /// Whether it has: asked before each call.
    fn has_ended(&self) -> bool {
        self.ended().as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Ends it and everything it started; returns when nothing of it is left.
    async fn stop(&self);
}

/// How long bringing up a sandbox with its runtime, or forking a snapshot, may take, beside the time that loading the code has: the function has no part in it.
pub const BRING_UP: Duration = Duration::from_secs(10);

/// What a start is for.
#[derive(Clone, Debug)]
pub struct StartContext {
    /// The new instance's id.
    pub id: InstanceId,
    /// On whose account it will serve calls; `None` when it is to serve none itself.
    pub namespace: Option<NamespaceName>,
    /// The activation that needs it; `None` when it is started ahead of need.
    pub activation: Option<ActivationId>,
    /// The request's transaction id.
    pub transaction: Arc<str>,
    /// When loading the code must be done, in a runtime that is up already; in one that comes up first, by so much later ([`BRING_UP`]).
    pub deadline: Instant,
    /// Set before user code is loaded: the function's `init` parameters and the front's own variables.
    pub environment: Vec<(String, String)>,
    /// How much of what is logged during the start is kept.
    pub max_logs: ByteSize,
}

/// A start that worked.
pub struct Started {
    /// The instance, ready for calls.
    pub instance: Arc<dyn Instance>,
    /// Until the sandbox was up and the runtime answered; zero when a prewarmed one was taken. Of a snapshot that had to be made first, until
    /// that was there.
    pub started: Duration,
    /// Until the snapshot was resumed, counted from the beginning.
    pub restored: Option<Duration>,
    /// Until the code was loaded, counted from the beginning.
    pub initialised: Duration,
    /// What loading logged.
    pub logs: Vec<LogLine>,
}

/// A start that did not. Nothing of the instance is left.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct StartFailure {
    /// Why.
    pub fault: Fault,
    /// How long it took.
    pub took: Duration,
    /// What it logged until then.
    pub logs: Vec<LogLine>,
}
