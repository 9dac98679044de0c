//! The queue is told of failed attempts late, answers late, or cannot be told.

use std::{path::Path, sync::Arc, time::Duration};

use flint_model::Status;
use flint_store::{CallPhase, Lease, conformance::sample};
use flint_store_sqlite::{SqliteStore, StoreConfig};
use serde_json::json;

use crate::support::{
    Server,
    composing::sequence,
    config, eventually,
    gated::Gated,
    places_are_free,
    retrying::{accept, deploy, metric, record, result},
};

/// A server that has a call again soon after the queue could not be told what became of it.
async fn with_brief_leases(dir: &Path, gated: &Arc<Gated>) -> Server {
    let mut config = config();
    config.asynchronous.lease = Duration::from_secs(1);
    Server::start_gated(dir, config, gated).await
}

/// And is given back when that call, which waits, ends.
async fn only_the_other_ones_place_is_taken(server: &Server) {
    assert_eq!(server.controller.calls_in_flight(), 1, "the other one's");
    eventually("its end", || async {
        server.executor.go();
        (server.controller.calls_in_flight() == 0).then_some(())
    })
    .await;
}

/// A back-off can be over before the attempt's own task has learnt that it began.
#[tokio::test]
async fn a_call_that_is_due_again_at_once_is_run_with_its_key() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = Server::start_gated(dir.path(), config(), &gated).await;
    let policy = json!({"retries": 1, "backoff": "1ms", "max_backoff": "1ms"});
    deploy(&server, "f", "fails developer 1", policy).await;
    let learns = gated.hold_retries().await;
    let id = accept(&server, "f").await;
    let record = record(&server, id).await;
    let known = json!({"activation": id.to_string(), "apiKey": "the key", "times": 2});
    assert_eq!((result(&record), record.attempts.len()), (known, 1));
    drop(learns);
    metric(&server, "flint_async_queue_depth", 0).await;
    places_are_free(&server).await;
    server.stop().await;
}

/// A failed attempt that is written after its lease has expired is not the one that has begun since.
#[tokio::test]
async fn a_failure_that_comes_late_ends_no_later_attempt() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = with_brief_leases(dir.path(), &gated).await;
    deploy(&server, "f", "fails developer 9", json!(5)).await;
    let written = gated.hold_failures().await;
    let id = accept(&server, "f").await;
    let queue = server.queue();
    let next = eventually("the next attempt", || async {
        queue.lease_again("another", 1, sample::LONG, sample::everybody()).await.unwrap().pop()
    })
    .await;
    // The second one, unless the server looked for expired leases in between: then its second one is late as well.
    let late = next.attempt - 1;
    assert_eq!((next.call.activation, late > 0), (id, true));
    assert!(queue.begin(next.lease).await.unwrap());
    drop(written);
    places_are_free(&server).await;
    let state = queue.find(&next.call.namespace, id).await.unwrap().unwrap();
    let begun = (state.begun, state.attempts.len());
    assert_eq!((state.phase, begun), (CallPhase::Running, (late + 1, late as usize)));
    server.stop().await;
}

/// An exhausted call runs no more: it only waits until it can be given up.
#[tokio::test]
async fn what_cannot_be_given_up_at_the_start_takes_no_place() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "wait", json!(0)).await;
    accept(&server, "f").await;
    let runs = || async { (!server.executor.calls_of("guest/f").is_empty()).then_some(()) };
    eventually("its only attempt", runs).await;
    server.die();
    gated.fill(true);
    let server = Server::start_gated(dir.path(), config(), &gated).await;
    metric(&server, "flint_async_queue_depth", 1).await;
    assert!(gated.has_refused("take_exhausted"));
    assert_eq!(server.controller.calls_in_flight(), 0);
    server.stop().await;
}

