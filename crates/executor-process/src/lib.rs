//! Functions as sandboxed Linux processes: isolation `process`, start `spawn`, reuse `never` and `warm`.
//!
//! | contract | transport of a call | where |
//! |---|---|---|
//! | `handler` | frames over a socket to Flint's shim in the function's language |
//! [`flint_runtimes::handler`] |
//! | `stdio` | one process per call: body on stdin, answer on stdout | [`stdio`] |
//! | `http` | HTTP to the server on `$PORT` | [`server`] |
//! | `openwhisk` | HTTP `/init` and `/run` on port 8080 | [`server`] |
//! | `actionloop` | a JSON line on stdin, answered on descriptor 3 | [`actionloop`] |
//! | `skeleton` | one process per call: arguments in `argv[1]`, answer in the last line of stdout | [`stdio`]
//! |

#![forbid(unsafe_code)]

mod actionloop;
mod executor;
mod gated;
mod run_request;
mod server;
mod stdio;

#[cfg(feature = "fuzzing")]
pub use actionloop::fuzz_lines;
pub use executor::ProcessExecutor;
#[cfg(feature = "fuzzing")]
pub use stdio::fuzz_last_line;
