//! Calls over HTTP: where an accepted one is, what comes of one that outlasts its caller's patience, and what is too large.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../controller/tests/support/mod.rs"]
mod server;

use std::time::Duration;

use axum::{Router, body::Body};
use bytes::Bytes;
use flint_api_native::{ActivationFeed, NativeConfig, router};
use flint_controller::{ControllerConfig, GUEST_KEY, PutFunction, PutSequence};
use flint_model::{ByteSize, Entity, FunctionPath, NamespaceLimits};
use flint_store::{ActivationQuery, Page};
use futures_util::{StreamExt, stream};
use http::{
    Request,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use server::{
    Server,
    composing::{deploy_with, sequence},
    config, eventually,
};
use tempfile::TempDir;
use tower::ServiceExt;

struct Api {
    server: Server,
    router: Router,
    feed: ActivationFeed,
    _dir: TempDir,
}

impl Api {
    async fn with(config: ControllerConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), config).await;
        let feed = ActivationFeed::default();
        let config = NativeConfig {
            operator: None,
            open_metrics: false,
            feed: feed.clone(),
            abilities: Vec::new(),
            executors: Vec::new(),
            maintenance: None,
            uploads: std::sync::Arc::default(),
        };
        Self { router: router(server.controller.clone(), config), server, feed, _dir: dir }
    }

    async fn send(&self, method: &str, path: &str, body: Body, length: Option<usize>) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
            .header(CONTENT_TYPE, "application/json");
        if let Some(length) = length {
            request = request.header(CONTENT_LENGTH, length);
        }
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, Body::empty(), None).await
    }

    async fn invoke(&self, query: &str) -> String {
        let path = format!("/v1/functions/f/invoke?{query}");
        let (status, body) = self.send("POST", &path, Body::from("{\"n\":1}"), None).await;
        assert_eq!(status, 202, "{body}");
        body["activation"].as_str().unwrap().to_owned()
    }

    /// Where the call is, once it is there.
    async fn state(&self, id: &str, state: &str) -> Value {
        eventually(state, || async {
            let (_, call) = self.get(&format!("/v1/calls/{id}")).await;
            (call["state"] == state).then_some(call)
        })
        .await
    }

    /// Its record, once it is over.
    async fn record(&self, id: &str) -> Value {
        eventually("the record", || async {
            self.server.executor.go();
            let (status, record) = self.get(&format!("/v1/activations/{id}")).await;
            (status == 200).then_some(record)
        })
        .await
    }
}

#[tokio::test]
async fn an_accepted_call_can_be_followed_until_its_record_is_there() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "wait", &[]).await;
    let id = api.invoke("async=true").await;
    let call = api.state(&id, "running").await;
    assert_eq!((&call["id"], &call["function"], &call["begun"]), (&json!(id), &json!("guest/f"), &json!(1)));
    assert_eq!((&call["attempts"], &call["due"]), (&json!([]), &Value::Null));
    assert!(call["accepted"].as_u64().unwrap() > 0 && call["max_attempts"] == 3, "{call}");
    assert_eq!(api.record(&id).await["result"], json!({"waited": true}));
    eventually("the end", || async { (api.get(&format!("/v1/calls/{id}")).await.0 == 404).then_some(()) })
        .await;
    let (_, refused) = api.get(&format!("/v1/calls/{id}")).await;
    assert!(refused["error"]["hint"].as_str().unwrap().contains("/v1/activations/"), "{refused}");
    assert_eq!(api.get("/v1/calls/nonsense").await.0, 400);
    api.server.stop().await;
}

#[tokio::test]
async fn a_further_attempt_is_due_and_a_dead_letter_is_one() {
    let api = Api::with(config()).await;
    let retry = |retries: u32| json!({"retries": retries, "backoff": "1h", "max_backoff": "1h"});
    deploy_with(&api.server, "f", "fails developer 9", &[("flint-retry", retry(1))]).await;
    let id = api.invoke("async=true").await;
    let call = api.state(&id, "delayed").await;
    // A half of the back-off is left to chance.
    let after = call["due"].as_u64().unwrap() - call["accepted"].as_u64().unwrap();
    assert!((1_800_000..3_700_000).contains(&after), "{call}");
    assert_eq!((call["attempts"].as_array().unwrap().len(), &call["max_attempts"]), (1, &json!(2)));
    assert!(call["policy"].as_str().unwrap().starts_with("2 attempts"), "{call}");
    deploy_with(&api.server, "f", "fails developer 9", &[("flint-retry", retry(0))]).await;
    let id = api.invoke("async=true").await;
    assert_eq!(api.state(&id, "dead_letter").await["attempts"].as_array().unwrap().len(), 1);
    api.server.stop().await;
}

