//! What comes back from an instance.

use bytes::Bytes;
use flint_model::{LogLine, Usage};
use http::{HeaderMap, StatusCode};
use tokio::sync::oneshot;

use crate::{BodyReceiver, Fault};

/// An answer that is complete.
#[derive(Debug)]
pub struct Reply {
    /// What kind of answer.
    pub head: ReplyHead,
    /// All of its body. For [`ReplyHead::Json`] it has been checked to be one JSON value, an object or an array.
    pub body: Bytes,
}

/// What an answer is.
#[derive(Debug)]
pub enum ReplyHead {
    /// A JSON result.
    Json,
    /// An HTTP response of the function's own making.
    Http {
        /// Its status.
        status: StatusCode,
        /// Its headers, without hop-by-hop ones.
        headers: HeaderMap,
    },
}

/// What is known when a call is over.
#[derive(Debug, Default)]
pub struct CallEnd {
    /// What the call logged, in order.
    pub logs: Vec<LogLine>,
    /// Something was left out of `logs` because of the limit.
    pub logs_truncated: bool,
    /// What it used.
    pub usage: Usage,
    /// The instance can serve another call. After a fault other than [`Fault::ResultTooLarge`], one that [is the caller's](Fault::is_the_callers) or an invalid answer it cannot.
    pub reusable: bool,
    /// What went wrong after a streamed answer had begun.
    pub fault: Option<Fault>,
}

/// What came of a call.
#[derive(Debug)]
pub enum Invoked {
    /// It is over.
    Done {
        /// The answer, or why there is none.
        result: Result<Reply, Fault>,
        /// The rest.
        end: CallEnd,
    },
    /// The function is answering with a stream; the instance is busy until `end` comes.
    Streaming {
        /// The HTTP response's head.
        head: ReplyHead,
        /// Its body.
        body: BodyReceiver,
        /// Comes when the body is complete or broken and the logs are collected.
        end: oneshot::Receiver<CallEnd>,
    },
}
