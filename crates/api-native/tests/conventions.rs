//! What all of the API has in common: lists and their pages, its description, and how requests that do not fit are refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;

use api::{
    Api,
    server::{
        composing::{deploy_with, sequence},
        config,
    },
};
use axum::body::Body;
use flint_controller::PutSequence;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

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
