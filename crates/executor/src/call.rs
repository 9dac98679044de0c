//! One call, as an instance gets it.

use std::{sync::Arc, time::Instant};

use flint_model::{ActivationId, ByteSize, Timestamp};
use http::{HeaderMap, Method};

use crate::Body;

/// One call. A JSON action is the special case of a small body without a [`CallHead`].
#[derive(Debug)]
pub struct Call {
    /// The activation.
    pub activation: ActivationId,
    /// The request's transaction id, for the function's environment and for logs.
    pub transaction: Arc<str>,
    /// When the instance is to be stopped if it has not answered.
    pub deadline: Instant,
    /// The same by the wall clock, for the function to see.
    pub deadline_at: Timestamp,
    /// The HTTP request that the call came from; absent: the body is a JSON value, the function's parameters.
    pub head: Option<Box<CallHead>>,
    /// The request body.
    pub body: Body,
    /// The key that the function may call Flint with, when it is to have one.
    pub api_key: Option<Arc<str>>,
    /// How much of the JSON result is taken; a longer one is [`crate::Fault::ResultTooLarge`].
    pub max_result: ByteSize,
    /// How much of what the call logs is kept.
    pub max_logs: ByteSize,
}

/// The HTTP request that a call came from.
#[derive(Clone, Debug)]
pub struct CallHead {
    /// Its method.
    pub method: Method,
    /// Its path within the function, beginning with `/`.
    pub path: String,
    /// Its query without the `?`; empty when there is none.
    pub query: String,
    /// Its headers, without hop-by-hop ones and without the caller's credentials.
    pub headers: HeaderMap,
}
