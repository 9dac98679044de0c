//! How many instances a function gets.

mod common;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use common::{Node, all, all_good, is_good, millis, node, pool, seconds};
use flint_invoker::testing::{Script, function, never};
use flint_model::ByteSize;
use flint_scheduler::QueueConfig;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_second_call_finds_the_first_ones_instance() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    let (cold, warm) = (node.call(&f).await, node.call(&f).await);
    assert!(is_good(&cold) && is_good(&warm));
    assert_eq!(cold.instance, warm.instance);
    assert_eq!((cold.init, warm.init), (Some(millis(50)), None));
    let stations = cold.timeline;
    assert_eq!(
        (stations.placed, stations.started, stations.initialised),
        (Some(0), Some(25_000), Some(50_000))
    );
    assert_eq!((stations.ran, stations.collected), (Some(51_000), Some(51_000)));
    assert_eq!(
        (warm.timeline.placed, warm.timeline.initialised, warm.timeline.ran),
        (Some(0), None, Some(1000))
    );
    assert_eq!(node.sim.seen().starts.len(), 1);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn many_short_calls_use_few_instances() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { service: Duration::from_micros(50), ..Script::default() });
    let served = node.closed_loop(&f, 32, seconds(2.0)).await;
    let most = node.sim.seen().most_live["guest/f"];
    assert!(most <= 3, "{most} instances for short calls");
    assert!(served > 1000);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_first_call_does_not_fan_out_short_ones() {
    let service = Duration::from_micros(50);
    // Whether or not somebody looks in the very moment when the first call has ended.
    for first_call in 25..35 {
        let node = Node::new();
        let f = Arc::new(function("guest/f"));
        let first_call = millis(first_call);
        node.sim.script("guest/f", Script { service, first_call, ..Script::default() });
        assert!(node.closed_loop(&f, 32, seconds(1.0)).await > 1000);
        let most = node.sim.seen().most_live["guest/f"];
        assert!(most <= 3, "{most} instances for short calls after a first one of {first_call:?}");
        node.ends_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn sleeping_calls_fan_out() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    let began = Instant::now();
    all_good(node.burst(&f, 32)).await;
    // 8 rounds of 4 starts, after the first one has shown that calls take long; then the last one runs for a second.
    assert!(began.elapsed() < seconds(1.8), "{:?}", began.elapsed());
    assert!(node.sim.seen().most_starting <= 4);
    let began = Instant::now();
    all_good(node.burst(&f, 32)).await;
    assert!(began.elapsed() < seconds(1.4), "{:?}", began.elapsed());
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_sleep_for_as_long_as_a_start_takes_get_an_instance_each_unless_others_compute() {
    let sleeps =
        Script { start: millis(75), service: millis(100), cpu: Some(millis(2)), ..Script::default() };
    let computes = Script { cpu: Some(millis(100)), ..sleeps.clone() };
    for others_compute in [false, true] {
        let node = Node::new();
        // So many that all together take less than half of the memory.
        let small = |path: &str| {
            let mut function = function(path);
            function.limits.memory = ByteSize::mib(64);
            Arc::new(function)
        };
        let (f, g) = (small("guest/f"), small("guest/g"));
        node.sim.script("guest/f", sleeps.clone());
        node.sim.script("guest/g", computes.clone());
        let computing = if others_compute { 2 } else { 0 };
        tokio::join!(node.closed_loop(&f, 16, seconds(5.0)), node.closed_loop(&g, computing, seconds(6.0)));
        let most = node.sim.seen().most_live["guest/f"];
        assert_eq!(most == 16, !others_compute, "{most} instances");
        node.ends_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_become_long_fan_out_before_the_first_of_them_has_ended() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.closed_loop(&f, 4, seconds(1.0)).await;
    tokio::time::sleep(seconds(601.0)).await;
    node.sim.script("guest/f", Script { service: seconds(10.0), ..Script::default() });
    let began = Instant::now();
    all_good(node.burst(&f, 32)).await;
    assert!(began.elapsed() < seconds(12.0), "{:?}", began.elapsed());
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_behind_one_that_takes_unusually_long_waits_little_longer_than_a_start() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    let quick = Script { start: millis(3), ..Script::default() };
    node.sim.script("guest/f", quick.clone());
    for _ in 0..20 {
        node.call(&f).await;
    }
    tokio::time::sleep(seconds(602.0)).await;
    node.sim.script("guest/f", Script { service: seconds(1.0), ..quick });
    node.call(&f).await;
    let long = node.spawn(&f);
    tokio::task::yield_now().await;
    let ran = node.call(&f).await;
    assert!(is_good(&ran) && is_good(&long.await.unwrap()));
    assert!(ran.timeline.placed < Some(5_000), "{:?}", ran.timeline);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_is_looked_at_when_it_comes_also_while_others_wait() {
    let node = Node::new();
    let mut busy = function("guest/busy");
    busy.limits.instances = NonZeroU32::new(1);
    let busy = Arc::new(busy);
    node.sim.script("guest/busy", Script { service: seconds(30.0), ..Script::default() });
    let others = node.burst(&busy, 2);
    tokio::time::sleep(seconds(1.0)).await;
    for after in 0..6 {
        let path = format!("guest/f{after}");
        let f = Arc::new(function(&path));
        node.sim.script(&path, Script { start: millis(3), service: seconds(1.0), ..Script::default() });
        let long = node.spawn(&f);
        tokio::time::sleep(millis(20 + after)).await;
        let ran = node.call(&f).await;
        assert!(is_good(&ran) && is_good(&long.await.unwrap()));
        assert!(ran.timeline.placed <= Some(1_000), "{:?}", ran.timeline);
    }
    all_good(others).await;
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn what_making_a_snapshot_took_is_not_what_the_next_start_takes() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    let (start, restore, service) = (seconds(1.0), Some(millis(3)), millis(100));
    node.sim.script("guest/f", Script { start, restore, service, ..Script::default() });
    let made = node.call(&f).await.timeline;
    assert_eq!((made.started, made.restored), (Some(1_000_000), Some(1_003_000)));
    let (first, second) = tokio::join!(node.call(&f), node.call(&f));
    assert!(is_good(&first) && is_good(&second));
    assert_eq!((first.init, second.init), (None, restore), "it does not wait for the first one's end");
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_instances_holds() {
    let node = Node::new();
    let mut f = function("guest/f");
    f.limits.instances = NonZeroU32::new(2);
    let f = Arc::new(f);
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    let began = Instant::now();
    all_good(node.burst(&f, 8)).await;
    assert_eq!(node.sim.seen().most_live["guest/f"], 2);
    assert!(began.elapsed() < seconds(4.5));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_never_function_gets_a_fresh_instance_for_each_call_and_leaves_nothing() {
    let node = Node::new();
    let f = Arc::new(never("guest/cat"));
    node.sim.script("guest/cat", Script { start: millis(2), stop: millis(20), ..Script::default() });
    let rans = all(node.burst(&f, 40)).await;
    let mut instances: Vec<_> = rans.iter().map(|ran| ran.instance).collect();
    instances.sort();
    instances.dedup();
    assert_eq!(instances.len(), 40);
    assert!(rans.iter().all(|ran| is_good(ran) && ran.init.is_some()));
    tokio::time::sleep(seconds(0.1)).await;
    assert_eq!(node.sim.seen().live_instances(), 0);
    assert_eq!(node.invoker.stats().memory_charged.as_u64(), 0);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn dying_instances_do_not_pile_up() {
    let pool = flint_invoker::PoolConfig { stopping: 8, ..pool() };
    let node = node(pool, QueueConfig::default());
    let f = Arc::new(never("guest/cat"));
    node.sim.script("guest/cat", Script { start: millis(1), stop: seconds(1.0), ..Script::default() });
    let calls = node.burst(&f, 100);
    for _ in 0..100 {
        tokio::time::sleep(millis(50)).await;
        // Those that were started before the bound was reached come on top.
        assert!(node.invoker.stats().instances.stopping <= 8 + 8, "{:?}", node.invoker.stats().instances);
    }
    all_good(calls).await;
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn one_instance_serves_several_calls_at_once_where_it_can() {
    let node = Node::new();
    let mut f = function("guest/f");
    f.limits.concurrency = NonZeroU32::new(8).unwrap();
    f.strategy.concurrency = NonZeroU32::new(8).unwrap();
    let f = Arc::new(f);
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    let began = Instant::now();
    all_good(node.burst(&f, 8)).await;
    assert_eq!((node.sim.seen().starts.len(), began.elapsed()), (1, millis(1050)));
    all_good(node.burst(&f, 16)).await;
    assert_eq!(node.sim.seen().most_live["guest/f"], 2);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_herd_prepares_once() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.prepare_time(seconds(3.0));
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    all_good(node.burst(&f, 50)).await;
    assert_eq!(node.sim.seen().prepared.len(), 1);
    node.ends_clean().await;
}
