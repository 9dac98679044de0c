//! Contract §15 and §1.5: what real clients send and rely on, as it was captured from them.

use axum::body::Body;
use flint_controller::GUEST_KEY;
use serde_json::{Value, json};

use crate::support::{Api, Reply, basic, request};

/// A request with the headers of the npm client.
async fn sdk(api: &Api, method: &str, path: &str, body: &str) -> Reply {
    let key = basic(GUEST_KEY);
    let headers = [
        ("authorization", key.as_str()),
        ("accept", "application/json"),
        ("content-type", "application/json; charset=utf-8"),
        ("x-namespace-id", "12345_my-namespace"),
        ("user-agent", "openwhisk-client-js"),
    ];
    let mut asked = request(method, path, None, &headers);
    *asked.body_mut() = Body::from(body.to_owned());
    api.send(asked).await
}

#[tokio::test]
async fn a_failed_activation_is_never_answered_with_success() {
    let api = Api::start().await;
    for script in [r#"answer {"error":"mine"}"#, "throw boom", "exit now", "init-exits", "platform broken"] {
        api.action("f", script).await;
        for query in ["blocking=true&result=false", "blocking=true&result=true", "blocking=true"] {
            let reply = api.call("POST", &format!("actions/f?{query}"), Some(json!({}))).await;
            assert!(reply.status >= 500, "{script} {query}: {reply:?}");
            // What has no `code` and came with 502 is the function's own error; anything else is the server's.
            assert_eq!(reply.json().get("code"), None, "{script} {query}");
            reply.activation();
        }
    }
    api.action("f", "echo it").await;
    let waited = api.call("POST", "actions/f?blocking=true&result=false", Some(json!({}))).await;
    assert_eq!((waited.status, &waited.json()["response"]["success"]), (200, &json!(true)));
}

