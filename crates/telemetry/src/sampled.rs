//! What is read from the rest of the server when its metrics are asked for, as a registry.

use prometheus_client::{
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::{Registry, Unit},
};

use crate::{
    Samples,
    labels::{BoundLabels, MemoryLabels, ShedLabels, SlotLabels, SnapshotStartLabels, StateLabels},
    logs, process,
    samples::WasmPoolSamples,
};

/// A registry of these values. It is made anew for each scrape: none of them is kept here.
pub(crate) fn sampled(samples: &Samples) -> Registry {
    let mut registry = Registry::with_prefix("flint");
    registry.register(
        "async_queue_depth",
        "Asynchronous calls waiting or running",
        gauge(samples.queue_depth),
    );
    registry.register(
        "async_retries_waiting",
        "Asynchronous calls that wait for a further attempt, or were put off",
        gauge(samples.retries_waiting),
    );
    registry.register(
        "async_calls_damaged",
        "Asynchronous calls that cannot be read and were put aside",
        gauge(samples.calls_damaged),
    );
    registry.register("dead_letters", "Dead letters", gauge(samples.dead_letters));
    registry.register_with_unit(
        "dead_letters_size",
        "What dead letters take",
        Unit::Bytes,
        gauge(samples.dead_letters_bytes),
    );
    registry.register("calls_in_flight", "Calls admitted and not over", gauge(samples.in_flight));
    registry.register("calls_waiting", "Calls waiting for an instance", gauge(samples.waiting));

    let instances = Family::<StateLabels, Gauge>::default();
    for (state, count) in &samples.instances {
        instances.get_or_create(&StateLabels { state: state.as_str() }).set(clamped(*count));
    }
    registry.register("instances", "Instances by state", instances);

    let memory = Family::<MemoryLabels, Gauge>::default();
    let uses = [
        ("instances", samples.memory_committed),
        ("prewarmed", samples.memory_prewarmed),
        ("budget", samples.memory_budget),
    ];
    for (of, bytes) in uses {
        memory.get_or_create(&MemoryLabels { of }).set(clamped(bytes));
    }
    registry.register_with_unit("memory", "Memory of functions", Unit::Bytes, memory);

    let snapshots = &samples.snapshots;
    registry.register("zygotes", "Snapshots that can be forked", gauge(snapshots.zygotes));
    registry.register(
        "standby_clones",
        "Clones forked ahead that wait for a call",
        gauge(snapshots.standbys),
    );
    let starts = Family::<SnapshotStartLabels, Counter>::default();
    let ways =
        [("standby", snapshots.from_standby), ("forked", snapshots.forked), ("fresh", snapshots.fresh)];
    for (by, count) in ways {
        starts.get_or_create(&SnapshotStartLabels { by }).inc_by(count);
    }
    registry.register("snapshot_starts", "Starts of functions that start by fork", starts);
    let tampered = ConstCounter::new(snapshots.tampered);
    registry.register("zygotes_tampered", "Snapshots found to have been tampered with", tampered);
    registry.register("zygotes_rebuilt", "Snapshots made again", ConstCounter::new(snapshots.rebuilt));

    if let Some(pool) = &samples.wasm_pool {
        register_wasm_pool(&mut registry, pool);
    }

    let log = &samples.log;
    registry.register("activation_records", "Activation records accepted", ConstCounter::new(log.appended));
    registry.register(
        "activation_records_expired",
        "Records removed by retention",
        ConstCounter::new(log.expired),
    );
    registry.register(
        "activation_records_damaged_reads",
        "Damaged records left out of lists",
        ConstCounter::new(log.damaged_reads),
    );
    registry.register("activation_records_pending", "Records not yet written", gauge(log.pending));
    let shed = Family::<ShedLabels, Counter>::default();
    for (what, count) in [("logs", log.shed_logs), ("records", log.shed_records)] {
        shed.get_or_create(&ShedLabels { what }).inc_by(count);
    }
    registry.register("activation_records_shed", "Detail that the activation log could not keep", shed);

    registry.register(
        "log_lines_dropped",
        "Flint's own log lines that could not be written",
        ConstCounter::new(logs::dropped()),
    );

    if let Some(bytes) = process::resident_bytes() {
        registry.register_with_unit(
            "process_resident_memory",
            "Flint's own memory",
            Unit::Bytes,
            gauge(bytes),
        );
    }
    if let Some(count) = process::open_files() {
        registry.register("process_open_files", "Flint's own file descriptors", gauge(count));
    }
    registry
}

fn register_wasm_pool(registry: &mut Registry, pool: &WasmPoolSamples) {
    registry.register("wasm_instances", "Instances of Wasm functions that live", gauge(pool.live));
    let slots = Family::<SlotLabels, Gauge>::default();
    let unused = pool.total.saturating_sub(pool.in_use + pool.warm);
    for (state, count) in [("in_use", pool.in_use), ("warm", pool.warm), ("unused", unused)] {
        slots.get_or_create(&SlotLabels { state }).set(clamped(count));
    }
    registry.register("wasm_slots", "Slots of the pool of Wasm instances by state", slots);
    let limit = Family::<BoundLabels, Gauge>::default();
    let total = clamped(pool.total);
    limit.get_or_create(&BoundLabels { bound: pool.bound }).set(total);
    registry.register(
        "wasm_instances_limit",
        "Wasm instances that there may be, by what decided that",
        limit,
    );
    registry.register_with_unit(
        "wasm_slots_kept",
        "Memory that free slots keep for the next instance",
        Unit::Bytes,
        gauge(pool.kept_bytes),
    );
    registry.register(
        "wasm_pool_waits",
        "Calls that found all Wasm instances in use and waited",
        ConstCounter::new(pool.waited),
    );
    registry.register(
        "wasm_pool_refusals",
        "Calls whose time limit passed while all Wasm instances were in use",
        ConstCounter::new(pool.refused),
    );
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(clamped(value))
}

/// Gauges are signed.
fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
