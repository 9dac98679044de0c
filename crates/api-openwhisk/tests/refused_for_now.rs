//! Limits that an operator has set, and what is short: in the API's words, with what helps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use axum::body::Body;
use flint_controller::ControllerConfig;
use flint_model::ByteSize;
use serde_json::{Value, json};
use support::{Api, config, request};

fn tight() -> ControllerConfig {
    let mut config = config();
    let bounds = &mut config.limits.bounds;
    (bounds.max_payload, bounds.max_result, bounds.max_code) =
        (ByteSize::kib(2), ByteSize::kib(1), ByteSize::kib(4));
    config
}

#[tokio::test]
async fn sizes_are_the_operators_and_refused_in_the_apis_words() {
    let api = Api::with(tight()).await;
    api.action("f", "echo it").await;
    let web = json!({"exec": {"kind": "nodejs", "code": "echo it"}, "annotations": [{"key": "web-export", "value": true}]});
    assert_eq!(api.call("PUT", "actions/w", Some(web)).await.status, 200);
    assert_eq!(api.call("PUT", "triggers/t", Some(json!({}))).await.status, 200);
    let large = json!({"a": "x".repeat(2048)});
    let text = format!("Request larger than allowed: {} > 2048 bytes.", large.to_string().len());
    for path in ["actions/f", "actions/f?blocking=true", "triggers/t"] {
        assert_eq!(
            api.call("POST", path, Some(large.clone())).await.refusal(),
            (413, text.clone()),
            "{path}"
        );
    }
    let headers = [("content-type", "application/json"), ("content-length", "2056")];
    let mut asked = request("POST", "/api/v1/web/guest/default/w.json", None, &headers);
    *asked.body_mut() = Body::from(large.to_string());
    assert_eq!(api.send(asked).await.refusal(), (413, text));
    assert_eq!(api.blocking("f", json!({"a": "x".repeat(2000)})).await.status, 200);

    let code = |length: usize| json!({"exec": {"kind": "nodejs", "code": "x".repeat(length)}});
    let refused = api.call("PUT", "actions/g", Some(code(4097))).await.refusal();
    assert_eq!(refused, (413, "exec larger than allowed: 4097 > 4096 bytes.".to_owned()));

    api.action("l", "long it is").await;
    let reply = api.blocking("l", json!({})).await;
    assert_eq!(reply.status, 502);
    let error = reply.json()["response"]["result"]["error"].as_str().unwrap().to_owned();
    assert!(
        error.starts_with(
            "The action produced a response that exceeded the allowed length: 1029 > 1024 bytes."
        ),
        "{error}"
    );
}

fn seconds(reply: &support::Reply) -> u32 {
    reply.header("retry-after").unwrap_or_else(|| panic!("{reply:?}")).parse().unwrap()
}

#[tokio::test]
async fn who_is_refused_for_now_is_told_when_to_come_back() {
    let api = Api::start().await;
    let asked = |name: &str, limits: Value| {
        let name = name.to_owned();
        let api = &api;
        async move {
            let key = api.namespace(&name, limits).await;
            let code = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
            let path = format!("/api/v1/namespaces/{name}/actions/f");
            assert_eq!(api.call_as(&key, "PUT", &path, Some(code)).await.status, 200);
            api.call_as(&key, "POST", &format!("{path}?blocking=true"), None).await
        }
    };
    let reply = asked("busy", json!({"concurrentInvocations": 0})).await;
    assert_eq!(
        reply.refusal(),
        (429, "Too many concurrent requests in flight (count: 0, allowed: 0).".to_owned())
    );
    assert_eq!(seconds(&reply), 1);
    let reply = asked("quick", json!({"invocationsPerMinute": 0})).await;
    assert_eq!(reply.refusal().0, 429);
    assert!((1..=60).contains(&seconds(&reply)), "until the minute is over");
}
