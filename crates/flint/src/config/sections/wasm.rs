//! Configuration of WebAssembly functions.

use std::time::Duration;

use flint_executor_wasm::{WasmConfig, host::Services};
use flint_invoker::{default_budget, units};
use flint_model::ByteSize;
use flint_store::KeyValueQuota;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

/// Less would hold too few frames; more costs address space in the pool for every instance.
const LEAST_STACK: ByteSize = ByteSize::kib(64);
const MOST_STACK: ByteSize = ByteSize::mib(64);
/// Threads share the processors, and a host refuses tens of thousands.
const MOST_THREADS: usize = 1024;

/// Functions as WebAssembly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WasmSection {
    /// Absent: derived from the pool's memory and the host's limit of mappings.
    pub(crate) instances: Option<u32>,
    #[serde(with = "units::size")]
    pub(crate) keep_resident: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) table_keep_resident: ByteSize,
    pub(crate) table_elements: u32,
    #[serde(serialize_with = "units::size::serialize", deserialize_with = "stack")]
    pub(crate) stack: ByteSize,
    /// Zero: not counted.
    pub(crate) fuel: u64,
    #[serde(with = "units::size")]
    pub(crate) max_module: ByteSize,
    #[serde(with = "units::duration")]
    pub(crate) compile_timeout: Duration,
    #[serde(with = "units::size")]
    pub(crate) compile_memory: ByteSize,
    pub(crate) http_0_3: bool,
    #[serde(deserialize_with = "threads")]
    pub(crate) threads: usize,
    pub(crate) keyvalue_keys: u64,
    #[serde(with = "units::size")]
    pub(crate) keyvalue_size: ByteSize,
}

impl Default for WasmSection {
    fn default() -> Self {
        let WasmConfig {
            instances,
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
            ..
        } = WasmConfig::default();
        Self {
            instances,
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
            keyvalue_keys: Services::QUOTA.keys,
            keyvalue_size: Services::QUOTA.bytes,
        }
    }
}

impl WasmSection {
    /// The quota of a namespace's buckets.
    pub(crate) fn quota(&self) -> KeyValueQuota {
        KeyValueQuota { keys: self.keyvalue_keys, bytes: self.keyvalue_size }
    }

    /// With this `pool.memory` for all instances together, or what it is if unset.
    pub(crate) fn config(&self, memory: Option<ByteSize>) -> WasmConfig {
        let Self {
            instances,
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
            ..
        } = *self;
        WasmConfig {
            instances,
            memory: Some(memory.unwrap_or_else(default_budget)),
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
        }
    }
}

fn stack<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = units::size::deserialize(deserializer)?;
    match (LEAST_STACK..=MOST_STACK).contains(&size) {
        true => Ok(size),
        false => {
            Err(D::Error::custom(format!("a stack has between {LEAST_STACK} and {MOST_STACK}, not {size}")))
        }
    }
}

fn threads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let threads = usize::deserialize(deserializer)?;
    match threads <= MOST_THREADS {
        true => Ok(threads),
        false => Err(D::Error::custom(format!(
            "{threads} threads are more than the {MOST_THREADS} allowed; a few for each core are enough"
        ))),
    }
}
