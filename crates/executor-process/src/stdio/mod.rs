//! Contract `stdio`: a process a call; the request's body is its stdin, its stdout the answer, its stderr the log.
//!
//! What the answer is taken for, since a program on its own does not say: a JSON object or array is `application/json`, other text without
//! control characters `text/plain; charset=utf-8`, anything else `application/octet-stream`; so is what is longer than
//! [`instance::WHOLE`], which begins to be sent before it is complete. A call without an HTTP request that is answered with a JSON
//! object or array gets it as its JSON result.

mod environment;
mod feed;
mod instance;
mod last_line;
mod pump;

pub(crate) use instance::{StdioInstance, Style};
