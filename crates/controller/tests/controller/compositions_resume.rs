//! Compositions over several lives of the server: they go on at the step where they were, or their record says why not.

use std::{path::Path, sync::Arc, time::Duration};

use flint_controller::{Answer, ErrorKind, Invocation, Mode, PutPackage, PutSequence};
use flint_model::{ActivationId, Status};
use flint_store::{ActivationQuery, Page};
use serde_json::json;

use crate::support::{
    Server,
    composing::{accept, conductor, deploy, invocation, record, result_of, sequence},
    config, eventually, places_are_free,
};

/// Functions `a`, `w` that waits, and `z`, and the sequence and the conductor that call them in that order.
async fn first_life(dir: &Path) -> Server {
    let server = Server::start(dir, config()).await;
    deploy(&server, "a", r#"answer {"a":1}"#).await;
    deploy(&server, "w", "wait").await;
    deploy(&server, "z", "echo").await;
    conductor(&server, "c").await;
    sequence(&server, "s", &["guest/a", "guest/w", "guest/z"]).await.unwrap();
    server
}

fn conducted() -> serde_json::Value {
    let last = json!({"action": "z", "params": {"waited": true}});
    json!({"action": "a", "state": {"action": "w", "state": last}})
}

/// Waits until so many calls wait in `w`.
async fn waiting(server: &Server, calls: usize) {
    eventually("calls that wait", || async {
        (server.executor.calls_of("guest/w").len() >= calls).then_some(())
    })
    .await;
}

/// The only composition that is there.
async fn only(server: &Server, name: &str) -> ActivationId {
    let caller = server.guest().await;
    let query = ActivationQuery { name: Some(name.to_owned()), ..ActivationQuery::default() };
    let page = Page { skip: 0, limit: 10 };
    let namespace = caller.namespace.name.clone();
    eventually("its record", || async {
        let found = server.controller.activations(&caller, &namespace, &query, page, false).await.unwrap();
        found
            .iter()
            .find(|record| record.cause.is_none() && !record.components.is_empty())
            .map(|found| found.id)
    })
    .await
}

#[tokio::test]
async fn it_goes_on_at_the_step_where_the_server_died() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_life(dir.path()).await;
    let ids = [accept(&server, "s", &json!({"x": 1})).await, accept(&server, "c", &conducted()).await];
    waiting(&server, 2).await;
    server.die();

    let server = Server::start(dir.path(), config()).await;
    waiting(&server, 2).await;
    server.executor.go();
    for (id, names) in ids.into_iter().zip([&["a", "w", "z"][..], &["c", "a", "c", "w", "c", "z", "c"]]) {
        let over = record(&server, id).await;
        assert_eq!((over.response.status, result_of(&over)), (Status::Success, json!({"waited": true})));
        assert_eq!(over.components.len(), names.len());
        for (step, name) in over.components.iter().zip(names) {
            // A step of the life that died may have left no record.
            if *name != "w" && *name != "z" {
                continue;
            }
            let step = record(&server, *step).await;
            assert_eq!((step.name.as_str(), step.cause), (*name, Some(id)));
            let ended: Vec<_> = step.attempts.iter().map(|attempt| attempt.ended_by.as_str()).collect();
            assert_eq!(ended, if *name == "w" { &["server restarted"][..] } else { &[] });
        }
    }
    assert!(server.executor.calls_of("guest/a").is_empty(), "a step that was done is done again");
    eventually("an empty queue", || async {
        server.controller.render_metrics().await.contains("flint_async_queue_depth 0\n").then_some(())
    })
    .await;
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn one_whose_caller_waited_goes_on_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_life(dir.path()).await;
    for (name, arguments) in [("s", json!({})), ("c", conducted())] {
        let caller = server.guest().await;
        let controller = Arc::clone(&server.controller);
        let mode = Mode::Blocking { wait: Duration::from_secs(60) };
        let call = invocation(name, &arguments, mode);
        tokio::spawn(async move { controller.invoke(&caller, call).await });
    }
    waiting(&server, 2).await;
    server.die();
    let server = Server::start(dir.path(), config()).await;
    waiting(&server, 2).await;
    server.executor.go();
    for name in ["s", "c"] {
        let id = only(&server, name).await;
        assert_eq!(result_of(&record(&server, id).await), json!({"waited": true}));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_step_that_takes_the_server_down_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = first_life(dir.path()).await;
    let ids = [accept(&server, "s", &json!({})).await, accept(&server, "c", &conducted()).await];
    for _ in 0..3 {
        waiting(&server, 2).await;
        server.die();
        server = Server::start(dir.path(), config()).await;
    }
    let text = "The call was given up after 3 attempts; the last one ended by: server restarted";
    let over = record(&server, ids[0]).await;
    assert_eq!((over.response.status, result_of(&over)), (Status::InternalError, json!({"error": text})));
    let step = record(&server, over.components[1]).await;
    assert_eq!((step.attempts.len(), step.cause), (3, Some(ids[0])));
    // A conductor is told, and this one answers with what it is told.
    let over = record(&server, ids[1]).await;
    assert_eq!((over.response.status, result_of(&over)), (Status::ApplicationError, json!({"error": text})));
    assert!(server.executor.calls_of("guest/w").is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_in_order_leaves_it_between_two_steps() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_life(dir.path()).await;
    let id = accept(&server, "s", &json!({})).await;
    waiting(&server, 1).await;
    let executor = Arc::clone(&server.executor);
    let (controller, stopping) = (Arc::clone(&server.controller), server.stop());
    tokio::join!(stopping, async move {
        eventually("a server that takes no calls", || async {
            let caller = controller.authenticate(flint_controller::GUEST_KEY).await.ok()?;
            let mode = Mode::NonBlocking;
            controller.invoke(&caller, invocation("a", &json!({}), mode)).await.err()
        })
        .await;
        drop(controller);
        executor.go();
    });
    let server = Server::start(dir.path(), config()).await;
    let over = record(&server, id).await;
    assert_eq!((result_of(&over), over.components.len()), (json!({"waited": true}), 3));
    assert!(record(&server, over.components[1]).await.attempts.is_empty());
    assert!(server.executor.calls_of("guest/w").is_empty(), "a step that was done is done again");
    server.stop().await;
}

#[tokio::test]
async fn one_that_has_begun_goes_on_without_its_definition() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_life(dir.path()).await;
    let id = accept(&server, "s", &json!({})).await;
    waiting(&server, 1).await;
    let caller = server.guest().await;
    server.controller.delete_action(&caller, &"guest/s".parse().unwrap()).await.unwrap();
    server.die();
    let server = Server::start(dir.path(), config()).await;
    waiting(&server, 1).await;
    server.executor.go();
    assert_eq!(result_of(&record(&server, id).await), json!({"waited": true}));
    server.stop().await;
}

#[tokio::test]
async fn one_that_has_begun_goes_on_when_a_function_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = first_life(dir.path()).await;
    let id = accept(&server, "s", &json!({})).await;
    waiting(&server, 1).await;
    deploy(&server, "s", r#"answer {"another":true}"#).await;
    server.die();
    let server = Server::start(dir.path(), config()).await;
    waiting(&server, 1).await;
    server.executor.go();
    let over = record(&server, id).await;
    assert_eq!((result_of(&over), over.components.len()), (json!({"waited": true}), 3));
    assert!(server.executor.calls_of("guest/s").is_empty());
    server.stop().await;
}

#[tokio::test]
async fn one_that_has_begun_goes_on_when_its_caller_may_not_call_it_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let (guest, controller) = (server.guest().await, &server.controller);
    let (_, key) = controller.create_namespace("team".parse().unwrap(), Default::default()).await.unwrap();
    let team = controller.authenticate(&key.expose()).await.unwrap();
    let publish =
        |published: bool| PutPackage { overwrite: true, publish: Some(published), ..PutPackage::default() };
    for (caller, package) in [(&guest, "guest/p"), (&team, "team/p")] {
        controller.put_package(caller, package.parse().unwrap(), publish(true)).await.unwrap();
    }
    deploy(&server, "p/w", "wait").await;
    let components = Some(vec!["guest/p/w".parse().unwrap()]);
    let put = PutSequence { components, ..PutSequence::default() };
    controller.put_sequence(&team, "team/p/s".parse().unwrap(), put).await.unwrap();
    let call = || {
        let path = "team/p/s".parse().unwrap();
        Invocation { path, ..invocation("s", &json!({}), Mode::NonBlocking) }
    };
    let Answer::Accepted(id) = controller.invoke(&guest, call()).await.unwrap() else { panic!("it waited") };
    eventually("its step", || async { server.executor.calls_of("guest/p/w").pop() }).await;
    controller.put_package(&team, "team/p".parse().unwrap(), publish(false)).await.unwrap();
    assert_eq!(controller.invoke(&guest, call()).await.unwrap_err().kind(), ErrorKind::Forbidden);
    server.die();
    let server = Server::start(dir.path(), config()).await;
    eventually("its step", || async { server.executor.calls_of("guest/p/w").pop() }).await;
    server.executor.go();
    assert_eq!(result_of(&record(&server, id).await), json!({"waited": true}));
    server.stop().await;
}

