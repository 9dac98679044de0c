//! Firings that somebody is told of: what the 202 promises is durable by then, the trigger's own record too.

use std::{sync::Arc, time::Instant};

use flint_controller::{ControllerError, Firing, PutRule, PutTrigger};
use flint_model::{Activation, ActivationId, RuleOutcome};
use flint_store::{ActivationQuery, Page};
use serde_json::json;

use crate::support::{Server, composing::deploy, config, crowded::Crowded, eventually};

/// A server whose trigger `t` calls `f`.
async fn start(dir: &std::path::Path, crowded: &Arc<Crowded>) -> Server {
    let server = Server::start_crowded(dir, config(), crowded).await;
    deploy(&server, "f", "echo").await;
    let (caller, controller) = (server.guest().await, &server.controller);
    controller.put_trigger(&caller, "guest/t".parse().unwrap(), PutTrigger::default()).await.unwrap();
    let rule = PutRule {
        trigger: Some("guest/t".parse().unwrap()),
        action: Some("guest/f".parse().unwrap()),
        ..PutRule::default()
    };
    controller.put_rule(&caller, "guest/r".parse().unwrap(), rule).await.unwrap();
    server
}

/// Fires `t` in a task of its own.
async fn fire(server: &Server) -> tokio::task::JoinHandle<Result<Option<ActivationId>, ControllerError>> {
    let firing = Firing {
        path: "guest/t".parse().unwrap(),
        payload: "{\"n\":7}".into(),
        headers: json!({}),
        transaction: "t".into(),
        arrived: Instant::now(),
        api_key: None,
    };
    let (caller, controller) = (server.guest().await, Arc::clone(&server.controller));
    tokio::spawn(async move { controller.fire(&caller, firing).await })
}

async fn fired(server: &Server) -> ActivationId {
    fire(server).await.await.unwrap().unwrap().unwrap()
}

async fn records(server: &Server, name: &str) -> Vec<Activation> {
    let caller = server.guest().await;
    let named = ActivationQuery { name: Some(name.to_owned()), ..ActivationQuery::default() };
    let page = Page { skip: 0, limit: 9 };
    server.controller.activations(&caller, &caller.namespace.name, &named, page, false).await.unwrap()
}

#[tokio::test]
async fn a_202_comes_when_the_triggers_record_is_durable() {
    let (dir, crowded) = (tempfile::tempdir().unwrap(), Arc::new(Crowded::default()));
    let server = start(dir.path(), &crowded).await;
    let gate = crowded.hold_flushes().await;
    let firing = fire(&server).await;
    let seen = eventually("the record", || async { records(&server, "t").await.pop() }).await;
    assert!(!firing.is_finished(), "whoever fires is not told before the record is durable");
    drop(gate);
    assert_eq!(firing.await.unwrap().unwrap(), Some(seen.id));
    server.stop().await;
}

#[tokio::test]
async fn the_log_does_not_shed_the_record_of_a_firing_that_was_answered() {
    let (dir, crowded) = (tempfile::tempdir().unwrap(), Arc::new(Crowded::default()));
    let server = start(dir.path(), &crowded).await;
    crowded.refuse(3);
    let id = fired(&server).await;
    let kept = records(&server, "t").await;
    assert_eq!(kept.iter().map(|record| record.id).collect::<Vec<_>>(), [id]);
    assert!(matches!(kept[0].fired[0].outcome, RuleOutcome::Called { .. }), "{kept:?}");
    crowded.refuse(0);
    server.stop().await;
}

/// Its calls are accepted by then: who was refused would fire again, and they would be made twice.
#[tokio::test]
async fn a_log_that_cannot_be_written_makes_nobody_fire_again() {
    let (dir, crowded) = (tempfile::tempdir().unwrap(), Arc::new(Crowded::default()));
    let server = start(dir.path(), &crowded).await;
    crowded.fail(true);
    let id = fired(&server).await;
    let kept = records(&server, "t").await;
    assert_eq!(kept.iter().map(|record| record.id).collect::<Vec<_>>(), [id], "it is written later");
    // Not even when the log takes nothing any more.
    crowded.refuse(9);
    fired(&server).await;
    crowded.refuse(0);
    crowded.fail(false);
    eventually("a call for each firing", || async { (records(&server, "f").await.len() == 2).then_some(()) })
        .await;
    assert_eq!(server.executor.calls_of("guest/f").len(), 2);
    server.stop().await;
}
