//! Cases of the journal of compositions.

use bytes::Bytes;
use flint_model::{ActivationId, Attempt, Timestamp};

use super::{
    Driver, Opened,
    sample::{LONG, call, lease, namespace_name},
};
use crate::{CallPhase, CompositionStep, Lease, StoreError};

/// A call that the queue has, held by `a`.
async fn accepted(opened: &Opened) -> Lease {
    let call = call("guest", 1, 3);
    let held = Lease::first(call.activation);
    opened.queue.enqueue(call, "a", LONG).await.unwrap();
    held
}

fn ends(step: Option<CompositionStep>) -> (Bytes, Vec<String>) {
    let CompositionStep { state, earlier } = step.unwrap();
    (state, earlier.into_iter().map(|attempt| attempt.ended_by).collect())
}

/// The last step that was reached is the one to go on from, and attempts belong to their step.
pub async fn the_last_step_counts(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let held = accepted(opened).await;
    let journal = &opened.compositions;
    assert_eq!(journal.take_up(held).await.unwrap(), None);
    let large = Bytes::from(vec![b'x'; 1 << 20]);
    for state in [&b"one"[..], &large, b"three"] {
        let step = ActivationId::generate();
        journal.reach(held, step, Bytes::copy_from_slice(state)).await.unwrap();
        assert!(journal.begin(held, step).await.unwrap());
    }
    assert_eq!(ends(journal.take_up(held).await.unwrap()), ("three".into(), vec!["server restarted".into()]));
    journal.reach(held, ActivationId::generate(), "four".into()).await.unwrap();
    assert_eq!(ends(journal.take_up(held).await.unwrap()), ("four".into(), vec![]));
}

/// Every attempt that was begun is counted once, whatever ended it.
pub async fn attempts_at_a_step_are_counted(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let held = accepted(opened).await;
    let journal = &opened.compositions;
    let step = ActivationId::generate();
    journal.reach(held, step, "s".into()).await.unwrap();
    let failed = || Attempt::new(Timestamp::from_millis(7), "failed".to_owned());
    assert!(!journal.fail(held, step, failed()).await.unwrap(), "none was begun");
    assert!(journal.begin(held, step).await.unwrap());
    assert!(journal.fail(held, step, failed()).await.unwrap());
    assert!(!journal.fail(held, step, failed()).await.unwrap());
    assert!(journal.begin(held, step).await.unwrap());
    for _ in 0..2 {
        let step = journal.take_up(held).await.unwrap();
        assert_eq!(step.as_ref().map(|step| step.earlier[0].start), Some(Timestamp::from_millis(7)));
        assert_eq!(ends(step).1, ["failed", "server restarted"]);
    }
}

/// An attempt whose failure could not be written down, as on a full disk, counts when the next one begins.
pub async fn an_attempt_without_an_end_counts(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let (held, step) = (accepted(opened).await, ActivationId::generate());
    let journal = &opened.compositions;
    journal.reach(held, step, "s".into()).await.unwrap();
    for _ in 0..2 {
        assert!(journal.begin(held, step).await.unwrap());
    }
    let failed = Attempt::new(Timestamp::from_millis(7), "failed");
    assert!(journal.fail(held, step, failed).await.unwrap());
    assert!(journal.begin(held, step).await.unwrap());
    assert_eq!(ends(journal.take_up(held).await.unwrap()).1, ["unknown", "failed", "server restarted"]);
}

/// An attempt that begins or ends when its composition has gone on to another step is none at that one.
pub async fn a_step_that_is_over_writes_nothing(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let held = accepted(opened).await;
    let journal = &opened.compositions;
    let (before, now) = (ActivationId::generate(), ActivationId::generate());
    let failed = |text: &str| Attempt::new(Timestamp::from_millis(7), text);
    journal.reach(held, before, "one".into()).await.unwrap();
    assert!(journal.begin(held, before).await.unwrap());
    journal.reach(held, now, "two".into()).await.unwrap();
    assert!(!journal.fail(held, before, failed("too late")).await.unwrap());
    assert!(!journal.begin(held, before).await.unwrap());
    assert!(!journal.fail(held, now, failed("of another")).await.unwrap(), "none was begun");
    assert_eq!(ends(journal.take_up(held).await.unwrap()), ("two".into(), vec![]));
    assert!(journal.begin(held, now).await.unwrap());
    assert!(!journal.begin(held, before).await.unwrap());
    assert!(!journal.fail(held, before, failed("too late")).await.unwrap());
    assert!(journal.fail(held, now, failed("failed")).await.unwrap(), "it was under way");
    assert_eq!(ends(journal.take_up(held).await.unwrap()).1, ["failed"]);
}

