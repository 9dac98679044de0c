//! Web actions: deploying one, and asking it.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use super::{Api, Reply, request};

/// Deploys a web action with this script and these further annotations.
pub async fn export(api: &Api, name: &str, script: &str, annotations: Value) {
    let mut all = vec![json!({"key": "web-export", "value": true})];
    for (key, value) in annotations.as_object().unwrap() {
        all.push(json!({"key": key, "value": value}));
    }
    let body = json!({"exec": {"kind": "nodejs:default", "code": script}, "annotations": all});
    let _ = api.call("DELETE", &format!("actions/{name}"), None).await;
    let reply = api.call("PUT", &format!("actions/{name}"), Some(body)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

pub fn web(method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let mut request = request(method, &format!("/api/v1/web/guest/default/{path}"), None, headers);
    *request.body_mut() = body.into();
    request
}

pub async fn get(api: &Api, path: &str) -> Reply {
    api.send(web("GET", path, &[], Body::empty())).await
}

/// What an echoing action was given, without what every request has.
pub async fn given(api: &Api, request: Request<Body>) -> Value {
    let reply = api.send(request).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut value = reply.json();
    for key in ["__ow_method", "__ow_headers", "__ow_path"] {
        assert!(value.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    value
}