#[tokio::test]
async fn a_call_that_outlasts_its_callers_patience_is_an_accepted_one() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "wait", &[]).await;
    let id = api.invoke("wait_ms=20").await;
    assert_eq!(api.state(&id, "running").await["max_attempts"], 1);
    assert_eq!(api.record(&id).await["result"], json!({"waited": true}));
    api.server.stop().await;
}

#[tokio::test]
async fn the_record_can_be_asked_for_where_none_is_kept() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "http text/plain words", &[]).await;
    let limits = NamespaceLimits { store_activations: Some(false), ..NamespaceLimits::default() };
    api.server.controller.set_limits(&"guest".parse().unwrap(), limits).await.unwrap();
    let (status, record) =
        api.send("POST", "/v1/functions/f/invoke?record=true", Body::from("{}"), None).await;
    assert_eq!((status, &record["status"]), (200, &json!("success")), "{record}");
    assert_eq!((&record["content_type"], record["size"].as_u64()), (&json!("text/plain"), Some(5)));
    assert_eq!(record["logs"].as_array().unwrap().len(), 1);
    let id = record["id"].as_str().unwrap();
    assert_eq!(api.get(&format!("/v1/activations/{id}")).await.0, 404);
    api.server.stop().await;
}

#[tokio::test]
async fn lists_have_no_parameters_and_a_page_that_is_too_large_is_refused_with_the_next_step() {
    let api = Api::with(config()).await;
    let long = json!("x".repeat(900_000));
    for number in 0..10 {
        deploy_with(&api.server, &format!("f{number}"), "echo", &[("a", long.clone())]).await;
    }
    sequence(&api.server, "s", &["guest/f1"]).await.unwrap();
    let (status, refused) = api.get("/v1/functions").await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid")), "{refused}");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("limit"), "{refused}");
    let (status, list) = api.get("/v1/functions?limit=5").await;
    assert_eq!((status, &list["total"]), (200, &json!(10)));
    let listed = list["functions"].as_array().unwrap();
    let is_whole = |one: &Value| one["annotations"]["a"] == long && one.get("parameters").is_none();
    assert!(listed.len() == 5 && listed.iter().all(is_whole));
    assert_eq!(api.get("/v1/functions/f1").await.1["parameters"], json!([]));
    // The functions beside them are not read.
    let (status, list) = api.get("/v1/sequences").await;
    assert_eq!((status, list["sequences"].as_array().unwrap().len()), (200, 1));
    api.server.stop().await;
}

#[tokio::test]
async fn sequences_are_listed_whole_or_in_parts() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "echo", &[]).await;
    for number in 0..10 {
        let components = Some(vec!["guest/f".parse().unwrap()]);
        let mut put = PutSequence { components, ..PutSequence::default() };
        put.annotations.set("a", "x".repeat(900_000));
        let path = format!("guest/s{number}").parse().unwrap();
        api.server.controller.put_sequence(&api.server.guest().await, path, put).await.unwrap();
    }
    for query in ["", "?limit=10", "?limit=5000"] {
        let (status, refused) = api.get(&format!("/v1/sequences{query}")).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid")), "{refused}");
        assert!(refused["error"]["hint"].as_str().unwrap().contains("flint sequence list -n"), "{refused}");
    }
    let mut names = Vec::new();
    for (query, count) in [("?limit=4", 4), ("?limit=4&skip=4", 4), ("?skip=8", 2), ("?limit=0", 0)] {
        let (status, list) = api.get(&format!("/v1/sequences{query}")).await;
        let listed = list["sequences"].as_array().unwrap();
        assert_eq!((status, listed.len()), (200, count), "{query}");
        names.extend(listed.iter().map(|one| one["name"].as_str().unwrap().to_owned()));
    }
    names.sort_unstable();
    assert_eq!(names, (0..10).map(|number| format!("s{number}")).collect::<Vec<_>>());
    assert_eq!(api.get("/v1/sequences?limit=x").await.0, 400);
    api.server.stop().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_the_limit_and_its_name() {
    let mut limits = config();
    limits.limits.bounds.max_payload = ByteSize::kib(2);
    limits.secrets.max_size = ByteSize::kib(2);
    let api = Api::with(limits).await;
    deploy_with(&api.server, "f", "echo", &[]).await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(2048));
    let bounded = [
        ("POST", "/v1/functions/f/invoke", "limits.max_payload"),
        ("PUT", "/v1/secrets/s", "secrets.max_size"),
    ];
    for (method, path, key) in bounded {
        for length in [None, Some(large.len())] {
            let (status, refused) = api.send(method, path, Body::from(large.clone()), length).await;
            assert_eq!((status, &refused["error"]["code"]), (413, &json!("too_large")), "{refused}");
            let error = &refused["error"];
            assert!(error["message"].as_str().unwrap().contains("2048 bytes"), "{refused}");
            assert!(error["hint"].as_str().unwrap().contains(key), "{refused}");
        }
    }
    let (status, refused) = api.send("PUT", "/v1/secrets/s", Body::from("x".repeat(2048)), None).await;
    assert_ne!(status, 413, "it is not too large: {refused}");
    api.server.stop().await;
}

