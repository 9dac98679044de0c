//! Functions as sandboxed Linux processes: isolation `process`, start `spawn`, reuse `never` and `warm`.
//!
//! | contract | how a call reaches the code | module |
//! |---|---|---|
//! | `handler` | frames over a socket to Flint's shim in the function's language | [`handler`] |
//! | `stdio` | a process a call: body on stdin, answer on stdout | [`stdio`] |
//! | `http` | HTTP to the server on `$PORT` | [`server`] |
//! | `openwhisk` | HTTP `/init` and `/run` on port 8080 | [`server`] |
//!
//! [`ProcessExecutor::new`] finds the host's runtimes and lays out the shims that the binary carries. What calls use is measured by
//! the rules in [`process::meter`].

#![forbid(unsafe_code)]

mod config;
mod executor;
mod handler;
mod house;
mod java;
mod json;
mod outcome;
mod prepare;
mod process;
mod python;
mod runtimes;
mod server;
mod shims;
mod stdio;
mod stems;

pub use config::{ProcessConfig, ProcessError, UnpackLimits};
pub use executor::ProcessExecutor;
#[cfg(feature = "fuzzing")]
pub use prepare::fuzz_unpack;
