//! Prewarmed runtimes over time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;

use flint_executor::{Executor, PrewarmTarget};
use flint_model::ByteSize;
use rustix::process::{Pid, Signal, kill_process};
use support::{House, descendants, eventually};

/// The runtime that waits for a function, when there is exactly one.
fn stem() -> Option<u32> {
    let is_shim = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("shim.py"))
    };
    let found: Vec<u32> = descendants(std::process::id()).into_iter().filter(is_shim).collect();
    <[u32; 1]>::try_from(found).ok().map(|[pid]| pid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_has_ended_is_replaced() {
    let house = House::new().await;
    let target =
        PrewarmTarget { kind: "python:default".parse().unwrap(), memory: ByteSize::mib(256), count: 1 };
    house.executor.prewarm(&[target]).await;
    let first = eventually("a runtime", stem).await;
    kill_process(Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
    eventually("another one", || stem().filter(|pid| *pid != first)).await;
    house.executor.prewarm(&[]).await;
    house.end().await;
}
