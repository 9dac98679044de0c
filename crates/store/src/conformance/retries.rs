//! What a [`Queue`] does with calls that failed, and whose turn it is.

use std::{collections::HashMap, sync::Arc, time::Duration};

use flint_model::{ActivationId, Attempt, FailureKind, RetryPolicy, Timestamp};

use super::sample::{LONG, call, everybody, lease, namespace_name};
use crate::{CallPhase, Lease, LeasedCall, Queue, QueuedCall, StoreError, Waiting};

fn failure() -> Attempt {
    Attempt::new(Timestamp::from_millis(7), "it failed")
}

fn ids(calls: &[LeasedCall]) -> Vec<ActivationId> {
    calls.iter().map(|leased| leased.call.activation).collect()
}

/// How many of each namespace.
fn by_namespace(calls: &[LeasedCall]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for leased in calls {
        *counts.entry(leased.call.namespace.as_str()).or_default() += 1;
    }
    counts
}

/// Accepts a call, begins it, and puts it back to be due after `delay`.
async fn failed(queue: &dyn Queue, call: &QueuedCall, delay: Duration) {
    queue.enqueue(call.clone(), "a", LONG).await.unwrap();
    let lease = Lease::first(call.activation);
    assert!(queue.begin(lease).await.unwrap());
    assert!(queue.retry(lease, failure(), delay, false).await.unwrap());
}

/// However many calls one namespace has, another one's turn comes.
pub async fn namespaces_take_turns(queue: &dyn Queue) {
    for (namespace, calls) in [("busy", 50), ("calm", 3), ("single", 1)] {
        for at in 0..calls {
            queue.enqueue_due(call(namespace, at, 3)).await.unwrap();
        }
    }
    let first = queue.lease("b", 6, LONG, everybody()).await.unwrap();
    assert_eq!(
        by_namespace(&first),
        HashMap::from([("busy", 3), ("calm", 2), ("single", 1)]),
        "what one does not need is another's"
    );
    let order: Vec<_> = first
        .iter()
        .filter(|leased| leased.call.namespace.as_str() == "calm")
        .map(|leased| leased.call.accepted.as_millis())
        .collect();
    assert_eq!(order, [0, 1], "within a namespace the oldest goes first");
    for _ in 0..3 {
        queue.enqueue_due(call("single", 9, 3)).await.unwrap();
    }
    // One at a time: nobody is passed over.
    let mut served = Vec::new();
    for _ in 0..6 {
        served.push(queue.lease("b", 1, LONG, everybody()).await.unwrap()[0].call.namespace.to_string());
    }
    for name in ["busy", "single"] {
        assert!(served.iter().filter(|served| *served == name).count() >= 2, "{served:?}");
    }
    assert!(served.iter().any(|served| served == "calm"), "{served:?}");
    assert_eq!(queue.lease("b", 1000, LONG, everybody()).await.unwrap().len(), 57 - 12);
}

/// Calls that failed before are not in the way of the others, of whichever namespace, and come as far as there are places for them.
pub async fn failed_calls_stand_apart(queue: &dyn Queue) {
    let mut again = Vec::new();
    for (namespace, calls) in [("failing", 20), ("other", 2)] {
        for at in 0..calls {
            let one = call(namespace, at, 3);
            failed(queue, &one, Duration::ZERO).await;
            again.push(one.activation);
        }
    }
    let fresh = call("failing", 99, 3);
    queue.enqueue_due(fresh.clone()).await.unwrap();
    assert_eq!(ids(&queue.lease("b", 10, LONG, everybody()).await.unwrap()), [fresh.activation]);
    let few: crate::Places = Arc::new(|name| if name.as_str() == "failing" { 3 } else { 9 });
    let leased = queue.lease_again("b", 10, LONG, few).await.unwrap();
    assert_eq!(by_namespace(&leased), HashMap::from([("failing", 3), ("other", 2)]));
    assert!(leased.iter().all(|leased| leased.attempt == 2 && leased.earlier == [failure()]));
    assert!(queue.lease_again("b", 10, LONG, Arc::new(|_| 0)).await.unwrap().is_empty());
    let rest = queue.lease_again("b", 100, LONG, everybody()).await.unwrap();
    let mut all = [ids(&leased), ids(&rest)].concat();
    all.sort_unstable();
    again.sort_unstable();
    assert_eq!(all, again);
}

