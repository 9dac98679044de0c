//! A call on its way to an instance, and what came of it.

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
    /// Which instances may serve it, and on whose account: they are never shared between invoking namespaces, also not of one published
    /// function. Calls of one function whose environments differ in more than the call are told apart too: those that reach it through another
    /// package binding, with other `init` parameters.
    pub key: Arc<InstanceKey>,
    /// The call. Its deadline is set anew when it begins to run: waiting does not count against the time limit.
    pub call: Call,
    /// Set when this call's instance loads its code, beside the function's `init` parameters.
    pub environment: Arc<[(String, String)]>,
    /// When the request arrived: zero on the timeline.
    pub arrived: Instant,
    /// How many calls wait for it, each for the next, with their instances: see [`NESTED_LEVELS`](crate::NESTED_LEVELS).
    pub nested: u32,
    /// Awaited once the call has its instance, before it is given to it.
    pub before: Option<Before>,
}

/// What has to be done right before a call is given to its instance; `false` withdraws the call.
pub struct Before(pub Pin<Box<dyn Future<Output = bool> + Send>>);

impl fmt::Debug for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Before")
    }
}

/// What came of a job.
#[derive(Debug)]
pub struct Ran {
    /// Its stations so far; for a streamed answer, `ran` and `collected` come with [`StreamEnd`].
    pub timeline: Timeline,
    /// When initialisation or run began; when it was refused, that moment.
    pub start: Timestamp,
    /// How long loading the code took, when this call's instance was cold. Includes bringing up the sandbox and the runtime.
    pub init: Option<Duration>,
    /// Which instance served it.
    pub instance: Option<InstanceId>,
    /// The rest.
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
    /// It is answering with a stream. The call goes on to its end also when the receivers are dropped.
    Streaming {
        /// The HTTP response's head.
        head: ReplyHead,
        /// Its body.
        body: BodyReceiver,
        /// Comes when the body is complete or broken.
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
    /// It could never run here.
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
    /// Its [`Job::before`] said no.
    #[error("the call was withdrawn before it began")]
    Withdrawn,
    /// The server is stopping.
    #[error("the server is shutting down: try again in a moment")]
    ShuttingDown,
}
