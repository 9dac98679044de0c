//! Measures the memory of live instances that wait.

use std::fs;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use flint_executor::{CallHead, Executor, Invoked};
use flint_lab::ProcessTree;
use flint_model::Contract;
use http::{HeaderMap, Method};

use super::engine;

/// Places that are lost to rounding, at most two for each engine.
const ENGINES: usize = 32;

/// Memory of this process per instance, in bytes.
pub(super) struct Live {
    pub(super) instances: usize,
    /// Resident.
    pub(super) resident: f64,
    /// Page tables, which are memory but not resident memory.
    pub(super) tables: f64,
}

/// Brings up this many instances of a component that answers and then waits for ever.
pub(super) async fn held(folder: &std::path::Path, code: Vec<u8>, instances: usize) -> anyhow::Result<Live> {
    // One namespace has three quarters of the places, on each engine.
    let places = (instances + instances / 3 + ENGINES) as u32;
    let executor = engine::open(folder, places)?;
    if executor.pool_size().instances < places - ENGINES as u32 {
        bail!("the host allows {} instances: {}", executor.pool_size().instances, executor.pool_size().bound);
    }
    let prepared = engine::prepare(&executor, "live", Contract::WasiHttp, code).await?;
    let mut held = Vec::with_capacity(instances);
    // The first ones include what all of them share.
    let mut before = (0.0, 0.0);
    for n in 0..instances {
        if n == instances / 10 {
            before = memory()?;
        }
        let instance = executor.start(&prepared, engine::context()).await?.instance;
        let mut call = engine::call(&Bytes::new());
        let (path, query) = ("/pause".to_owned(), String::new());
        call.head = Some(Box::new(CallHead { method: Method::GET, path, query, headers: HeaderMap::new() }));
        match instance.invoke(call).await {
            Invoked::Streaming { body, end, .. } => held.push((instance, body, end)),
            Invoked::Done { result, .. } => bail!("a wrong answer: an instance did not wait: {result:?}"),
        }
    }
    let (after, counted) = (memory()?, instances - instances / 10);
    for (instance, body, _end) in held {
        drop(body);
        instance.stop().await;
    }
    let each = |after: f64, before: f64| (after - before) / counted as f64;
    Ok(Live { instances, resident: each(after.0, before.0), tables: each(after.1, before.1) })
}

/// Resident memory and page tables of this process.
fn memory() -> anyhow::Result<(f64, f64)> {
    let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let tables = status.lines().find_map(|line| line.strip_prefix("VmPTE:"));
    let kib: f64 = tables.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0.0);
    Ok((ProcessTree::new(std::process::id()).root_memory().rss as f64, kib * 1024.0))
}