/// A composition runs from its first step on, for as long as somebody has it in hand.
pub async fn a_composition_at_a_step_runs(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let held = accepted(opened).await;
    let guest = namespace_name("guest");
    let phase = async || opened.queue.find(&guest, held.activation).await.unwrap().unwrap().phase;
    assert_eq!(phase().await, CallPhase::Waiting);
    opened.compositions.reach(held, ActivationId::generate(), "s".into()).await.unwrap();
    assert_eq!(phase().await, CallPhase::Running);
    opened.queue.release_all_except("b").await.unwrap();
    assert_eq!(phase().await, CallPhase::Waiting);
}

/// A composition is a call that the queue has, and nothing of it is left when that is complete.
pub async fn a_journal_goes_with_its_call(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let (gone, stays) = (accepted(opened).await, accepted(opened).await);
    let (journal, step) = (&opened.compositions, ActivationId::generate());
    for held in [gone, stays] {
        journal.reach(held, step, "s".into()).await.unwrap();
    }
    assert!(opened.queue.complete(gone).await.unwrap());
    assert!(!journal.begin(gone, step).await.unwrap());
    assert_eq!(journal.take_up(gone).await.unwrap(), None);
    assert!(matches!(journal.reach(gone, step, "s".into()).await, Err(StoreError::Conflict)));
    assert_eq!(ends(journal.take_up(stays).await.unwrap()), ("s".into(), vec![]));
    // A number that is used again brings nothing back.
    let next = accepted(opened).await;
    assert_eq!(journal.take_up(next).await.unwrap(), None);
}

/// Who had a composition before writes nothing into its journal any more.
pub async fn a_lease_that_is_over_writes_nothing(driver: &dyn Driver) {
    let opened = &driver.open().await;
    let before = accepted(opened).await;
    let (journal, step) = (&opened.compositions, ActivationId::generate());
    journal.reach(before, step, "one".into()).await.unwrap();
    opened.queue.release_all_except("b").await.unwrap();
    let now = lease(&*opened.queue, "b", 1, LONG).await[0].lease;
    assert!(journal.begin(now, step).await.unwrap());
    let next = ActivationId::generate();
    assert!(matches!(journal.reach(before, next, "two".into()).await, Err(StoreError::Conflict)));
    assert!(!journal.begin(before, step).await.unwrap());
    let failed = Attempt::new(Timestamp::from_millis(7), "too late");
    assert!(!journal.fail(before, step, failed).await.unwrap());
    assert_eq!(journal.take_up(before).await.unwrap(), None);
    assert_eq!(ends(journal.take_up(now).await.unwrap()), ("one".into(), vec!["server restarted".into()]));
}

/// What was reached before anything that was acknowledged is there after a restart, and the attempt that was under way counts.
pub async fn a_composition_is_where_it_was(driver: &dyn Driver) {
    let opened = driver.open().await;
    let (held, step) = (accepted(&opened).await, ActivationId::generate());
    opened.compositions.reach(held, step, "one".into()).await.unwrap();
    opened.close.await;
    let opened = driver.open().await;
    assert_eq!(ends(opened.compositions.take_up(held).await.unwrap()), ("one".into(), vec![]));
    assert!(!opened.compositions.begin(held, ActivationId::generate()).await.unwrap());
    assert!(opened.compositions.begin(held, step).await.unwrap());
    opened.close.await;
    for _ in 0..2 {
        let opened = driver.open().await;
        let step = opened.compositions.take_up(held).await.unwrap();
        assert_eq!(ends(step), ("one".into(), vec!["server restarted".into()]));
        opened.close.await;
    }
}

/// Composes until the process is killed; `say` is told each attempt at a step that is acknowledged.
pub(super) async fn compose_until_killed(opened: &Opened, owner: &str, say: impl Fn(ActivationId, u64)) {
    loop {
        let call = call("guest", 1, 3);
        let held = Lease::first(call.activation);
        opened.queue.enqueue(call, owner, LONG).await.unwrap();
        for number in 0..5 {
            let step = ActivationId::generate();
            opened.compositions.reach(held, step, Bytes::from(number.to_string())).await.unwrap();
            assert!(opened.compositions.begin(held, step).await.unwrap());
            say(held.activation, number);
        }
    }
}

/// What [`compose_until_killed`] has left of one: the step that was said, with the attempt at it, or the next step.
pub(super) async fn check_after_kill(opened: &Opened, held: Lease, said: u64) {
    let id = held.activation;
    let (state, earlier) = ends(opened.compositions.take_up(held).await.unwrap());
    let step: u64 = str::from_utf8(&state).unwrap().parse().unwrap();
    assert!((said..=said + 1).contains(&step), "{id} was at step {said} and is at {step}");
    assert!(earlier.len() <= 1 && earlier.iter().all(|end| end == "server restarted"), "{earlier:?}");
    assert!(step > said || earlier.len() == 1, "{id}: an attempt at step {said} is lost");
}
