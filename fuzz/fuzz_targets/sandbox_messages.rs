//! What comes out of a sandbox beside the function's own: reports of its pid 1, and the ends of programs; and what goes to its spawner.
#![no_main]

use flint_sandbox::fuzz_messages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_messages(bytes));