#[tokio::test]
async fn a_function_sees_the_path_after_invoke_also_when_that_is_the_root() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "context", &[]).await;
    let raw = "/a%20b/%ff/";
    for (path, seen) in [("", Value::Null), ("/", json!("/")), (raw, json!(raw))] {
        let whole = format!("/v1/functions/f/invoke{path}?q=1");
        let (status, answer) = api.send("POST", &whole, Body::from("{}"), None).await;
        assert_eq!((status, &answer["path"]), (200, &seen), "{whole}: {answer}");
    }
    api.server.stop().await;
}

#[tokio::test]
async fn the_description_needs_no_key() {
    let api = Api::with(config()).await;
    for _ in 0..2 {
        let request = Request::get("/v1/openapi.json").body(Body::empty()).unwrap();
        let response = api.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let described: Value = serde_json::from_slice(&body).unwrap();
        let checked_in: Value = serde_json::from_str(&flint_api_native::document()).unwrap();
        assert!(described == checked_in, "what is served is what is documented");
    }
    api.server.stop().await;
}

#[tokio::test]
async fn a_streamed_request_that_does_not_come_whole_is_its_callers_error() {
    let mut limits = config();
    limits.limits.bounds.max_body = ByteSize::kib(2);
    let api = Api::with(limits).await;
    deploy_with(&api.server, "f", "echo", &[]).await;
    let send = async |pieces: Vec<Result<Bytes, std::io::Error>>| {
        let request = Request::post("/v1/functions/f/invoke")
            .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(Body::new(StreamBody::new(stream::iter(pieces).map(|piece| piece.map(Frame::data)))));
        let response = api.router.clone().oneshot(request.unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let header = |name: &str| parts.headers[name].to_str().unwrap().to_owned();
        let (id, status) = (header("x-flint-activation-id"), header("x-flint-status"));
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(api.record(&id).await["result"], body);
        (parts.status.as_u16(), status, body["error"].as_str().unwrap().to_owned())
    };
    let piece = || Ok(Bytes::from(vec![b'x'; 1 << 10]));
    let (status, class, error) = send(vec![piece(), piece(), piece()]).await;
    assert_eq!((status, class.as_str()), (413, "application_error"));
    assert!(error.contains("2048 bytes"), "{error}");
    let (status, class, error) = send(vec![piece(), Err(std::io::Error::other("reset"))]).await;
    assert_eq!((status, class.as_str()), (400, "application_error"));
    assert!(error.contains("reset"), "{error}");
    api.server.stop().await;
}

#[tokio::test]
async fn what_no_route_takes_is_refused_in_the_apis_own_words() {
    let api = Api::with(config()).await;
    let refused = [
        ("GET", "/v1/functions/%ff", 400, "invalid"),
        ("GET", "/v1/activations/%ff", 400, "invalid"),
        ("POST", "/v1/functions/%ff/invoke/x", 400, "invalid"),
        ("PATCH", "/v1/functions", 405, "method_not_allowed"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/", 404, "not_found"),
    ];
    for (method, path, expected, code) in refused {
        let (status, body) = api.send(method, path, Body::empty(), None).await;
        assert_eq!((status, &body["error"]["code"]), (expected, &json!(code)), "{method} {path}: {body}");
        assert!(body["error"]["message"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn an_array_is_not_read_as_an_object() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "echo", &[]).await;
    for (method, path) in [
        ("PUT", "/v1/functions/f"),
        ("POST", "/v1/functions/f/rollback"),
        ("PUT", "/v1/sequences/s"),
        ("POST", "/v1/dead-letters/redrive"),
    ] {
        for body in ["[]", "[\"x\"]"] {
            let (status, refused) = api.send(method, path, body.into(), None).await;
            assert_eq!(status, 400, "{method} {path} {body}: {refused}");
            assert_eq!(refused["error"]["message"], "the body has to be a JSON object", "{method} {path}");
        }
    }
    api.server.stop().await;
}

#[tokio::test]
async fn a_deploy_over_another_does_not_give_a_function_its_callers_keys() {
    let api = Api::with(config()).await;
    let deploy = async |annotations: Value| {
        let code = json!({"format": "source", "text": "context"});
        let body = json!({"kind": "nodejs", "code": code, "annotations": annotations}).to_string();
        let (status, deployed) = api.send("PUT", "/v1/functions/f", Body::from(body), None).await;
        assert!(matches!(status, 200 | 201), "{deployed}");
        let (_, called) = api.send("POST", "/v1/functions/f/invoke", Body::from("{}"), None).await;
        (deployed["function"]["annotations"]["provide-api-key"].clone(), called["apiKey"].is_string())
    };
    assert_eq!(deploy(json!({"x": 1})).await, (json!(false), false));
    assert_eq!(deploy(json!({})).await, (json!(false), false), "a deploy says all of what a function is");
    assert_eq!(deploy(json!({"provide-api-key": true})).await, (json!(true), true));
    assert_eq!(deploy(json!({})).await, (json!(false), false), "also that it does not ask for it any more");
    api.server.stop().await;
}

#[tokio::test]
async fn a_deploy_over_something_else_keeps_nothing_of_what_that_said() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "g", "echo", &[]).await;
    let components = Some(vec!["guest/g".parse().unwrap()]);
    let mut put = PutSequence { components, ..PutSequence::default() };
    for key in ["web-export", "provide-api-key"] {
        put.annotations.set(key, true);
    }
    let (guest, path) = (api.server.guest().await, "guest/f".parse().unwrap());
    api.server.controller.put_sequence(&guest, path, put).await.unwrap();
    let deploy = async |limits: Value| {
        let code = json!({"format": "source", "text": "context"});
        let body = json!({"kind": "nodejs", "code": code, "limits": limits}).to_string();
        let (status, deployed) = api.send("PUT", "/v1/functions/f", Body::from(body), None).await;
        assert_eq!(status, 200, "{deployed}");
        deployed["function"].clone()
    };
    let function = deploy(json!({"instances": 2})).await;
    let annotations = &function["annotations"];
    assert_eq!((annotations.get("web-export"), &annotations["provide-api-key"]), (None, &json!(false)));
    assert_eq!(function["limits"]["instances"], 2);
    assert_eq!(deploy(json!({})).await["limits"].get("instances"), None);

    let mut put = PutFunction { overwrite: true, ..PutFunction::default() };
    put.annotations.set("web-export", true);
    let path: FunctionPath = "guest/f".parse().unwrap();
    api.server.controller.put_function(&guest, path.clone(), put, &|_| {}).await.unwrap();
    let body = json!({"components": ["g"]}).to_string();
    let (status, made) = api.send("PUT", "/v1/sequences/f", Body::from(body), None).await;
    assert_eq!(status, 200, "{made}");
    let there = api.server.controller.action(&guest, &path).await.unwrap();
    let Entity::Sequence(sequence) = there else { panic!("it is a sequence now") };
    assert!(sequence.annotations.get("web-export").is_none());
    api.server.stop().await;
}

#[tokio::test]
async fn records_are_found_by_every_name_that_a_function_is_called_by() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "echo", &[]).await;
    let call =
        async |name: &str| api.send("POST", &format!("/v1/functions/{name}/invoke"), "{}".into(), None).await;
    assert_eq!((call("%2Fguest%2Ff").await.0, call("f@0.0.1").await.0), (200, 200));
    let listed = async |name: &str| {
        let (_, list) = api.get(&format!("/v1/activations?function={name}")).await;
        list["activations"].as_array().map(Vec::len)
    };
    eventually("both records", || async { (listed("f").await == Some(2)).then_some(()) }).await;
    assert_eq!((listed("%2Fguest%2Ff").await, listed("g@1").await), (Some(2), Some(0)));
    for path in [
        "/v1/activations?function=f@0.0.1",
        "/v1/activations?function=f@0.0.9",
        "/v1/activations?function=f@gone",
        "/v1/functions/f@0.0.1/logs?follow=true",
    ] {
        let (status, refused) = api.get(path).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["error"]["hint"].as_str().unwrap().contains("'f'"), "{refused}");
    }
    assert_eq!(api.get("/v1/functions/f/logs").await.1["activations"].as_array().unwrap().len(), 2);
    api.server.stop().await;
}

