//! The operator's configuration.

use std::time::Duration;

use flint_model::ByteSize;
use serde::{Deserialize, Serialize};

/// How Wasm functions are compiled and run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmConfig {
    /// Most instances at once; `None` means what [`Self::memory`] and the kernel's limit on mappings allow.
    pub instances: Option<u32>,
    /// Memory for all instances together, if it is limited: bounds the size of the pool too. One namespace's
    /// have three quarters of it at most.
    pub memory: Option<ByteSize>,
    /// How much of a linear memory stays resident between two instances of the same module. What exceeds it
    /// is returned to the kernel after each call, which costs more than clearing it.
    pub keep_resident: ByteSize,
    /// The same for a table.
    pub table_keep_resident: ByteSize,
    /// Most elements of a table.
    pub table_elements: u32,
    /// Largest stack of a function.
    pub stack: ByteSize,
    /// Fuel for a call, roughly one unit per Wasm instruction; 0 turns counting off, which is faster.
    pub fuel: u64,
    /// The largest module or component.
    pub max_module: ByteSize,
    /// Time limit of compiling a module, and of its initialiser.
    pub compile_timeout: Duration,
    /// Memory limit of compiling a module, or of running its initialiser.
    pub compile_memory: ByteSize,
    /// Whether components for `wasi:http` 0.3 are run. wasmtime calls its implementation experimental and
    /// gives it no security patches.
    pub http_0_3: bool,
    /// Number of threads for calls that compute for longer than a tick.
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
