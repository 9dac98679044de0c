//! Deploys over HTTP: what one that replaces something keeps of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;

use api::{
    Api,
    server::{composing::deploy_with, config},
};
use axum::body::Body;
use flint_controller::{PutFunction, PutSequence};
use flint_model::{ByteSize, Entity, FunctionPath};
use serde_json::{Value, json};

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
async fn code_that_is_no_base64_changes_nothing() {
    let api = Api::with(config()).await;
    let deploy = async |code: Value| {
        let body = json!({"kind": "nodejs", "code": code}).to_string();
        api.send("PUT", "/v1/functions/f", Body::from(body), None).await
    };
    assert_eq!(deploy(json!({"format": "source", "base64": "Y29udGV4dA=="})).await.0, 201);
    // The second is long enough to be parsed elsewhere.
    for text in ["not base64".to_owned(), "YWJj".repeat(30_000) + "*"] {
        let (status, refused) = deploy(json!({"format": "source", "base64": text})).await;
        let error = &refused["error"];
        assert_eq!((status, &error["code"]), (400, &json!("invalid")), "{refused}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("code.base64 is not base64: ") && message.len() < 200, "{message}");
    }
    let (status, function) = api.get("/v1/functions/f").await;
    assert_eq!((status, &function["version"]), (200, &json!("0.0.1")), "{function}");
    api.server.stop().await;
}

#[tokio::test]
async fn a_package_that_is_not_there_is_named_with_what_makes_it() {
    let api = Api::with(config()).await;
    let code = json!({"kind": "nodejs", "code": {"format": "source", "text": "context"}});
    for (path, body) in
        [("/v1/functions/none%2Ff", code), ("/v1/sequences/none%2Fs", json!({"components": ["g"]}))]
    {
        let (status, refused) = api.send("PUT", path, Body::from(body.to_string()), None).await;
        let error = &refused["error"];
        assert_eq!((status, &error["code"]), (404, &json!("not_found")), "{path}: {refused}");
        assert_eq!(error["message"], "there is no package 'none' in namespace 'guest'");
        assert_eq!(error["hint"], "`flint package create none` makes it");
    }
    api.server.stop().await;
}

#[tokio::test]
async fn what_is_in_the_way_is_said_with_the_next_step() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "echo", &[]).await;
    let sequence = json!({"components": ["f"], "create_only": true});
    let live = json!({"versions": [{"version": "0.0.1", "weight": 1}]});
    let asked = async |method: &str, path: &str, body: &Value| {
        api.send(method, path, Body::from(body.to_string()), None).await
    };
    assert_eq!(asked("PUT", "/v1/sequences/s", &sequence).await.0, 200);
    assert_eq!(asked("PUT", "/v1/functions/f/aliases/live", &live).await.0, 200);
    for (method, path, body, status, code, hint) in [
        ("PUT", "/v1/sequences/s", sequence, 409, "conflict", "--update"),
        ("POST", "/v1/functions/f/rollback", json!({}), 400, "invalid", "flint rollback f --to VERSION"),
    ] {
        let (answered, refused) = asked(method, path, &body).await;
        let error = &refused["error"];
        assert_eq!((answered, &error["code"]), (status, &json!(code)), "{path}: {refused}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{path}: {refused}");
    }
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
    put.limits.memory = Some(ByteSize::mib(512));
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
    assert_eq!(
        (&function["limits"]["instances"], &function["limits"]["memory_mb"]),
        (&json!(2), &json!(256))
    );
    assert_eq!(deploy(json!({})).await["limits"].get("instances"), None);

    let mut put = PutFunction { overwrite: true, ..PutFunction::default() };
    put.annotations.set("web-export", true);
    put.limits.memory = Some(ByteSize::mib(512));
    let path: FunctionPath = "guest/f".parse().unwrap();
    api.server.controller.put_function(&guest, path.clone(), put, &|_| {}).await.unwrap();
    let body = json!({"components": ["g"]}).to_string();
    let (status, made) = api.send("PUT", "/v1/sequences/f", Body::from(body), None).await;
    assert_eq!(status, 200, "{made}");
    let there = api.server.controller.action(&guest, &path).await.unwrap();
    let Entity::Sequence(sequence) = there else { panic!("it is a sequence now") };
    assert!(sequence.annotations.get("web-export").is_none());
    assert_eq!(sequence.limits.memory, ByteSize::mib(256));
    api.server.stop().await;
}

#[tokio::test]
async fn large_requests_are_parsed_off_the_async_threads() {
    let api = Api::with(config()).await;
    let deploy = |name: &str, annotations: Value| {
        let code = json!({"format": "source", "text": format!("context {}", "x".repeat(70_000))});
        let body = json!({"kind": "nodejs", "code": code, "annotations": annotations}).to_string();
        let path = format!("/v1/functions/{name}");
        let api = &api;
        async move { api.send("PUT", &path, Body::from(body), None).await }
    };
    let (status, deployed) = api.server.aside(deploy("f", json!({"a": [{"": 0}]}))).await;
    assert_eq!((status, &deployed["function"]["annotations"]["a"]), (201, &json!([{"": 0}])));
    let many = vec![json!({"": 0}); 1 << 18];
    let (status, refused) = api.server.aside(deploy("g", json!({ "a": many }))).await;
    assert_eq!((status, &refused["error"]["code"]), (413, &json!("too_large")), "{refused}");
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(text.starts_with("annotations larger than allowed: "), "{text}");
    api.server.stop().await;
}
