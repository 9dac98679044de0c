//! Who gets memory, and who gives it up.

mod common;

use std::sync::Arc;

use common::{Node, all_good, is_good, millis, node, pool, seconds};
use flint_invoker::{
    PoolConfig,
    testing::{Script, function},
};
use flint_model::{ByteSize, Function};
use flint_scheduler::{Outcome, QueueConfig, Refusal};

fn functions(count: usize) -> Vec<Arc<Function>> {
    (0..count).map(|n| Arc::new(function(&format!("guest/f{n}")))).collect()
}

fn with_memory(mib: u64) -> Node {
    node(PoolConfig { memory: Some(ByteSize::mib(mib)), ..pool() }, QueueConfig::default())
}

#[tokio::test(start_paused = true)]
async fn a_hundred_functions_stay_warm() {
    // 60 % of 8 GB, with the runtimes that are kept by default.
    let pool = PoolConfig { memory: Some(ByteSize::mib(4915)), ..PoolConfig::default() };
    let node = node(pool, QueueConfig::default());
    let functions = functions(100);
    for round in 0..5 {
        for f in &functions {
            assert_eq!(node.call(f).await.init.is_some(), round == 0);
        }
    }
    let stats = node.invoker.stats();
    assert_eq!((stats.totals.evicted, node.sim.seen().starts.len()), (0, 100));
    tokio::time::sleep(seconds(3.0)).await;
    assert_eq!(node.invoker.stats().memory_charged, ByteSize::mib(4500));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn eviction_takes_the_one_not_called_for_the_longest_time() {
    let node = with_memory(64 * 3);
    let small = |n| {
        let mut f = function(&format!("guest/f{n}"));
        f.limits.memory = ByteSize::mib(64);
        Arc::new(f)
    };
    let functions: Vec<_> = (0..4).map(small).collect();
    for f in &functions[..3] {
        node.call(f).await;
        tokio::time::sleep(millis(10)).await;
    }
    // 45 MB each once measured: a fourth, for which 64 MB are reserved, fits only when one goes.
    node.call(&functions[0]).await;
    assert!(is_good(&node.call(&functions[3]).await));
    tokio::time::sleep(millis(10)).await;
    let seen = node.sim.seen();
    let live: Vec<_> = (0..4).map(|n| seen.live[&format!("guest/f{n}")]).collect();
    assert_eq!(live, [1, 0, 1, 1]);
    assert_eq!(node.invoker.stats().totals.evicted, 1);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_function_larger_than_the_pool_is_refused() {
    let node = with_memory(200);
    let f = Arc::new(function("guest/f"));
    let ran = node.call(&f).await;
    let Outcome::Refused(refusal) = ran.outcome else { panic!("{ran:?}") };
    assert_eq!(
        refusal,
        Refusal::TooLarge {
            function: f.path.clone(),
            needed: ByteSize::mib(256),
            budget: ByteSize::mib(200)
        }
    );
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_never_charged_more_than_its_limit_before_it_is_measured() {
    let node = with_memory(1024);
    let mut f = function("guest/f");
    f.limits.memory = ByteSize::mib(32);
    node.spawn(&Arc::new(f));
    tokio::time::sleep(millis(10)).await;
    assert_eq!(node.invoker.stats().memory_charged, ByteSize::mib(32));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn idle_instances_that_grow_beyond_the_budget_go() {
    let node = with_memory(1000);
    let functions = functions(10);
    for f in &functions {
        // Twice what was reserved, seen only after the start.
        node.sim.script(&f.path.to_string(), Script { memory: ByteSize::mib(128), ..Script::default() });
    }
    let starts: Vec<_> = functions.iter().map(|f| node.spawn(f)).collect();
    all_good(starts).await;
    tokio::time::sleep(seconds(3.0)).await;
    let stats = node.invoker.stats();
    assert!(stats.memory_charged <= ByteSize::mib(1000), "{stats:?}");
    assert!(stats.instances.paused + stats.instances.idle >= 6, "{stats:?}");
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_memory_wait_for_it() {
    let node = with_memory(256);
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    all_good(node.burst(&f, 20)).await;
    let most = node.sim.seen().most_live["guest/f"];
    assert!((4..=5).contains(&most), "{most} instances of 45 MB in 256 MB, of which one may be 64 MB");
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn prewarmed_runtimes_are_kept_replaced_and_given_up_when_memory_is_short() {
    let pool = PoolConfig { memory: Some(ByteSize::mib(256)), ..PoolConfig::default() };
    let node = node(pool, QueueConfig::default());
    tokio::time::sleep(millis(1)).await;
    let kinds = |node: &Node| -> Vec<String> {
        node.sim
            .seen()
            .prewarm
            .last()
            .map_or(Vec::new(), |kept| kept.iter().map(|t| t.kind.to_string()).collect())
    };
    assert_eq!(kinds(&node), ["nodejs:20", "python:3"]);
    assert_eq!(node.invoker.stats().memory_prewarmed, ByteSize::mib(80));
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { service: seconds(5.0), ..Script::default() });
    let calls = node.burst(&f, 4);
    tokio::time::sleep(seconds(1.0)).await;
    // 176 MB are left, three instances fit; for the fourth the prewarmed ones go.
    assert_eq!(kinds(&node), [""; 0]);
    assert_eq!(node.sim.seen().most_live["guest/f"], 4);
    all_good(calls).await;
    tokio::time::sleep(seconds(700.0)).await;
    assert_eq!(kinds(&node), ["nodejs:20", "python:3"]);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn snapshots_count_and_are_given_up_when_memory_is_short() {
    let node = with_memory(256);
    node.sim.keep_snapshots(ByteSize::mib(160));
    tokio::time::sleep(seconds(20.0)).await;
    assert_eq!(node.invoker.stats().memory_prewarmed, ByteSize::mib(160));
    assert!(node.sim.seen().prewarm.is_empty(), "an executor without runtimes is only asked to make room");
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    // 96 MB are left for instances of 64 MB.
    all_good(node.burst(&f, 3)).await;
    assert_eq!(node.sim.seen().most_live["guest/f"], 3);
    let stats = node.invoker.stats();
    let used = stats.memory_charged.as_u64() + stats.memory_prewarmed.as_u64();
    assert!(used <= ByteSize::mib(256).as_u64(), "{stats:?}");
    // As much as three instances of 64 MB do not take, or of what they are found to use, beside the headroom.
    let left = stats.memory_prewarmed;
    assert!((ByteSize::mib(64 - 13)..=ByteSize::mib(160 - 32 - 12)).contains(&left), "{left}");
    node.sim.keep_snapshots(ByteSize::mib(64));
    tokio::time::sleep(seconds(700.0)).await;
    assert_eq!(node.invoker.stats().memory_prewarmed, ByteSize::mib(64), "there is room again");
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn snapshots_that_deploys_have_made_fit_into_the_memory_too() {
    let node = with_memory(256);
    node.sim.keep_snapshots(ByteSize::mib(400));
    tokio::time::sleep(seconds(20.0)).await;
    assert_eq!(node.invoker.stats().memory_prewarmed, ByteSize::mib(256));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn it_is_known_whether_half_of_the_memory_is_left_to_calls() {
    let node = with_memory(256);
    for (snapshots, is_left) in [(128, true), (129, false), (64, true)] {
        node.sim.keep_snapshots(ByteSize::mib(snapshots));
        tokio::time::sleep(seconds(20.0)).await;
        assert_eq!(node.invoker.has_half_its_memory(), is_left, "{snapshots} MB of 256");
    }
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_ahead_of_calls_while_memory_is_short() {
    let node = with_memory(256);
    let f = Arc::new(function("guest/f"));
    let prepared = node.invoker.prepared(&f).await.unwrap();
    node.invoker.anticipate(&prepared).await;
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    let calls = node.burst(&f, 20);
    tokio::time::sleep(millis(500)).await;
    node.invoker.anticipate(&prepared).await;
    all_good(calls).await;
    assert_eq!(node.sim.seen().anticipated, ["guest/f"]);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_made_for_a_call_counts_at_once() {
    let node = Node::new();
    tokio::time::sleep(seconds(15.0)).await;
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { restore: Some(millis(3)), ..Script::default() });
    node.sim.keep_snapshots(ByteSize::mib(160));
    node.call(&f).await;
    tokio::time::sleep(millis(1)).await;
    assert_eq!(node.invoker.stats().memory_prewarmed, ByteSize::mib(160));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_get_the_memory_of_snapshots_at_once_and_not_much_more_than_they_need() {
    let node = with_memory(260);
    node.sim.keep_snapshots(ByteSize::mib(240));
    tokio::time::sleep(seconds(20.0)).await;
    assert_eq!(node.invoker.stats().memory_prewarmed, ByteSize::mib(240));
    let began = tokio::time::Instant::now();
    assert!(is_good(&node.call(&Arc::new(function("guest/f"))).await));
    assert!(began.elapsed() < seconds(1.0), "{:?}", began.elapsed());
    // 20 MB were free, and an instance is charged 64. A twentieth is for the next one.
    assert_eq!(node.invoker.stats().memory_prewarmed, ByteSize::mib(240 - 44 - 13));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn prewarmed_runtimes_are_wanted_whatever_is_taken_of_them_and_memory_is_measured_then() {
    let node = node(PoolConfig { prewarm: 2, ..PoolConfig::default() }, QueueConfig::default());
    tokio::time::sleep(seconds(15.0)).await;
    let kept = |node: &Node| -> Vec<usize> {
        node.sim.seen().prewarm.last().map_or(Vec::new(), |kept| kept.iter().map(|t| t.count).collect())
    };
    let before = node.sim.seen().prewarm.len();
    for f in &functions(3) {
        node.sim.script(&f.path.to_string(), Script { prewarmed: true, ..Script::default() });
        node.call(f).await;
        tokio::time::sleep(millis(1)).await;
        assert_eq!(kept(&node), [2, 2]);
    }
    assert_eq!(node.invoker.stats().totals.prewarmed, 3);
    assert_eq!(node.sim.seen().prewarm.len(), before + 3, "looked at as soon as one is taken");
    node.ends_clean().await;
}