/// Namespaces that have no places, however many, are in the way of none that has some.
pub async fn who_has_no_place_takes_no_turn(queue: &dyn Queue) {
    for namespace in ["busy", "calm", "other", "single"] {
        for at in 0..2 {
            failed(queue, &call(namespace, at, 3), Duration::ZERO).await;
        }
    }
    let places = |open: &'static [&'static str]| -> crate::Places {
        Arc::new(move |name| if open.contains(&name.as_str()) { 9 } else { 0 })
    };
    let turns: [(&'static [&'static str], &str); 3] =
        [(&["single"], "single"), (&["calm", "single"], "calm"), (&["single"], "single")];
    for (open, served) in turns {
        let leased = queue.lease_again("b", 1, LONG, places(open)).await.unwrap();
        assert_eq!(by_namespace(&leased), HashMap::from([(served, 1)]));
    }
    let all = queue.lease_again("b", 2, LONG, places(&["other", "busy"])).await.unwrap();
    assert_eq!(by_namespace(&all), HashMap::from([("other", 1), ("busy", 1)]));
    for namespace in ["busy", "calm", "single"] {
        queue.enqueue_due(call(namespace, 9, 3)).await.unwrap();
    }
    let first = queue.lease("b", 9, LONG, places(&["calm", "other"])).await.unwrap();
    assert_eq!(by_namespace(&first), HashMap::from([("calm", 1)]), "nor is one among first attempts");
}

/// When the next delay ends is known, so that nobody has to look before.
pub async fn the_next_delay_is_known(queue: &dyn Queue) {
    assert_eq!(queue.next_due().await.unwrap(), None);
    let (soon, late) = (call("guest", 1, 3), call("guest", 2, 3));
    failed(queue, &late, LONG).await;
    let end = queue.next_due().await.unwrap().unwrap();
    assert!(end > Timestamp::now());
    failed(queue, &soon, Duration::ZERO).await;
    assert!(queue.next_due().await.unwrap().unwrap() < end);
    assert_eq!(ids(&lease(queue, "b", 10, LONG).await), [soon.activation]);
    assert_eq!(queue.next_due().await.unwrap(), Some(end), "what is leased is not awaited");
}

/// What waits for its first attempt is counted; what is held, has failed before or is exhausted is not.
pub async fn what_waits_for_its_first_attempt_is_counted(queue: &dyn Queue) {
    let guest = namespace_name("guest");
    let waiting = || async { queue.waiting_first(Some(&guest)).await.unwrap() };
    failed(queue, &call("guest", 1, 9), Duration::ZERO).await;
    queue.enqueue_begun(call("guest", 2, 1), "a", LONG).await.unwrap();
    assert_eq!(waiting().await, 0);
    for namespace in ["guest", "guest", "other"] {
        queue.enqueue_due(call(namespace, 3, 9)).await.unwrap();
    }
    assert_eq!((waiting().await, queue.waiting_first(None).await.unwrap()), (2, 3));
    let guests: crate::Places = Arc::new(|name| usize::from(name.as_str() == "guest"));
    assert_eq!(queue.lease("a", 9, LONG, guests).await.unwrap().len(), 1);
    assert_eq!(waiting().await, 1);
    queue.release_all_except("b").await.unwrap();
    assert_eq!((waiting().await, queue.depth(Some(&guest)).await.unwrap()), (2, 4));
}

