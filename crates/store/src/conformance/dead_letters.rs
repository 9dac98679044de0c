//! What every driver does with calls that failed for good.

use std::time::Duration;

use bytes::Bytes;
use flint_model::{ActivationId, Attempt, ByteSize, DeadLetterReason, FunctionPath, RetryPolicy, Timestamp};
use futures_util::future::join_all;
use tokio::time::sleep;

use super::{
    Driver, Opened,
    sample::{LONG, UNICODE, activation, call, everybody, lease, namespace, namespace_name},
};
use crate::{
    Buried, DeadLetter, DeadLetterBounds, DeadLetterUsage, Lease, LetterQuery, Page, QueuedCall, Redrive,
    WhenFull,
};

const ALL: Page = Page { skip: 0, limit: usize::MAX };

pub(super) const ROOM: DeadLetterBounds =
    DeadLetterBounds { letters: 1000, bytes: ByteSize::mib(64), when_full: WhenFull::DropOldest };

const KEPT: Buried = Buried { kept: true, dropped: 0 };

fn failure(text: &str) -> Attempt {
    Attempt::new(Timestamp::from_millis(7), text)
}

/// Accepts a call and begins it.
async fn begun(opened: &Opened, call: &QueuedCall) {
    opened.queue.enqueue(call.clone(), "a", LONG).await.unwrap();
    assert!(opened.queue.begin(Lease::first(call.activation)).await.unwrap());
}

/// Makes a letter of a call.
async fn bury(opened: &Opened, call: &QueuedCall, bounds: DeadLetterBounds) -> Buried {
    begun(opened, call).await;
    let (lease, failed) = (Lease::first(call.activation), Some(failure("it failed")));
    opened.dead_letters.bury(lease, DeadLetterReason::AttemptsUsed, failed, bounds).await.unwrap()
}

async fn letters(opened: &Opened, namespace: &str) -> Vec<DeadLetter> {
    opened.dead_letters.list(&namespace_name(namespace), &LetterQuery::default(), ALL).await.unwrap()
}

async fn ids(opened: &Opened, namespace: &str) -> Vec<ActivationId> {
    letters(opened, namespace).await.into_iter().map(|letter| letter.call.activation).collect()
}

pub(super) fn anew() -> Redrive {
    Redrive {
        activation: ActivationId::generate(),
        policy: RetryPolicy { max_attempts: 5, max_age: Some(LONG), ..RetryPolicy::default() },
        transaction: "another".to_owned(),
        at: Timestamp::now(),
    }
}

/// A letter is the call as it was accepted, with all its attempts, and the queue has it no more.
pub async fn a_letter_has_everything(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let mut one = call("guest", 1, 2);
    one.arguments = Bytes::from_static("{\"a\":\"Grüße\"}".as_bytes());
    one.subject = UNICODE.to_owned();
    begun(opened, &one).await;
    let first = Lease::first(one.activation);
    assert!(opened.queue.retry(first, failure("first"), Duration::ZERO, false).await.unwrap());
    let held = lease(&*opened.queue, "b", 10, LONG).await[0].lease;
    assert!(opened.queue.begin(held).await.unwrap());
    let before = Timestamp::now();
    let mut last = failure(UNICODE);
    last.activation = Some(ActivationId::generate());
    let buried = opened.dead_letters.bury(held, DeadLetterReason::TooOld, Some(last.clone()), ROOM).await;
    assert_eq!(buried.unwrap(), KEPT);
    let letter = opened.dead_letters.get(&one.namespace, one.activation).await.unwrap().unwrap();
    assert!((before..=Timestamp::now()).contains(&letter.died));
    assert_eq!((&letter.call, letter.reason), (&one, DeadLetterReason::TooOld));
    assert_eq!((&letter.attempts, letter.arguments), (&vec![failure("first"), last], ByteSize::bytes(15)));
    let listed = letters(opened, "guest").await;
    assert_eq!(
        listed,
        [DeadLetter { call: QueuedCall { arguments: Bytes::new(), ..one.clone() }, ..letter }]
    );
    assert_eq!(opened.queue.depth(None).await.unwrap(), 0);
    assert!(!opened.queue.begin(held).await.unwrap());
    opened.queue.release_all_except("c").await.unwrap();
    assert!(lease(&*opened.queue, "c", 10, LONG).await.is_empty());
    assert!(opened.queue.take_exhausted(10).await.unwrap().is_empty());
}

