//! A namespace that is deleted, and one of its name that is created afterwards: the second has nothing of the first, whatever was under way.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use flint_controller::{
    Accepts, Answer, Caller, ControllerError, ErrorKind, Firing, Invocation, LimitsWish, Mode, PutApi,
    PutCode, PutFunction, PutPackage, PutRule, PutSequence, PutTrigger, SMALL_LIST,
};
use flint_executor::{Body, body_channel};
use flint_model::{Namespace, NamespaceLimits, NamespaceName, Timestamp};
use flint_store::{ActivationQuery, Page, conformance::sample};
use flint_store_sqlite::{SqliteStore, StoreConfig};
use serde_json::json;

use crate::support::{
    Server,
    composing::{self, BLOCKING},
    config, eventually,
};

const TEAM: &str = "team";
const ALL: Page = Page { skip: 0, limit: 1000 };

/// Creates the namespace, and gives its owner.
async fn create(server: &Server) -> Caller {
    let (_, key) =
        server.controller.create_namespace(TEAM.parse().unwrap(), Default::default()).await.unwrap();
    server.controller.authenticate(&key.expose()).await.unwrap()
}

async fn delete(server: &Server) {
    server.controller.delete_namespace(&TEAM.parse().unwrap()).await.unwrap();
}

/// Deletes it, and creates another one of its name.
async fn replace(server: &Server) -> Caller {
    delete(server).await;
    // Records tell no time below a millisecond.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    create(server).await
}

async fn deploy(server: &Server, caller: &Caller, name: &str, code: &str) -> Result<(), ControllerError> {
    deploy_within(server, caller, name, code, LimitsWish::default()).await
}

async fn deploy_within(
    server: &Server,
    caller: &Caller,
    name: &str,
    code: &str,
    limits: LimitsWish,
) -> Result<(), ControllerError> {
    let code = PutCode { kind: "nodejs".into(), content: code.to_owned().into(), format: None, main: None };
    let put = PutFunction { overwrite: true, code: Some(code), limits, ..PutFunction::default() };
    let path = format!("{TEAM}/{name}").parse().unwrap();
    server.controller.put_function(caller, path, put, &|_| {}).await.map(drop)
}

fn call(name: &str, body: impl Into<Body>, mode: Mode) -> Invocation {
    Invocation {
        path: format!("{TEAM}/{name}").parse().unwrap(),
        body: body.into(),
        head: None,
        mode,
        accepts: Accepts::Json,
        transaction: "t".into(),
        arrived: Instant::now(),
        api_key: None,
    }
}

fn empty(name: &str, mode: Mode) -> Invocation {
    call(name, Bytes::from_static(b"{}"), mode)
}

async fn accept(server: &Server, caller: &Caller, name: &str) {
    let answer = server.controller.invoke(caller, empty(name, Mode::NonBlocking)).await;
    assert!(matches!(answer, Ok(Answer::Accepted(_))), "{answer:?}");
}

async fn records(server: &Server, caller: &Caller) -> usize {
    let (controller, name, all) = (&server.controller, &caller.namespace.name, ActivationQuery::default());
    controller.count_activations(caller, name, &all).await.unwrap()
}

fn is_gone<T: std::fmt::Debug>(result: Result<T, ControllerError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, ControllerError::NamespaceGone), "{error:?}");
    assert!(error.kind() == ErrorKind::NotFound && error.to_string().contains("was deleted"), "{error}");
}

