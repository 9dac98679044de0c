//! The Wasm engines, each with a part of the instance pool.
//!
//! Concurrent calls on one engine contend for its counters and lists: two threads on one engine achieved less
//! than one. So there is one engine per CPU, and a call uses that of its thread.

use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, WasmBacktraceDetails, WasmFeatures};

use crate::{
    WasmConfig,
    pool::{self, PoolBound, PoolSize},
    wasi::Wasi,
};

/// Host functions run on the guest's stack: their share, beyond the guest's own.
const HOST_STACK: usize = 1 << 20;
/// How often a pool that cannot be made is tried with half the size.
const TRIES: u32 = 6;
/// Instances of WASI 0.3 at once. A task that waits keeps its stack, so each instance may have several.
const INSTANCES_0_3: u32 = 256;
const STACKS_0_3: u32 = 4;
/// Most frames of a trap's backtrace.
const FRAMES: usize = 30;
/// A smaller pool is not worth an engine of its own.
const LEAST_INSTANCES: u32 = 64;
/// More engines would cost address space and threads for little gain.
const MOST_ENGINES: usize = 16;

/// Makes the engines, with the largest pool that the host allows divided between them.
pub(crate) fn build(config: &WasmConfig) -> wasmtime::Result<Vec<(Engine, PoolSize)>> {
    let mut size = PoolSize::of(config);
    let mut tries = 0;
    loop {
        let engines = count(size.instances);
        let each = PoolSize { instances: size.instances / engines, ..size.clone() };
        let mut settings = settings(config, Wasi::V0_2);
        settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pool::allocation(
            config,
            each.instances,
        )));
        let built = (0..engines).map(|_| Ok((Engine::new(&settings)?, each.clone())));
        match built.collect::<wasmtime::Result<Vec<_>>>() {
            Ok(built) => return Ok(built),
            Err(error) if tries < TRIES && size.instances > 1 => {
                tracing::warn!(instances = size.instances, %error, "the pool of Wasm instances cannot be made; trying half of it");
                tries += 1;
                size.instances /= 2;
                size.by = PoolBound::AddressSpace;
                size.bound = format!(
                    "more cannot be reserved in this process's address space ({error}): see `ulimit -v` and vm.overcommit_memory"
                );
            }
            Err(error) => return Err(error),
        }
    }
}

/// The number of engines: one per CPU, but fewer for a small pool.
fn count(instances: u32) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    (processors.min(MOST_ENGINES) as u32).min(instances / LEAST_INSTANCES).max(1)
}

/// Makes the engine of WASI 0.3, with a small pool of its own, so that its functions can exhaust only each
/// other's resources.
pub(crate) fn build_0_3(config: &WasmConfig, size: &PoolSize) -> wasmtime::Result<(Engine, PoolSize)> {
    let size = PoolSize { instances: size.instances.min(INSTANCES_0_3), ..size.clone() };
    let mut allocation = pool::allocation(config, size.instances);
    allocation.total_stacks(size.instances * STACKS_0_3);
    let mut settings = settings(config, Wasi::V0_3);
    settings.allocation_strategy(InstanceAllocationStrategy::Pooling(allocation));
    Ok((Engine::new(&settings)?, size))
}

/// An engine for a process that compiles for others, or runs one instance and ends. Its machine code runs on
/// engines with a pool.
pub(crate) fn without_pool(config: &WasmConfig, wasi: Wasi) -> wasmtime::Result<Engine> {
    Engine::new(&settings(config, wasi))
}

/// The settings that must be the same where code is compiled and where it runs.
fn settings(config: &WasmConfig, wasi: Wasi) -> Config {
    let stack = usize::try_from(config.stack.as_u64()).unwrap_or(usize::MAX - HOST_STACK);
    let mut settings = Config::new();
    settings
        .epoch_interruption(true)
        .consume_fuel(config.fuel > 0)
        .cranelift_opt_level(OptLevel::Speed)
        .max_wasm_stack(stack)
        .async_stack_size(stack + HOST_STACK)
        .memory_init_cow(true)
        // Function names only, not source lines: they are in every module and cost nothing to find.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(FRAMES))
        // Shared memory would be outside the pool and its limits.
        .wasm_features(WasmFeatures::THREADS, false)
        // Support for async tasks is compiled into all code and costs every call.
        .concurrency_support(wasi == Wasi::V0_3);
    if wasi == Wasi::V0_3 {
        settings.wasm_component_model_async(true);
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_not_more_than_the_whole() {
        let of =
            |instances| build(&WasmConfig { instances: Some(instances), ..WasmConfig::default() }).unwrap();
        assert_eq!(of(1).len(), 1);
        let (whole, parts) = (2 * LEAST_INSTANCES + 1, of(2 * LEAST_INSTANCES + 1));
        let engines = parts.len() as u32;
        assert!((1..=2).contains(&engines), "{engines}");
        let places: u32 = parts.iter().map(|(_, part)| part.instances).sum();
        assert!(places <= whole && places + engines > whole, "{places} in {engines} parts");
    }
}