/// What the queue does not have, or no more, becomes no letter, and nothing is made one by who had it before; what had all its attempts becomes one
/// with those.
pub async fn what_is_over_becomes_no_letter(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let over = call("guest", 1, 1);
    begun(opened, &over).await;
    assert!(opened.queue.complete(Lease::first(over.activation)).await.unwrap());
    let twice = call("guest", 2, 1);
    assert_eq!(bury(opened, &twice, ROOM).await, KEPT);
    for id in [over.activation, twice.activation, ActivationId::generate()] {
        let (lease, reason) = (Lease::first(id), DeadLetterReason::TooOld);
        let again = opened.dead_letters.bury(lease, reason, None, ROOM).await.unwrap();
        assert_eq!(again, Buried::default());
    }
    assert_eq!(ids(opened, "guest").await, [twice.activation]);

    let exhausted = call("guest", 3, 1);
    begun(opened, &exhausted).await;
    let (before, reason) = (Lease::first(exhausted.activation), DeadLetterReason::AttemptsUsed);
    opened.queue.release_all_except("b").await.unwrap();
    assert_eq!(opened.dead_letters.bury(before, reason, None, ROOM).await.unwrap(), Buried::default());
    let taken = opened.queue.take_exhausted(10).await.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(opened.dead_letters.bury(before, reason, None, ROOM).await.unwrap(), Buried::default());
    assert_eq!(opened.dead_letters.bury(taken[0].lease, reason, None, ROOM).await.unwrap(), KEPT);
    let letter = opened.dead_letters.get(&exhausted.namespace, exhausted.activation).await.unwrap().unwrap();
    assert_eq!(letter.attempts, taken[0].earlier);
}

/// Letters come latest first, by the page, and of one function on request; other namespaces' are not among them.
pub async fn letters_are_listed(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let mut expected = Vec::new();
    for at in 0..5_u64 {
        let mut one = call("guest", at, 1);
        if at % 2 == 0 {
            one.path = "guest/package/even".parse().unwrap();
        }
        bury(opened, &one, ROOM).await;
        bury(opened, &call("other", at, 1), ROOM).await;
        expected.insert(0, one.activation);
        sleep(Duration::from_millis(3)).await;
    }
    assert_eq!(ids(opened, "guest").await, expected);
    let guest = namespace_name("guest");
    let page =
        opened.dead_letters.list(&guest, &LetterQuery::default(), Page { skip: 1, limit: 2 }).await.unwrap();
    assert_eq!(page.iter().map(|letter| letter.call.activation).collect::<Vec<_>>(), expected[1..3]);
    let even: FunctionPath = "guest/package/even".parse().unwrap();
    let which = LetterQuery { function: Some(even.clone()), oldest_first: false };
    let of_one = opened.dead_letters.list(&guest, &which, ALL).await.unwrap();
    assert_eq!(of_one.iter().map(|letter| letter.call.accepted.as_millis()).collect::<Vec<_>>(), [4, 2, 0]);
    let foreign = ids(opened, "other").await[0];
    assert_eq!(opened.dead_letters.get(&guest, foreign).await.unwrap(), None);
    assert!(!opened.dead_letters.remove(&guest, foreign).await.unwrap());
    assert!(!opened.dead_letters.redrive(&guest, foreign, anew()).await.unwrap());
    assert!(opened.dead_letters.remove(&guest, expected[0]).await.unwrap());
    assert!(!opened.dead_letters.remove(&guest, expected[0]).await.unwrap());
    assert_eq!(ids(opened, "guest").await, expected[1..]);
    assert_eq!(opened.dead_letters.usage(None).await.unwrap().letters, 9);
    let first = LetterQuery { oldest_first: true, ..LetterQuery::default() };
    let oldest = opened.dead_letters.list(&guest, &first, Page { skip: 0, limit: 1 }).await.unwrap();
    assert_eq!(oldest[0].call.activation, expected[4]);
    assert_eq!(opened.dead_letters.remove_some(&guest, Some(&even), 1).await.unwrap(), 1);
    assert_eq!(ids(opened, "guest").await, expected[1..4], "the oldest first");
    assert_eq!(opened.dead_letters.remove_some(&guest, Some(&even), 9).await.unwrap(), 1);
    assert_eq!(opened.dead_letters.remove_some(&guest, None, 9).await.unwrap(), 2);
    assert_eq!((ids(opened, "guest").await.len(), ids(opened, "other").await.len()), (0, 5));
}

