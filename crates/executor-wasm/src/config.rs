//! What an operator can set.

use std::time::Duration;

use flint_model::ByteSize;
use serde::{Deserialize, Serialize};

/// How Wasm functions are compiled and run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmConfig {
    /// Instances at once; absent: what [`Self::memory`] and the host's limit of mappings allow.
    pub instances: Option<u32>,
    /// What the instances may use together, where the operator says it: bounds how many the pool is made for.
    pub memory: Option<ByteSize>,
    /// How much of a memory stays in RAM between two instances of the same module. What exceeds it is given back to the
    /// kernel at the end of each call, which costs more than clearing it.
    pub keep_resident: ByteSize,
    /// The same for a table of functions.
    pub table_keep_resident: ByteSize,
    /// The most elements of a table of functions.
    pub table_elements: u32,
    /// The deepest stack of a function.
    pub stack: ByteSize,
    /// Units of work a call may do, roughly one for each Wasm instruction; 0 does not count, which is quicker.
    pub fuel: u64,
    /// The largest module or component.
    pub max_module: ByteSize,
    /// How long compiling one may take; and how long its initialiser may.
    pub compile_timeout: Duration,
    /// The most memory that compiling one may take, or running its initialiser.
    pub compile_memory: ByteSize,
    /// Whether components for `wasi:http` 0.3 are run. wasmtime says of its implementation that it is experimental, and gives it no security patches.
    pub http_0_3: bool,
    /// Threads for calls that compute for longer than a tick.
    pub threads: usize,
}

impl Default for WasmConfig {
    fn default() -> Self {
        Self {
            instances: None,
            memory: None,
            keep_resident: ByteSize::mib(2),
            table_keep_resident: ByteSize::kib(64),
            table_elements: 20_000,
            stack: ByteSize::mib(1),
            fuel: 0,
            max_module: ByteSize::mib(64),
            compile_timeout: Duration::from_secs(60),
            compile_memory: ByteSize::mib(2048),
            http_0_3: false,
            threads: std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
        }
    }
}
