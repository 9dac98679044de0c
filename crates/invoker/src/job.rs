//! A call on its way to an instance, and its outcome.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::{BodyReceiver, Call, CallEnd, Fault, Reply, ReplyHead, StartFailure};
use flint_model::{ByteSize, Function, FunctionPath, InstanceId, NamespaceName, Timeline, Timestamp};
use tokio::sync::oneshot;

use crate::InstanceKey;

/// A call that was admitted.
#[derive(Debug)]
pub struct Job {
    /// What to call.
    pub function: Arc<Function>,
    /// Which instances may serve it, and on whose account: instances are never shared between invoking
    /// namespaces, not even those of one published function. Calls that reach a function through different
    /// package bindings have different `init` parameters, and thus keys of their own.
    pub key: Arc<InstanceKey>,
    /// The call. Its deadline is set anew when it begins to run, so that waiting does not count against the
    /// time limit.
    pub call: Call,
    /// Environment set when this call's instance loads its code, in addition to the function's `init`
    /// parameters.
    pub environment: Arc<[(String, String)]>,
    /// When the request arrived; the origin of the timeline.
    pub arrived: Instant,
    /// The length of the chain of callers that wait for it, each with its instance: see
    /// [`NESTED_LEVELS`](crate::NESTED_LEVELS).
    pub nested: u32,
    /// Awaited between getting an instance and giving the call to it.
    pub before: Option<Before>,
}

/// Work that has to be done right before a call is given to its instance; `false` withdraws the call.
pub struct Before(pub Pin<Box<dyn Future<Output = bool> + Send>>);

impl fmt::Debug for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Before")
    }
}

/// The outcome of a job.
#[derive(Debug)]
pub struct Ran {
    /// Its stations so far; for a streamed answer, `ran` and `collected` come with [`StreamEnd`].
    pub timeline: Timeline,
    /// When initialisation or the run began, or when the job was refused.
    pub start: Timestamp,
    /// For a cold start, the time to bring up the sandbox and the runtime and to load the code.
    pub init: Option<Duration>,
    /// Which instance served it.
    pub instance: Option<InstanceId>,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a job ended.
#[derive(Debug)]
pub enum Outcome {
    /// It was never given to an instance; it may be tried again elsewhere or later.
    Refused(Refusal),
    /// Its instance did not start.
    NotStarted(StartFailure),
    /// It ran to its end.
    Ended {
        /// The answer, or why there is none.
        result: Result<Reply, Fault>,
        /// Logs and usage. Logs of a cold start come first.
        end: CallEnd,
    },
    /// It answers with a stream. The call runs to its end even if the receivers are dropped.
    Streaming {
        /// The HTTP response's head.
        head: ReplyHead,
        /// Its body.
        body: BodyReceiver,
        /// Sent when the body is complete or broken.
        end: oneshot::Receiver<StreamEnd>,
    },
}

/// The end of a streamed answer.
#[derive(Debug)]
pub struct StreamEnd {
    /// Logs, usage and a late fault.
    pub end: CallEnd,
    /// The whole timeline.
    pub timeline: Timeline,
}

/// Why a job was not given to an instance.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// Too many calls of this function wait already.
    #[error(
        "{waiting} calls of {function} are waiting, which is the most its queue takes (queue.per_function); {why}"
    )]
    QueueFull {
        /// Which function.
        function: FunctionPath,
        /// How many wait.
        waiting: usize,
        /// What they wait for.
        why: String,
    },
    /// Too many calls wait already, of all functions together.
    #[error(
        "{waiting} calls wait for an instance on this server, which leaves no place for one more of {namespace}: slow down, or raise queue.total"
    )]
    QueuesFull {
        /// Whose call it is.
        namespace: NamespaceName,
        /// How many wait.
        waiting: usize,
    },
    /// It waited as long as a call may wait for an instance.
    #[error("no instance of {function} came free within {waited_ms} ms: {why}")]
    WaitedTooLong {
        /// Which function.
        function: FunctionPath,
        /// How long it waited.
        waited_ms: u64,
        /// What was short.
        why: String,
    },
    /// It needs more memory than this node has.
    #[error(
        "{function} needs {needed} of memory, the pool has {budget}: lower its memory limit, or raise pool.memory"
    )]
    TooLarge {
        /// Which function.
        function: FunctionPath,
        /// How much it needs.
        needed: ByteSize,
        /// How much there is.
        budget: ByteSize,
    },
    /// It cannot be prepared on this host.
    #[error("{function} cannot run on this host: {reason}")]
    Unavailable {
        /// Which function.
        function: FunctionPath,
        /// Why, and what to do.
        reason: String,
    },
    /// [`Job::before`] withdrew it.
    #[error("the call was withdrawn before it began")]
    Withdrawn,
    /// The server is stopping.
    #[error("the server is shutting down: try again in a moment")]
    ShuttingDown,
}