/// Letters of the same moment are in order of id, in pages without gap or overlap, and go in that order.
pub async fn letters_of_a_moment_are_in_order_of_id(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let calls: Vec<_> = (0..40).map(|at| call("guest", at, 1)).collect();
    join_all(calls.iter().map(|call| bury(opened, call, ROOM))).await;
    let listed = letters(opened, "guest").await;
    let key = |letter: &DeadLetter| (letter.died, letter.call.activation.as_u128());
    assert_eq!(listed.len(), calls.len());
    assert!(listed.is_sorted_by(|a, b| key(a) > key(b)), "the latest first, of equals the greatest id");
    let guest = namespace_name("guest");
    for oldest_first in [false, true] {
        let query = LetterQuery { oldest_first, ..LetterQuery::default() };
        let mut pages = Vec::new();
        for skip in (0..calls.len()).step_by(7) {
            let page = Page { skip, limit: 7 };
            pages.extend(opened.dead_letters.list(&guest, &query, page).await.unwrap());
        }
        if oldest_first {
            pages.reverse();
        }
        assert_eq!(pages, listed);
    }
    assert_eq!(opened.dead_letters.remove_some(&guest, None, 10).await.unwrap(), 10);
    assert_eq!(letters(opened, "guest").await, listed[..30]);
}

/// A redriven letter is an accepted call again, once, whoever asks at the same time.
pub async fn a_letter_is_redriven_once(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let mut one = call("guest", 1, 1);
    one.arguments = Bytes::from_static(b"{\"n\":1}");
    one.promised = true;
    bury(opened, &one, ROOM).await;
    let redrives: Vec<_> = (0..8).map(|_| anew()).collect();
    let asked = redrives
        .iter()
        .map(|redrive| opened.dead_letters.redrive(&one.namespace, one.activation, redrive.clone()));
    let outcomes: Vec<_> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|redriven| **redriven).count(), 1);
    let winner = &redrives[outcomes.iter().position(|redriven| *redriven).unwrap()];
    assert!(letters(opened, "guest").await.is_empty());
    assert_eq!(opened.queue.depth(Some(&one.namespace)).await.unwrap(), 1);
    let leased = opened.queue.lease("b", 10, LONG, everybody()).await.unwrap();
    let expected = QueuedCall {
        activation: winner.activation,
        cause: Some(one.activation),
        policy: winner.policy.clone(),
        transaction: winner.transaction.clone(),
        accepted: winner.at,
        promised: false,
        ..one
    };
    assert_eq!(leased.len(), 1);
    assert_eq!((&leased[0].call, leased[0].attempt, leased[0].earlier.len()), (&expected, 1, 0));
    // And it may become one again.
    assert!(opened.queue.begin(leased[0].lease).await.unwrap());
    let reason = DeadLetterReason::AttemptsUsed;
    assert_eq!(opened.dead_letters.bury(leased[0].lease, reason, None, ROOM).await.unwrap(), KEPT);
    assert_eq!(ids(opened, "guest").await, [expected.activation]);
}

