//! How many instances there may be at once, and how the memory they leave is cleared.
//!
//! The pool's memory is address space until it is used, but each slot takes mappings, of which the kernel allows a process
//! `vm.max_map_count`: two for a slot's stack from the beginning, four more while an instance lives in it (its memory's
//! image, what was written of it, its table, its guard).

use std::fs;

use flint_model::ByteSize;
use wasmtime::{Enabled, PoolingAllocationConfig};

use crate::WasmConfig;

/// Mappings of one live instance, its slot included.
const MAPPINGS: u64 = 6;
/// Of the mappings that are free this part is taken, in percent: the rest is for everything else in the process.
const PERCENT: u64 = 80;
/// The least memory that a live instance is taken to need.
const LEAST_MEMORY: u64 = 64 << 10;
/// Slots beyond this are address space that no host of today fills.
const MOST: u64 = 20_000;
/// The kernel's default.
const DEFAULT_MAP_COUNT: u64 = 65_530;

/// The pool's size and what decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Instances at once.
    pub instances: u32,
    /// What is in the way of more, and what to do about it, for people.
    pub bound: String,
    /// Whether the kernel's limit of mappings, not memory, decided.
    pub by_mappings: bool,
}

impl PoolSize {
    /// What this host and configuration allow.
    pub fn of(config: &WasmConfig) -> Self {
        let limit = read_number("/proc/sys/vm/max_map_count").unwrap_or(DEFAULT_MAP_COUNT);
        Self::with_limit(config, limit)
    }

    fn with_limit(config: &WasmConfig, map_count: u64) -> Self {
        let mappings = map_count * PERCENT / 100 / MAPPINGS;
        let (wanted, by_config) = match config.instances {
            Some(instances) => (u64::from(instances.max(1)), true),
            None => {
                let memory = config.memory.map_or(MOST, |memory| memory.as_u64() / LEAST_MEMORY);
                (memory.clamp(1, MOST), false)
            }
        };
        let by_mappings = mappings < wanted;
        let instances = wanted.min(mappings).max(1) as u32;
        let bound = match (by_mappings, by_config) {
            (true, _) => format!(
                "vm.max_map_count is {map_count}, and a live instance takes {MAPPINGS} mappings; for {wanted} instances: sysctl -w vm.max_map_count={}",
                wanted * MAPPINGS * 100 / PERCENT + 100
            ),
            (false, true) => "wasm.instances".to_owned(),
            (false, false) => match config.memory {
                Some(memory) => format!("the memory of all instances, {memory}"),
                None => "what address space is good for".to_owned(),
            },
        };
        Self { instances, bound, by_mappings }
    }
}

/// Whether the kernel tells which pages were written to (`PAGEMAP_SCAN`, Linux 6.7): clearing only those is several times
/// quicker than giving all of a memory back.
pub fn scans_pages() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available()
}

/// The pool's configuration.
pub(crate) fn allocation(config: &WasmConfig, size: &PoolSize) -> PoolingAllocationConfig {
    let bytes = |size: ByteSize| usize::try_from(size.as_u64()).unwrap_or(usize::MAX);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_memories(size.instances)
        .total_stacks(size.instances)
        // A component's adapters have tables and instances of their own.
        .total_tables(size.instances.saturating_mul(2))
        .total_core_instances(size.instances.saturating_mul(16))
        .total_component_instances(size.instances)
        .max_tables_per_module(4)
        .table_elements(config.table_elements as usize)
        .linear_memory_keep_resident(bytes(config.keep_resident))
        .table_keep_resident(bytes(config.table_keep_resident))
        .pagemap_scan(Enabled::Auto);
    pool
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_bound_the_pool_and_are_named() {
        let plenty = WasmConfig { memory: Some(ByteSize::mib(64 << 10)), ..WasmConfig::default() };
        let size = PoolSize::with_limit(&plenty, 65_530);
        assert!(size.by_mappings && size.instances == 8737, "{size:?}");
        assert!(size.bound.contains("sysctl -w vm.max_map_count="), "{}", size.bound);
        let little = WasmConfig { memory: Some(ByteSize::mib(64)), ..WasmConfig::default() };
        assert_eq!(PoolSize::with_limit(&little, 65_530).instances, 1024);
        let said = WasmConfig { instances: Some(10), ..WasmConfig::default() };
        let size = PoolSize::with_limit(&said, 65_530);
        assert_eq!((size.instances, size.bound.as_str()), (10, "wasm.instances"));
    }
}