async fn is_quiet(server: &Server) {
    eventually("nothing is under way", || async {
        let metrics = server.controller.render_metrics().await;
        let quiet = metrics.contains("flint_async_queue_depth 0\n");
        (quiet && server.controller.calls_in_flight() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_deploy_that_was_under_way_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for again in [false, true] {
        let (old, before) = (create(&server).await, server.executor.seen().prepared.len());
        let deploying = deploy(&server, &old, "f", "slowly echo");
        let meanwhile = async {
            eventually("it is being prepared", || async {
                (server.executor.seen().prepared.len() > before).then_some(())
            })
            .await;
            delete(&server).await;
            if again {
                create(&server).await;
            }
            server.executor.go();
        };
        let (deployed, ()) = tokio::join!(deploying, meanwhile);
        is_gone(deployed);
        let listed =
            server.controller.functions(&old, &old.namespace.name, None, ALL, SMALL_LIST).await.unwrap();
        assert!(listed.is_empty(), "{listed:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn whoever_still_has_its_key_in_hand_writes_and_calls_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let (controller, old) = (&server.controller, create(&server).await);
    let new = replace(&server).await;
    deploy(&server, &new, "f", "echo").await.unwrap();
    let path = |name: &str| format!("{TEAM}/{name}").parse().unwrap();
    controller.put_trigger(&new, path("t"), PutTrigger::default()).await.unwrap();

    is_gone(deploy(&server, &old, "g", "echo").await);
    is_gone(controller.put_package(&old, path("p"), PutPackage::default()).await);
    is_gone(controller.put_trigger(&old, path("u"), PutTrigger::default()).await);
    let f: flint_model::FunctionPath = format!("{TEAM}/f").parse().unwrap();
    let t = format!("{TEAM}/t").parse().unwrap();
    let rule = PutRule { trigger: Some(t), action: Some(f.clone()), ..PutRule::default() };
    is_gone(controller.put_rule(&old, path("r"), rule).await);
    let sequence = PutSequence { components: Some(vec![f.clone(), f.clone()]), ..PutSequence::default() };
    is_gone(controller.put_sequence(&old, format!("{TEAM}/s").parse().unwrap(), sequence).await);
    let (base_path, title) = ("/b".into(), "b".into());
    let api = PutApi { base_path, title, document: Default::default(), operations: Vec::new() };
    is_gone(controller.put_api(&old, api).await);
    for mode in [BLOCKING, Mode::NonBlocking] {
        is_gone(controller.invoke(&old, empty("f", mode)).await);
    }
    let firing = Firing {
        path: path("t"),
        payload: Bytes::from_static(b"{}"),
        headers: serde_json::json!({}),
        transaction: "t".into(),
        arrived: Instant::now(),
        api_key: None,
    };
    is_gone(controller.fire(&old, firing).await);
    let metrics = controller.render_metrics().await;
    assert!(!metrics.contains("flint_throttled_total{"), "no limit was in its way:\n{metrics}");
    assert!(server.executor.calls_of("team/f").is_empty());
    assert_eq!(records(&server, &new).await, 0);
    server.stop().await;
}

#[tokio::test]
async fn a_request_whose_body_came_slowly_calls_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let mut caller = create(&server).await;
    for mode in [BLOCKING, Mode::NonBlocking] {
        deploy(&server, &caller, "f", "echo").await.unwrap();
        let (body, pieces) = body_channel();
        let calling = server.controller.invoke(&caller, call("f", Body::Stream(pieces), mode));
        let meanwhile = async {
            body.send(Ok(Bytes::from_static(b"{\"n\":"))).await.unwrap();
            let new = replace(&server).await;
            deploy(&server, &new, "f", "echo").await.unwrap();
            body.send(Ok(Bytes::from_static(b"1}"))).await.unwrap();
            drop(body);
            new
        };
        let (answer, new) = tokio::join!(calling, meanwhile);
        is_gone(answer);
        caller = new;
    }
    is_quiet(&server).await;
    assert!(server.executor.calls_of("team/f").is_empty());
    server.stop().await;
}

#[tokio::test]
async fn calls_that_wait_end_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = config();
    // One runs, two wait in memory, the others in the queue alone.
    (small.asynchronous.running, small.asynchronous.waiting) = (1, 2);
    let server = Server::start(dir.path(), small).await;
    let old = create(&server).await;
    deploy(&server, &old, "f", "wait").await.unwrap();
    for _ in 0..6 {
        accept(&server, &old, "f").await;
    }
    let begun = || server.executor.calls_of("team/f").len();
    eventually("the first runs", || async { (begun() == 1).then_some(()) }).await;
    let new = replace(&server).await;
    deploy(&server, &new, "f", "echo").await.unwrap();
    server.executor.go();
    is_quiet(&server).await;
    assert_eq!(begun(), 1, "no other has begun");
    assert_eq!(records(&server, &new).await, 0, "nor is the first the new one's");
    // Which is served as ever.
    accept(&server, &new, "f").await;
    eventually("its record", || async { (records(&server, &new).await == 1).then_some(()) }).await;
    assert_eq!(begun(), 2);
    server.stop().await;
}

/// The second begins when there is another namespace of that name already.
#[tokio::test]
async fn a_blocking_call_that_waits_leaves_no_record_to_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let old = create(&server).await;
    let limits = LimitsWish { instances: Some(Some(1)), ..LimitsWish::default() };
    deploy_within(&server, &old, "f", "wait", limits).await.unwrap();
    let calling: Vec<_> = (0..2)
        .map(|_| {
            let (controller, old) = (Arc::clone(&server.controller), old.clone());
            tokio::spawn(async move { controller.invoke(&old, empty("f", BLOCKING)).await })
        })
        .collect();
    let begun = || server.executor.calls_of("team/f").len();
    eventually("one runs and one waits", || async {
        let metrics = server.controller.render_metrics().await;
        (begun() == 1 && metrics.contains("flint_calls_waiting 1\n")).then_some(())
    })
    .await;
    let new = replace(&server).await;
    eventually("both end", || async {
        server.executor.go();
        calling.iter().all(|call| call.is_finished()).then_some(())
    })
    .await;
    for call in calling {
        let _ = call.await.unwrap();
    }
    is_quiet(&server).await;
    assert_eq!(records(&server, &new).await, 0);
    // The log takes records in order: those of before would be there.
    deploy(&server, &new, "g", "echo").await.unwrap();
    server.controller.invoke(&new, empty("g", BLOCKING)).await.unwrap();
    eventually("its own record", || async { (records(&server, &new).await > 0).then_some(()) }).await;
    assert_eq!(records(&server, &new).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn a_composition_makes_no_further_call() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let mut caller = create(&server).await;
    for mode in [BLOCKING, Mode::NonBlocking] {
        let put = async |caller: &Caller| {
            deploy(&server, caller, "first", "wait").await.unwrap();
            deploy(&server, caller, "second", "echo").await.unwrap();
            let components = ["first", "second"].map(|name| format!("{TEAM}/{name}").parse().unwrap());
            let put = PutSequence {
                overwrite: true,
                components: Some(components.into()),
                ..PutSequence::default()
            };
            server.controller.put_sequence(caller, format!("{TEAM}/s").parse().unwrap(), put).await.unwrap();
        };
        put(&caller).await;
        let before = server.executor.calls_of("team/first").len();
        let calling = {
            let (controller, caller) = (Arc::clone(&server.controller), caller.clone());
            tokio::spawn(async move { controller.invoke(&caller, empty("s", mode)).await })
        };
        eventually("the first step runs", || async {
            (server.executor.calls_of("team/first").len() > before).then_some(())
        })
        .await;
        let new = replace(&server).await;
        put(&new).await;
        server.executor.go();
        let _ = calling.await.unwrap();
        is_quiet(&server).await;
        assert_eq!(server.executor.calls_of("team/second"), Vec::<String>::new());
        assert_eq!(records(&server, &new).await, 0);
        caller = new;
    }
    server.stop().await;
}

#[tokio::test]
async fn what_was_accepted_is_not_called_once_it_is_blocked() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = config();
    (one.asynchronous.running, one.asynchronous.waiting) = (1, 1);
    let server = Server::start(dir.path(), one).await;
    let (controller, caller) = (&server.controller, create(&server).await);
    deploy(&server, &caller, "f", "wait").await.unwrap();
    let components = ["f", "f"].map(|name| format!("{TEAM}/{name}").parse().unwrap());
    let put = PutSequence { components: Some(components.into()), ..PutSequence::default() };
    controller.put_sequence(&caller, format!("{TEAM}/s").parse().unwrap(), put).await.unwrap();
    let begun = || server.executor.calls_of("team/f").len();

    // One runs, one waits in memory, one in the queue alone, and a sequence is at its first step.
    let sequence = {
        let (controller, caller) = (Arc::clone(controller), caller.clone());
        tokio::spawn(async move { controller.invoke(&caller, empty("s", BLOCKING)).await })
    };
    eventually("the first step runs", || async { (begun() == 1).then_some(()) }).await;
    for _ in 0..3 {
        accept(&server, &caller, "f").await;
    }
    eventually("the first call runs", || async { (begun() == 2).then_some(()) }).await;
    controller.set_blocked(&TEAM.parse().unwrap(), true).await.unwrap();
    eventually("all of them end", || async {
        server.executor.go();
        (controller.calls_in_flight() == 0).then_some(())
    })
    .await;
    let _ = sequence.await.unwrap();
    eventually("five records", || async { (records(&server, &caller).await == 5).then_some(()) }).await;
    assert_eq!(begun(), 2, "what ran goes on to its end, and nothing begins");
    let text = r#"{"error":"The action was not invoked due to a blacklisted namespace."}"#;
    let all = ActivationQuery::default();
    let listed = controller.activations(&caller, &caller.namespace.name, &all, ALL, false).await.unwrap();
    let refused = listed.iter().filter(|record| record.response.result.as_ref().unwrap().get() == text);
    assert_eq!(refused.count(), 3, "two calls, and the sequence: {listed:?}");

    controller.set_blocked(&TEAM.parse().unwrap(), false).await.unwrap();
    accept(&server, &caller, "f").await;
    eventually("it is served again", || async { (begun() == 3).then_some(()) }).await;
    server.executor.go();
    server.stop().await;
}

#[tokio::test]
async fn its_records_are_not_its_successors() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let old = create(&server).await;
    deploy(&server, &old, "f", "echo").await.unwrap();
    let id = server.controller.invoke(&old, empty("f", BLOCKING)).await.unwrap().activation();
    eventually("its record", || async { (records(&server, &old).await == 1).then_some(()) }).await;
    let new = replace(&server).await;
    assert_eq!(records(&server, &new).await, 0);
    let (controller, name) = (&server.controller, &new.namespace.name);
    let listed = controller.activations(&new, name, &ActivationQuery::default(), ALL, false).await.unwrap();
    assert!(listed.is_empty());
    let found = controller.activation(&new, name, id).await;
    assert!(matches!(found, Err(ControllerError::NotFound)), "{found:?}");
    server.stop().await;
}

#[tokio::test]
async fn its_records_are_its_own_whatever_the_clock_says() {
    let dir = tempfile::tempdir().unwrap();
    // Guest was created, and another `team` was called, before the clock was set back by an hour.
    let later = Timestamp::from_millis(Timestamp::now().as_millis() + 3_600_000);
    let store = SqliteStore::open(StoreConfig::new(dir.path())).unwrap();
    let guest = Namespace { created: later, ..sample::namespace("guest") };
    store.catalog().put_namespace(&guest).await.unwrap();
    store.activations().append(sample::activation(TEAM, "team/f", later.as_millis(), 1));
    store.close().await.unwrap();

    let server = Server::start(dir.path(), config()).await;
    composing::deploy(&server, "f", "echo").await;
    composing::sequence(&server, "s", &["guest/f", "guest/f"]).await.unwrap();
    composing::invoke(&server, "f", &json!({})).await;
    let accepted = composing::accept(&server, "s", &json!({})).await;
    assert_eq!(composing::record(&server, accepted).await.start, later);
    assert_eq!(records(&server, &server.guest().await).await, 4, "a call, and a sequence of two");

    let new = create(&server).await;
    assert_eq!(records(&server, &new).await, 0);
    deploy(&server, &new, "f", "echo").await.unwrap();
    server.controller.invoke(&new, empty("f", BLOCKING)).await.unwrap();
    assert_eq!(records(&server, &new).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn one_whose_creator_goes_away_has_its_key_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let controller = &server.controller;
    let mut number = 0;
    // The store may answer before it is asked whether it has: then nobody went away, and another is created.
    let name = loop {
        number += 1;
        let name: NamespaceName = format!("{TEAM}-{number}").parse().unwrap();
        tokio::select! {
            biased;
            created = controller.create_namespace(name.clone(), Default::default()) => drop(created.unwrap()),
            () = std::future::ready(()) => break name,
        }
    };
    eventually("it has its key", || async {
        let keys = controller.keys(&name).await;
        keys.is_ok_and(|keys| keys.len() == 1).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn changes_at_the_same_moment_all_hold() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let name = TEAM.parse().unwrap();
    let controller = &server.controller;
    create(&server).await;
    for round in 1..20 {
        let limits = NamespaceLimits { invocations_per_minute: Some(round), ..Default::default() };
        let blocked = round % 2 == 1;
        let (limited, barred) = tokio::join!(
            controller.set_limits(&name, limits.clone()),
            controller.set_blocked(&name, blocked)
        );
        limited.and(barred).unwrap();
        let stored = controller.namespace(&name).await.unwrap();
        assert_eq!((stored.limits, stored.blocked), (limits, blocked));
    }
    let limits = NamespaceLimits::default();
    let (_, deleted) = tokio::join!(controller.set_limits(&name, limits), controller.delete_namespace(&name));
    deleted.unwrap();
    assert!(
        matches!(controller.namespace(&name).await, Err(ControllerError::NoSuch(_))),
        "it is there again"
    );
    let (one, other) = tokio::join!(
        controller.create_namespace(name.clone(), Default::default()),
        controller.create_namespace(name.clone(), Default::default())
    );
    assert!(one.is_ok() != other.is_ok(), "a namespace is created once");
    server.stop().await;
}
