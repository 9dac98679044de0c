//! The `flint` binary: the command line, the configuration, and the composition root of the server.
#![forbid(unsafe_code)]
// Output goes through `output`: these macros panic when nobody reads.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod admin;
mod allowance;
mod bench;
mod cli;
mod client;
mod commands;
mod config;
mod doctor;
mod failure;
mod manifest;
mod output;
mod package;
mod project;
mod scratch;
mod server;
mod toolchain;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The C library's allocator took a seventh of a small call's time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    flint_sandbox::launcher_entry();
    flint_executor_wasm::workshop_entry();
    bench::tied::entry();
    bench::janitor::entry();
    cli::run()
}
