//! The trait [`Instance`], a running copy of a function, and how one is started.

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
    /// Its id.
    fn id(&self) -> InstanceId;

    /// Serves one call. Returns when the answer is complete or begins to stream, or at the deadline, when the
    /// instance is ended within 50 ms. An implementation with concurrency 1 may refuse overlapping calls with
    /// [`Fault::Platform`]. Not cancellation-safe: an instance whose `invoke` was dropped must be stopped.
    async fn invoke(&self, call: Call) -> Invoked;

    /// Memory in use; `None` where the host cannot tell.
    async fn memory(&self) -> Option<ByteSize>;

    /// Keeps it off the CPU until [`Self::resume`]; its memory stays. A no-op where the host cannot do that.
    async fn pause(&self);

    /// Lets it run again.
    async fn resume(&self);

    /// Resolves when the instance has ended, whatever ended it.
    async fn ended(&self);

    /// Whether it has ended; asked before each call.
    fn has_ended(&self) -> bool {
        self.ended().as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Ends it and everything that it started; returns when nothing of it is left.
    async fn stop(&self);
}

/// How long bringing up a sandbox with its runtime, or forking a snapshot, may take. It is not part of the
/// time for loading the code, since the function has no influence on it.
pub const BRING_UP: Duration = Duration::from_secs(10);

/// The parameters of a start.
#[derive(Clone, Debug)]
pub struct StartContext {
    /// The new instance's id.
    pub id: InstanceId,
    /// The namespace whose calls it will serve; `None` when it will serve none itself.
    pub namespace: Option<NamespaceName>,
    /// The activation that needs it; `None` when it is started ahead of need.
    pub activation: Option<ActivationId>,
    /// The request's transaction id.
    pub transaction: Arc<str>,
    /// When the code must be loaded, if the runtime is up already; otherwise [`BRING_UP`] later.
    pub deadline: Instant,
    /// Variables set before user code is loaded: the function's `init` parameters and those of the API front.
    pub environment: Vec<(String, String)>,
    /// How much of the log of the start is kept.
    pub max_logs: ByteSize,
}

/// A successful start.
pub struct Started {
    /// The instance, ready for calls.
    pub instance: Arc<dyn Instance>,
    /// Time until the sandbox was up and the runtime answered, or until the snapshot existed if it had to be
    /// made first; zero when a prewarmed runtime was taken.
    pub started: Duration,
    /// Time from the beginning until the snapshot was resumed.
    pub restored: Option<Duration>,
    /// Time from the beginning until the code was loaded.
    pub initialised: Duration,
    /// The log of loading.
    pub logs: Vec<LogLine>,
}

/// A failed start. Nothing of the instance is left.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct StartFailure {
    /// Why it failed.
    pub fault: Fault,
    /// How long it took.
    pub took: Duration,
    /// Its log until then.
    pub logs: Vec<LogLine>,
}
