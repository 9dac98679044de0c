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

/// Seven tenants that are never idle, and one whose function needs more than they leave.
#[tokio::test(start_paused = true)]
async fn a_start_that_never_fits_does_not_keep_all_others_waiting() {
    let node =
        Arc::new(node(PoolConfig { memory: Some(ByteSize::mib(512)), ..pool() }, QueueConfig::default()));
    let large = Arc::new(function("large/f"));
    node.sim.script("large/f", Script { memory: ByteSize::mib(250), ..Script::default() });
    node.call(&large).await;
    tokio::time::sleep(seconds(3.0)).await;
    let tenants: Vec<_> = (0..7)
        .map(|n| {
            let path = format!("t{n}/f");
            let script = Script { memory: ByteSize::mib(60), service: millis(100), ..Script::default() };
            node.sim.script(&path, script);
            let (node, f) = (Arc::clone(&node), Arc::new(function(&path)));
            tokio::spawn(async move { node.closed_loop(&f, 1, seconds(20.0)).await })
        })
        .collect();
    tokio::time::sleep(seconds(5.0)).await;
    assert_eq!(node.sim.seen().live["large/f"], 0, "the others needed its memory");
    let waits = node.spawn(&large);
    tokio::time::sleep(seconds(1.0)).await;
    let began = Instant::now();
    assert!(is_good(&node.call(&Arc::new(function("small/f"))).await));
    assert!(began.elapsed() < seconds(1.0), "{:?}", began.elapsed());
    for tenant in tenants {
        assert!(tenant.await.unwrap() > 150);
    }
    waits.abort();
    Arc::into_inner(node).unwrap().ends_clean().await;
}

/// A function that lacked memory for an instance which it does not want any more takes none from others.
#[tokio::test(start_paused = true)]
async fn a_shortage_is_forgotten_when_nothing_more_is_wanted() {
    let node =
        Arc::new(node(PoolConfig { memory: Some(ByteSize::mib(510)), ..pool() }, QueueConfig::default()));
    let script = |service, first_call| Script {
        memory: ByteSize::mib(100),
        service: seconds(service),
        first_call: seconds(first_call),
        ..Script::default()
    };
    let (holder, eager) = (Arc::new(function("holder/f")), Arc::new(function("eager/f")));
    node.sim.script("holder/f", script(6.0, 0.0));
    let held = node.burst(&holder, 3);
    tokio::time::sleep(seconds(2.5)).await;
    assert_eq!(node.sim.seen().live["holder/f"], 3);
    node.sim.script("eager/f", script(0.001, 1.0));
    // It gets two instances, as many as there are cores, and wants more until its first calls are over.
    let calls = {
        let (node, eager) = (Arc::clone(&node), Arc::clone(&eager));
        tokio::spawn(async move { node.closed_loop(&eager, 32, seconds(6.0)).await })
    };
    all_good(held).await;
    assert!(calls.await.unwrap() > 1000);
    assert_eq!(node.sim.seen().live["holder/f"], 3, "nobody needed their memory");
    Arc::into_inner(node).unwrap().ends_clean().await;
}

/// Starts that take long, of however many functions, do not make another namespace's functions start one after
/// the other.
#[tokio::test(start_paused = true)]
async fn one_namespaces_long_starts_leave_room_for_anothers() {
    let node = Node::new();
    let many: Vec<_> = (0..16).map(|n| Arc::new(function(&format!("many/f{n}")))).collect();
    for f in &many {
        node.sim.script(&f.path.to_string(), Script { start: seconds(8.0), ..Script::default() });
    }
    let slow: Vec<_> = many.iter().map(|f| node.spawn(f)).collect();
    tokio::time::sleep(seconds(3.0)).await;
    let few: Vec<_> = (0..4).map(|n| Arc::new(function(&format!("few/f{n}")))).collect();
    for f in &few {
        node.sim.script(&f.path.to_string(), Script { start: millis(500), ..Script::default() });
    }
    let began = Instant::now();
    all_good(few.iter().map(|f| node.spawn(f)).collect()).await;
    assert!(began.elapsed() < seconds(1.2), "{:?}", began.elapsed());
    all_good(slow).await;
    node.ends_clean().await;
}