#[tokio::test]
async fn the_logs_of_a_sequence_can_be_asked_for_and_followed() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "", &[]).await;
    sequence(&api.server, "s", &["guest/f"]).await.unwrap();
    let (status, list) = api.get("/v1/functions/s/logs").await;
    assert_eq!((status, &list["activations"]), (200, &json!([])));
    let request = Request::get("/v1/functions/s/logs?follow=true")
        .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
        .body(Body::empty());
    let response = api.router.clone().oneshot(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(api.get("/v1/functions/none/logs").await.0, 404);
}

#[tokio::test]
async fn logs_are_followed_as_long_as_the_key_opens_that_namespace() {
    let api = Api::with(config()).await;
    let controller = &api.server.controller;
    deploy_with(&api.server, "f", "echo", &[]).await;
    let invoked = api.send("POST", "/v1/functions/f/invoke", Body::from("{}"), None).await;
    assert_eq!(invoked.0, 200, "{invoked:?}");
    let guest = api.server.guest().await;
    let all = (ActivationQuery::default(), Page { skip: 0, limit: 1 });
    let records = controller.activations(&guest, &guest.namespace.name, &all.0, all.1, true).await;
    let mut record = records.unwrap().remove(0);
    record.namespace = "team".parse().unwrap();

    let create = || controller.create_namespace(record.namespace.clone(), NamespaceLimits::default());
    let (_, key) = create().await.unwrap();
    let follow = async || {
        let request = Request::get("/v1/logs?follow=true")
            .header(AUTHORIZATION, format!("Bearer {}", key.expose()))
            .body(Body::empty());
        api.router.clone().oneshot(request.unwrap()).await.unwrap()
    };
    let stream = follow().await;
    assert_eq!(stream.status(), 200);
    api.feed.publish(&record);
    controller.delete_namespace(&record.namespace).await.unwrap();
    create().await.unwrap();
    api.feed.publish(&record);
    // It ends by itself.
    let said = stream.into_body().collect().await.unwrap().to_bytes();
    let said = String::from_utf8(said.to_vec()).unwrap();
    assert!(said.ends_with("event: refused\ndata: null\n\n"), "{said}");
    assert!(said.matches("data: {").count() <= 1, "what came before: {said}");
    assert_eq!(follow().await.status(), 401);
    api.server.stop().await;
}

