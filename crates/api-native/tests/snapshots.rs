//! Saying how a function is snapshotted, and seeing what came of it, over HTTP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../controller/tests/support/mod.rs"]
mod server;

use std::sync::Arc;

use axum::{Router, body::Body};
use flint_api_native::{
    ActivationFeed, NativeConfig,
    resource::{AbilityResource, AbilityState},
    router,
};
use flint_controller::GUEST_KEY;
use http::{
    Request,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::{Scripted, Server};
use tempfile::TempDir;
use tower::ServiceExt;

struct Api {
    server: Server,
    router: Router,
    _dir: TempDir,
}

fn missing(name: &str) -> AbilityResource {
    let (name, detail, remedy) = (name.to_owned(), "not there".to_owned(), "get it".to_owned());
    AbilityResource { name, state: AbilityState::Missing, detail, remedy }
}

impl Api {
    /// On a host that lets functions be forked, or lacks something for that.
    async fn on(host: Result<&str, &str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_on(dir.path(), Scripted::forking(host)).await;
        let config = NativeConfig {
            operator: None,
            open_metrics: false,
            feed: ActivationFeed::default(),
            abilities: ["start fork nodejs:20", "start fork java:21", "network egress"].map(missing).into(),
            executors: vec![Arc::clone(&server.executor) as _],
            maintenance: None,
            uploads: Arc::default(),
        };
        Self { router: router(Arc::clone(&server.controller), config), server, _dir: dir }
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
            .header(CONTENT_TYPE, "application/json")
            .body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())));
        let response = self.router.clone().oneshot(request.unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn deploy(&self, more: Value) -> (u16, Value) {
        let mut request = json!({"kind": "nodejs", "code": {"format": "source", "text": "echo it"}});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call("PUT", "/v1/functions/f", Some(request)).await
    }
}

#[tokio::test]
async fn a_deploy_answers_with_what_was_prepared_and_the_function_goes_on_saying_it() {
    let api = Api::on(Ok("Landlock 7")).await;
    let events = json!([{"params": {"n": 1}}, {"body": "/9g=", "content_type": "image/jpeg"}]);
    let (status, result) = api.deploy(json!({"snapshot": {"warmup": events}})).await;
    assert_eq!(status, 201, "{result}");
    let function = &result["function"];
    let forked = json!({"isolation": "process", "start": "fork", "reuse": "never", "concurrency": 1});
    assert_eq!((&function["strategy"], &function["asked"]), (&forked, &json!({})));
    let options = json!({"warmup_events": 2, "warmup_bytes": 9, "warmup_network": false, "annotate": true});
    assert_eq!(function["snapshot"], options);
    let prepared = &function["prepared"];
    assert_eq!((&prepared["strategy"], &prepared["fallback"]), (&forked, &Value::Null));
    let snapshot = &prepared["snapshot"];
    assert_eq!((&snapshot["kept"], &snapshot["warmup_calls"]), (&json!(true), &json!(4000)));
    assert_eq!((&snapshot["optimised"], &snapshot["reached"]), (&json!(1), &json!(2)));
    let left = snapshot["left_behind"].as_array().unwrap();
    assert_eq!((left.len(), &left[0]["name"]), (1, &json!("slow")));
    let (_, shown) = api.call("GET", "/v1/functions/f", None).await;
    assert_eq!(&shown, function);
    let (_, list) = api.call("GET", "/v1/functions", None).await;
    let listed = &list["functions"][0];
    assert_eq!((&listed["prepared"], &listed["snapshot"]), (&Value::Null, &options));
    assert_eq!((&function["parameters"], listed.get("parameters")), (&json!([]), None));
    // A deploy says all of what a function is.
    let (_, result) = api.deploy(json!({"start": "spawn"})).await;
    let function = &result["function"];
    assert_eq!(function["asked"], json!({"start": "spawn"}));
    assert_eq!((&function["snapshot"], &function["strategy"]["reuse"]), (&Value::Null, &json!("warm")));
    assert_eq!(result["notes"], Value::Null);
    let (_, result) = api.deploy(json!({"start": "spawn", "snapshot": {"annotate": false}})).await;
    assert!(result["notes"][0].as_str().unwrap().ends_with("this function's start is spawn"), "{result}");
    api.server.stop().await;
}

