//! What breaks.

mod common;

use std::{sync::Arc, time::Duration};

use common::{Node, all, all_good, is_good, millis, node, pool, seconds};
use flint_executor::{BRING_UP, Fault};
use flint_invoker::testing::{Answer, Script, function};
use flint_scheduler::{Outcome, QueueConfig, Ran, Refusal};
use tokio::time::Instant;

fn fault(ran: &Ran) -> Option<Fault> {
    match &ran.outcome {
        Outcome::NotStarted(failure) => Some(failure.fault.clone()),
        Outcome::Ended { result: Err(fault), .. } => Some(fault.clone()),
        _ => None,
    }
}

fn platform() -> Fault {
    Fault::Platform { cause: "no cgroup".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_while_idle_is_noticed() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { dies_idle_after: Some(seconds(1.0)), ..Script::default() });
    assert!(is_good(&node.call(&f).await));
    tokio::time::sleep(seconds(2.0)).await;
    let stats = node.invoker.stats();
    assert_eq!((stats.totals.crashed, stats.memory_charged.as_u64()), (1, 0));
    assert!(is_good(&node.call(&f).await));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_never_meets_an_instance_that_has_just_ended() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { dies_idle_after: Some(millis(100)), ..Script::default() });
    for _ in 0..20 {
        assert!(is_good(&node.call(&f).await));
        // The instance's end and the call come in the same moment.
        tokio::time::sleep(millis(100)).await;
    }
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_function_that_ends_by_itself_once_it_is_loaded_is_told_of() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { dies_idle_after: Some(Duration::ZERO), ..Script::default() });
    assert_eq!(fault(&node.call(&f).await), Some(Fault::Exited { end: None }));
    assert!(node.sim.seen().starts.len() <= 3);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_takes_the_instance_along_and_the_next_call_gets_another() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { answer: Answer::Fault(Fault::OutOfMemory), ..Script::default() });
    assert_eq!(fault(&node.call(&f).await), Some(Fault::OutOfMemory));
    node.sim.script("guest/f", Script::default());
    assert!(is_good(&node.call(&f).await));
    assert_eq!((node.sim.seen().starts.len(), node.invoker.stats().totals.out_of_memory), (2, 1));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn crashing_calls_do_not_strand_those_that_wait() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script(
        "guest/f",
        Script { answer: Answer::Fault(Fault::Exited { end: None }), ..Script::default() },
    );
    let rans = all(node.burst(&f, 30)).await;
    assert!(rans.iter().all(|ran| fault(ran) == Some(Fault::Exited { end: None })));
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_once_is_its_callers_fault_only() {
    let node = Node::new();
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { failing_starts: 1, ..Script::default() });
    let rans = all(node.burst(&f, 10)).await;
    let failed: Vec<_> = rans.iter().filter_map(fault).collect();
    assert_eq!(failed, [Fault::Developer { message: "SyntaxError".to_owned() }]);
    assert_eq!(rans.iter().filter(|ran| is_good(ran)).count(), 9);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_function_answers_everybody_soon_and_does_not_spin() {
    let node = Arc::new(Node::new());
    let f = Arc::new(function("guest/f"));
    node.sim.script("guest/f", Script { start: millis(5), failing_starts: usize::MAX, ..Script::default() });
    let began = Instant::now();
    let rans = all(node.burst(&f, 200)).await;
    assert!(rans.iter().all(|ran| matches!(fault(ran), Some(Fault::Developer { .. }))));
    assert!(began.elapsed() < seconds(0.5), "{:?}", began.elapsed());
    let before = node.sim.seen().starts.len();
    node.closed_loop(&f, 20, seconds(10.0)).await;
    let starts = node.sim.seen().starts.len() - before;
    assert!(starts < 50, "{starts} starts in 10 s");
    Arc::into_inner(node).unwrap().ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_platform_fault_is_tried_again_a_few_times() {
    let node = Node::new();
    let (f, g) = (Arc::new(function("guest/f")), Arc::new(function("guest/g")));
    node.sim.script("guest/f", Script { failing_starts: 2, start_fault: platform(), ..Script::default() });
    node.sim.script(
        "guest/g",
        Script { failing_starts: usize::MAX, start_fault: platform(), ..Script::default() },
    );
    assert!(is_good(&node.call(&f).await));
    assert_eq!(fault(&node.call(&g).await), Some(platform()));
    assert_eq!(node.sim.seen().starts_of("guest/g"), 3);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_function_cannot_be_prepared_for_now_waits_as_long_as_a_call_may() {
    let node = node(pool(), QueueConfig { max_wait: seconds(5.0), ..QueueConfig::default() });
    let f = Arc::new(function("guest/f"));
    node.sim.make_busy(usize::MAX);
    let began = Instant::now();
    let Outcome::Refused(Refusal::WaitedTooLong { why, .. }) = node.call(&f).await.outcome else { panic!() };
    assert!(why.contains("builds are waiting"), "{why}");
    assert!(began.elapsed() >= seconds(5.0), "{:?}", began.elapsed());
    node.sim.make_busy(8);
    assert!(is_good(&node.call(&f).await));
    let prepared = node.sim.seen().prepared.len();
    assert!((9..40).contains(&prepared), "{prepared} preparations");
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn what_this_host_cannot_run_is_refused_with_the_reason() {
    let node = Node::new();
    node.sim.make_unavailable("nodejs is not installed: apt install nodejs");
    let rans = all(node.burst(&Arc::new(function("guest/f")), 5)).await;
    for ran in rans {
        let Outcome::Refused(Refusal::Unavailable { reason, .. }) = ran.outcome else { panic!("{ran:?}") };
        assert!(reason.contains("apt install nodejs"), "{reason}");
    }
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_hangs_cannot_hang_its_caller() {
    let node = Node::new();
    let mut f = function("guest/f");
    f.limits.timeout = seconds(3.0);
    let f = Arc::new(f);
    node.sim.script("guest/f", Script { answer: Answer::Hang, ..Script::default() });
    let began = Instant::now();
    assert_eq!(fault(&node.call(&f).await), Some(Fault::Deadline));
    assert_eq!(began.elapsed(), seconds(4.05));
    node.sim.script("guest/f", Script { start: Duration::MAX, ..Script::default() });
    let began = Instant::now();
    assert_eq!(fault(&node.call(&f).await), Some(Fault::Deadline));
    assert_eq!(began.elapsed(), seconds(4.0) + BRING_UP);
    assert_eq!(node.invoker.stats().totals.overdue, 2);
    node.ends_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_counts_from_the_moment_a_call_begins_to_run() {
    let node = Node::new();
    let mut f = function("guest/f");
    f.limits.timeout = seconds(1.0);
    f.limits.instances = std::num::NonZeroU32::new(1);
    let f = Arc::new(f);
    node.sim.script("guest/f", Script { start: seconds(0.9), service: seconds(0.9), ..Script::default() });
    all_good(node.burst(&f, 3)).await;
    node.sim.script("guest/f", Script::default());
    node.ends_clean().await;
}
