//! What every [`Queue`] does.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_model::{ActivationId, Attempt, Timestamp};
use futures_util::future::join_all;
use tokio::time::sleep;

use super::sample::{LONG, UNICODE, call, everybody, lease, namespace_name};
use crate::{Lease, LeasedCall, Queue, QueuedCall, StoreError};

/// A lease that is over at once.
const OVER: Duration = Duration::ZERO;
/// Longer than the coarsest clock's step.
const MOMENT: Duration = Duration::from_millis(5);

fn ids(calls: &[LeasedCall]) -> Vec<ActivationId> {
    calls.iter().map(|leased| leased.call.activation).collect()
}

fn ends(leased: &LeasedCall) -> Vec<&str> {
    leased.earlier.iter().map(|attempt| attempt.ended_by.as_str()).collect()
}

/// Puts calls into the queue that are due at once.
async fn due(queue: &dyn Queue, calls: Vec<QueuedCall>) {
    for call in calls {
        queue.enqueue_due(call).await.unwrap();
    }
}

/// Accepts a call and begins it.
async fn begun(queue: &dyn Queue, call: &QueuedCall, owner: &str, lease: Duration) {
    queue.enqueue(call.clone(), owner, lease).await.unwrap();
    assert!(queue.begin(Lease::first(call.activation)).await.unwrap());
}

/// Leases and begins the one call that is due.
async fn lease_and_begin(queue: &dyn Queue, owner: &str, time: Duration) -> LeasedCall {
    let leased = lease(queue, owner, 10, time).await;
    assert_eq!(leased.len(), 1);
    assert!(queue.begin(leased[0].lease).await.unwrap());
    leased.into_iter().next().unwrap()
}

/// Whoever accepts a call has it.
pub async fn an_accepted_call_is_leased_to_its_owner(queue: &dyn Queue) {
    queue.enqueue(call("guest", 1, 3), "a", LONG).await.unwrap();
    assert!(lease(queue, "b", 10, LONG).await.is_empty());
    assert!(lease(queue, "a", 10, LONG).await.is_empty(), "nor is it given to its owner again");
    assert!(queue.take_exhausted(10).await.unwrap().is_empty());
    assert_eq!(queue.depth(None).await.unwrap(), 1);
}

/// An activation is accepted once.
pub async fn a_call_is_accepted_once(queue: &dyn Queue) {
    let once = call("guest", 1, 3);
    let same = once.clone();
    queue.enqueue(once.clone(), "a", LONG).await.unwrap();
    let again =
        queue.enqueue(QueuedCall { arguments: Bytes::from_static(b"{\"x\":1}"), ..once }, "b", LONG).await;
    assert!(matches!(again, Err(StoreError::Conflict)));
    assert!(matches!(queue.enqueue_due(same).await, Err(StoreError::Conflict)));
    assert_eq!(queue.depth(None).await.unwrap(), 1);
}

/// Of calls that are accepted together, all are there or none is.
pub async fn several_are_accepted_or_none(queue: &dyn Queue) {
    let calls = |time: u64| (0..5).map(|_| call("guest", time, 3)).collect::<Vec<_>>();
    let (held, due) = (calls(2), calls(1));
    queue.enqueue_all(held.clone(), Some(("a", LONG))).await.unwrap();
    queue.enqueue_all(due.clone(), None).await.unwrap();
    queue.enqueue_all(Vec::new(), None).await.unwrap();
    assert_eq!(queue.depth(None).await.unwrap(), 10);
    let leased: HashSet<_> = ids(&lease(queue, "b", 100, LONG).await).into_iter().collect();
    assert_eq!(leased, due.iter().map(|call| call.activation).collect(), "the others are held");
    assert!(queue.begin(Lease::first(held[0].activation)).await.unwrap());
    let mut again = calls(3);
    again.push(held[4].clone());
    for holder in [None, Some(("a", LONG))] {
        assert!(matches!(queue.enqueue_all(again.clone(), holder).await, Err(StoreError::Conflict)));
    }
    assert_eq!(queue.depth(None).await.unwrap(), 10);
    assert_eq!(queue.release_all_except("c").await.unwrap(), 10);
    assert_eq!(lease(queue, "c", 100, LONG).await.len(), 10);
}

