//! What a program of contract `skeleton` writes to its stdout, in pieces of any length: its last line is its answer.
#![no_main]

use flint_executor_process::fuzz_last_line;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| fuzz_last_line(input.0, input.1));
