//! A composition has gone on when a step that it waited for in vain begins, or fails.

use std::{path::Path, sync::Arc, time::Duration};

use flint_controller::{PutCode, PutFunction};
use flint_model::ActivationId;
use serde_json::json;

use crate::support::{
    Server,
    composing::{accept, deploy_with, record, result_of, sequence},
    config, eventually,
    late_journal::LateJournal,
};

/// A conductor whose component is a sequence of `f`, of which the journal is told late. It has learnt that `f` took too
/// long, and waits in its second run.
async fn gone_on(dir: &Path, journal: &Arc<LateJournal>, code_of_f: &str) -> (Server, ActivationId) {
    let server = Server::start_journalled(dir, config(), journal).await;
    let conductor = [("conductor", json!(true))];
    deploy_with(&server, "c", r#"answer {"action":"inner"}"#, &conductor).await;
    let content = code_of_f.to_owned().into();
    let code = PutCode { kind: "nodejs".into(), content, format: None, main: None };
    let mut put = PutFunction { code: Some(code), ..PutFunction::default() };
    put.limits.timeout = Some(Duration::from_secs(1));
    let path = "guest/f".parse().unwrap();
    server.controller.put_function(&server.guest().await, path, put, &|_| {}).await.unwrap();
    sequence(&server, "inner", &["guest/f"]).await.unwrap();

    let id = accept(&server, "c", &json!({})).await;
    eventually("an attempt at f", || async { journal.is_asked().then_some(()) }).await;
    deploy_with(&server, "c", "wait", &conductor).await;
    // A step is waited for a minute longer than it may run.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(65)).await;
    tokio::time::resume();
    eventually("the run", || async { (server.executor.calls_of("guest/c").len() == 2).then_some(()) }).await;
    (server, id)
}

#[tokio::test]
async fn an_attempt_that_would_begin_late_is_not_made() {
    let (dir, journal) = (tempfile::tempdir().unwrap(), LateJournal::of("begin"));
    let untold = journal.hold().await;
    let (server, id) = gone_on(dir.path(), &journal, "echo").await;
    drop(untold);
    let begun = eventually("the late beginning", || async { journal.answer() }).await;
    assert!(!begun);
    server.executor.go();
    let over = record(&server, id).await;
    assert_eq!((result_of(&over), over.components.len()), (json!({"waited": true}), 3));
    assert!(server.executor.calls_of("guest/f").is_empty());
    server.stop().await;
}

#[tokio::test]
async fn an_attempt_that_fails_late_is_none_at_the_next_step() {
    let (dir, journal) = (tempfile::tempdir().unwrap(), LateJournal::of("fail"));
    let untold = journal.hold().await;
    let (server, id) = gone_on(dir.path(), &journal, "platform lost").await;
    drop(untold);
    let written = eventually("the late failure", || async { journal.answer() }).await;
    assert!(!written);
    server.die();

    let server = Server::start(dir.path(), config()).await;
    let runs = || async { (!server.executor.calls_of("guest/c").is_empty()).then_some(()) };
    eventually("the run", runs).await;
    server.executor.go();
    let over = record(&server, id).await;
    assert_eq!((result_of(&over), over.components.len()), (json!({"waited": true}), 3));
    let attempts = record(&server, over.components[2]).await.attempts;
    let ended: Vec<_> = attempts.iter().map(|attempt| attempt.ended_by.as_str()).collect();
    assert_eq!(ended, ["server restarted"]);
    server.stop().await;
}