#[tokio::test]
async fn a_failure_of_the_platform_is_repeated_within_the_step() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "a", "echo").await;
    deploy(&server, "flaky", "flaky 2").await;
    deploy(&server, "never", "flaky 99").await;
    sequence(&server, "s", &["guest/a", "guest/flaky"]).await.unwrap();
    let over = record(&server, accept(&server, "s", &json!({})).await).await;
    assert_eq!(result_of(&over), json!({"times": 3}));
    assert_eq!(record(&server, over.components[1]).await.attempts.len(), 2);
    assert_eq!(server.executor.calls_of("guest/a").len(), 1);
    sequence(&server, "s", &["guest/a", "guest/never", "guest/a"]).await.unwrap();
    let over = record(&server, accept(&server, "s", &json!({})).await).await;
    assert_eq!((over.response.status, over.components.len()), (Status::InternalError, 2));
    assert_eq!(server.executor.calls_of("guest/never").len(), 3);
    let metrics = server.controller.render_metrics().await;
    for line in ["flint_async_retried_total 4\n", "flint_async_exhausted_total 1\n"] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    server.stop().await;
}

/// As of every call.
#[tokio::test]
async fn a_step_has_one_attempt_at_least() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.asynchronous.max_attempts = 0;
    let server = Server::start(dir.path(), config).await;
    deploy(&server, "a", r#"answer {"a":1}"#).await;
    deploy(&server, "never", "flaky 99").await;
    sequence(&server, "s", &["guest/a", "guest/never"]).await.unwrap();
    let over = record(&server, accept(&server, "s", &json!({})).await).await;
    assert_eq!((over.response.status, over.components.len()), (Status::InternalError, 2));
    assert_eq!(server.executor.calls_of("guest/a").len(), 1);
    assert_eq!(server.executor.calls_of("guest/never").len(), 1);
    server.stop().await;
}
