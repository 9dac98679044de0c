//! A segment of the activation log after a crash or a bad disk.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| flint_store_sqlite::fuzz_segment(bytes));
