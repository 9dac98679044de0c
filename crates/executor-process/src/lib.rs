//! Functions as sandboxed Linux processes: isolation `process`, start `spawn`, reuse `never` and `warm`.
//!
//! | contract | how a call reaches the code | where |
//! |---|---|---|
//! | `handler` | frames over a socket to Flint's shim in the function's language | [`flint_runtimes::handler`] |
//! | `stdio` | a process a call: body on stdin, answer on stdout | [`stdio`] |
//! | `http` | HTTP to the server on `$PORT` | [`server`] |
//! | `openwhisk` | HTTP `/init` and `/run` on port 8080 | [`server`] |

#![forbid(unsafe_code)]

mod executor;
mod server;
mod stdio;

pub use executor::ProcessExecutor;
