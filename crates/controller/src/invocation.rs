//! The interface to fronts for calls: what is asked for, and the answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::{Body, CallHead};
use flint_model::{Activation, ActivationId, FunctionPath};
use http::{HeaderMap, StatusCode};

/// A call as a front asks for it.
#[derive(Debug)]
pub struct Invocation {
    /// What to call.
    pub path: FunctionPath,
    /// The request's body. Without a `head` it is a JSON object, the arguments; empty = `{}`.
    pub body: Body,
    /// The HTTP request, for functions that read it. With it, the body is passed on as it is.
    pub head: Option<Box<CallHead>>,
    /// Whether the caller waits.
    pub mode: Mode,
    /// What the caller can take.
    pub accepts: Accepts,
    /// The request's transaction id.
    pub transaction: Arc<str>,
    /// When the request arrived.
    pub arrived: Instant,
    /// The key the call came with, handed on to functions that ask for it (annotation `provide-api-key`).
    pub api_key: Option<Arc<str>>,
}

/// Whether the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At most this long for the answer; then the call goes on without its caller.
    Blocking {
        /// At most the configured `max_blocking_wait`.
        wait: Duration,
    },
    /// Only until the call is durable.
    NonBlocking,
}

/// Forms of answer that the caller can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// A JSON result. An HTTP answer that is JSON is one; any other is the developer's error.
    Json,
    /// Any HTTP answer, streams included.
    Http,
    /// The call's record instead of an answer, whether or not it is kept. An HTTP answer is read to its end
    /// for it.
    Record,
}

/// The answer to a call.
#[derive(Debug)]
pub enum Answer {
    /// It was accepted, or takes longer than the caller waits.
    Accepted(ActivationId),
    /// It is over; `response` has its JSON result or its error. `logs` is empty unless the record was asked
    /// for.
    Finished(Box<Activation>),
    /// The function answered with HTTP of its own.
    Http(HttpAnswer),
}

impl Answer {
    /// The activation.
    pub fn activation(&self) -> ActivationId {
        match self {
            Self::Accepted(id) => *id,
            Self::Finished(record) => record.id,
            Self::Http(answer) => answer.activation,
        }
    }
}

/// An HTTP answer of a function's own making.
#[derive(Debug)]
pub struct HttpAnswer {
    /// The activation.
    pub activation: ActivationId,
    /// Its status.
    pub status: StatusCode,
    /// Its headers, without hop-by-hop ones.
    pub headers: HeaderMap,
    /// Its body; a stream goes on as the function writes it.
    pub body: Body,
}
