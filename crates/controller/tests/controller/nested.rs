//! Functions that call others and wait for them: they cannot keep these from running, whatever the limits of their namespace are.

use std::{path::Path, sync::Arc, time::Duration};

use flint_controller::{
    Answer, Caller, ControllerConfig, ControllerError, GUEST_KEY, Invocation, Mode, PutCode, PutFunction,
};
use flint_model::{ActivationId, ApiKey, NamespaceLimits};
use flint_scheduler::SchedulerConfig;
use proptest::{collection::vec, prelude::*, sample::subsequence};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{
    Server,
    composing::{BLOCKING, deploy, deploy_with, invocation, record, result_of, sequence},
    config, eventually,
};

fn limited(calls: u32) -> ControllerConfig {
    let mut config = config();
    config.limits.concurrent_invocations = calls;
    config
}

/// With so much memory for instances, and beyond it.
async fn small(dir: &Path, limit: u32, memory: (u64, u64)) -> Server {
    Server::start_small(dir, limited(limit), SchedulerConfig::default(), memory).await
}

/// A function that may call back.
async fn caller(server: &Server, name: &str, code: &str) {
    deploy_with(server, name, code, &[("provide-api-key", json!(true))]).await;
}

fn with_key(name: &str, mode: Mode) -> Invocation {
    Invocation { api_key: Some(GUEST_KEY.into()), ..invocation(name, &json!({}), mode) }
}

type Called = JoinHandle<Result<Answer, ControllerError>>;

/// Begins so many blocking calls.
async fn begin(server: &Server, name: &str, calls: u32) -> Vec<Called> {
    let guest = server.guest().await;
    let begun = (0..calls).map(|_| {
        let (controller, guest, asked) =
            (Arc::clone(&server.controller), guest.clone(), with_key(name, BLOCKING));
        tokio::spawn(async move { controller.invoke(&guest, asked).await })
    });
    let begun = begun.collect();
    eventually("calls in flight", || async {
        (server.controller.calls_in_flight() == u64::from(calls)).then_some(())
    })
    .await;
    begun
}

/// What each of them came to, once all may go on.
async fn results(server: &Server, calls: Vec<Called>) -> Vec<Value> {
    eventually("their ends", || async {
        server.executor.go();
        calls.iter().all(JoinHandle::is_finished).then_some(())
    })
    .await;
    let mut results = Vec::new();
    for call in calls {
        match call.await.unwrap().unwrap() {
            Answer::Finished(record) => results.push(result_of(&record)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.controller.calls_in_flight(), 0);
    results
}

async fn call(server: &Server, key: &str, name: &str) -> Result<Answer, ControllerError> {
    let asked = Invocation { api_key: Some(key.into()), ..invocation(name, &json!({}), BLOCKING) };
    server.controller.invoke(&server.controller.authenticate(key).await.unwrap(), asked).await
}

fn is_refused(result: Result<Answer, ControllerError>) {
    assert!(matches!(result, Err(ControllerError::Concurrency { .. })), "{result:?}");
}

#[tokio::test]
async fn callers_that_fill_the_limit_get_the_answers_of_whom_they_call() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), limited(8)).await;
    deploy(&server, "c", "answer {\"c\":1}").await;
    caller(&server, "b", "calls c c+c").await;
    sequence(&server, "s", &["guest/b", "guest/c"]).await.unwrap();
    caller(&server, "a", "late calls b s b+c+s").await;
    let calls = begin(&server, "a", 8).await;
    is_refused(call(&server, GUEST_KEY, "c").await);
    let (b, c) = (json!({"answers": vec![json!({"c": 1}); 3]}), json!({"c": 1}));
    for result in results(&server, calls).await {
        assert_eq!(result, json!({"answers": [b, c, b, c, c]}));
    }
    assert!(call(&server, GUEST_KEY, "c").await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn a_drain_waits_for_callers_and_lets_them_call() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), limited(4)).await;
    deploy(&server, "c", "answer {\"c\":1}").await;
    caller(&server, "a", "late calls c").await;
    let calls = begin(&server, "a", 2).await;
    // What has been admitted and is not in a line yet may be refused.
    eventually("both to be in line", || async {
        let queues = server.controller.host_state().queues;
        (queues.running + queues.waiting == 2).then_some(())
    })
    .await;
    let controller = Arc::clone(&server.controller);
    let drained = tokio::spawn(async move { controller.shutdown(Duration::from_secs(60)).await });
    eventually("the drain", || async {
        matches!(call(&server, GUEST_KEY, "c").await, Err(ControllerError::ShuttingDown)).then_some(())
    })
    .await;
    for result in results(&server, calls).await {
        assert_eq!(result, json!({"answers": [{"c": 1}]}));
    }
    drained.await.unwrap();
}