/// Bounds hold for each namespace, and what goes is what was said and is counted.
pub async fn bounds_hold(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let three = DeadLetterBounds { letters: 3, ..ROOM };
    let mut all = Vec::new();
    for at in 0..5 {
        let one = call("guest", at, 1);
        let dropped = usize::from(at > 2);
        assert_eq!(bury(opened, &one, three).await, Buried { kept: true, dropped });
        all.insert(0, one.activation);
        sleep(Duration::from_millis(3)).await;
    }
    assert_eq!(ids(opened, "guest").await, all[..3]);
    let newest = DeadLetterBounds { when_full: WhenFull::DropNewest, ..three };
    assert_eq!(bury(opened, &call("guest", 9, 1), newest).await, Buried { kept: false, dropped: 1 });
    assert_eq!(bury(opened, &call("other", 9, 1), newest).await, KEPT, "each namespace has its own");
    assert_eq!(ids(opened, "guest").await, all[..3]);
    assert_eq!(opened.queue.depth(None).await.unwrap(), 0);

    let large = |size: usize| QueuedCall { arguments: Bytes::from(vec![b'x'; size]), ..call("bytes", 1, 1) };
    let bytes = DeadLetterBounds { bytes: ByteSize::bytes(100_000), ..ROOM };
    assert_eq!(
        bury(opened, &large(99_900), bytes).await,
        Buried { kept: false, dropped: 1 },
        "too large for all of it"
    );
    for _ in 0..10 {
        assert!(bury(opened, &large(1_000), bytes).await.kept);
    }
    let before = opened.dead_letters.usage(Some(&namespace_name("bytes"))).await.unwrap();
    assert!((10_000..16_000).contains(&before.bytes) && before.letters == 10, "{before:?}");
    let buried = bury(opened, &large(95_000), bytes).await;
    let after = opened.dead_letters.usage(Some(&namespace_name("bytes"))).await.unwrap();
    assert!(
        buried.kept && after.letters == 11 - buried.dropped && after.bytes <= 100_000,
        "{buried:?} {after:?}"
    );
    assert!(buried.dropped > 5);
    for id in ids(opened, "bytes").await {
        assert!(opened.dead_letters.remove(&namespace_name("bytes"), id).await.unwrap());
    }
    assert_eq!(
        opened.dead_letters.usage(Some(&namespace_name("bytes"))).await.unwrap(),
        DeadLetterUsage::default()
    );
    let none = DeadLetterBounds { letters: 0, ..ROOM };
    assert_eq!(bury(opened, &large(1), none).await, Buried { kept: false, dropped: 1 });
}

/// Old letters go, the oldest first.
pub async fn old_letters_go(driver: &dyn Driver) {
    let opened = &driver.open().await;
    for at in 0..4 {
        bury(opened, &call(if at % 2 == 0 { "guest" } else { "other" }, at, 1), ROOM).await;
        sleep(Duration::from_millis(3)).await;
    }
    let kept = letters(opened, "other").await[0].clone();
    assert_eq!(opened.dead_letters.expire(Timestamp::from_millis(1), 10).await.unwrap(), 0);
    assert_eq!(opened.dead_letters.expire(kept.died, 2).await.unwrap(), 2);
    let left: Vec<_> = letters(opened, "guest").await.iter().map(|letter| letter.call.accepted).collect();
    assert_eq!(left, [Timestamp::from_millis(2)], "the oldest of all go first");
    assert_eq!(opened.dead_letters.expire(kept.died, 10).await.unwrap(), 1);
    assert_eq!(opened.dead_letters.usage(None).await.unwrap().letters, 1);
    assert_eq!(letters(opened, "other").await, [kept]);
}

