//! Prewarmed runtimes over time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    fs,
    time::{Duration, Instant},
};

use flint_executor::{Executor, PrewarmTarget};
use flint_model::ByteSize;
use rustix::process::{Pid, Signal, kill_process};
use support::House;

/// Every process below `parent`.
fn descendants(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|line| line.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>())
        .collect();
    children.iter().flat_map(|&child| [vec![child], descendants(child)].concat()).collect()
}

/// The runtime that waits for a function, when there is exactly one.
fn stem() -> Option<u32> {
    let is_shim = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("shim.py"))
    };
    let found: Vec<u32> = descendants(std::process::id()).into_iter().filter(is_shim).collect();
    <[u32; 1]>::try_from(found).ok().map(|[pid]| pid)
}

async fn eventually<T>(what: &str, get: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(got) = get() {
            return got;
        }
        assert!(Instant::now() < until, "{what} did not come within a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
