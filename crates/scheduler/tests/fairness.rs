//! Nobody starves.

mod common;

use std::sync::Arc;

use common::{Node, all_good, is_good, millis, node, pool, seconds};
use flint_invoker::{
    PoolConfig,
    testing::{Script, function},
};
use flint_model::ByteSize;
use flint_scheduler::QueueConfig;
use tokio::time::Instant;

/// Memory for four instances.
fn small() -> Node {
    node(PoolConfig { memory: Some(ByteSize::mib(256)), ..pool() }, QueueConfig::default())
}

fn slow(service: f64) -> Script {
    Script { service: seconds(service), memory: ByteSize::mib(64), ..Script::default() }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_waits_for_memory_gets_its_share_of_it() {
    let node = Arc::new(small());
    let (a, b) = (Arc::new(function("a/f")), Arc::new(function("b/f")));
    node.sim.script("a/f", slow(0.2));
    node.sim.script("b/f", slow(0.2));
    let greedy = tokio::spawn({
        let (node, a) = (Arc::clone(&node), Arc::clone(&a));
        async move { node.closed_loop(&a, 50, seconds(20.0)).await }
    });
    tokio::time::sleep(seconds(2.0)).await;
    assert_eq!(node.sim.seen().live["a/f"], 4);
    let began = Instant::now();
    assert!(is_good(&node.call(&b).await));
    assert!(began.elapsed() < seconds(1.0), "the first call waited {:?}", began.elapsed());
    let of_b = node.closed_loop(&b, 50, seconds(10.0)).await;
    let seen = node.sim.seen();
    assert_eq!((seen.live["a/f"], seen.live["b/f"]), (2, 2), "each has its half");
    assert!(of_b > 80, "{of_b} calls in 10 s by 2 instances");
    assert!(greedy.await.unwrap() > 150);
    assert!(
        node.sim.seen().starts.len() < 15,
        "{} starts: they take instances away from each other",
        node.sim.seen().starts.len()
    );
    Arc::into_inner(node).unwrap().ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn two_functions_of_one_namespace_share_it() {
    let node = Arc::new(small());
    let (f, g) = (Arc::new(function("a/f")), Arc::new(function("a/g")));
    node.sim.script("a/f", slow(0.2));
    node.sim.script("a/g", slow(0.2));
    let greedy = tokio::spawn({
        let (node, f) = (Arc::clone(&node), Arc::clone(&f));
        async move { node.closed_loop(&f, 50, seconds(10.0)).await }
    });
    tokio::time::sleep(seconds(2.0)).await;
    assert!(is_good(&node.call(&g).await));
    assert!(node.closed_loop(&g, 50, seconds(6.0)).await > 40);
    assert!(greedy.await.unwrap() > 50);
    Arc::into_inner(node).unwrap().ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn with_memory_for_one_instance_namespaces_take_turns() {
    let pool = PoolConfig { memory: Some(ByteSize::mib(70)), ..pool() };
    let node = Arc::new(node(pool, QueueConfig::default()));
    let small = |path: &str| {
        let mut f = function(path);
        f.limits.memory = ByteSize::mib(64);
        node.sim.script(path, slow(0.01));
        Arc::new(f)
    };
    let (a, b) = (small("a/f"), small("b/f"));
    let run = |f| {
        let node = Arc::clone(&node);
        tokio::spawn(async move { node.closed_loop(&f, 10, seconds(20.0)).await })
    };
    let (of_a, of_b) = (run(a), run(b));
    let (of_a, of_b) = (of_a.await.unwrap(), of_b.await.unwrap());
    // A turn lasts 200 ms, and a start of 50 ms comes between two turns.
    assert!(of_a > 500 && of_b > 500, "{of_a} and {of_b} calls");
    assert!(of_a < 2 * of_b && of_b < 2 * of_a, "{of_a} and {of_b} calls");
    Arc::into_inner(node).unwrap().ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_grows_does_not_take_anothers_warm_instance() {
    let node = small();
    let (a, b) = (Arc::new(function("a/f")), Arc::new(function("b/f")));
    node.sim.script("a/f", slow(1.0));
    node.sim.script("b/f", slow(0.01));
    let first = node.call(&b).await;
    let calls = node.burst(&a, 40);
    tokio::time::sleep(seconds(2.0)).await;
    let second = node.call(&b).await;
    assert_eq!(first.instance, second.instance, "b's instance was evicted");
    all_good(calls).await;
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_has_used_for_a_while_is_everybodys() {
    let node = small();
    let (a, b) = (Arc::new(function("a/f")), Arc::new(function("b/f")));
    node.sim.script("a/f", slow(1.0));
    node.sim.script("b/f", slow(0.01));
    node.call(&b).await;
    tokio::time::sleep(seconds(61.0)).await;
    let calls = node.burst(&a, 40);
    tokio::time::sleep(seconds(2.0)).await;
    let seen = node.sim.seen();
    assert_eq!((seen.live["a/f"], seen.live["b/f"]), (4, 0));
    all_good(calls).await;
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn slow_starts_of_one_namespace_do_not_block_another() {
    let node = Node::new();
    for n in 0..20 {
        let path = format!("a/f{n}");
        node.sim.script(&path, Script { start: seconds(10.0), ..Script::default() });
        node.spawn(&Arc::new(function(&path)));
    }
    tokio::time::sleep(millis(10)).await;
    let began = Instant::now();
    assert!(is_good(&node.call(&Arc::new(function("b/f"))).await));
    assert!(began.elapsed() < millis(100), "{:?}", began.elapsed());
    assert!(node.sim.seen().most_starting <= 5);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn slow_starts_of_many_namespaces_do_not_block_another_for_long() {
    let node = Node::new();
    for n in 0..10 {
        let path = format!("a{n}/f");
        node.sim.script(&path, Script { start: seconds(30.0), ..Script::default() });
        node.spawn(&Arc::new(function(&path)));
    }
    tokio::time::sleep(millis(10)).await;
    assert_eq!(node.sim.seen().starting, 8, "twice what may start at once");
    let began = Instant::now();
    assert!(is_good(&node.call(&Arc::new(function("b/f"))).await));
    assert!(began.elapsed() < millis(1500), "{:?}", began.elapsed());
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn slow_starts_of_some_functions_do_not_block_another_of_their_namespace_for_long() {
    let node = Node::new();
    for n in 0..4 {
        let path = format!("a/slow{n}");
        node.sim.script(&path, Script { start: seconds(30.0), ..Script::default() });
        node.spawn(&Arc::new(function(&path)));
    }
    tokio::time::sleep(millis(10)).await;
    assert_eq!(node.sim.seen().starting, 4, "what may start at once");
    let began = Instant::now();
    assert!(is_good(&node.call(&Arc::new(function("a/quick"))).await));
    assert!(began.elapsed() < millis(1500), "{:?}", began.elapsed());
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_to_start() {
    let node = Node::new();
    for n in 0..40 {
        node.spawn(&Arc::new(function(&format!("a/f{n}"))));
    }
    for n in 0..4 {
        node.spawn(&Arc::new(function(&format!("b/f{n}"))));
    }
    tokio::time::sleep(millis(400)).await;
    let last_of_b = node.sim.seen().starts.iter().rposition(|path| path.starts_with("b/")).unwrap();
    assert!(last_of_b < 16, "b's four starts came within the first {last_of_b}");
    node.ends_clean().await;
}