/// 64 at a time, none is lost.
pub async fn many_are_accepted_at_once(queue: &dyn Queue) {
    let mut accepted = HashSet::new();
    for round in 0..4 {
        let calls: Vec<_> = (0..64).map(|number| call("guest", round * 64 + number, 3)).collect();
        accepted.extend(calls.iter().map(|call| call.activation));
        for outcome in join_all(calls.into_iter().map(|call| queue.enqueue(call, "a", LONG))).await {
            outcome.unwrap();
        }
    }
    assert_eq!(queue.depth(None).await.unwrap(), 256);
    assert_eq!(queue.release_all_except("b").await.unwrap(), 256);
    let leased = lease(queue, "b", 1000, LONG).await;
    assert_eq!(ids(&leased).into_iter().collect::<HashSet<_>>(), accepted);
}

/// Of lessees that ask at the same time, no two get the same call, and together they get all.
pub async fn a_lease_is_exclusive(queue: &dyn Queue) {
    due(queue, (0..100).map(|number| call("guest", number, 3)).collect()).await;
    let owners: Vec<_> = (0..8).map(|owner| format!("owner {owner}")).collect();
    let lessees = owners.iter().map(|owner| async move {
        let mut got = Vec::new();
        loop {
            let leased = lease(queue, owner, 3, LONG).await;
            assert!(leased.len() <= 3);
            if leased.is_empty() {
                return got;
            }
            got.extend(ids(&leased));
        }
    });
    let got: Vec<_> = join_all(lessees).await.concat();
    assert_eq!(got.len(), 100);
    assert_eq!(got.into_iter().collect::<HashSet<_>>().len(), 100);
}

/// When a lease is over the call is due again, and an attempt that was begun is remembered.
pub async fn an_expired_lease_is_given_again(queue: &dyn Queue) {
    let lost = call("guest", 1, 3);
    let before = Timestamp::now();
    begun(queue, &lost, "a", OVER).await;
    sleep(MOMENT).await;
    let leased = lease_and_begin(queue, "b", OVER).await;
    assert_eq!((&leased.call, leased.attempt), (&lost, 2));
    assert_eq!(ends(&leased), ["lease expired"]);
    assert!((before..=Timestamp::now()).contains(&leased.earlier[0].start), "when the attempt began");
    sleep(MOMENT).await;
    let leased = lease(queue, "a", 10, LONG).await;
    assert_eq!((leased[0].attempt, ends(&leased[0])), (3, vec!["lease expired", "lease expired"]));
}

/// Waiting in a server's hands is no attempt, however often and however it ends.
pub async fn a_lease_is_no_attempt(queue: &dyn Queue) {
    let waiting = call("guest", 1, 1);
    queue.enqueue(waiting.clone(), "life 0", LONG).await.unwrap();
    for life in 1..=5 {
        let owner = format!("life {life}");
        assert_eq!(queue.release_all_except(&owner).await.unwrap(), 1);
        let leased =
            queue.lease(&owner, 10, if life % 2 == 0 { OVER } else { LONG }, everybody()).await.unwrap();
        assert_eq!((ids(&leased), leased[0].attempt), (vec![waiting.activation], 1));
        assert_eq!(ends(&leased[0]), [""; 0]);
    }
    queue.release_all_except("expires").await.unwrap();
    for _ in 0..5 {
        assert_eq!(queue.lease("expires", 10, OVER, everybody()).await.unwrap().len(), 1);
        sleep(MOMENT).await;
    }
    assert!(queue.take_exhausted(10).await.unwrap().is_empty());
    let leased = lease_and_begin(queue, "last", LONG).await;
    assert_eq!((leased.attempt, ends(&leased).len()), (1, 0));
}

/// An attempt is begun once, by whoever holds the call.
pub async fn only_the_holder_begins_and_only_once(queue: &dyn Queue) {
    let held = call("guest", 1, 3);
    let first = Lease::first(held.activation);
    queue.enqueue(held, "a", LONG).await.unwrap();
    assert!(!queue.begin(Lease { number: 2, ..first }).await.unwrap());
    assert!(!queue.begin(Lease::first(ActivationId::generate())).await.unwrap());
    assert!(queue.begin(first).await.unwrap());
    assert!(!queue.begin(first).await.unwrap());
    queue.release_all_except("b").await.unwrap();
    assert!(!queue.begin(first).await.unwrap(), "it is due, and nobody's");
    let leased = lease(queue, "b", 10, LONG).await;
    assert_eq!((leased[0].attempt, ends(&leased[0])), (2, vec!["server restarted"]));
    assert!(!queue.begin(first).await.unwrap(), "it is another's");
    // Many at a time, which share a commit.
    let many: Vec<_> = (0..64).map(|number| call("guest", number, 1)).collect();
    for call in &many {
        queue.enqueue(call.clone(), "b", LONG).await.unwrap();
    }
    for outcome in join_all(many.iter().map(|call| queue.begin(Lease::first(call.activation)))).await {
        assert!(outcome.unwrap());
    }
    queue.release_all_except("c").await.unwrap();
    assert_eq!(queue.take_exhausted(100).await.unwrap().len(), 64);
}