#[tokio::test]
async fn accepted_calls_and_compositions_that_fill_it_do_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), limited(4)).await;
    deploy(&server, "b", "answer {\"b\":1}").await;
    caller(&server, "a", "late calls b").await;
    sequence(&server, "s", &["guest/a", "guest/b"]).await.unwrap();
    let guest = server.guest().await;
    let mut ids = Vec::new();
    for name in ["a", "s", "a", "s"] {
        let Ok(Answer::Accepted(id)) =
            server.controller.invoke(&guest, with_key(name, Mode::NonBlocking)).await
        else {
            panic!()
        };
        ids.push(id);
    }
    is_refused(call(&server, GUEST_KEY, "b").await);
    for (number, id) in ids.into_iter().enumerate() {
        eventually("the end", || async {
            server.executor.go();
            server.controller.activation(&guest, &guest.namespace.name, id).await.ok()
        })
        .await;
        let result = result_of(&record(&server, id).await);
        assert_eq!(result, if number % 2 == 0 { json!({"answers": [{"b": 1}]}) } else { json!({"b": 1}) });
    }
    let calls = begin(&server, "s", 4).await;
    for result in results(&server, calls).await {
        assert_eq!(result, json!({"b": 1}));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_function_that_calls_itself_for_ever_is_refused_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), limited(1)).await;
    caller(&server, "f", "calls f").await;
    let calls = begin_one(&server, "f").await;
    let mut result = &results(&server, vec![calls]).await[0];
    let mut depth = 0;
    while let Some(inner) = result.pointer("/answers/0") {
        (result, depth) = (inner, depth + 1);
    }
    assert_eq!(result["refused"], "Too many concurrent requests in flight (count: 1, allowed: 1).");
    assert_eq!(depth, 17, "sixteen of them on the place of the first");
    server.stop().await;
}

async fn begin_one(server: &Server, name: &str) -> Called {
    let (controller, guest, asked) =
        (Arc::clone(&server.controller), server.guest().await, with_key(name, BLOCKING));
    tokio::spawn(async move { controller.invoke(&guest, asked).await })
}

#[tokio::test]
async fn only_who_runs_in_the_same_namespace_lends_a_place() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), limited(1)).await;
    let (_, key) =
        server.controller.create_namespace("other".parse().unwrap(), Default::default()).await.unwrap();
    let key = key.expose();
    let other: Caller = server.controller.authenticate(&key).await.unwrap();
    let code = PutCode { kind: "nodejs".into(), content: "wait".into(), format: None, main: None };
    let mut put = PutFunction { code: Some(code), ..PutFunction::default() };
    put.annotations.set("provide-api-key", true);
    server.controller.put_function(&other, "other/w".parse().unwrap(), put, &|_| {}).await.unwrap();
    deploy(&server, "b", "echo").await;
    caller(&server, "over", "context").await;
    caller(&server, "w", "wait").await;

    // One that is over, which the key says that it was given to.
    let Ok(Answer::Finished(over)) = call(&server, GUEST_KEY, "over").await else { panic!() };
    let over = result_of(&over)["apiKey"].as_str().unwrap().to_owned();
    assert!(over.starts_with(&format!("{GUEST_KEY}.")), "{over}");
    let ours = begin(&server, "w", 1).await;
    is_refused(call(&server, &over, "b").await);
    is_refused(call(&server, &ApiKey::of_activation(GUEST_KEY, ActivationId::generate()), "b").await);

    // One of another namespace.
    let theirs = {
        let (controller, other, key) = (Arc::clone(&server.controller), other.clone(), key.clone());
        tokio::spawn(async move {
            let mut asked = Invocation { api_key: Some(key.into()), ..invocation("w", &json!({}), BLOCKING) };
            asked.path = "other/w".parse().unwrap();
            controller.invoke(&other, asked).await
        })
    };
    let running = |of: &'static str| {
        let executor = Arc::clone(&server.executor);
        eventually("the call", move || {
            let key = executor.seen().keys.remove(of);
            async move { key }
        })
    };
    let their_id = ApiKey::without_activation(&running("other/w").await).1.unwrap();
    is_refused(call(&server, &ApiKey::of_activation(GUEST_KEY, their_id), "b").await);

    // The one that has the place: for a caller that waits.
    let key = running("guest/w").await;
    assert!(matches!(call(&server, &key, "b").await, Ok(Answer::Finished(_))));
    let asked =
        Invocation { api_key: Some(key.as_str().into()), ..invocation("b", &json!({}), Mode::NonBlocking) };
    is_refused(server.controller.invoke(&server.guest().await, asked).await);
    assert_eq!(server.controller.calls_in_flight(), 2);
    results(&server, ours.into_iter().chain([theirs]).collect()).await;
    server.stop().await;
}