#[tokio::test]
async fn explain_says_what_was_asked_what_was_chosen_and_why_it_fell_back() {
    let api = Api::on(Ok("Landlock 7")).await;
    let explain = async || api.call("GET", "/v1/explain/f", None).await.1;
    let reason = |explanation: &Value, words: &str| {
        let reasons = explanation["reasons"].as_array().unwrap();
        let said = reasons.iter().any(|reason| reason.as_str().unwrap().contains(words));
        assert!(said, "{words}: {reasons:#?}");
    };
    api.deploy(json!({"reuse": "never"})).await;
    let explanation = explain().await;
    reason(&explanation, "start fork (chosen by Flint)");
    reason(&explanation, "reuse never (asked for)");
    api.deploy(json!({"start": "fork", "annotations": {"unforkable": true}})).await;
    let explanation = explain().await;
    reason(&explanation, "start spawn (not what was asked for)");
    reason(&explanation, "it was to run as process/fork/never×1 and fell back: 2 threads were alive");
    assert_eq!(explanation["strategy"]["start"], "spawn");
    assert_eq!(explanation["function"]["strategy"]["start"], "fork");
    let ways = explanation["considered"].as_array().unwrap();
    let picked: Vec<_> = ways.iter().filter(|way| way["picked"] == true).collect();
    assert_eq!((picked.len(), &picked[0]["strategy"]), (1, &json!("process/spawn/warm×1")));
    let forked = ways.iter().find(|way| way["strategy"] == "process/fork/warm×1").unwrap();
    assert!(forked["why"].as_str().unwrap().starts_with("this function cannot: 2 threads"), "{forked}");
    api.server.stop().await;
}

#[tokio::test]
async fn a_host_that_cannot_fork_says_what_it_lacks() {
    let api = Api::on(Err("the kernel has no Landlock")).await;
    let (status, refused) = api.deploy(json!({"start": "fork"})).await;
    assert_eq!(status, 400);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("the kernel has no Landlock"), "{message}");
    let (status, _) = api.deploy(json!({})).await;
    assert_eq!(status, 201);
    let (_, result) = api.deploy(json!({"snapshot": {"warmup": [{"params": {}}]}})).await;
    let note = result["notes"][0].as_str().unwrap();
    assert!(note.contains("not warmed up") && note.ends_with("the kernel has no Landlock"), "{note}");
    let (_, explanation) = api.call("GET", "/v1/explain/f", None).await;
    let lacking = json!(["start fork nodejs:20: not there; get it", "network egress: not there; get it"]);
    assert_eq!(explanation["lacking"], lacking);
    let ways = explanation["considered"].as_array().unwrap();
    let forked = ways.iter().find(|way| way["strategy"] == "process/fork/never×1").unwrap();
    assert_eq!(forked["why"], "here is missing: the kernel has no Landlock");
    let text = "start fork would be the default for nodejs:20; here is missing: the kernel has no Landlock";
    assert!(explanation["reasons"].as_array().unwrap().contains(&json!(text)), "{explanation:#}");
    api.server.stop().await;
}

#[tokio::test]
async fn snapshot_options_that_cannot_be_are_refused_with_the_cause() {
    let api = Api::on(Ok("Landlock 7")).await;
    let many: Vec<_> = (0..65).map(|n| json!({ "params": n })).collect();
    for (snapshot, text) in [
        (json!({ "warmup": many }), "65 warm-up events are more than the 64"),
        (json!({"warmup": [{"params": 1, "body": ""}]}), "snapshot.warmup[0] needs either 'params'"),
        (json!({"warmup": [{"body": "", "content_type": "jpeg"}]}), "a content type that is none"),
        (json!({"jit": "numba"}), "jit numba compiles Python"),
        (json!({"calls": 3}), "unknown field `calls`"),
    ] {
        let (status, refused) = api.deploy(json!({ "snapshot": snapshot })).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(text), "{refused}");
    }
    api.server.stop().await;
}