/// A letter of a composition begins with its first step when it is redriven, and so does one that is attempted anew.
pub async fn a_composition_begins_anew(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let (again, dead) = (call("guest", 1, 3), call("guest", 2, 3));
    for one in [&again, &dead] {
        opened.queue.enqueue(one.clone(), "a", LONG).await.unwrap();
        let held = Lease::first(one.activation);
        opened.compositions.reach(held, ActivationId::generate(), "step".into()).await.unwrap();
        assert!(opened.queue.begin(held).await.unwrap());
    }
    let first = Lease::first(again.activation);
    assert!(opened.queue.retry(first, failure("x"), Duration::ZERO, false).await.unwrap());
    let held = lease(&*opened.queue, "b", 10, LONG).await[0].lease;
    assert!(opened.compositions.take_up(held).await.unwrap().is_some(), "it goes on where it was");
    assert!(opened.queue.begin(held).await.unwrap());
    assert!(opened.queue.retry(held, failure("x"), Duration::ZERO, true).await.unwrap());
    let held = lease(&*opened.queue, "b", 10, LONG).await[0].lease;
    assert_eq!(opened.compositions.take_up(held).await.unwrap(), None);
    let (held, reason) = (Lease::first(dead.activation), DeadLetterReason::AttemptsUsed);
    assert_eq!(opened.dead_letters.bury(held, reason, None, ROOM).await.unwrap(), KEPT);
    assert!(opened.dead_letters.redrive(&dead.namespace, dead.activation, anew()).await.unwrap());
    let held = lease(&*opened.queue, "b", 10, LONG).await[0].lease;
    assert_eq!(opened.compositions.take_up(held).await.unwrap(), None);
}

/// Letters and redriven calls are there after a restart; with their namespace, all its calls go.
pub async fn letters_stay_until_their_namespace_goes(driver: &dyn Driver) {
    let opened = driver.open().await;
    let (stays, goes, waits) = (call("guest", 1, 1), call("guest", 2, 1), call("guest", 3, 9));
    for one in [&stays, &goes] {
        bury(&opened, one, ROOM).await;
    }
    bury(&opened, &call("other", 1, 1), ROOM).await;
    begun(&opened, &waits).await;
    let held = Lease::first(waits.activation);
    opened.compositions.reach(held, ActivationId::generate(), "s".into()).await.unwrap();
    assert!(opened.queue.retry(held, failure("x"), LONG, false).await.unwrap());
    let redrive = anew();
    assert!(opened.dead_letters.redrive(&goes.namespace, goes.activation, redrive.clone()).await.unwrap());
    let usage = opened.dead_letters.usage(Some(&stays.namespace)).await.unwrap();
    let waiting = opened.queue.waiting_again(None).await.unwrap();
    opened.close.await;

    let opened = driver.open().await;
    assert_eq!(ids(&opened, "guest").await, [stays.activation]);
    assert_eq!(opened.dead_letters.usage(Some(&stays.namespace)).await.unwrap(), usage, "counted anew");
    assert_eq!(opened.queue.waiting_again(None).await.unwrap(), waiting);
    let leased = opened.queue.lease("b", 10, LONG, everybody()).await.unwrap();
    assert_eq!(leased.iter().map(|leased| leased.call.activation).collect::<Vec<_>>(), [redrive.activation]);
    assert!(opened.catalog.delete_namespace(&stays.namespace).await.unwrap());
    assert!(ids(&opened, "guest").await.is_empty());
    assert_eq!((opened.queue.depth(None).await.unwrap(), ids(&opened, "other").await.len()), (0, 1));
    assert!(!opened.queue.begin(leased[0].lease).await.unwrap(), "also what a server holds");
    assert!(!opened.queue.complete(leased[0].lease).await.unwrap());
    // A number that is used again brings nothing back.
    opened.catalog.put_namespace(&namespace("guest")).await.unwrap();
    let next = call("guest", 9, 1);
    begun(&opened, &next).await;
    let held = Lease::first(next.activation);
    assert_eq!(opened.compositions.take_up(held).await.unwrap(), None);
    opened.activations.append(activation("guest", "guest/a", 1, 1));
    assert!(opened.queue.complete(held).await.unwrap());
    opened.close.await;
}
