//! One call, as an instance receives it.

use std::{sync::Arc, time::Instant};

use flint_model::{ActivationId, ByteSize, Timestamp};
use http::{HeaderMap, Method};

use crate::Body;

/// One call. A plain JSON action has a small body and no [`CallHead`].
#[derive(Debug)]
pub struct Call {
    /// The activation.
    pub activation: ActivationId,
    /// The request's transaction id, for the function's environment and for logs.
    pub transaction: Arc<str>,
    /// When the instance is stopped if it has not answered.
    pub deadline: Instant,
    /// The deadline by the wall clock, which the function is told.
    pub deadline_at: Timestamp,
    /// The HTTP request that the call came from. Without one the body is a JSON value, the function's
    /// parameters.
    pub head: Option<Box<CallHead>>,
    /// The request body.
    pub body: Body,
    /// The key with which the function may call Flint, if it is to have one.
    pub api_key: Option<Arc<str>>,
    /// The longest JSON result; a longer one is [`crate::Fault::ResultTooLarge`].
    pub max_result: ByteSize,
    /// How much of the call's log is kept.
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
    /// Its headers, without hop-by-hop headers and the caller's credentials.
    pub headers: HeaderMap,
}
