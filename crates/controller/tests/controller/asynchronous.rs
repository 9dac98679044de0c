//! Accepted calls: run at least once, never more often than configured, and their record says what happened.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_controller::{
    Accepts, Answer, Controller, ControllerConfig, ControllerError, Invocation, Mode, PutCode, PutFunction,
};
use flint_executor::Body;
use flint_model::{Activation, ActivationId, Status};
use flint_scheduler::SchedulerConfig;
use flint_store::ActivationQuery;

use crate::support::{Server, config, eventually, places_are_free};

async fn deploy(server: &Server, name: &str, code: &str) {
    let caller = server.guest().await;
    let code = PutCode { kind: "nodejs".into(), content: code.to_owned().into(), format: None, main: None };
    let put = PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() };
    let path = format!("guest/{name}").parse().unwrap();
    server.controller.put_function(&caller, path, put, &|_| {}).await.unwrap();
}

fn call(name: &str, body: &'static str, mode: Mode) -> Invocation {
    Invocation {
        path: format!("guest/{name}").parse().unwrap(),
        body: Body::Full(body.into()),
        head: None,
        mode,
        accepts: Accepts::Json,
        transaction: "t".into(),
        arrived: Instant::now(),
        api_key: None,
    }
}

async fn accept(server: &Server, name: &str, body: &'static str) -> Result<ActivationId, ControllerError> {
    let caller = server.guest().await;
    match server.controller.invoke(&caller, call(name, body, Mode::NonBlocking)).await? {
        Answer::Accepted(id) => Ok(id),
        other => panic!("{other:?}"),
    }
}

async fn record(server: &Server, id: ActivationId) -> Activation {
    let caller = server.guest().await;
    let namespace = &caller.namespace.name;
    eventually("the record", || async { server.controller.activation(&caller, namespace, id).await.ok() })
        .await
}