/// An extended lease lasts, before the call is begun and after; one of another number is not extended.
pub async fn an_extended_lease_stays(queue: &dyn Queue) {
    let (kept, runs, lost) = (call("guest", 1, 3), call("guest", 2, 3), call("guest", 3, 3));
    let (kept_id, lost_id) = (kept.activation, lost.activation);
    queue.enqueue(kept, "a", Duration::from_millis(200)).await.unwrap();
    begun(queue, &runs, "a", Duration::from_millis(200)).await;
    queue.enqueue(lost, "a", Duration::from_millis(200)).await.unwrap();
    let extended = [kept_id, ActivationId::generate(), runs.activation].map(Lease::first);
    assert_eq!(queue.extend(&extended, LONG).await.unwrap(), 2);
    let anothers = Lease { number: 2, ..Lease::first(lost_id) };
    assert_eq!(queue.extend(&[anothers], LONG).await.unwrap(), 0);
    sleep(Duration::from_millis(220)).await;
    assert_eq!(ids(&lease(queue, "b", 10, LONG).await), [lost_id]);
}

/// A clock that jumps, or a server that stood still, takes no call out of the hands of a server that has it.
pub async fn what_is_held_stays_held(queue: &dyn Queue) {
    let (waits, runs) = (call("guest", 1, 1), call("guest", 2, 1));
    let (let_go, other) = (call("guest", 3, 2), call("guest", 4, 1));
    let held = HashSet::from([waits.activation, runs.activation, other.activation].map(Lease::first));
    queue.keep_while("a", Arc::new(move |lease| held.contains(&lease)));
    queue.enqueue(waits.clone(), "a", OVER).await.unwrap();
    begun(queue, &runs, "a", OVER).await;
    queue.enqueue(let_go.clone(), "a", OVER).await.unwrap();
    queue.enqueue(other.clone(), "b", OVER).await.unwrap();
    sleep(MOMENT).await;
    assert_eq!(queue.take_exhausted(10).await.unwrap().len(), 0);
    let leased: HashSet<_> = ids(&lease(queue, "a", 10, LONG).await).into_iter().collect();
    assert_eq!(leased, HashSet::from([let_go.activation, other.activation]), "nobody holds these");
    assert!(queue.begin(Lease::first(waits.activation)).await.unwrap(), "it is still the server's");
    for id in [waits.activation, runs.activation] {
        assert!(queue.complete(Lease::first(id)).await.unwrap());
    }
    assert_eq!(queue.depth(None).await.unwrap(), 2);
}

/// A failed call comes again after its delay, with the reason.
pub async fn a_failed_call_waits_for_its_delay(queue: &dyn Queue) {
    let (soon, late) = (call("guest", 1, 3), call("guest", 2, 3));
    let failed = Attempt::new(Timestamp::from_millis(77), UNICODE.to_owned());
    let waits = call("guest", 3, 3);
    for call in [&soon, &late] {
        begun(queue, call, "a", LONG).await;
    }
    queue.enqueue(waits.clone(), "a", LONG).await.unwrap();
    let fails = async |id: ActivationId, delay: Duration| {
        queue.retry(Lease::first(id), failed.clone(), delay, false).await.unwrap()
    };
    assert!(!fails(waits.activation, OVER).await, "it is not begun");
    let delay = Duration::from_millis(200);
    let (before, began) = (Timestamp::now(), Instant::now());
    assert!(fails(soon.activation, delay).await);
    assert!(fails(late.activation, LONG).await);
    assert!(!fails(ActivationId::generate(), OVER).await);
    let leased = loop {
        let leased = lease(queue, "b", 10, LONG).await;
        if !leased.is_empty() {
            break leased;
        }
        assert!(began.elapsed() < LONG, "it does not come again");
        sleep(MOMENT).await;
    };
    // By the queue's clock, which has whole milliseconds.
    let waited = Timestamp::now().as_millis().saturating_sub(before.as_millis());
    assert!(u128::from(waited) >= delay.as_millis(), "not before the delay");
    assert_eq!(ids(&leased), [soon.activation]);
    assert_eq!((leased[0].attempt, &leased[0].earlier), (2, &vec![failed]));
    assert_eq!(queue.depth(None).await.unwrap(), 3, "a delayed call still counts");
}

