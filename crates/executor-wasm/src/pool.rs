//! The size of the instance pool, and how memory is cleared between instances.
//!
//! The pool's memory is only address space until it is used, but each slot takes mappings, which the kernel
//! limits per process (`vm.max_map_count`): two for a slot's stack from the start, and four more while an
//! instance lives in it (its memory's image, the pages written, its table, its guard).

use std::fs;

use flint_model::ByteSize;
use wasmtime::{Enabled, PoolingAllocationConfig};

use crate::{WasmConfig, limits};

/// Mappings of a live instance, including its slot.
const MAPPINGS: u64 = 6;
/// How many percent of the free mappings the pool takes; the rest is for everything else in the process.
const PERCENT: u64 = 80;
/// The least memory that a live instance is assumed to need.
const LEAST_MEMORY: u64 = 64 << 10;
/// More slots would be address space that no present host can fill.
const MOST: u64 = 20_000;
/// Tables per place, since a component's adapters have tables of their own.
pub(crate) const TABLES: u32 = 2;
/// Most places that one instance takes, so that few do not take all.
pub(crate) const MOST_PLACES: u32 = 16;
/// The kernel's default.
const DEFAULT_MAP_COUNT: u64 = 65_530;

/// The pool's size and what limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Most instances at once.
    pub instances: u32,
    /// The limit that applies.
    pub by: PoolBound,
    /// What prevents a larger pool, and what to do about it, for people.
    pub bound: String,
}

/// What limits the pool's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolBound {
    /// `wasm.instances`.
    Configuration,
    /// The memory for all instances together, `pool.memory`.
    Memory,
    /// The largest size that is useful.
    Most,
    /// The kernel's limit on mappings, `vm.max_map_count`.
    Mappings,
    /// The address space of this process did not permit a larger pool.
    AddressSpace,
}

impl PoolBound {
    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Memory => "memory",
            Self::Most => "most",
            Self::Mappings => "mappings",
            Self::AddressSpace => "address_space",
        }
    }

    /// Whether the host prevents the size asked for.
    pub const fn is_the_hosts(self) -> bool {
        matches!(self, Self::Mappings | Self::AddressSpace)
    }
}

impl PoolSize {
    /// The size that this host and configuration allow.
    pub fn of(config: &WasmConfig) -> Self {
        let limit = read_number("/proc/sys/vm/max_map_count").unwrap_or(DEFAULT_MAP_COUNT);
        Self::with_limit(config, limit)
    }

    fn with_limit(config: &WasmConfig, map_count: u64) -> Self {
        let mappings = map_count * PERCENT / 100 / MAPPINGS;
        let memory = config.memory.map(|memory| (memory, memory.as_u64() / LEAST_MEMORY));
        let (wanted, by, bound) = match (config.instances, memory) {
            (Some(instances), _) => {
                (u64::from(instances), PoolBound::Configuration, "wasm.instances".to_owned())
            }
            (None, Some((memory, wanted))) if wanted < MOST => {
                (wanted, PoolBound::Memory, format!("the memory of all instances, {memory}"))
            }
            (None, _) => (MOST, PoolBound::Most, "what address space is good for".to_owned()),
        };
        let wanted = wanted.max(1);
        if wanted <= mappings {
            return Self { instances: wanted as u32, by, bound };
        }
        let bound = format!(
            "vm.max_map_count is {map_count}, and a live instance takes {MAPPINGS} mappings; for {wanted} instances: sysctl -w vm.max_map_count={}",
            wanted * MAPPINGS * 100 / PERCENT + 100
        );
        Self { instances: mappings.max(1) as u32, by: PoolBound::Mappings, bound }
    }
}

/// Whether the kernel reports which pages were written to (`PAGEMAP_SCAN`, Linux 6.7). Clearing only those is
/// several times faster than returning a whole memory to the kernel.
pub fn scans_pages() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available()
}

/// How many places an instance with so many memories and tables takes.
pub(crate) fn places(memories: u32, tables: u32) -> u32 {
    memories.max(tables.div_ceil(TABLES)).max(1)
}

/// The pool's configuration.
pub(crate) fn allocation(config: &WasmConfig, instances: u32) -> PoolingAllocationConfig {
    let bytes = |size: ByteSize| usize::try_from(size.as_u64()).unwrap_or(usize::MAX);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_memories(instances)
        .total_stacks(instances)
        .total_tables(instances.saturating_mul(TABLES))
        // These are only counted; each call has limits of its own.
        .total_core_instances(instances.saturating_mul(limits::INSTANCES as u32))
        .total_component_instances(instances)
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
    fn an_instance_takes_places_for_what_it_has_most_of() {
        let taken =
            [(0, 0), (1, 2), (1, 3), (3, 2), (64, 1)].map(|(memories, tables)| places(memories, tables));
        assert_eq!(taken, [1, 1, 2, 3, 64]);
    }

    #[test]
    fn mappings_bound_the_pool_and_are_named() {
        let plenty = WasmConfig { memory: Some(ByteSize::mib(64 << 10)), ..WasmConfig::default() };
        let size = PoolSize::with_limit(&plenty, 65_530);
        assert!(size.by == PoolBound::Mappings && size.instances == 8737, "{size:?}");
        assert!(size.bound.contains("sysctl -w vm.max_map_count="), "{}", size.bound);
        let little = WasmConfig { memory: Some(ByteSize::mib(64)), ..WasmConfig::default() };
        let size = PoolSize::with_limit(&little, 65_530);
        assert_eq!((size.instances, size.by), (1024, PoolBound::Memory));
        let everything = PoolSize::with_limit(&plenty, 1 << 20);
        assert_eq!((everything.instances, everything.by), (20_000, PoolBound::Most));
        let said = WasmConfig { instances: Some(10), ..WasmConfig::default() };
        let size = PoolSize::with_limit(&said, 65_530);
        assert_eq!((size.instances, size.bound.as_str()), (10, "wasm.instances"));
    }
}
