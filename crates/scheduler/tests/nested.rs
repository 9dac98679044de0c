//! Calls that wait for other calls, with their instances, do not keep these from running.

mod common;

use std::sync::Arc;

use common::{Node, all_good, is_good, node, pool, seconds};
use flint_invoker::{
    NESTED_LEVELS, PoolConfig,
    testing::{Script, function, job},
};
use flint_model::{ByteSize, Function};
use flint_scheduler::{Job, QueueConfig, Ran};
use tokio::task::JoinHandle;

/// Each instance is charged 64 MB; six of them fit, and one more at each level.
fn small_node() -> Node {
    let memory = Some(ByteSize::mib(6 * 64));
    let nested_memory = Some(ByteSize::mib(u64::from(NESTED_LEVELS) * 64));
    node(PoolConfig { memory, nested_memory, ..pool() }, QueueConfig::default())
}

fn slow(node: &Node, path: &str) -> Arc<Function> {
    node.sim.script(path, Script { service: seconds(50.0), memory: ByteSize::mib(64), ..Script::default() });
    Arc::new(function(path))
}

fn quick(node: &Node, path: &str) -> Arc<Function> {
    node.sim.script(path, Script { memory: ByteSize::mib(64), ..Script::default() });
    Arc::new(function(path))
}

/// So many calls, each of which `nested` others wait for.
fn burst(node: &Node, function: &Arc<Function>, nested: u32, calls: usize) -> Vec<JoinHandle<Ran>> {
    (0..calls)
        .map(|_| {
            let (scheduler, job) = (Arc::clone(&node.scheduler), Job { nested, ..job(function) });
            tokio::spawn(async move { scheduler.run(job).await })
        })
        .collect()
}

fn running(node: &Node, path: &str) -> usize {
    node.sim.seen().live.get(path).copied().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_runs_however_much_memory_those_who_wait_have() {
    let node = small_node();
    let mut waiting = Vec::new();
    for level in 0..NESTED_LEVELS {
        // More of them than fit.
        waiting.extend(burst(&node, &slow(&node, &format!("guest/waits{level}")), level, 9));
        tokio::time::sleep(seconds(1.0)).await;
        assert!(running(&node, &format!("guest/waits{level}")) > 0, "level {level}");
    }
    let called = quick(&node, "guest/called");
    all_good(burst(&node, &called, NESTED_LEVELS, 20)).await;
    // And one that still more calls wait for.
    all_good(burst(&node, &called, NESTED_LEVELS + 3, 20)).await;
    assert!(waiting.iter().all(|call| !call.is_finished()), "they had all the memory there is for them");
    waiting.iter().for_each(JoinHandle::abort);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_else_gets_that_memory() {
    let node = small_node();
    let waiting = burst(&node, &slow(&node, "guest/waits"), 0, 6);
    let called = quick(&node, "guest/called");
    tokio::time::sleep(seconds(1.0)).await;
    // Who came first, and whom nobody waits for, comes after those.
    let others = burst(&node, &called, 0, 5);
    tokio::time::sleep(seconds(1.0)).await;
    all_good(burst(&node, &called, 1, 20)).await;
    assert!(others.iter().all(|call| !call.is_finished()));
    // Nor does another namespace.
    let stranger = node.spawn(&quick(&node, "other/f"));
    all_good(burst(&node, &called, 1, 20)).await;
    assert!(!stranger.is_finished());
    all_good(waiting).await;
    all_good(others).await;
    assert!(is_good(&stranger.await.unwrap()));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_within_its_budget_again_serves_everybody_with_what_it_has() {
    let node = small_node();
    let mut waiting = burst(&node, &slow(&node, "guest/waits"), 0, 6);
    let called = quick(&node, "guest/called");
    tokio::time::sleep(seconds(1.0)).await;
    all_good(burst(&node, &called, 1, 1)).await;
    // One goes away, and its instance with it.
    waiting.pop().unwrap().abort();
    all_good(burst(&node, &called, 1, 1)).await;
    tokio::time::sleep(seconds(1.0)).await;
    assert!(is_good(&node.call(&called).await));
    assert!(node.sim.seen().starts.len() <= 8);
    waiting.iter().for_each(JoinHandle::abort);
    node.ends_clean().await;
}
