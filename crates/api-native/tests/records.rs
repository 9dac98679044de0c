//! Activation records and logs over HTTP: how they are found, who may follow them and for how long, and what large lists take.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api;

use std::time::Duration;

use api::{
    Api,
    server::{
        composing::{deploy_with, sequence},
        config, eventually,
    },
};
use axum::body::Body;
use flint_controller::GUEST_KEY;
use flint_model::NamespaceLimits;
use flint_store::{ActivationQuery, Page};
use http::{Request, header::AUTHORIZATION};
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

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

#[tokio::test]
async fn a_result_with_line_breaks_is_one_event() {
    let api = Api::with(config()).await;
    deploy_with(&api.server, "f", "echo", &[]).await;
    assert_eq!(api.send("POST", "/v1/functions/f/invoke", "{}".into(), None).await.0, 200);
    let guest = api.server.guest().await;
    let all = (ActivationQuery::default(), Page { skip: 0, limit: 1 });
    let records = api.server.controller.activations(&guest, &guest.namespace.name, &all.0, all.1, true);
    let mut record = records.await.unwrap().remove(0);
    let result = "{\n  \"a\": 1,\r\n  \"b\": \"x\\ny\"\n}".to_owned();
    record.response.result = Some(serde_json::value::RawValue::from_string(result).unwrap());
    let request = Request::get("/v1/logs?follow=true")
        .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
        .body(Body::empty());
    let mut stream = api.router.clone().oneshot(request.unwrap()).await.unwrap().into_body();
    api.feed.publish(&record);
    let event = loop {
        let piece = stream.frame().await.unwrap().unwrap().into_data().unwrap();
        let text = String::from_utf8(piece.to_vec()).unwrap();
        if text.starts_with("data: ") {
            break text;
        }
    };
    let data = event.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
    assert!(!data.contains(['\n', '\r']), "{data:?}");
    let told: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(told["result"], json!({"a": 1, "b": "x\ny"}));
}
