//! Accepted calls that this host cannot run at present wait for it, by a clock that the test moves.

use std::{sync::Arc, time::Duration};

use flint_model::{ActivationId, DeadLetterReason, Status, Timestamp};
use flint_store::CallPhase;
use serde_json::json;

use crate::support::{
    ManualClock, Server,
    composing::sequence,
    places_are_free,
    retrying::{accept, deploy, letter, metric, minutes, record, result, start, waiting},
};

/// Until when a call is put off, and why.
async fn put_off(server: &Server, id: ActivationId) -> (u64, String) {
    let guest = server.guest().await;
    match server.controller.accepted_call(&guest, &guest.namespace.name, id).await.unwrap().phase {
        CallPhase::PutOff { until, why } => (until.as_millis(), why),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_whose_runtime_is_missing_waits_for_it_without_attempts() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    for (name, retry) in [("f", json!(null)), ("hasty", json!({"max_age": "10s"}))] {
        deploy(&server, name, "echo", retry).await;
    }
    sequence(&server, "s", &["guest/f", "guest/f"]).await.unwrap();
    server.stop().await;

    let by = || Arc::clone(&clock) as _;
    let server = Server::start_without_runtimes(dir.path(), minutes(), by()).await;
    let hasty = accept(&server, "hasty").await;
    metric(&server, "flint_async_put_off_total", 1).await;
    waiting(&server, 1).await;
    places_are_free(&server).await;
    let (until, why) = put_off(&server, hasty).await;
    assert_eq!(until, clock.millis() + 1_000);
    assert!(
        why.contains("guest/hasty cannot run on this host") && why.contains("no node was found"),
        "{why}"
    );
    clock.advance(9_000);
    let late = record(&server, hasty).await;
    assert!(result(&late)["cause"].as_str().unwrap().contains("no node was found"), "{late:?}");
    assert_eq!(letter(&server, hasty).await.reason, DeadLetterReason::TooOld);
    let patient = [accept(&server, "f").await, accept(&server, "s").await];
    // It is counted before the queue has it, and until then the clock must not move.
    metric(&server, "flint_async_put_off_total", 3).await;
    waiting(&server, 2).await;
    clock.advance(1_000);
    metric(&server, "flint_async_put_off_total", 5).await;
    waiting(&server, 2).await;
    for id in patient {
        let (_, why) = put_off(&server, id).await;
        assert!(why.contains("guest/f cannot run on this host"), "{why}");
    }
    server.stop().await;

    let server = Server::start_without_runtimes(dir.path(), minutes(), by()).await;
    clock.advance(60_000);
    metric(&server, "flint_async_put_off_total", 2).await;
    waiting(&server, 2).await;
    server.executor.find_runtimes();
    clock.advance(60_000);
    for id in patient {
        let done = record(&server, id).await;
        assert_eq!((done.response.status, done.attempts.len()), (Status::Success, 0));
    }
    metric(&server, "flint_async_queue_depth", 0).await;
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn calls_that_are_put_off_leave_half_of_what_may_wait_to_retries() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "echo", json!(null)).await;
    server.stop().await;

    let mut few = minutes();
    few.asynchronous.retries_waiting = 4;
    let server = Server::start_without_runtimes(dir.path(), few, Arc::clone(&clock) as _).await;
    // Two are put off, two are attempted like any other and wait for their next attempt, and no more may wait.
    for calls in 1..=4 {
        accept(&server, "f").await;
        waiting(&server, calls).await;
    }
    metric(&server, "flint_async_put_off_total", 2).await;
    metric(&server, "flint_async_retried_total", 2).await;
    let id = accept(&server, "f").await;
    assert_eq!(letter(&server, id).await.reason, DeadLetterReason::TooManyWaiting);
    places_are_free(&server).await;
    server.stop().await;
}

/// No wait brings the code back: a deploy does.
#[tokio::test]
async fn a_call_whose_code_is_lost_is_not_put_off_and_is_redriven_once_it_is_deployed_again() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "echo", json!(0)).await;
    assert!(server.blobs().collect(&[], Duration::ZERO).await.unwrap() > 0);
    server.stop().await;

    let server = start(dir.path(), &clock).await;
    let id = accept(&server, "f").await;
    let lost = record(&server, id).await;
    let result = result(&lost);
    let cause = result["cause"].as_str().unwrap();
    assert!(cause.contains("is missing from the store: deploy it again"), "{cause}");
    assert_eq!(letter(&server, id).await.reason, DeadLetterReason::AttemptsUsed);
    metric(&server, "flint_async_put_off_total", 0).await;
    deploy(&server, "f", "echo", json!(0)).await;
    let guest = server.guest().await;
    let redriven = server.controller.redrive(&guest, &guest.namespace.name, id, "t", None).await.unwrap();
    assert_eq!(record(&server, redriven.activation).await.response.status, Status::Success);
    places_are_free(&server).await;
    server.stop().await;
}
