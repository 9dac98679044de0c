//! Contract §4, §5.4 and §13: calls, what their ends mean, and what a function is given.

use axum::body::Body;
use flint_controller::GUEST_KEY;
use serde_json::{Value, json};

use crate::support::{self, Api, basic, config, eventually, request};

#[tokio::test]
async fn a_blocking_call_answers_with_the_record() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    let reply = api.blocking("f", json!({"name": "you"})).await;
    assert_eq!(reply.status, 200);
    let record = reply.json();
    assert_eq!(record["activationId"], reply.activation().as_str());
    assert_eq!(record["activationId"].as_str().unwrap().len(), 32);
    for (key, value) in [
        ("namespace", json!("guest")),
        ("name", json!("f")),
        ("version", json!("0.0.1")),
        ("subject", json!("guest")),
        ("publish", json!(false)),
        ("logs", json!([])),
        ("response", json!({"status": "success", "success": true, "result": {"name": "you"}, "size": 14})),
    ] {
        assert_eq!(record[key], value, "{key}");
    }
    for key in ["start", "end", "duration"] {
        assert!(record[key].is_u64(), "{key}");
    }
    assert!(record.get("cause").is_none());
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_answered_with_its_id() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    for query in ["", "?blocking=false", "?blocking=no&result=true"] {
        let reply = api.call("POST", &format!("actions/f{query}"), Some(json!({"a": 1}))).await;
        assert_eq!(
            (reply.status, reply.json()),
            (202, json!({"activationId": reply.activation()})),
            "{query}"
        );
        assert_eq!(api.record(&reply.activation()).await["response"]["result"], json!({"a": 1}));
    }
}