/// A call whose last lease is over is handed out once, with all its attempts, and never run again.
pub async fn an_exhausted_call_is_handed_out_once(queue: &dyn Queue) {
    let lost = call("guest", 1, 2);
    begun(queue, &lost, "a", OVER).await;
    sleep(MOMENT).await;
    assert!(queue.take_exhausted(10).await.unwrap().is_empty(), "it has one attempt left");
    lease_and_begin(queue, "a", OVER).await;
    sleep(MOMENT).await;
    assert!(lease(queue, "a", 10, LONG).await.is_empty());
    let exhausted = queue.take_exhausted(10).await.unwrap();
    assert_eq!(exhausted.len(), 1);
    assert_eq!((&exhausted[0].call, exhausted[0].attempt), (&lost, 2));
    assert_eq!(ends(&exhausted[0]), ["lease expired", "lease expired"]);
    assert!(queue.take_exhausted(10).await.unwrap().is_empty(), "once");
    assert!(lease(queue, "a", 10, LONG).await.is_empty());
    assert_eq!(queue.depth(None).await.unwrap(), 1, "until it is completed");
    // Who took it died before it could record the failure.
    queue.release_all_except("b").await.unwrap();
    let again = queue.take_exhausted(10).await.unwrap();
    assert_eq!(ids(&again), [lost.activation]);
    assert!(!queue.complete(exhausted[0].lease).await.unwrap(), "who took it before has it no more");
    assert!(queue.complete(again[0].lease).await.unwrap());
    queue.release_all_except("c").await.unwrap();
    assert!(queue.take_exhausted(10).await.unwrap().is_empty());
    assert_eq!(queue.depth(None).await.unwrap(), 0);
}

/// Putting back the last attempt exhausts the call, at once.
pub async fn a_failed_last_attempt_exhausts(queue: &dyn Queue) {
    let mut expected = Vec::new();
    for accepted in [3, 1, 2] {
        let one = call("guest", accepted, 1);
        begun(queue, &one, "a", LONG).await;
        let failed = Attempt::new(Timestamp::from_millis(1), "no memory".to_owned());
        assert!(queue.retry(Lease::first(one.activation), failed, LONG, false).await.unwrap());
        expected.push((accepted, one.activation));
    }
    expected.sort();
    assert!(lease(queue, "a", 10, LONG).await.is_empty());
    let first = queue.take_exhausted(2).await.unwrap();
    let rest = queue.take_exhausted(2).await.unwrap();
    assert_eq!((first.len(), rest.len()), (2, 1));
    let taken = [first, rest].concat();
    assert_eq!(ids(&taken), expected.iter().map(|(_, id)| *id).collect::<Vec<_>>(), "the oldest first");
    assert_eq!(ends(&taken[0]), ["no memory"]);
}

/// A new server takes over what the others have leased, and what they had begun counts.
pub async fn a_restart_releases_the_others(queue: &dyn Queue) {
    let (lost, last, own) = (call("guest", 1, 2), call("guest", 2, 1), call("guest", 3, 2));
    for (call, owner) in [(&lost, "a"), (&last, "a"), (&own, "b")] {
        begun(queue, call, owner, LONG).await;
    }
    assert_eq!(queue.release_all_except("b").await.unwrap(), 2);
    assert_eq!(queue.release_all_except("b").await.unwrap(), 0);
    let leased = lease(queue, "b", 10, LONG).await;
    assert_eq!(ids(&leased), [lost.activation]);
    assert_eq!((leased[0].attempt, ends(&leased[0])), (2, vec!["server restarted"]));
    let exhausted = queue.take_exhausted(10).await.unwrap();
    assert_eq!(ids(&exhausted), [last.activation]);
    assert_eq!(ends(&exhausted[0]), ["server restarted"]);
}

/// Calls are leased in the order in which they were accepted, as many as asked for.
pub async fn the_oldest_goes_first(queue: &dyn Queue) {
    let mut calls: Vec<_> = [5, 1, 4, 2, 3].map(|accepted| call("guest", accepted, 9)).into();
    due(queue, calls.clone()).await;
    calls.sort_by_key(|call| call.accepted);
    assert!(lease(queue, "b", 0, LONG).await.is_empty());
    let mut leased = Vec::new();
    for limit in [2, 1, 10] {
        leased.extend(ids(&lease(queue, "b", limit, LONG).await));
    }
    assert_eq!(leased, calls.iter().map(|call| call.activation).collect::<Vec<_>>());
}

