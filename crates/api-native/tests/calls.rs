//! Calls over HTTP: where an accepted one is, what comes of one that outlasts its caller's patience, and what is too large.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;

use api::{
    Api,
    server::{composing::deploy_with, config, eventually},
};
use axum::body::Body;
use bytes::Bytes;
use flint_controller::GUEST_KEY;
use flint_model::{ByteSize, NamespaceLimits};
use futures_util::{StreamExt, stream};
use http::{
    Request,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tower::ServiceExt;

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
