//! Blocking calls that take longer than their caller waits: what comes of them is there to be read.

use std::{path::Path, sync::Arc, time::Duration};

use flint_controller::{Accepts, Answer, Mode};
use flint_model::{Activation, ActivationId, ActivationId as Id, DeadLetterReason, NamespaceLimits, Status};
use flint_scheduler::SchedulerConfig;
use flint_store::{ActivationQuery, LetterQuery, Page};
use serde_json::{Value, json};

use crate::support::{
    Server,
    composing::{BLOCKING, deploy, invocation, sequence},
    config,
    crowded::Crowded,
    eventually, places_are_free,
};

const SHORT: Mode = Mode::Blocking { wait: Duration::from_millis(20) };

/// Calls and does not wait for long.
async fn call_accepting(server: &Server, name: &str, accepts: Accepts) -> ActivationId {
    let mut asked = invocation(name, &json!({"n": 1}), SHORT);
    asked.accepts = accepts;
    match server.controller.invoke(&server.guest().await, asked).await.unwrap() {
        Answer::Accepted(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn call(server: &Server, name: &str) -> ActivationId {
    call_accepting(server, name, Accepts::Json).await
}

async fn find(server: &Server, id: Id) -> Option<Activation> {
    let caller = server.guest().await;
    server.controller.activation(&caller, &caller.namespace.name, id).await.ok()
}

async fn record(server: &Server, id: ActivationId) -> Activation {
    eventually("the record", || async {
        server.executor.go();
        find(server, id).await
    })
    .await
}

fn result(record: &Activation) -> Value {
    serde_json::from_str(record.response.result.as_ref().unwrap().get()).unwrap()
}

async fn queue_is_empty(server: &Server) {
    eventually("an empty queue", || async {
        server.controller.render_metrics().await.contains("flint_async_queue_depth 0\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn its_result_can_be_read_when_it_has_ended_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "wait").await;
    let id = call(&server, "f").await;
    assert!(find(&server, id).await.is_none(), "it has not ended");
    assert_eq!(server.controller.calls_in_flight(), 1);
    let shown = record(&server, id).await;
    assert_eq!((result(&shown), shown.logs.len()), (json!({"waited": true}), 1));
    queue_is_empty(&server).await;
    places_are_free(&server).await;
    server.die();
    let server = Server::start(dir.path(), config()).await;
    assert_eq!(result(&find(&server, id).await.unwrap()), json!({"waited": true}));
    assert!(server.executor.seen().calls.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn one_that_the_server_did_not_survive_has_a_record_that_says_so_and_is_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "wait").await;
    let id = call(&server, "f").await;
    server.die();
    let server = Server::start(dir.path(), config()).await;
    let shown = record(&server, id).await;
    assert_eq!((shown.response.status, shown.attempts.len()), (Status::InternalError, 1));
    assert_eq!(shown.attempts[0].ended_by, "server restarted");
    // By which it is known, should the letter not be kept with the record.
    assert_eq!(shown.annotations.get("deadLetter"), Some(&json!("attempts_used")));
    let caller = server.guest().await;
    let page = Page { skip: 0, limit: 9 };
    let namespace = &caller.namespace.name;
    let letters =
        server.controller.dead_letters(&caller, namespace, &LetterQuery::default(), page).await.unwrap();
    assert_eq!((letters.len(), letters[0].reason), (1, DeadLetterReason::AttemptsUsed));
    let letter = server.controller.dead_letter(&caller, namespace, id).await.unwrap();
    assert_eq!(&*letter.call.arguments, b"{\"n\":1}");
    queue_is_empty(&server).await;
    assert!(server.executor.seen().calls.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn the_log_does_not_shed_what_was_promised() {
    let dir = tempfile::tempdir().unwrap();
    let crowded = Arc::new(Crowded::default());
    let server = Server::start_crowded(dir.path(), config(), &crowded).await;
    deploy(&server, "f", "wait").await;
    deploy(&server, "g", "echo").await;
    sequence(&server, "s", &["guest/f", "guest/g"]).await.unwrap();
    crowded.refuse(3);
    let id = call(&server, "f").await;
    record(&server, id).await;
    crowded.refuse(3);
    let id = call(&server, "s").await;
    assert_eq!(record(&server, id).await.components.len(), 2);
    crowded.refuse(3);
    let asked = invocation("g", &json!({}), Mode::NonBlocking);
    let Answer::Accepted(id) = server.controller.invoke(&server.guest().await, asked).await.unwrap() else {
        panic!()
    };
    record(&server, id).await;
    // Who has the answer can do without the record.
    let asked = invocation("g", &json!({}), BLOCKING);
    let Answer::Finished(shown) = server.controller.invoke(&server.guest().await, asked).await.unwrap()
    else {
        panic!()
    };
    crowded.refuse(0);
    assert!(find(&server, shown.id).await.is_none());
    queue_is_empty(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn one_that_never_got_an_instance_has_a_record_that_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let mut queues = SchedulerConfig::default();
    queues.queue.max_wait = Duration::from_secs(2);
    queues.queue.per_function = 100;
    let server = Server::start_with(dir.path(), config(), queues).await;
    let caller = server.guest().await;
    let mut put = flint_controller::PutFunction {
        code: Some(flint_controller::PutCode {
            kind: "nodejs".into(),
            content: "wait".into(),
            format: None,
            main: None,
        }),
        ..Default::default()
    };
    put.limits.instances = Some(Some(1));
    server.controller.put_function(&caller, "guest/f".parse().unwrap(), put, &|_| {}).await.unwrap();
    let first = call(&server, "f").await;
    let second = call(&server, "f").await;
    let shown = eventually("the record", || find(&server, second)).await;
    assert_eq!(shown.response.status, Status::InternalError);
    assert!(
        result(&shown)["cause"].as_str().unwrap().contains("no instance of guest/f came free"),
        "{shown:?}"
    );
    assert_eq!(result(&record(&server, first).await), json!({"waited": true}));
    queue_is_empty(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn an_answer_of_http_is_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for (code, expected) in [
        (
            "late http 404:text/plain gone",
            json!({"statusCode": 404, "headers": {"content-type": "text/plain"}, "body": "gone"}),
        ),
        ("late http application/json {\"a\":1}", json!({"a": 1})),
        (
            "late stream 2",
            json!({"statusCode": 200, "headers": {"content-type": "text/plain"}, "body": "piece 0\npiece 1\n"}),
        ),
    ] {
        deploy(&server, "f", code).await;
        for accepts in [Accepts::Http, Accepts::Record] {
            let id = call_accepting(&server, "f", accepts).await;
            assert_eq!(result(&record(&server, id).await), expected, "{code} {accepts:?}");
        }
    }
    server.stop().await;
}

/// A namespace that keeps no records, with a function `f` that waits, `g`, and both as the sequence `s`.
async fn without_records(data: &Path) -> Server {
    let server = Server::start(data, config()).await;
    deploy(&server, "f", "wait").await;
    deploy(&server, "g", "echo").await;
    sequence(&server, "s", &["guest/f", "guest/g"]).await.unwrap();
    let limits = NamespaceLimits { store_activations: Some(false), ..Default::default() };
    server.controller.set_limits(&"guest".parse().unwrap(), limits).await.unwrap();
    server
}

#[tokio::test]
async fn a_namespace_without_records_has_these_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let server = without_records(dir.path()).await;
    let finished =
        match server.controller.invoke(&server.guest().await, invocation("g", &json!({}), BLOCKING)).await {
            Ok(Answer::Finished(record)) => record.id,
            other => panic!("{other:?}"),
        };
    for name in ["f", "s"] {
        let id = call(&server, name).await;
        let shown = record(&server, id).await;
        assert_eq!(result(&shown), json!({"waited": true}), "{name}");
        assert!(find(&server, finished).await.is_none(), "its caller has the answer");
        for step in shown.components {
            assert!(find(&server, step).await.is_none(), "nobody was promised it");
        }
    }
    queue_is_empty(&server).await;
    // One that the server does not survive is not lost without a word.
    let id = call(&server, "f").await;
    server.die();
    let server = Server::start(dir.path(), config()).await;
    assert_eq!(record(&server, id).await.attempts[0].ended_by, "server restarted");
    server.stop().await;
}

/// The next life does not know whether its caller was answered with 202; who was not asked to wait is promised nothing.
#[tokio::test]
async fn a_sequence_keeps_its_promise_in_the_next_life_in_a_namespace_without_records() {
    let dir = tempfile::tempdir().unwrap();
    let server = without_records(dir.path()).await;
    let promised = call(&server, "s").await;
    let asked = invocation("s", &json!({}), Mode::NonBlocking);
    let Answer::Accepted(other) = server.controller.invoke(&server.guest().await, asked).await.unwrap()
    else {
        panic!()
    };
    server.die();

    let server = Server::start(dir.path(), config()).await;
    let shown = record(&server, promised).await;
    assert_eq!((result(&shown), shown.components.len()), (json!({"waited": true}), 2));
    eventually("an empty queue", || async {
        server.executor.go();
        server.controller.render_metrics().await.contains("flint_async_queue_depth 0\n").then_some(())
    })
    .await;
    for id in shown.components.into_iter().chain([other]) {
        assert!(find(&server, id).await.is_none(), "nobody was promised it");
    }
    server.stop().await;
}

/// A client may go at any moment. The first look for a function waits for the catalog, and so does that for what a sequence is made of.
#[tokio::test]
async fn a_call_goes_on_when_its_client_leaves_while_the_function_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for name in ["blocking", "later", "step"] {
        deploy(&server, name, "echo").await;
    }
    sequence(&server, "both", &["guest/step", "guest/step"]).await.unwrap();
    server.stop().await;
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    for (name, mode) in [("blocking", BLOCKING), ("later", Mode::NonBlocking), ("both", BLOCKING)] {
        let called = server.controller.invoke(&caller, invocation(name, &json!({"n": 1}), mode));
        tokio::select! {
            biased;
            // The catalog was quicker than this thread, once in a while.
            answer = called => drop(answer.unwrap()),
            () = std::future::ready(()) => {}
        }
        eventually("the record", || async {
            let named = ActivationQuery { name: Some(name.to_owned()), ..ActivationQuery::default() };
            let kept = server.controller.count_activations(&caller, &caller.namespace.name, &named).await;
            (kept.unwrap() == 1).then_some(())
        })
        .await;
    }
    places_are_free(&server).await;
    server.stop().await;
}
