//! Java functions as they are deployed: jars, of which the manifest and the names of classes are read, and sources.
#![no_main]

use flint_runtimes::fuzz_java;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_java(bytes));