#[tokio::test]
async fn ends_of_calls_have_their_status_and_text() {
    let api = Api::start().await;
    let invalid = "The action did not produce a valid JSON or JSON Array response";
    let application = "application error";
    let developer = "action developer error";
    for (script, http, status, error) in [
        (r#"answer {"error":"mine","more":1}"#, 502, application, json!("mine")),
        (r#"answer {"error":{"code":7}}"#, 502, application, json!({"code": 7})),
        ("throw boom", 502, developer, json!("boom")),
        ("invalid some text", 502, developer, json!(format!("{invalid}: some text"))),
        ("invalid ", 502, developer, json!(format!("{invalid}."))),
        (
            "exit now",
            502,
            developer,
            json!("The action did not produce a valid response and exited unexpectedly."),
        ),
        ("memory", 502, developer, json!("The action exhausted its memory and was aborted.")),
        (
            "long one",
            502,
            application,
            json!(
                "The action produced a response that exceeded the allowed length: 1048581 > 1048576 bytes. \
                 The truncated response was: {\"a\":\"xx"
            ),
        ),
        ("broken SyntaxError: x", 502, developer, json!("SyntaxError: x")),
        ("init-throws no main", 502, developer, json!("no main")),
        ("init-answers what", 502, developer, json!("The action failed during initialization: what")),
        ("init-exits", 502, developer, json!("The action did not initialize and exited unexpectedly.")),
        (
            "init-hangs",
            502,
            developer,
            json!("The action exceeded its time limits of 60000 milliseconds during initialization."),
        ),
        (
            "init-platform no memory left",
            500,
            "whisk internal error",
            json!("Failed to provision resources to run the action."),
        ),
        (
            "platform broken pipe",
            500,
            "whisk internal error",
            json!("Failed to provision resources to run the action."),
        ),
        ("http text/plain hello", 502, developer, json!(format!("{invalid}: hello"))),
        ("http 404:application/json {\"error\":\"none\"}", 502, developer, json!("none")),
        ("stream 2", 502, developer, json!(format!("{invalid}: piece 0\npiece 1"))),
    ] {
        api.action("f", script).await;
        let reply = api.blocking("f", json!({})).await;
        let response = reply.json()["response"].clone();
        assert_eq!((reply.status, &response["status"]), (http, &json!(status)), "{script}: {reply:?}");
        assert_eq!((&response["success"], &response["result"]["error"]), (&json!(false), &error), "{script}");
        if http == 502 {
            assert_eq!(response["result"].as_object().unwrap().len(), 1, "{script}: nothing but the error");
        }
        let result = api.call("POST", "actions/f?blocking=true&result=true", None).await;
        assert_eq!((result.status, &result.json()["error"]), (http, &error), "{script}");
        let stored = api.record(&reply.activation()).await;
        assert_eq!(stored["response"], response, "{script}");
    }
}

#[tokio::test]
async fn a_json_answer_over_http_is_a_result() {
    let api = Api::start().await;
    for (script, result) in [
        ("http application/json {\"a\":1}", json!({"a": 1})),
        ("http 201:text/plain {\"a\":2}", json!({"a": 2})),
    ] {
        api.action("f", script).await;
        let reply = api.blocking("f", json!({})).await;
        assert_eq!((reply.status, &reply.json()["response"]["result"]), (200, &result), "{script}");
    }
}

#[tokio::test]
async fn the_result_can_stand_alone_and_an_array_always_does() {
    let api = Api::start().await;
    api.action("f", r#"answer {"n": 1.10, "big": 9007199254740993}"#).await;
    let reply = api.call("POST", "actions/f?blocking=true&result=true", None).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, r#"{"n": 1.10, "big": 9007199254740993}"#));
    api.action("f", "answer [1, {\"error\": 2}]").await;
    for query in ["?blocking=true", "?blocking=true&result=true"] {
        let reply = api.call("POST", &format!("actions/f{query}"), None).await;
        assert_eq!((reply.status, reply.text.as_str()), (200, "[1, {\"error\": 2}]"), "{query}");
    }
}

#[tokio::test]
async fn who_waits_too_long_gets_the_id_and_the_call_goes_on() {
    let api = Api::start().await;
    api.action("f", "wait here").await;
    let reply = api.call("POST", "actions/f?blocking=true&timeout=20", None).await;
    assert_eq!((reply.status, reply.json()), (202, json!({"activationId": reply.activation()})));
    assert_eq!(api.get(&format!("activations/{}", reply.activation())).await.status, 404);
    support::eventually("the call", || async {
        (!api.server.executor.calls_of("guest/f").is_empty()).then_some(())
    })
    .await;
    api.server.executor.go();
    assert_eq!(api.record(&reply.activation()).await["response"]["result"], json!({"waited": true}));
    for bad in ["0", "60001", "x", ""] {
        let reply = api.call("POST", &format!("actions/f?blocking=true&timeout={bad}"), None).await;
        let text = "The query parameter 'timeout' was malformed:\nTimeout must be number of milliseconds up to 60000.";
        assert_eq!(reply.refusal(), (400, text.to_owned()), "{bad}");
    }
}

#[tokio::test]
async fn a_time_limit_ends_a_call_and_the_record_says_so() {
    let api = Api::start().await;
    let body = json!({"exec": {"kind": "nodejs", "code": "wait forever"}, "limits": {"timeout": 100}});
    api.call("PUT", "actions/f", Some(body)).await;
    let record = api.blocking("f", json!({})).await.json();
    let text = "The action exceeded its time limits of 100 milliseconds.";
    assert_eq!(record["response"]["result"], json!({ "error": text }));
    let timeout =
        record["annotations"].as_array().unwrap().iter().find(|pair| pair["key"] == "timeout").unwrap();
    assert_eq!(timeout["value"], true);
}

#[tokio::test]
async fn arguments_go_over_the_functions_defaults() {
    let api = Api::start().await;
    let body = json!({
        "exec": {"kind": "nodejs", "code": "echo it"},
        "parameters": [{"key": "a", "value": 1}, {"key": "b", "value": [2]}, {"key": "E", "value": 3, "init": true}]
    });
    api.call("PUT", "actions/f", Some(body)).await;
    let result = async |body: Value| api.blocking("f", body).await.json()["response"]["result"].clone();
    assert_eq!(result(json!({})).await, json!({"a": 1, "b": [2]}));
    assert_eq!(result(json!({"a": null, "c": "x"})).await, json!({"a": null, "b": [2], "c": "x"}));
    // No body at all.
    let reply = api.call("POST", "actions/f?blocking=true&result=true", None).await;
    assert_eq!(reply.json(), json!({"a": 1, "b": [2]}));

    let fixed = json!({"annotations": [{"key": "final", "value": true}]});
    api.call("PUT", "actions/f?overwrite=true", Some(fixed)).await;
    let text = "Request defines parameters that are not allowed (e.g., reserved properties).".to_owned();
    for query in ["", "?blocking=true"] {
        let reply = api.call("POST", &format!("actions/f{query}"), Some(json!({"a": 2}))).await;
        assert_eq!(reply.refusal(), (400, text.clone()));
    }
    assert_eq!(result(json!({"c": 1})).await, json!({"a": 1, "b": [2], "c": 1}));
}

#[tokio::test]
async fn bodies_that_are_no_arguments_are_refused() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    let auth = basic(GUEST_KEY);
    let send = async |content_type: &str, body: Vec<u8>| {
        let headers = [("authorization", auth.as_str()), ("content-type", content_type)];
        let mut request = request("POST", "actions/f?blocking=true", None, &headers);
        *request.body_mut() = Body::from(body);
        api.send(request).await.refusal()
    };
    for body in ["[]", "1", "\"x\"", "null", "{", "{}{}", "{\"a\":}", "nonsense"] {
        let (status, text) = send("application/json", body.into()).await;
        assert!(status == 400 && text.starts_with("The request content was malformed:\n"), "{body}: {text}");
    }
    assert_eq!(send("application/json", b"{\"a\":\"\xff\"}".to_vec()).await.0, 400);
    assert_eq!(send("application/x-www-form-urlencoded", b"a=1".to_vec()).await.0, 415);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    let text = format!("Request larger than allowed: {} > 1048576 bytes.", large.len());
    assert_eq!(send("application/json", large.clone().into_bytes()).await, (413, text.clone()));
    let reply = api.blocking("f", serde_json::from_str(&large).unwrap()).await;
    assert_eq!(reply.refusal(), (413, text));
    let whole = json!({"a": "x".repeat((1 << 20) - 8)});
    assert_eq!(api.blocking("f", whole).await.status, 200);
    assert_eq!(api.call("POST", "actions/f?blocking=si", None).await.refusal().0, 400);
}

#[tokio::test]
async fn a_function_is_given_its_environment() {
    let api = Api::start().await;
    let body = json!({
        "exec": {"kind": "nodejs", "code": "context"},
        "parameters": [{"key": "TEXT", "value": "t", "init": true}, {"key": "LIST", "value": [1], "init": true},
                       {"key": "NONE", "value": null, "init": true}],
        "limits": {"logs": 3}
    });
    api.call("PUT", "actions/f", Some(body)).await;
    let mut call = request("POST", "actions/f?blocking=true", None, &[("authorization", &basic(GUEST_KEY))]);
    call.headers_mut().insert("x-request-id", "transaction-1".parse().unwrap());
    let reply = api.send(call).await;
    let result = reply.json()["response"]["result"].clone();
    let environment = &result["environment"];
    for (name, value) in [
        ("__OW_NAMESPACE", "guest"),
        ("__OW_ACTION_NAME", "/guest/f"),
        ("__OW_ACTION_VERSION", "0.0.1"),
        ("__OW_API_HOST", "http://127.0.0.1:3233"),
        ("TEXT", "t"),
        ("LIST", "[1]"),
        ("NONE", ""),
    ] {
        assert_eq!(environment[name], value, "{name}");
    }
    assert_eq!(result["activation"], reply.activation().as_str());
    assert_eq!((&result["transaction"], &result["maxLogs"]), (&json!("transaction-1"), &json!(3 << 20)));
    assert_eq!(result["apiKey"], Value::Null, "a new action does not get its caller's key");
    let asks = json!({"annotations": [{"key": "provide-api-key", "value": true}]});
    api.call("PUT", "actions/f?overwrite=true", Some(asks)).await;
    let record = api.blocking("f", json!({})).await.json();
    let named = format!("{GUEST_KEY}.{}", record["activationId"].as_str().unwrap());
    assert_eq!(record["response"]["result"]["apiKey"], named, "the key, and who has it");
}

#[tokio::test]
async fn a_full_queue_is_unavailable_and_says_why() {
    let mut queues = flint_scheduler::SchedulerConfig::default();
    queues.queue.per_function = 1;
    let api = Api::with_queues(config(), queues).await;
    let body = json!({"exec": {"kind": "nodejs", "code": "wait here"}, "limits": {"instances": 1}});
    api.call("PUT", "actions/f", Some(body)).await;
    let mut refused = None;
    for _ in 0..20 {
        let reply = api.call("POST", "actions/f?blocking=true&timeout=5", None).await;
        if reply.status != 202 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("a queue for one is full before twenty");
    let text = "The server is currently unavailable (because it is overloaded or down for maintenance).";
    assert_eq!(refused.refusal(), (503, text.to_owned()));
    let cause = refused.json()["cause"].as_str().unwrap().to_owned();
    for words in ["calls of guest/f are waiting", "queue.per_function", "its limit is 1 instances"] {
        assert!(cause.contains(words), "{cause}");
    }
    assert_eq!(refused.header("retry-after"), Some("1"));
    eventually("the rest", || async {
        api.server.executor.go();
        (api.server.controller.calls_in_flight() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_stops_takes_no_calls() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    api.server.controller.shutdown(std::time::Duration::from_secs(5)).await;
    for query in ["", "?blocking=true"] {
        assert_eq!(api.call("POST", &format!("actions/f{query}"), None).await.refusal().0, 503);
    }
}