#[tokio::test]
async fn a_limit_of_none_and_the_rate_hold_for_them_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), limited(1)).await;
    deploy(&server, "b", "echo").await;
    caller(&server, "a", "late calls b").await;
    for limits in [
        NamespaceLimits { concurrent_invocations: Some(0), ..Default::default() },
        NamespaceLimits { invocations_per_minute: Some(0), ..Default::default() },
    ] {
        let calls = begin(&server, "a", 1).await;
        server.controller.set_limits(&"guest".parse().unwrap(), limits).await.unwrap();
        let refused = results(&server, calls).await[0]["answers"][0]["refused"].clone();
        assert!(refused.as_str().unwrap().starts_with("Too many"), "{refused}");
        server.controller.set_limits(&"guest".parse().unwrap(), Default::default()).await.unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn callers_that_have_all_the_memory_get_them_too() {
    let dir = tempfile::tempdir().unwrap();
    // Eight instances.
    let server = small(dir.path(), 1000, (256, 512)).await;
    deploy(&server, "c", "answer {\"c\":1}").await;
    caller(&server, "b", "calls c c+c").await;
    caller(&server, "a", "late calls b+c b").await;
    let calls = begin(&server, "a", 30).await;
    let b = json!({"answers": vec![json!({"c": 1}); 3]});
    for result in results(&server, calls).await {
        assert_eq!(result, json!({"answers": [b, {"c": 1}, b]}));
    }
    server.stop().await;
}

/// What a function calls: names of later ones, one after the other (` `) or at once (`+`).
fn program() -> impl Strategy<Value = Vec<String>> {
    const NAMES: [&str; 5] = ["f1", "f2", "f3", "s", "leaf"];
    let one = |from: usize| {
        let group =
            subsequence(NAMES[from..].to_vec(), 1..=NAMES.len() - from).prop_map(|names| names.join("+"));
        vec(group, 1..3).prop_map(|groups| format!("calls {}", groups.join(" ")))
    };
    (one(0), one(1), one(2), one(3)).prop_map(|(a, b, c, d)| vec![a, b, c, d])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn however_they_call_each_other_all_of_them_end(program in program(), limit in 1..5_u32) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let server = small(dir.path(), limit, (1024, 1024)).await;
            deploy(&server, "leaf", "answer {\"leaf\":1}").await;
            sequence(&server, "s", &["guest/leaf", "guest/leaf"]).await.unwrap();
            for (name, code) in ["f0", "f1", "f2", "f3"].iter().zip(&program) {
                caller(&server, name, code).await;
            }
            caller(&server, "all", "late calls f0").await;
            let calls = begin(&server, "all", limit).await;
            for result in results(&server, calls).await {
                let text = result.to_string();
                assert!(text.contains("leaf") && !text.contains("refused") && !text.contains("unexpected"), "{text}");
            }
            server.stop().await;
        });
    }
}
