//! Contract §2: what the server says about itself.

use serde_json::json;

use crate::support::{Api, config, request};

#[tokio::test]
async fn the_api_describes_itself() {
    let api = Api::start().await;
    let expected = json!({
        "description": "OpenWhisk API", "api_version": "1.0.0", "api_version_path": "v1",
        "build": "2026-01-01", "buildno": "abc", "swagger_paths": {"ui": "/docs", "api-docs": "/api-docs"}
    });
    assert_eq!(api.get("/api/v1").await.json(), expected);
    assert_eq!(api.get("/ping").await.text, "pong");
}

#[tokio::test]
async fn what_the_api_names_as_its_description_is_there_for_anybody() {
    let api = Api::start().await;
    let named = api.get("/api/v1").await.json()["swagger_paths"].clone();
    let (document, page) = (named["api-docs"].as_str().unwrap(), named["ui"].as_str().unwrap());
    for prefix in ["/api/v1", ""] {
        let reply = api.send(request("GET", &format!("{prefix}{document}"), None, &[])).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
        let document = reply.json();
        assert_eq!((&document["swagger"], &document["basePath"]), (&json!("2.0"), &json!("/api/v1")));
        assert!(document["paths"]["/namespaces/{namespace}/actions/{action}"]["post"].is_object());
        let reply = api.send(request("GET", &format!("{prefix}{page}"), None, &[])).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=UTF-8")));
        assert!(reply.text.contains("invokeAction"), "{}", reply.text);
        assert_eq!(api.call("POST", &format!("{prefix}{page}"), None).await.status, 405);
    }
}

/// What the description says of answers is what is answered.
#[tokio::test]
async fn described_answers_have_the_fields_that_are_answered() {
    let api = Api::start().await;
    let document = api.get("/api/v1/api-docs").await.json();
    api.action("f", "echo it").await;
    let web = json!({"annotations": [{"key": "a", "value": 1}]});
    assert_eq!(api.call("PUT", "packages/p", Some(web.clone())).await.status, 200);
    assert_eq!(api.call("PUT", "triggers/t", Some(web)).await.status, 200);
    let rule = json!({"trigger": "/_/t", "action": "/_/f"});
    assert_eq!(api.call("PUT", "rules/r", Some(rule)).await.status, 200);
    let record = api.blocking("f", json!({})).await.json();
    for (shape, answered) in [
        ("Limits", api.get("limits").await.json()),
        ("Action", api.get("actions/f").await.json()),
        ("ActionSummary", api.get("actions").await.json()[0].clone()),
        ("Package", api.get("packages/p").await.json()),
        ("PackageSummary", api.get("packages").await.json()[0].clone()),
        ("Trigger", api.get("triggers/t").await.json()),
        ("Rule", api.get("rules/r").await.json()),
        ("Activation", record),
        ("Error", api.get("actions/none").await.json()),
    ] {
        let described = document["definitions"][shape]["properties"].as_object().unwrap();
        for (field, _) in answered.as_object().unwrap() {
            assert!(described.contains_key(field), "{shape} has no {field}");
        }
    }
}

#[tokio::test]
async fn the_root_tells_limits_in_bytes_and_milliseconds_and_the_runtimes_there_are() {
    let api = Api::with(flint_controller::ControllerConfig { guest: true, ..Default::default() }).await;
    let root = api.get("/").await.json();
    assert_eq!((&root["description"], &root["api_paths"]), (&json!("OpenWhisk"), &json!(["/api/v1"])));
    for (key, value) in [
        ("actions_per_minute", 60_000_u64),
        ("triggers_per_minute", 60_000),
        ("concurrent_actions", 1_000),
        ("sequence_length", 50),
        ("default_max_action_duration", 60_000),
        ("default_max_action_memory", 256 << 20),
        ("default_max_action_logs", 10 << 20),
        ("min_action_duration", 100),
        ("max_action_duration", 300_000),
        ("min_action_memory", 128 << 20),
        ("max_action_memory", 512 << 20),
        ("min_action_logs", 0),
        ("max_action_logs", 10 << 20),
    ] {
        assert_eq!(root["limits"][key], value, "{key}");
    }
    let runtimes = &root["runtimes"];
    let missing =
        runtimes["nodejs"].as_array().unwrap().iter().find(|runtime| runtime["kind"] == "nodejs:18").unwrap();
    assert!(
        missing["unavailable"].is_string() && missing["attached"] == false,
        "nodejs:18 is not on this host"
    );
    let node = &runtimes["nodejs"][0];
    assert_eq!(
        (&node["kind"], &node["default"], &node["requireMain"]),
        (&json!("nodejs:20"), &json!(true), &json!(false))
    );
    assert_eq!(runtimes["java"][0]["requireMain"], true);
}

#[tokio::test]
async fn the_namespaces_of_a_key_are_one() {
    let api = Api::start().await;
    for path in ["/api/v1/namespaces", "/api/v1/namespaces/"] {
        assert_eq!(api.get(path).await.text, r#"["guest"]"#);
    }
    let key = api.other().await;
    assert_eq!(api.call_as(&key, "GET", "/api/v1/namespaces", None).await.text, r#"["other"]"#);
}

#[tokio::test]
async fn effective_limits_are_the_namespaces_own_where_it_has_them() {
    let mut usual = config();
    usual.limits.concurrent_invocations = 30;
    let api = Api::with(usual).await;
    let expected = json!({
        "invocationsPerMinute": 100_000, "concurrentInvocations": 30, "firesPerMinute": 60_000,
        "minActionMemory": 128, "maxActionMemory": 512, "minActionLogs": 0, "maxActionLogs": 10,
        "minActionTimeout": 100, "maxActionTimeout": 300_000, "minActionConcurrency": 1, "maxActionConcurrency": 1,
        "maxParameterSize": "1 MB", "maxActionInstances": 30
    });
    assert_eq!(api.get("limits").await.json(), expected);
    let key = api
        .namespace(
            "small",
            json!({"invocationsPerMinute": 7, "allowedKinds": ["nodejs:20"], "storeActivations": false}),
        )
        .await;
    let own = api.call_as(&key, "GET", "limits", None).await.json();
    assert_eq!((&own["invocationsPerMinute"], &own["storeActivations"]), (&json!(7), &json!(false)));
    assert_eq!(own["allowedKinds"], json!(["nodejs:20"]));
    assert_eq!(api.get("limits/x").await.status, 400);
    assert_eq!(api.get("/api/v1/namespaces/small/limits").await.status, 403);
}

#[tokio::test]
async fn the_one_node_is_up() {
    let api = Api::start().await;
    assert_eq!(api.get("/invokers").await.text, r#"{"invoker0/0":"up"}"#);
    assert_eq!(api.get("/invokers/healthy/count").await.text, "1");
    assert_eq!(api.get("/invokers/ready").await.text, r#"{"healthy":"1/1"}"#);
    assert_eq!(api.get("/activation/count").await.text, "0");
}