#[tokio::test]
async fn so_many_follow_the_logs_of_a_namespace_and_who_leaves_makes_room() {
    let api = Api::with(config()).await;
    let follow = async || {
        let request = Request::get("/v1/logs?follow=true")
            .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
            .body(Body::empty());
        api.router.clone().oneshot(request.unwrap()).await.unwrap()
    };
    let mut streams = Vec::new();
    for _ in 0..32 {
        streams.push(follow().await);
    }
    assert!(streams.iter().all(|stream| stream.status() == 200));
    assert_eq!(follow().await.status(), 429);
    streams.pop();
    eventually("a place", || async { (follow().await.status() == 200).then_some(()) }).await;
}

#[tokio::test]
async fn large_pages_of_records_have_rooms() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", &format!("answer {{\"a\":\"{}\"}}", "x".repeat(900_000)), &[]).await;
    for _ in 0..2 {
        let (status, _) = api.send("POST", "/v1/functions/f/invoke", Body::from("{}"), None).await;
        assert_eq!(status, 200);
    }
    let list = || {
        let request = Request::get("/v1/activations")
            .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
            .body(Body::empty());
        api.router.clone().oneshot(request.unwrap())
    };
    let unread = [list().await.unwrap(), list().await.unwrap()];
    assert!(unread.iter().all(|answer| answer.status() == 200));
    let mut waits = Box::pin(list());
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waits).await.is_err());
    assert_eq!(api.get("/v1/activations?limit=1").await.0, 200, "a small one needs no room");
    drop(unread);
    assert_eq!(waits.await.unwrap().status(), 200);
    api.server.stop().await;
}
