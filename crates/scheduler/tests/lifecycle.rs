//! What becomes of instances and calls over time: idle ones, old ones, waiting ones, streams, shutdown.

mod common;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use common::{Node, all_good, is_good, millis, node, pool, seconds};
use flint_invoker::{
    InstanceCounts, InstanceKey, PoolConfig,
    testing::{Answer, Script, function, job},
};
use flint_model::Function;
use flint_scheduler::{Outcome, QueueConfig, Ran, Refusal};
use tokio::time::Instant;

fn refusal(ran: Ran) -> Refusal {
    match ran.outcome {
        Outcome::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn one_instance(path: &str) -> Arc<Function> {
    let mut f = function(path);
    f.limits.instances = NonZeroU32::new(1);
    Arc::new(f)
}

#[tokio::test(start_paused = true)]
async fn an_idle_instance_is_paused_resumed_and_in_the_end_stopped() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.call(&f).await;
    tokio::time::sleep(seconds(12.0)).await;
    assert_eq!(node.invoker.stats().instances, InstanceCounts { paused: 1, ..InstanceCounts::default() });
    assert!(node.call(&f).await.init.is_none());
    assert_eq!(node.sim.seen().pauses, (1, 1));
    assert_eq!(node.invoker.stats().instances.idle, 1);
    tokio::time::sleep(seconds(602.0)).await;
    assert_eq!((node.sim.seen().live_instances(), node.invoker.stats().totals.expired), (0, 1));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_may_come_while_its_instance_is_being_paused() {
    let pool = PoolConfig { pause_grace: millis(100), ..pool() };
    let node = node(pool, QueueConfig::default());
    let f = Arc::new(function("guest/f"));
    for gap in 0..200 {
        assert!(is_good(&node.call(&f).await));
        tokio::time::sleep(millis(80) + Duration::from_micros(250 * gap)).await;
    }
    assert_eq!(node.sim.seen().starts.len(), 1);
    assert!(node.sim.seen().pauses.0 > 10);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_the_pauses_of_other_instances() {
    let node = Node::new();
    for n in 0..20 {
        let path = format!("guest/f{n}");
        // Longer than the invoker waits.
        node.sim.script(&path, Script { pause: seconds(3600.0), ..Script::default() });
        node.call(&Arc::new(function(&path))).await;
    }
    let last = Arc::new(function("guest/last"));
    node.call(&last).await;
    tokio::time::sleep(seconds(12.0)).await;
    let pausing = node.sim.seen().pausing;
    assert!(pausing.len() > 1, "several at once: {pausing:?}");
    let ran = node.call(&last).await;
    assert!(is_good(&ran) && ran.init.is_none());
    assert_eq!(node.sim.seen().pausing, pausing, "none of them was waited for");
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn an_updated_function_never_runs_old_code() {
    let node = Node::new();
    let old = Arc::new(function("guest/f"));
    let mut new = function("guest/f");
    new.revision = 2;
    let new = Arc::new(new);
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    node.call(&old).await;
    let running = node.spawn(&old);
    tokio::time::sleep(millis(100)).await;
    node.invoker.forget(&old.path, old.revision, &[]);
    let fresh = node.call(&new).await;
    assert!(is_good(&fresh) && fresh.init.is_some());
    assert!(is_good(&running.await.unwrap()), "a call that ran already goes on");
    tokio::time::sleep(millis(100)).await;
    assert_eq!(node.sim.seen().live_instances(), 1, "only the new revision's");
    // One that was under way when the function changed still gets its answer, and leaves nothing.
    assert!(is_good(&node.call(&old).await));
    tokio::time::sleep(millis(100)).await;
    assert_eq!(node.sim.seen().live_instances(), 1);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn old_revisions_that_are_still_called_keep_their_instances() {
    let node = Node::new();
    let revision = |revision| {
        let mut function = function("guest/f");
        function.revision = revision;
        Arc::new(function)
    };
    let (first, second, third) = (revision(1), revision(2), revision(3));
    let is_cold = async |function| node.call(function).await.init.is_some();
    assert!(is_cold(&first).await && is_cold(&second).await);
    node.invoker.forget(&first.path, 2, &[1]);
    assert!(is_cold(&third).await && !is_cold(&first).await, "side by side");
    assert!(is_cold(&second).await && is_cold(&second).await, "nothing of this one stays");
    node.invoker.want(&second.path, 2);
    assert!(is_cold(&second).await && !is_cold(&second).await, "until somebody wants it again");
    node.invoker.forget(&first.path, 3, &[]);
    tokio::time::sleep(millis(100)).await;
    assert_eq!(node.sim.seen().live_instances(), 0);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_while_their_function_is_updated_are_served_without_a_start_for_each() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.call(&f).await;
    let calls = node.burst(&f, 20);
    tokio::time::sleep(Duration::from_micros(500)).await;
    node.invoker.forget(&f.path, f.revision, &[]);
    all_good(calls).await;
    assert!(node.sim.seen().starts.len() <= 2);
    tokio::time::sleep(millis(100)).await;
    assert_eq!(node.sim.seen().live_instances(), 0);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_only_so_long_and_is_told_why() {
    let queue = QueueConfig { max_wait: seconds(2.0), ..QueueConfig::default() };
    let node = node(pool(), queue);
    let f = one_instance("guest/f");
    node.sim.script("guest/f", Script { service: seconds(10.0), ..Script::default() });
    let first = node.spawn(&f);
    tokio::time::sleep(millis(100)).await;
    let Refusal::WaitedTooLong { waited_ms, why, .. } = refusal(node.call(&f).await) else { panic!() };
    assert!((2000..2010).contains(&waited_ms));
    assert!(why.contains("limit is 1 instances"), "{why}");
    assert!(is_good(&first.await.unwrap()));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_bounded() {
    let queue = QueueConfig { per_function: 5, ..QueueConfig::default() };
    let node = node(pool(), queue);
    let f = one_instance("guest/f");
    let calls = node.burst(&f, 5);
    tokio::time::sleep(millis(1)).await;
    assert!(matches!(refusal(node.call(&f).await), Refusal::QueueFull { waiting: 5, .. }));
    all_good(calls).await;
    assert_eq!(node.scheduler.stats().totals.queue_full, 1);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_fills_the_queues_so_that_others_find_no_place() {
    let node = node(pool(), QueueConfig { total: 100, ..QueueConfig::default() });
    let calls: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|namespace| {
            let functions: Vec<_> = (0..4).map(|n| one_instance(&format!("{namespace}/f{n}"))).collect();
            (0..200).map(|n| node.spawn(&functions[n % 4])).collect::<Vec<_>>()
        })
        .collect();
    let mut answered = Vec::new();
    for of_namespace in calls {
        answered.push(common::all(of_namespace).await.iter().filter(|ran| is_good(ran)).count());
    }
    assert_eq!(answered, [50, 25, 13]);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_frees_its_place_and_loses_nothing() {
    let node = Node::new();
    let f = one_instance("guest/f");
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    let first = node.spawn(&f);
    tokio::time::sleep(millis(100)).await;
    let gone = node.burst(&f, 5);
    let last = node.spawn(&f);
    tokio::time::sleep(millis(100)).await;
    gone.iter().for_each(tokio::task::JoinHandle::abort);
    tokio::time::sleep(millis(1)).await;
    assert_eq!(node.scheduler.stats().waiting, 1);
    let began = Instant::now();
    assert!(is_good(&first.await.unwrap()) && is_good(&last.await.unwrap()));
    assert!(began.elapsed() < seconds(2.0));
    assert_eq!((node.sim.seen().starts.len(), node.scheduler.stats().totals.gone), (1, 5));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_with_an_instance_in_its_hands_passes_it_on() {
    let node = Node::new();
    let f = one_instance("guest/f");
    node.call(&f).await;
    let holder = node.spawn(&f);
    tokio::task::yield_now().await;
    let (scheduler, two) = (Arc::clone(&node.scheduler), job(&f));
    let mut waits = Box::pin(async move { scheduler.run(two).await });
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waits.as_mut().poll(&mut nobody).is_pending());
    let last = node.spawn(&f);
    assert!(is_good(&holder.await.unwrap()));
    // The instance has been sent to `waits`, which is dropped before it looks.
    drop(waits);
    assert!(is_good(&last.await.unwrap()));
    assert_eq!(node.sim.seen().starts.len(), 1);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_away_while_it_runs_takes_its_instance_with_it() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.call(&f).await;
    let call = node.spawn(&f);
    tokio::task::yield_now().await;
    call.abort();
    tokio::time::sleep(millis(10)).await;
    assert_eq!((node.sim.seen().live_instances(), node.scheduler.stats().running), (0, 0));
    assert!(is_good(&node.call(&f).await));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_streaming_instance_is_busy_until_the_end_also_when_nobody_reads() {
    let node = Node::new();
    let f = one_instance("guest/f");
    node.sim
        .script("guest/f", Script { answer: Answer::Stream(4), service: millis(100), ..Script::default() });
    let ran = node.call(&f).await;
    assert_eq!(ran.init, Some(millis(50)));
    let Outcome::Streaming { mut body, end, .. } = ran.outcome else { panic!("{ran:?}") };
    let mut pieces = 0;
    while let Some(Ok(_)) = body.recv().await {
        pieces += 1;
    }
    let end = end.await.unwrap();
    assert_eq!((pieces, end.timeline.ran), (4, Some(450_000)));
    let logs: Vec<_> = end.end.logs.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(logs, ["loading", "calling"]);
    let unread = node.call(&f).await;
    drop(unread);
    let began = Instant::now();
    assert!(matches!(node.call(&f).await.outcome, Outcome::Streaming { .. }));
    assert_eq!(began.elapsed(), millis(400), "it had to wait for the stream that nobody read");
    assert_eq!(node.sim.seen().starts.len(), 1);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_takes_nothing_new_and_waits_for_what_was_taken() {
    let node = Node::new();
    let f = one_instance("guest/f");
    node.sim.script("guest/f", Script { service: seconds(1.0), ..Script::default() });
    let calls = node.burst(&f, 5);
    tokio::time::sleep(millis(100)).await;
    let scheduler = Arc::clone(&node.scheduler);
    let drain = tokio::spawn(async move { scheduler.drain(seconds(60.0)).await });
    tokio::time::sleep(millis(1)).await;
    assert_eq!(refusal(node.call(&f).await), Refusal::ShuttingDown);
    all_good(calls).await;
    drain.await.unwrap();
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_runs_out_of_time_answers_everybody() {
    let node = Node::new();
    let f = one_instance("guest/f");
    node.sim.script("guest/f", Script { service: seconds(50.0), ..Script::default() });
    let calls = node.burst(&f, 3);
    tokio::time::sleep(millis(100)).await;
    let began = Instant::now();
    node.scheduler.drain(seconds(5.0)).await;
    assert!(began.elapsed() < seconds(5.1));
    let mut refused = 0;
    for ran in common::all(calls).await {
        match ran.outcome {
            Outcome::Refused(Refusal::ShuttingDown) => refused += 1,
            Outcome::Ended { result: Err(_), .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 2);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_runs_out_of_time_does_not_wait_for_what_is_being_prepared() {
    let node = Node::new();
    node.sim.prepare_time(seconds(3600.0));
    let call = node.spawn(&Arc::new(function("guest/f")));
    tokio::time::sleep(millis(100)).await;
    let began = Instant::now();
    node.scheduler.drain(seconds(1.0)).await;
    assert!(began.elapsed() < seconds(4.0), "{:?}", began.elapsed());
    assert_eq!(refusal(call.await.unwrap()), Refusal::ShuttingDown);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_function_on_different_accounts_share_no_instance() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    let mine = node.call(&f).await;
    let mut of_other = job(&f);
    of_other.key = Arc::new(InstanceKey::new(&"other".parse().unwrap(), &of_other.function, 0));
    let others = node.scheduler.run(of_other).await;
    assert!(others.init.is_some() && others.instance != mine.instance);
    node.ends_clean().await;
}