/// A completed call is gone, whether it was begun or not; one that nobody has any more stays.
pub async fn a_completed_call_is_forgotten(queue: &dyn Queue) {
    let [running, held, waiting] = [1, 2, 3].map(|accepted| call("guest", accepted, 3));
    let other = call("other", 4, 3);
    for call in [&running, &waiting, &other] {
        begun(queue, call, "a", LONG).await;
    }
    queue.enqueue(held.clone(), "a", LONG).await.unwrap();
    let failed = Attempt::new(Timestamp::from_millis(1), "failed".to_owned());
    assert!(queue.retry(Lease::first(waiting.activation), failed, OVER, false).await.unwrap());
    assert_eq!(queue.depth(None).await.unwrap(), 4);
    assert_eq!(queue.depth(Some(&namespace_name("guest"))).await.unwrap(), 3);
    for (id, completed) in [
        (running.activation, true),
        (held.activation, true),
        (held.activation, false),
        (waiting.activation, false),
        (ActivationId::generate(), false),
    ] {
        assert_eq!(queue.complete(Lease::first(id)).await.unwrap(), completed);
    }
    assert_eq!(queue.depth(Some(&namespace_name("guest"))).await.unwrap(), 1);
    assert_eq!(queue.depth(Some(&namespace_name("none"))).await.unwrap(), 0);
    assert_eq!(queue.depth(None).await.unwrap(), 2);
    queue.release_all_except("b").await.unwrap();
    let left: HashSet<_> = ids(&lease(queue, "b", 10, LONG).await).into_iter().collect();
    assert_eq!(left, HashSet::from([waiting.activation, other.activation]));
}

/// Who had a call before changes nothing about it any more, whoever has it now: not even who has it again, as the same attempt or the next.
pub async fn a_lease_that_is_over_does_nothing(queue: &dyn Queue) {
    let failed = |text: &str| Attempt::new(Timestamp::from_millis(1), text);
    let comes_late = async |lease: Lease| {
        assert!(!queue.begin(lease).await.unwrap());
        assert_eq!(queue.extend(&[lease], OVER).await.unwrap(), 0);
        assert!(!queue.retry(lease, failed("too late"), OVER, true).await.unwrap());
        assert!(!queue.give_back(lease, OVER).await.unwrap());
        assert!(!queue.complete(lease).await.unwrap());
    };
    let one = call("guest", 1, 3);
    let first = Lease::first(one.activation);
    begun(queue, &one, "a", OVER).await;
    sleep(MOMENT).await;
    let second = lease(queue, "a", 10, LONG).await.remove(0);
    comes_late(first).await;
    assert!(queue.begin(second.lease).await.unwrap(), "it is still held");
    comes_late(first).await;
    assert!(queue.retry(second.lease, failed("failed"), OVER, false).await.unwrap(), "its attempt went on");
    comes_late(second.lease).await;

    let third = lease(queue, "a", 10, LONG).await.remove(0);
    assert_eq!((third.attempt, ends(&third)), (3, vec!["lease expired", "failed"]));
    comes_late(second.lease).await;
    assert!(queue.give_back(third.lease, OVER).await.unwrap());
    comes_late(third.lease).await;
    let fourth = lease(queue, "a", 10, LONG).await.remove(0);
    assert_eq!(fourth.attempt, 3);
    comes_late(third.lease).await;
    assert!(queue.begin(fourth.lease).await.unwrap());
    assert!(queue.complete(fourth.lease).await.unwrap());
    comes_late(fourth.lease).await;
    assert_eq!(queue.depth(None).await.unwrap(), 0);
}

/// What was accepted is what is run, whatever it contains.
pub async fn values_survive(queue: &dyn Queue) {
    let mut large = call("R&D @x.y", 1, u32::MAX);
    large.path = "R&D @x.y/my package/do it".parse().unwrap();
    large.subject = UNICODE.to_owned();
    large.transaction = UNICODE.to_owned();
    large.arguments = Bytes::from((0..1 << 20).map(|at| at as u8).collect::<Vec<_>>());
    let empty = QueuedCall { arguments: Bytes::new(), ..call("guest", 2, 2) };
    due(queue, vec![large.clone(), empty.clone()]).await;
    let leased = lease(queue, "b", 10, LONG).await;
    let calls: Vec<_> = leased.into_iter().map(|leased| leased.call).collect();
    assert!(calls == [large, empty]);
}
