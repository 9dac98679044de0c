//! Contract §11 and §12: who may, and how much.

use flint_controller::GUEST_KEY;
use serde_json::{Value, json};

use crate::support::{Api, config, eventually};

#[tokio::test]
async fn a_foreign_namespace_is_closed_and_does_not_tell_what_is_in_it() {
    let api = Api::start().await;
    let key = api.other().await;
    api.action("f", "echo it").await;
    let id = api.blocking("f", json!({})).await.activation();
    api.record(&id).await;
    let body = || Some(json!({"exec": {"kind": "nodejs", "code": "echo it"}}));
    for name in ["f", "missing"] {
        let path = format!("/api/v1/namespaces/guest/actions/{name}");
        let text = format!("The supplied authentication is not authorized to access 'guest/{name}'.");
        for method in ["GET", "DELETE", "POST", "PUT"] {
            let body = if method == "PUT" { body() } else { None };
            let reply = api.call_as(&key, method, &path, body).await;
            assert_eq!(reply.refusal(), (403, text.clone()), "{method} {name}");
        }
    }
    for path in ["actions", "activations", "triggers", "rules", "limits", &format!("activations/{id}")] {
        let reply = api.call_as(&key, "GET", &format!("/api/v1/namespaces/guest/{path}"), None).await;
        assert_eq!(reply.status, 403, "{path}");
    }
    for namespace in ["guest", "nobody"] {
        let reply = api.call_as(&key, "GET", &format!("/api/v1/namespaces/{namespace}/packages"), None).await;
        assert_eq!((reply.status, reply.text.as_str()), (200, "[]"));
    }
    // The id alone opens nothing.
    assert_eq!(api.call_as(&key, "GET", &format!("activations/{id}"), None).await.status, 404);
    assert_eq!(api.call_as(&key, "GET", "actions", None).await.text, "[]");
}

#[tokio::test]
async fn calls_per_minute_are_limited_and_refused_calls_count() {
    let mut three = config();
    three.limits.invocations_per_minute = 3;
    let api = Api::with(three).await;
    api.action("f", "echo it").await;
    let mut refused = Vec::new();
    // A minute may end meanwhile; then it begins anew once.
    for number in 0..12 {
        let query = if number % 2 == 0 { "?blocking=true" } else { "" };
        let reply = api.call("POST", &format!("actions/f{query}"), None).await;
        if reply.status == 429 {
            refused.push(reply.refusal().1);
        }
    }
    assert!(refused.len() >= 6, "{refused:?}");
    assert_eq!(refused[0], "Too many requests in the last minute (count: 4, allowed: 3).");
    // The refused ones count too.
    let counted = |pair: &[String]| pair[0].contains("(count: 4,") && pair[1].contains("(count: 5,");
    assert!(refused.windows(2).any(counted), "{refused:?}");
    // Only calls are.
    assert_eq!(api.get("actions/f").await.status, 200);
    let key = api.namespace("zero", json!({"invocationsPerMinute": 0})).await;
    let reply = api.call_as(&key, "POST", "actions/f", None).await;
    assert_eq!(
        reply.refusal(),
        (429, "Too many requests in the last minute (count: 1, allowed: 0).".to_owned())
    );
}

#[tokio::test]
async fn calls_at_once_are_limited_and_accepted_ones_count() {
    let mut two = config();
    two.limits.concurrent_invocations = 2;
    let api = Api::with(two).await;
    api.action("f", "wait here").await;
    assert_eq!(api.call("POST", "actions/f", None).await.status, 202);
    assert_eq!(api.call("POST", "actions/f?blocking=true&timeout=5", None).await.status, 202);
    let text = "Too many concurrent requests in flight (count: 2, allowed: 2).".to_owned();
    for query in ["", "?blocking=true"] {
        assert_eq!(api.call("POST", &format!("actions/f{query}"), None).await.refusal(), (429, text.clone()));
    }
    assert_eq!(
        api.server.executor.calls_of("guest/f").len().min(2),
        api.server.executor.calls_of("guest/f").len()
    );
    eventually("the end of both", || async {
        api.server.executor.go();
        (api.server.controller.calls_in_flight() == 0).then_some(())
    })
    .await;
    assert_eq!(api.call("POST", "actions/f", None).await.status, 202);
}

#[tokio::test]
async fn new_limits_hold_at_once() {
    let api = Api::start().await;
    let key = api.other().await;
    let call = async || api.call_as(&key, "POST", "actions/missing", None).await.status;
    assert_eq!(call().await, 404);
    let limits: Value = json!({"concurrentInvocations": 0});
    let limits = serde_json::from_value(limits).unwrap();
    api.server.controller.set_limits(&"other".parse().unwrap(), limits).await.unwrap();
    assert_eq!(call().await, 429);
    assert_eq!(api.call_as(GUEST_KEY, "POST", "actions/missing", None).await.status, 404);
}

#[tokio::test]
async fn a_namespace_may_go_without_records() {
    let api = Api::start().await;
    let key = api.namespace("quiet", json!({"storeActivations": false})).await;
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    api.call_as(&key, "PUT", "actions/f", Some(body)).await;
    let reply = api.call_as(&key, "POST", "actions/f?blocking=true", Some(json!({"a": 1}))).await;
    assert_eq!(reply.json()["response"]["result"], json!({"a": 1}));
    let id = reply.activation();
    assert_eq!(api.call_as(&key, "GET", &format!("activations/{id}"), None).await.status, 404);
    assert_eq!(api.call_as(&key, "GET", "activations", None).await.text, "[]");
}

#[tokio::test]
async fn a_deleted_namespace_is_gone_with_everything() {
    let api = Api::start().await;
    let key = api.other().await;
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    assert_eq!(api.call_as(&key, "PUT", "actions/f", Some(body)).await.status, 200);
    let name = "other".parse().unwrap();
    api.server.controller.delete_namespace(&name).await.unwrap();
    assert_eq!(api.call_as(&key, "GET", "actions", None).await.status, 401);
    let (_, key) = api.server.controller.create_namespace(name, Default::default()).await.unwrap();
    assert_eq!(api.call_as(&key.expose(), "POST", "actions/f", None).await.status, 404);
}

#[tokio::test]
async fn refusals_and_ends_are_counted() {
    let api = Api::start().await;
    let key = api.namespace("zero", json!({"invocationsPerMinute": 0, "firesPerMinute": 0})).await;
    api.call_as(&key, "POST", "actions/f", None).await;
    assert_eq!(api.call_as(&key, "POST", "triggers/t", None).await.status, 429);
    api.action("f", "echo it").await;
    api.blocking("f", json!({})).await;
    api.blocking("f", json!({})).await;
    let metrics = api.server.controller.render_metrics().await;
    for line in [
        r#"flint_throttled_total{namespace="zero",limit="rate"} 1"#,
        r#"flint_throttled_total{namespace="zero",limit="fires"} 1"#,
        r#"flint_activations_total{namespace="guest",function="f",status="success"} 2"#,
        r#"flint_activation_starts_total{kind="nodejs:20",start="cold"} 1"#,
        r#"flint_activation_starts_total{kind="nodejs:20",start="warm"} 1"#,
        r#"flint_http_requests_total{front="openwhisk",status="429"} 2"#,
        r#"flint_instances{state="idle"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
}