#[tokio::test]
async fn an_update_looks_first_and_then_sends_what_is_new() {
    let api = Api::start().await;
    let missing = api.get("actions/f?code=false").await;
    assert_eq!(missing.refusal(), (404, "The requested resource does not exist.".to_owned()));
    let put = |body: Value| api.call("PUT", "actions/f?overwrite=true", Some(body));
    let created = json!({
        "namespace": "_", "name": "f", "exec": {"kind": "nodejs:default", "code": "echo it", "binary": false},
        "annotations": [], "parameters": null, "limits": null, "publish": false, "updated": 1, "unknown": {"x": 1}
    });
    let made = put(created).await.json();
    assert!(made["updated"].as_u64().unwrap() > 1, "the server's time, not the client's");
    assert_eq!((&made["namespace"], made.get("unknown")), (&json!("guest"), None));
    let looked = api.get("actions/f?code=false").await.json();
    assert_eq!((looked["exec"].get("code"), &looked["exec"]["binary"]), (None, &json!(false)));
    // `wsk action update f -p a 1`: no file, no `exec`.
    let parameters =
        json!({"namespace": "_", "name": "f", "parameters": [{"key": "a", "value": 1}], "exec": null});
    assert_eq!(put(parameters).await.status, 200);
    let called = api.call("POST", "actions/f?blocking=true&result=true", Some(json!({}))).await;
    assert_eq!(called.text, r#"{"a":1}"#);
}

#[tokio::test]
async fn rules_and_bindings_come_as_the_go_client_writes_them() {
    let api = Api::start().await;
    let ok = async |method: &str, path: &str, body: Value| {
        let reply = api.call(method, path, Some(body)).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply
    };
    api.action("f", "echo it").await;
    ok("PUT", "triggers/t?overwrite=false", json!({"name": "t", "annotations": null, "publish": false}))
        .await;
    let rule = json!({"name": "r", "status": "", "trigger": "/_/t", "action": "/_/f"});
    assert_eq!(ok("PUT", "rules/r?overwrite=false", rule).await.json()["status"], "active");
    for status in ["inactive", "active"] {
        let body = json!({"name": "", "status": status, "trigger": null, "action": null});
        assert_eq!(ok("POST", "rules/r", body).await.text, "");
        assert_eq!(api.get("rules/r").await.json()["status"], status);
    }
    ok("PUT", "packages/p?overwrite=false", json!({"publish": false})).await;
    let binding = json!({"binding": {"namespace": "_", "name": "p"}, "annotations": [], "parameters": []});
    let bound = ok("PUT", "packages/b?overwrite=false", binding).await.json();
    assert_eq!(bound["binding"], json!({"namespace": "guest", "name": "p"}));
    assert_eq!(api.call("DELETE", "rules/r", None).await.json()["status"], "inactive");
}

#[tokio::test]
async fn the_npm_clients_requests_are_taken_as_they_are() {
    let api = Api::start().await;
    // A query that is begun and empty, a type with its charset, a namespace that is somebody else's word.
    let exec = r#"{"exec":{"kind":"nodejs:default","code":"echo it"}}"#;
    assert_eq!(sdk(&api, "PUT", "actions/f?", exec).await.status, 200);
    assert_eq!(sdk(&api, "PUT", "actions/a%20b%20%26%20c?overwrite=true", exec).await.status, 200);
    assert_eq!(sdk(&api, "GET", "actions/a%20b%20%26%20c", "").await.json()["name"], "a b & c");
    let called = sdk(&api, "POST", "actions/f?blocking=true", "{}").await;
    assert_eq!((called.status, called.header("content-type")), (200, Some("application/json")));
    assert!(!called.text.contains(": "), "compact: {}", called.text);
    assert_eq!(sdk(&api, "POST", "actions/f?blocking=true", "").await.status, 200, "no body is no arguments");
    assert_eq!(sdk(&api, "PUT", "triggers/t?", "{}").await.status, 200);
    let fired = sdk(&api, "POST", "triggers/t?", "{}").await;
    assert_eq!((fired.status, fired.text.as_str()), (204, ""), "an empty answer is one");
    let listed = sdk(&api, "GET", "activations?limit=0&skip=0&docs=true&since=0", "").await;
    assert_eq!((listed.status, listed.json().as_array().unwrap().len()), (200, 2));
    assert_eq!(sdk(&api, "GET", "/api/v1/namespaces?", "").await.text, r#"["guest"]"#);
}

#[tokio::test]
async fn a_project_is_deployed_as_wskdeploy_does_it() {
    let api = Api::start().await;
    let root = api.send(request("GET", "/", None, &[])).await.json();
    for family in root["runtimes"].as_object().unwrap().values() {
        for runtime in family.as_array().unwrap() {
            assert!(runtime["kind"].is_string() && runtime["deprecated"] == false, "{runtime}");
        }
        let defaults = family.as_array().unwrap().iter().filter(|runtime| runtime["default"] == true);
        assert_eq!(defaults.count(), 1, "{family}");
    }
    let managed = json!([{"key": "whisk-managed", "value": {"projectName": "p"}}]);
    for (method, path, body) in [
        (
            "PUT",
            "packages/p",
            json!({"annotations": managed, "parameters": [], "publish": false, "binding": null}),
        ),
        (
            "PUT",
            "actions/p/a",
            json!({"exec": {"kind": "nodejs:20", "code": "echo it"}, "annotations": managed}),
        ),
        (
            "PUT",
            "actions/p/s",
            json!({"exec": {"kind": "sequence", "components": ["/_/p/a"]}, "annotations": managed}),
        ),
        ("PUT", "triggers/t", json!({"annotations": managed, "parameters": [{"key": "n", "value": 1}]})),
        (
            "PUT",
            "rules/r",
            json!({"trigger": "/_/t", "action": "/_/p/s", "status": "", "annotations": managed}),
        ),
        ("POST", "rules/r", json!({"status": "active"})),
    ] {
        // A second time, as for a project that is there.
        for _ in 0..2 {
            let query = if method == "PUT" { "?overwrite=true" } else { "" };
            let reply = api.call(method, &format!("{path}{query}"), Some(body.clone())).await;
            assert_eq!(reply.status, 200, "{path}: {reply:?}");
        }
    }
    let fired = api.call("POST", "triggers/t", Some(json!({}))).await;
    let record = api.record(&fired.activation()).await;
    let line: Value = serde_json::from_str(record["logs"][0].as_str().unwrap()).unwrap();
    let called = api.record(line["activationId"].as_str().unwrap()).await;
    assert_eq!(called["response"]["result"]["n"], 1);
}

/// `wskdeploy export` asks a feed of another namespace so, because its client puts its own namespace first.
#[tokio::test]
async fn a_path_with_dots_leads_where_it_points_and_no_further_than_its_key() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    let made = json!({
        "lifecycleEvent": "CREATE", "triggerName": "/_/t", "authKey": GUEST_KEY, "minutes": 60
    });
    api.call("PUT", "triggers/t", Some(json!({}))).await;
    let feed = "actions/../../whisk.system/actions/alarms/interval?blocking=true&result=true";
    assert_eq!(api.call("POST", feed, Some(made)).await.status, 200);
    let read = json!({"lifecycleEvent": "READ", "triggerName": "/_/t", "authKey": GUEST_KEY});
    let told = api.call("POST", feed, Some(read)).await;
    assert_eq!((told.status, &told.json()["config"]["minutes"]), (200, &json!(60)));
    // The same from a path that needs no key: what it comes to does.
    let open = request("GET", "/api/v1/web/../namespaces/_/actions/f", None, &[]);
    assert_eq!(api.send(open).await.status, 401);
    let foreign = api.get("actions/../../somebody/actions/f").await;
    assert_eq!(foreign.status, 403);
}
