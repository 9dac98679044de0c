//! Contract `stdio`: one process per call; the request's body is its stdin, its stdout the answer, its stderr
//! the log.
//!
//! With reuse `never` each process has a sandbox of its own. With `warm` the sandbox stays and each call is a
//! new process in it, as in a container of OpenFaaS' classic watchdog: calls share `/tmp` and the network,
//! and no process outlives its call.
//!
//! A program cannot declare the type of its answer, so it is derived: a JSON object or array is
//! `application/json`, other text without control characters `text/plain; charset=utf-8`, anything else
//! `application/octet-stream`. An answer longer than [`instance::WHOLE`] is streamed as the latter before it
//! is complete. A call without an HTTP request that is answered with a JSON object or array gets it as its
//! JSON result, of any length that a result may have.

mod feed;
mod instance;
mod last_line;
mod place;
mod pump;
mod window;

pub(crate) use instance::{StdioInstance, Style};
#[cfg(feature = "fuzzing")]
pub use last_line::fuzz_last_line;
pub(crate) use place::Place;