async fn queue_is_empty(controller: &Arc<Controller>) {
    eventually("an empty queue", || async {
        let metrics = controller.render_metrics().await;
        metrics.contains("flint_async_queue_depth 0\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_call_is_accepted_run_once_recorded_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "echo").await;
    let id = accept(&server, "f", r#"{"a":1}"#).await.unwrap();
    let record = record(&server, id).await;
    assert_eq!(record.response.result.unwrap().get(), r#"{"a":1}"#);
    assert_eq!((record.response.status, record.attempts.len(), record.logs.len()), (Status::Success, 0, 1));
    queue_is_empty(&server.controller).await;
    assert_eq!(server.executor.calls_of("guest/f").len(), 1);
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_failure_of_the_platform_is_repeated_and_every_attempt_is_in_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "flaky 2").await;
    let id = accept(&server, "f", "{}").await.unwrap();
    let record = record(&server, id).await;
    assert_eq!(record.response.result.unwrap().get(), r#"{"times":3}"#);
    let causes: Vec<_> = record.attempts.iter().map(|attempt| attempt.ended_by.as_str()).collect();
    assert!(
        causes.len() == 2 && causes[0].contains("failure 1") && causes[1].contains("failure 2"),
        "{causes:?}"
    );
    queue_is_empty(&server.controller).await;
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_call_is_never_attempted_more_often_than_configured() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "flaky 99").await;
    let id = accept(&server, "f", "{}").await.unwrap();
    let record = record(&server, id).await;
    assert_eq!((record.response.status, record.attempts.len()), (Status::InternalError, 2));
    queue_is_empty(&server.controller).await;
    assert_eq!(server.executor.calls_of("guest/f").len(), 3);
    server.stop().await;
}

#[tokio::test]
async fn an_error_of_the_functions_own_is_an_answer_and_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for (name, code, status) in [
        ("own", r#"answer {"error":"mine"}"#, Status::ApplicationError),
        ("throws", "throw boom", Status::DeveloperError),
        ("exits", "exit", Status::DeveloperError),
    ] {
        deploy(&server, name, code).await;
        let id = accept(&server, name, "{}").await.unwrap();
        assert_eq!(record(&server, id).await.response.status, status, "{name}");
        assert_eq!(server.executor.calls_of(&format!("guest/{name}")).len(), 1, "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_a_killed_server_had_accepted_is_run_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "wait").await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(accept(&server, "f", r#"{"n":1}"#).await.unwrap());
    }
    eventually("first attempts", || async { (server.executor.calls_of("guest/f").len() == 5).then_some(()) })
        .await;
    server.die();

    let server = Server::start(dir.path(), config()).await;
    // Accepted calls count against their namespace when they run again.
    eventually("five calls in flight", || async { (server.controller.calls_in_flight() >= 5).then_some(()) })
        .await;
    deploy(&server, "f", "echo").await;
    let caller = server.guest().await;
    for id in ids {
        let record = eventually("the record", || async {
            // Attempts that began before the new code was there wait for this.
            server.executor.go();
            server.controller.activation(&caller, &caller.namespace.name, id).await.ok()
        })
        .await;
        assert_eq!(record.attempts.len(), 1);
        assert_eq!(record.attempts[0].ended_by, "server restarted");
    }
    queue_is_empty(&server.controller).await;
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_outlives_all_its_attempts_gets_a_record_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut once = config();
    once.asynchronous.max_attempts = 1;
    let server = Server::start(dir.path(), once.clone()).await;
    deploy(&server, "f", "wait").await;
    let id = accept(&server, "f", "{}").await.unwrap();
    eventually("the attempt", || async { (!server.executor.calls_of("guest/f").is_empty()).then_some(()) })
        .await;
    server.die();

    let server = Server::start(dir.path(), once).await;
    let record = record(&server, id).await;
    assert_eq!(
        (record.response.status, record.kind.as_ref(), record.attempts.len()),
        (Status::InternalError, None, 1)
    );
    let text =
        "{\"error\":\"The call was given up after 1 attempts; the last one ended by: server restarted\"}";
    assert_eq!(record.response.result.unwrap().get(), text);
    assert!(server.executor.calls_of("guest/f").is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_while_servers_come_and_go_has_all_its_attempts_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = config();
    (one.asynchronous.running, one.asynchronous.waiting) = (1, 100);
    let mut blocked = one.clone();
    blocked.asynchronous.max_attempts = 100;
    let server = Server::start(dir.path(), blocked).await;
    deploy(&server, "blocker", "wait").await;
    deploy(&server, "f", "echo").await;
    accept(&server, "blocker", "{}").await.unwrap();
    let running = async |server: &Server| {
        let seen = || async { (!server.executor.calls_of("guest/blocker").is_empty()).then_some(()) };
        eventually("the blocker", seen).await;
    };
    running(&server).await;
    server.die();
    // Some wait in memory of a life with the place for them, some in the queue alone.
    let mut ids = Vec::new();
    for life in 0..5 {
        let mut config = one.clone();
        config.asynchronous.waiting = if life % 2 == 0 { 100 } else { 0 };
        let server = Server::start(dir.path(), config).await;
        running(&server).await;
        if life < 2 {
            ids.push(accept(&server, "f", "{}").await.unwrap());
        }
        server.die();
    }
    let server = Server::start(dir.path(), one).await;
    let caller = server.guest().await;
    for id in ids {
        let record = eventually("the record", || async {
            server.executor.go();
            server.controller.activation(&caller, &caller.namespace.name, id).await.ok()
        })
        .await;
        assert_eq!((record.response.status, &record.attempts[..]), (Status::Success, &[][..]));
    }
    queue_is_empty(&server.controller).await;
    assert_eq!(server.executor.calls_of("guest/f").len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_is_refused_an_instance_has_all_its_attempts_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut once = config();
    once.asynchronous.max_attempts = 1;
    let mut queues = SchedulerConfig::default();
    queues.queue.per_function = 1;
    let server = Server::start_with(dir.path(), once.clone(), queues).await;
    deploy(&server, "f", "echo").await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(accept(&server, "f", "{}").await.unwrap());
    }
    // Those that are between two tries are left to the next life.
    server.stop().await;
    let server = Server::start(dir.path(), once).await;
    for id in ids {
        let record = record(&server, id).await;
        assert_eq!((record.response.status, &record.attempts[..]), (Status::Success, &[][..]));
    }
    server.stop().await;
}

#[tokio::test]
async fn calls_beyond_what_memory_holds_wait_in_the_durable_queue() {
    let dir = tempfile::tempdir().unwrap();
    let mut tight = config();
    (tight.asynchronous.running, tight.asynchronous.waiting) = (1, 1);
    let server = Server::start(dir.path(), tight).await;
    deploy(&server, "f", "echo").await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(accept(&server, "f", "{}").await.unwrap());
    }
    for id in ids {
        let record = record(&server, id).await;
        assert!(record.attempts.is_empty(), "waiting is no attempt: {:?}", record.attempts);
    }
    queue_is_empty(&server.controller).await;
    assert_eq!(server.executor.calls_of("guest/f").len(), 20);
    eventually("all places are free", || async { (server.controller.calls_in_flight() == 0).then_some(()) })
        .await;
    server.stop().await;
}

#[tokio::test]
async fn a_function_that_is_gone_is_said_to_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "echo").await;
    server.die();
    // Accepted by a life that had no room for it, deleted before the next one ran it.
    let mut none = config();
    (none.asynchronous.running, none.asynchronous.waiting) = (1, 0);
    let server = Server::start(dir.path(), none).await;
    deploy(&server, "blocker", "wait").await;
    accept(&server, "blocker", "{}").await.unwrap();
    let blocked = || async { (!server.executor.calls_of("guest/blocker").is_empty()).then_some(()) };
    eventually("the blocker", blocked).await;
    let id = accept(&server, "f", "{}").await.unwrap();
    let caller = server.guest().await;
    server.controller.delete_function(&caller, &"guest/f".parse().unwrap()).await.unwrap();
    let record = eventually("the record", || async {
        server.executor.go();
        server.controller.activation(&caller, &caller.namespace.name, id).await.ok()
    })
    .await;
    assert_eq!(record.response.status, Status::ApplicationError);
    let text = r#"{"error":"Action could not be found or may have been deleted."}"#;
    assert_eq!(record.response.result.unwrap().get(), text);
    server.stop().await;
}

/// Deploys a function in a namespace of its own, and calls it.
async fn accept_of_another(server: &Server) {
    let (_, key) =
        server.controller.create_namespace("other".parse().unwrap(), Default::default()).await.unwrap();
    let other = server.controller.authenticate(&key.expose()).await.unwrap();
    let put = PutFunction {
        code: Some(PutCode { kind: "nodejs".into(), content: "echo".into(), format: None, main: None }),
        ..PutFunction::default()
    };
    server.controller.put_function(&other, "other/f".parse().unwrap(), put, &|_| {}).await.unwrap();
    let invocation = Invocation { path: "other/f".parse().unwrap(), ..call("f", "{}", Mode::NonBlocking) };
    server.controller.invoke(&other, invocation).await.unwrap();
}

#[tokio::test]
async fn one_namespace_does_not_keep_another_one_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = config();
    (one.asynchronous.running, one.asynchronous.waiting) = (1, 100);
    let server = Server::start(dir.path(), one).await;
    deploy(&server, "slow", "wait").await;
    for _ in 0..10 {
        accept(&server, "slow", "{}").await.unwrap();
    }
    accept_of_another(&server).await;
    eventually("a place for the other namespace", || async {
        server.executor.go();
        (!server.executor.calls_of("other/f").is_empty()).then_some(())
    })
    .await;
    let served = server.executor.calls_of("guest/slow").len();
    assert!(served < 10, "{served} calls of the first namespace came before");
    eventually("the rest", || async {
        server.executor.go();
        (server.executor.calls_of("guest/slow").len() == 10 && server.controller.calls_in_flight() == 0)
            .then_some(())
    })
    .await;
    server.stop().await;
}

/// Whether its calls wait in memory or on disk, and whether this server accepted them.
#[tokio::test]
async fn calls_that_take_long_leave_places_to_other_namespaces() {
    for waiting in [100, 0] {
        let dir = tempfile::tempdir().unwrap();
        let mut four = config();
        (four.asynchronous.running, four.asynchronous.waiting) = (4, waiting);
        let server = Server::start(dir.path(), four.clone()).await;
        deploy(&server, "slow", "wait").await;
        for _ in 0..10 {
            accept(&server, "slow", "{}").await.unwrap();
        }
        let three_run = async |server: &Server| {
            eventually("three calls", || async {
                (server.executor.calls_of("guest/slow").len() == 3).then_some(())
            })
            .await;
        };
        three_run(&server).await;
        server.die();

        let server = Server::start(dir.path(), four).await;
        three_run(&server).await;
        accept_of_another(&server).await;
        eventually("a place for the other namespace", || async {
            (!server.executor.calls_of("other/f").is_empty()).then_some(())
        })
        .await;
        assert_eq!(server.executor.calls_of("guest/slow").len(), 3);
        eventually("the rest", || async {
            server.executor.go();
            (server.controller.calls_in_flight() == 0).then_some(())
        })
        .await;
        server.stop().await;
    }
}

#[tokio::test]
async fn a_graceful_stop_leaves_what_waits_to_the_next_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = config();
    (one.asynchronous.running, one.asynchronous.waiting) = (1, 100);
    let server = Server::start(dir.path(), one.clone()).await;
    deploy(&server, "f", "echo").await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(accept(&server, "f", "{}").await.unwrap());
    }
    server.stop().await;
    let server = Server::start(dir.path(), one).await;
    for id in ids {
        assert_eq!(record(&server, id).await.response.status, Status::Success);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_take_its_call_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", "wait").await;
    let caller = server.guest().await;
    let blocking = Mode::Blocking { wait: Duration::from_secs(60) };
    let runs =
        eventually("the call", || async { (!server.executor.calls_of("guest/f").is_empty()).then_some(()) });
    tokio::select! {
        answered = server.controller.invoke(&caller, call("f", "{}", blocking)) => panic!("{answered:?}"),
        () = runs => {}
    }
    assert_eq!(server.controller.calls_in_flight(), 1);
    let records = eventually("the record", || async {
        server.executor.go();
        let page = flint_store::Page { skip: 0, limit: 9 };
        let query = ActivationQuery::default();
        let records =
            server.controller.activations(&caller, &caller.namespace.name, &query, page, true).await;
        records.ok().filter(|records| !records.is_empty())
    })
    .await;
    assert_eq!(records[0].response.status, Status::Success);
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_namespace_without_records_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), ControllerConfig { ..config() }).await;
    deploy(&server, "f", "echo").await;
    let name = "guest".parse().unwrap();
    let limits = flint_model::NamespaceLimits { store_activations: Some(false), ..Default::default() };
    server.controller.set_limits(&name, limits).await.unwrap();
    accept(&server, "f", "{}").await.unwrap();
    queue_is_empty(&server.controller).await;
    let caller = server.guest().await;
    let count =
        server.controller.count_activations(&caller, &name, &ActivationQuery::default()).await.unwrap();
    assert_eq!((count, server.executor.calls_of("guest/f").len()), (0, 1));
    server.stop().await;
}