/// As on a full disk. It comes back as a call without an attempt, which has its place already.
#[tokio::test]
async fn a_call_whose_attempt_cannot_be_counted_keeps_its_place() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = with_brief_leases(dir.path(), &gated).await;
    deploy(&server, "other", "wait", json!(null)).await;
    accept(&server, "other").await;
    let runs = || async { (!server.executor.calls_of("guest/other").is_empty()).then_some(()) };
    eventually("another call", runs).await;
    deploy(&server, "f", "init-platform no memory", json!(5)).await;
    gated.fill(true);
    let id = accept(&server, "f").await;
    eventually("the failure", || async { gated.has_refused("retry").then_some(()) }).await;
    assert!(gated.has_refused("begin"));
    deploy(&server, "f", "echo", json!(null)).await;
    gated.fill(false);
    assert_eq!(record(&server, id).await.response.status, Status::Success);
    metric(&server, "flint_async_queue_depth", 1).await;
    only_the_other_ones_place_is_taken(&server).await;
    server.stop().await;
}

/// As on a disk that fills while a composition runs, whose attempt is counted when it fails only. It comes back like the call above.
#[tokio::test]
async fn a_composition_that_cannot_be_completed_keeps_its_place() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = with_brief_leases(dir.path(), &gated).await;
    for (name, code) in [("other", "wait"), ("f", "echo")] {
        deploy(&server, name, code, json!(null)).await;
    }
    sequence(&server, "s", &["guest/f"]).await.unwrap();
    accept(&server, "other").await;
    let runs = || async { (!server.executor.calls_of("guest/other").is_empty()).then_some(()) };
    eventually("another call", runs).await;
    gated.fill(true);
    let id = accept(&server, "s").await;
    eventually("its end", || async { (gated.refusals("complete") >= 2).then_some(()) }).await;
    gated.fill(false);
    metric(&server, "flint_async_queue_depth", 1).await;
    assert_eq!(record(&server, id).await.response.status, Status::Success);
    only_the_other_ones_place_is_taken(&server).await;
    server.stop().await;
}

/// As on a full disk, when others have taken the place that it was leased for. It comes back like the calls above.
#[tokio::test]
async fn a_call_that_was_put_off_and_cannot_be_given_back_has_its_place() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = Server::start(dir.path(), config()).await;
    for (name, code) in [("work", "echo"), ("other", "wait")] {
        deploy(&server, name, code, json!(null)).await;
    }
    server.stop().await;
    let store = SqliteStore::open(StoreConfig::new(dir.path())).unwrap();
    let (queue, call) = (store.queue(), sample::call("guest", 1, 3));
    let id = call.activation;
    queue.enqueue(call, "before", sample::LONG).await.unwrap();
    assert!(queue.put_off(Lease::first(id), Duration::ZERO, "no node").await.unwrap());
    drop(queue);
    store.close().await.unwrap();

    let mut config = config();
    config.limits.concurrent_invocations = 2;
    config.asynchronous.lease = Duration::from_secs(1);
    let leased = gated.hold_leases().await;
    let server = Server::start_gated(dir.path(), config, &gated).await;
    metric(&server, "flint_async_retries_waiting", 0).await;
    for _ in 0..2 {
        accept(&server, "other").await;
    }
    let run = || async { (server.executor.calls_of("guest/other").len() == 2).then_some(()) };
    eventually("two others", run).await;
    gated.fill(true);
    drop(leased);
    eventually("its place", || async { (server.controller.calls_in_flight() == 3).then_some(()) }).await;
    assert!(gated.has_refused("give_back"));
    gated.fill(false);
    assert_eq!(record(&server, id).await.response.status, Status::Success);
    server.executor.go();
    places_are_free(&server).await;
    server.stop().await;
}

/// As on a disk that fills while the call runs.
#[tokio::test]
async fn a_call_whose_failure_cannot_be_written_gives_its_place_back() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = with_brief_leases(dir.path(), &gated).await;
    deploy(&server, "f", "wait-platform gone", json!(5)).await;
    let id = accept(&server, "f").await;
    let runs = || async { (!server.executor.calls_of("guest/f").is_empty()).then_some(()) };
    eventually("its attempt", runs).await;
    gated.fill(true);
    eventually("the failure", || async {
        server.executor.go();
        gated.has_refused("retry").then_some(())
    })
    .await;
    deploy(&server, "f", "echo", json!(null)).await;
    gated.fill(false);
    assert_eq!(record(&server, id).await.response.status, Status::Success);
    metric(&server, "flint_async_queue_depth", 0).await;
    places_are_free(&server).await;
    server.stop().await;
}
