//! The body of a deploy by Flint's own API, with the code in it.
#![no_main]

use flint_api_native::fuzz_deploy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_deploy(bytes));
