//! The results of a call: its answer, and what is known at its end.

use bytes::Bytes;
use flint_model::{LogLine, Usage};
use http::{HeaderMap, StatusCode};
use tokio::sync::oneshot;

use crate::{BodyReceiver, Fault};

/// A complete answer.
#[derive(Debug)]
pub struct Reply {
    /// The kind of answer.
    pub head: ReplyHead,
    /// Its body. For [`ReplyHead::Json`] it has been checked to be a single JSON object or array.
    pub body: Bytes,
}

/// The kind of an answer.
#[derive(Debug)]
pub enum ReplyHead {
    /// A JSON result.
    Json,
    /// An HTTP response made by the function.
    Http {
        /// Its status.
        status: StatusCode,
        /// Its headers, without hop-by-hop ones.
        headers: HeaderMap,
    },
}

/// What is known at the end of a call.
#[derive(Debug, Default)]
pub struct CallEnd {
    /// What the call logged, in order.
    pub logs: Vec<LogLine>,
    /// Whether log lines were left out because of the limit.
    pub logs_truncated: bool,
    /// The resources that the call used.
    pub usage: Usage,
    /// Whether the instance can serve another call. It cannot after a fault, except for
    /// [`Fault::ResultTooLarge`], an invalid answer, and one that [is the caller's](Fault::is_the_callers).
    pub reusable: bool,
    /// What failed after a streamed answer had begun.
    pub fault: Option<Fault>,
    /// How many bytes of a streamed answer were handed to its caller; 0 of any other.
    pub streamed: u64,
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Invoked {
    /// The call is over.
    Done {
        /// The answer, or why there is none.
        result: Result<Reply, Fault>,
        /// What is known at its end.
        end: CallEnd,
    },
    /// The function answers with a stream; the instance is busy until `end` arrives.
    Streaming {
        /// The HTTP response's head.
        head: ReplyHead,
        /// Its body.
        body: BodyReceiver,
        /// Arrives when the body is complete or broken and the logs are collected.
        end: oneshot::Receiver<CallEnd>,
    },
}