/// What waits after a failure is counted, by calls and bytes; what is held or was not attempted is not.
pub async fn what_waits_again_is_counted(queue: &dyn Queue) {
    let guest = namespace_name("guest");
    let waiting = || async { queue.waiting_again(Some(&guest)).await.unwrap() };
    let mut large = call("guest", 1, 9);
    large.arguments = vec![b'x'; 100_000].into();
    let small = call("guest", 2, 9);
    queue.enqueue_due(call("guest", 3, 9)).await.unwrap();
    assert_eq!(waiting().await, Waiting::default());
    failed(queue, &small, LONG).await;
    let alone = waiting().await;
    assert_eq!(alone.calls, 1);
    failed(queue, &large, Duration::ZERO).await;
    let both = waiting().await;
    assert_eq!(both.calls, 2);
    let rest = both.bytes - alone.bytes;
    assert!((100_000..102_000).contains(&rest), "{rest}");
    failed(queue, &call("other", 1, 9), LONG).await;
    assert_eq!((waiting().await, queue.waiting_again(None).await.unwrap().calls), (both, 3));

    let held = queue.lease_again("b", 10, LONG, everybody()).await.unwrap();
    assert_eq!((ids(&held), waiting().await), (vec![large.activation], alone));
    assert!(queue.give_back(held[0].lease, Duration::ZERO).await.unwrap());
    assert_eq!(waiting().await, both);
    let held = queue.lease_again("b", 10, LONG, everybody()).await.unwrap();
    assert!(queue.begin(held[0].lease).await.unwrap());
    assert_eq!(waiting().await, alone);
    queue.release_all_except("c").await.unwrap();
    assert_eq!(waiting().await.calls, 2, "an attempt that its server did not survive");
    let held = queue.lease_again("c", 10, LONG, everybody()).await.unwrap();
    assert!(queue.complete(held[0].lease).await.unwrap());
    assert_eq!((waiting().await, queue.depth(None).await.unwrap()), (alone, 3));
}

/// What is given back is due later, has the attempts that it had, and is given back by its holder alone.
pub async fn a_call_is_given_back(queue: &dyn Queue) {
    let given = call("guest", 1, 3);
    failed(queue, &given, Duration::ZERO).await;
    let held = lease(queue, "b", 10, LONG).await[0].lease;
    for other in [given.activation, ActivationId::generate()] {
        assert!(!queue.give_back(Lease::first(other), Duration::ZERO).await.unwrap());
    }
    assert!(lease(queue, "c", 10, LONG).await.is_empty(), "it is held");
    assert!(queue.give_back(held, LONG).await.unwrap());
    assert!(lease(queue, "c", 10, LONG).await.is_empty(), "it is not due");
    assert!(!queue.begin(held).await.unwrap(), "nobody holds it");
    assert!(!queue.give_back(held, Duration::ZERO).await.unwrap());
    assert!(
        queue.next_due().await.unwrap().unwrap() > Timestamp::now(),
        "who does not hold it does not change it"
    );

    let begun = call("guest", 2, 3);
    failed(queue, &begun, Duration::ZERO).await;
    let held = lease(queue, "b", 10, LONG).await[0].lease;
    assert!(queue.begin(held).await.unwrap());
    assert!(!queue.give_back(held, Duration::ZERO).await.unwrap());
    assert!(lease(queue, "c", 10, LONG).await.is_empty(), "an attempt is under way");

    let fresh = call("guest", 3, 3);
    queue.enqueue(fresh.clone(), "b", LONG).await.unwrap();
    assert!(queue.give_back(Lease::first(fresh.activation), Duration::ZERO).await.unwrap());
    let again = queue.lease_again("b", 10, LONG, everybody()).await.unwrap();
    assert_eq!((ids(&again), again[0].attempt, again[0].earlier.len()), (vec![fresh.activation], 1, 0));
    queue.release_all_except("c").await.unwrap();
    let first = queue.lease("c", 10, LONG, everybody()).await.unwrap();
    assert_eq!((ids(&first), first[0].attempt), (vec![fresh.activation], 1), "it never had an attempt");
}

/// Why a call is put off is known as long as it is, and is not said of a later failure.
pub async fn it_is_known_why_a_call_is_put_off(queue: &dyn Queue) {
    let (guest, one) = (namespace_name("guest"), call("guest", 1, 3));
    let phase = async || queue.find(&guest, one.activation).await.unwrap().unwrap().phase;
    let first = Lease::first(one.activation);
    queue.enqueue(one.clone(), "a", LONG).await.unwrap();
    assert!(queue.put_off(first, Duration::ZERO, "no ruby").await.unwrap());
    let again = queue.lease_again("b", 10, LONG, everybody()).await.unwrap();
    assert_eq!(ids(&again), [one.activation]);
    assert!(!queue.put_off(first, LONG, "no ruby").await.unwrap(), "another holds it");
    assert_eq!(phase().await, CallPhase::Waiting);
    assert!(queue.put_off(again[0].lease, LONG, "no node").await.unwrap());
    let until = queue.next_due().await.unwrap().unwrap();
    assert_eq!(phase().await, CallPhase::PutOff { until, why: "no node".to_owned() });

    let fails = call("guest", 2, 3);
    queue.enqueue(fails.clone(), "a", LONG).await.unwrap();
    assert!(queue.put_off(Lease::first(fails.activation), Duration::ZERO, "no node").await.unwrap());
    let again = queue.lease_again("b", 10, LONG, everybody()).await.unwrap();
    assert_eq!(ids(&again), [fails.activation]);
    assert!(queue.begin(again[0].lease).await.unwrap());
    assert!(queue.retry(again[0].lease, failure(), LONG, false).await.unwrap());
    let found = queue.find(&guest, fails.activation).await.unwrap().unwrap();
    assert!(matches!(found.phase, CallPhase::Delayed(_)), "{found:?}");
}

