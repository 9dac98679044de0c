//! What a program of contract `actionloop` writes to descriptor 3, in pieces of any length: a report, then answers, each a line.
#![no_main]

use flint_executor_process::fuzz_lines;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| fuzz_lines(input.0, input.1));