/// A call that is accepted while it runs is not run by anybody else, and exhausted when its server goes away.
pub async fn a_call_may_be_begun_when_it_is_accepted(queue: &dyn Queue) {
    let (lost, over) = (call("guest", 1, 1), call("guest", 2, 1));
    for one in [&lost, &over] {
        queue.enqueue_begun(one.clone(), "a", LONG).await.unwrap();
    }
    assert!(matches!(queue.enqueue_begun(lost.clone(), "a", LONG).await, Err(StoreError::Conflict)));
    assert!(lease(queue, "b", 10, LONG).await.is_empty());
    assert!(!queue.begin(Lease::first(lost.activation)).await.unwrap(), "it is already");
    assert!(queue.complete(Lease::first(over.activation)).await.unwrap());
    assert_eq!(queue.depth(None).await.unwrap(), 1);
    queue.release_all_except("b").await.unwrap();
    assert!(lease(queue, "b", 10, LONG).await.is_empty());
    let exhausted = queue.take_exhausted(10).await.unwrap();
    assert_eq!((ids(&exhausted), exhausted[0].earlier.len()), (vec![lost.activation], 1));
}

/// Where a call is can be asked at any time.
pub async fn a_call_is_found_where_it_is(queue: &dyn Queue) {
    let guest = namespace_name("guest");
    let one = call("guest", 1, 2);
    let is = async |phase: CallPhase, begun: u32, ended: usize| {
        let found = queue.find(&guest, one.activation).await.unwrap().unwrap();
        assert_eq!((found.phase, found.begun, found.attempts.len()), (phase, begun, ended));
        assert_eq!(found.call, QueuedCall { arguments: Default::default(), ..one.clone() });
    };
    assert_eq!(queue.find(&guest, one.activation).await.unwrap(), None);
    queue.enqueue_due(one.clone()).await.unwrap();
    is(CallPhase::Waiting, 0, 0).await;
    assert_eq!(queue.find(&namespace_name("other"), one.activation).await.unwrap(), None);
    let held = lease(queue, "a", 10, LONG).await[0].lease;
    is(CallPhase::Waiting, 0, 0).await;
    assert!(queue.begin(held).await.unwrap());
    is(CallPhase::Running, 1, 0).await;
    assert!(queue.retry(held, failure(), LONG, false).await.unwrap());
    let due = queue.next_due().await.unwrap().unwrap();
    is(CallPhase::Delayed(due), 1, 1).await;
    let over = call("guest", 2, 1);
    queue.enqueue(over.clone(), "a", LONG).await.unwrap();
    assert!(queue.complete(Lease::first(over.activation)).await.unwrap());
    assert_eq!(queue.find(&guest, over.activation).await.unwrap(), None);
}

/// What holds for a call is what held when it was accepted.
pub async fn policies_survive(queue: &dyn Queue) {
    let own = QueuedCall {
        policy: RetryPolicy {
            max_attempts: 101,
            backoff: Duration::from_millis(1),
            max_backoff: Duration::from_secs(86_400),
            max_age: Some(Duration::from_secs(1_209_600)),
            on: [FailureKind::Platform, FailureKind::Application].into_iter().collect(),
        },
        cause: Some(ActivationId::generate()),
        promised: true,
        ..call("guest", 1, 1)
    };
    let plain = call("guest", 2, 7);
    for call in [&own, &plain] {
        queue.enqueue_due(call.clone()).await.unwrap();
    }
    let leased: Vec<_> = lease(queue, "b", 10, LONG).await.into_iter().map(|leased| leased.call).collect();
    assert_eq!(leased, [own, plain]);
}
