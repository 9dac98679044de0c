//! Contract §10: triggers, rules, and what happens when one fires.

use serde_json::{Value, json};

use crate::support::{self, Api, Reply, config};

async fn put(api: &Api, path: &str, body: Value) -> Reply {
    api.call("PUT", &format!("{path}?overwrite=true"), Some(body)).await
}

async fn ok(api: &Api, path: &str, body: Value) -> Value {
    let reply = put(api, path, body).await;
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.json()
}

async fn rule(api: &Api, name: &str, trigger: &str, action: &str) -> Value {
    ok(api, &format!("rules/{name}"), json!({"trigger": trigger, "action": action})).await
}

async fn fire(api: &Api, trigger: &str, payload: Value) -> Reply {
    api.call("POST", &format!("triggers/{trigger}"), Some(payload)).await
}

/// The record of a trigger that has fired, and its lines as JSON.
async fn fired(api: &Api, reply: &Reply) -> (Value, Vec<Value>) {
    assert_eq!((reply.status, reply.json()), (202, json!({"activationId": reply.activation()})));
    let record = api.record(&reply.activation()).await;
    let lines = record["logs"].as_array().unwrap();
    let lines = lines.iter().map(|line| serde_json::from_str(line.as_str().unwrap()).unwrap()).collect();
    (record, lines)
}

#[tokio::test]
async fn a_trigger_is_created_shown_overwritten_and_deleted() {
    let api = Api::start().await;
    let body = json!({
        "namespace": "_", "name": "x", "publish": null, "limits": {"x": 1}, "rules": {"a": 1},
        "parameters": [{"key": "a", "value": 1}], "annotations": [{"key": "feed", "value": "/whisk.system/alarms/alarm"}]
    });
    let created = ok(&api, "triggers/t", body).await;
    let expected = json!({
        "namespace": "guest", "name": "t", "version": "0.0.1", "publish": false, "limits": {},
        "parameters": [{"key": "a", "value": 1}], "annotations": [{"key": "feed", "value": "/whisk.system/alarms/alarm"}],
        "updated": created["updated"]
    });
    assert_eq!(created, expected);
    assert_eq!(api.get("triggers/t").await.json(), expected);
    let exists = (409, "resource already exists".to_owned());
    assert_eq!(api.call("PUT", "triggers/t", Some(json!({}))).await.refusal(), exists);
    let changed = ok(&api, "triggers/t", json!({"annotations": []})).await;
    assert_eq!((&changed["version"], &changed["annotations"]), (&json!("0.0.2"), &json!([])));
    assert_eq!(changed["parameters"], expected["parameters"]);

    let list = api.get("triggers").await.json();
    assert_eq!((list[0]["name"].as_str(), list[0].get("parameters")), (Some("t"), None));
    assert_eq!(api.get("triggers?count=true").await.json(), json!({"triggers": 1}));
    assert_eq!(api.call("DELETE", "triggers/t", None).await.json()["version"], "0.0.2");
    for (method, body) in [("GET", None), ("DELETE", None), ("POST", Some(json!({})))] {
        let gone = (404, "The requested resource does not exist.".to_owned());
        assert_eq!(api.call(method, "triggers/t", body).await.refusal(), gone);
    }
}

#[tokio::test]
async fn what_cannot_be_a_trigger_is_refused() {
    let api = Api::start().await;
    let key = api.other().await;
    api.action("f", "echo it").await;
    let taken = (409, "Resource by this name exists but is not in this collection.".to_owned());
    assert_eq!(put(&api, "triggers/f", json!({})).await.refusal(), taken);
    assert_eq!(api.get("triggers/f").await.refusal(), taken);
    for feed in [json!(7), json!(""), json!("/a/b/c/d"), json!(null)] {
        let body = json!({"annotations": [{"key": "feed", "value": feed}]});
        assert_eq!(put(&api, "triggers/t", body).await.refusal(), (400, "Feed name is not valid".to_owned()));
    }
    ok(&api, "triggers/t", json!({})).await;
    let path = "/api/v1/namespaces/guest/triggers/t";
    for method in ["GET", "PUT", "DELETE", "POST"] {
        let text = "The supplied authentication is not authorized to access 'guest/t'.".to_owned();
        let body = (method != "GET").then(|| json!({}));
        assert_eq!(api.call_as(&key, method, path, body).await.refusal(), (403, text), "{method}");
    }
    let malformed = api.call("POST", "triggers/t", Some(json!([1]))).await.refusal();
    assert!(malformed.0 == 400 && malformed.1.starts_with("The request content was malformed:\n"));
    let (status, text) = fire(&api, "t", json!({"a": "x".repeat(1 << 20)})).await.refusal();
    assert!(status == 413 && text.starts_with("Request larger than allowed: "), "{text}");
}

#[tokio::test]
async fn a_rule_is_created_shown_overwritten_and_deleted() {
    let api = Api::start().await;
    for trigger in ["t", "u"] {
        ok(&api, &format!("triggers/{trigger}"), json!({})).await;
    }
    ok(&api, "packages/p", json!({})).await;
    api.action("p/f", "echo it").await;
    let body = json!({"name": "x", "status": "", "trigger": {"path": "_", "name": "t"}, "action": "/_/p/f", "annotations": null});
    let created = ok(&api, "rules/r", body).await;
    let expected = json!({
        "namespace": "guest", "name": "r", "version": "0.0.1", "publish": false, "annotations": [], "status": "active",
        "trigger": {"path": "guest", "name": "t"}, "action": {"path": "guest/p", "name": "f"}, "updated": created["updated"]
    });
    assert_eq!(created, expected);
    assert_eq!(api.get("rules/r").await.json(), expected);
    let rules = json!({"guest/r": {"action": {"path": "guest/p", "name": "f"}, "status": "active"}});
    assert_eq!(api.get("triggers/t").await.json()["rules"], rules);
    let exists = (409, "resource already exists".to_owned());
    let both = json!({"trigger": "/_/t", "action": "/_/p/f"});
    assert_eq!(api.call("PUT", "rules/r", Some(both)).await.refusal(), exists);

    // An overwrite moves the link and keeps the status.
    let disable = api.call("POST", "rules/r", Some(json!({"status": "inactive"}))).await;
    assert_eq!((disable.status, disable.text.as_str()), (200, ""));
    let moved = ok(&api, "rules/r", json!({"trigger": "/guest/u", "action": null})).await;
    assert_eq!((&moved["status"], &moved["version"]), (&json!("inactive"), &json!("0.0.2")));
    assert_eq!(moved["action"], expected["action"]);
    assert!(api.get("triggers/t").await.json().get("rules").is_none());
    assert_eq!(api.get("triggers/u").await.json()["rules"]["guest/r"]["status"], "inactive");

    let list = api.get("rules").await.json();
    assert_eq!((list[0]["trigger"]["name"].as_str(), list[0].get("status")), (Some("u"), None));
    assert_eq!(api.get("rules?count=true").await.json(), json!({"rules": 1}));
    api.call("POST", "rules/r", Some(json!({"status": "active"}))).await;
    let deleted = api.call("DELETE", "rules/r", None).await;
    assert_eq!(
        (deleted.status, &deleted.json()["status"]),
        (200, &json!("inactive")),
        "also while it is active"
    );
    assert_eq!(api.get("rules/r").await.status, 404);
    assert!(api.get("triggers/u").await.json().get("rules").is_none());
}

#[tokio::test]
async fn a_rule_needs_a_trigger_and_an_action_that_are_there() {
    let api = Api::start().await;
    let key = api.other().await;
    ok(&api, "triggers/t", json!({})).await;
    api.action("f", "echo it").await;
    ok(&api, "packages/p", json!({})).await;
    let refused = |trigger: Value, action: Value| {
        let body = json!({"trigger": trigger, "action": action});
        let api = &api;
        async move { put(api, "rules/r", body).await.refusal() }
    };
    let missing = (400, "rule requires a valid trigger and a valid action".to_owned());
    assert_eq!(refused(json!(null), json!("/_/f")).await, missing);
    assert_eq!(refused(json!("/_/t"), json!(null)).await, missing);
    for trigger in ["/_/none", "/_/f", "/_/p/t"] {
        let text = format!("trigger {} does not exist", trigger.replace('_', "guest"));
        assert_eq!(refused(json!(trigger), json!("/_/f")).await, (400, text));
    }
    for action in ["/_/none", "/_/t", "/_/p/f", "/_/none/f"] {
        let text = format!("action {} does not exist", action.replace('_', "guest"));
        assert_eq!(refused(json!("/_/t"), json!(action)).await, (400, text));
    }
    for bare in [json!("t"), json!("/t"), json!({"name": "t"})] {
        let (status, text) = refused(bare.clone(), json!("/_/f")).await;
        assert!(status == 400 && text.starts_with("The request content was malformed:\n"), "{bare}: {text}");
    }
    let body = json!({"trigger": "/guest/t", "action": "/guest/f"});
    let reply = api.call_as(&key, "PUT", "rules/r", Some(body)).await;
    assert_eq!(
        reply.refusal(),
        (403, "The supplied authentication is not authorized to access 'guest/t'.".to_owned())
    );
    assert_eq!(api.call_as(&key, "GET", "/api/v1/namespaces/guest/rules/r", None).await.status, 403);
    rule(&api, "r", "/_/t", "/_/f").await;
    let methods = "HTTP method not allowed, supported methods: GET, PUT, DELETE, POST".to_owned();
    assert_eq!(api.call("PATCH", "rules/r", None).await.refusal(), (405, methods));
}

#[tokio::test]
async fn a_rule_is_enabled_and_disabled_and_outlives_its_trigger() {
    let api = Api::start().await;
    ok(&api, "triggers/t", json!({})).await;
    api.action("f", "echo it").await;
    rule(&api, "r", "/_/t", "/_/f").await;
    let set = |status: Value| api.call("POST", "rules/r", Some(json!({"status": status})));
    for _ in 0..2 {
        assert_eq!(set(json!("inactive")).await.status, 200);
        assert_eq!(api.get("rules/r").await.json()["status"], "inactive");
    }
    assert_eq!(set(json!("active")).await.status, 200);
    for bad in [json!("on"), json!(""), json!(null), json!(1)] {
        assert_eq!(set(bad).await.status, 400);
    }
    assert_eq!(api.call("POST", "rules/r", None).await.status, 400);
    assert_eq!(api.call("DELETE", "triggers/t", None).await.json()["rules"]["guest/r"]["status"], "active");
    assert_eq!(api.get("rules/r").await.json()["status"], "inactive");
    let text = "Only rules with existing triggers can be activated".to_owned();
    assert_eq!(set(json!("active")).await.refusal(), (404, text));
    assert_eq!(set(json!("inactive")).await.status, 200, "it is already");
    assert_eq!(api.call("DELETE", "rules/r", None).await.status, 200);
}

#[tokio::test]
async fn a_trigger_without_active_rules_does_nothing() {
    let api = Api::start().await;
    ok(&api, "triggers/t", json!({})).await;
    let nothing = |reply: Reply| {
        (reply.status, reply.text.clone(), reply.header("x-openwhisk-activation-id").is_some())
    };
    assert_eq!(nothing(fire(&api, "t", json!({"a": 1})).await), (204, String::new(), false));
    api.action("f", "echo it").await;
    rule(&api, "r", "/_/t", "/_/f").await;
    assert_eq!(fire(&api, "t", json!({})).await.status, 202, "the rule is met at once");
    api.call("POST", "rules/r", Some(json!({"status": "inactive"}))).await;
    assert_eq!(nothing(fire(&api, "t", json!({})).await), (204, String::new(), false));
    api.call("POST", "rules/r", Some(json!({"status": "active"}))).await;
    assert_eq!(fire(&api, "t", json!({})).await.status, 202);
    api.call("DELETE", "rules/r", None).await;
    assert_eq!(nothing(fire(&api, "t", json!({})).await), (204, String::new(), false));
}

#[tokio::test]
async fn a_fired_trigger_calls_what_its_rules_say_and_writes_that_down() {
    let api = Api::start().await;
    let defaults = json!([{"key": "a", "value": "trigger"}, {"key": "b", "value": "trigger"}, {"key": "__ow_headers", "value": 1}]);
    ok(&api, "triggers/t", json!({"parameters": defaults})).await;
    ok(
        &api,
        "packages/p",
        json!({"parameters": [{"key": "a", "value": "package"}, {"key": "c", "value": "package"}]}),
    )
    .await;
    for action in ["p/f", "off", "gone"] {
        api.action(action, "echo it").await;
    }
    let fixed = json!({"exec": {"kind": "nodejs", "code": "echo it"}, "parameters": [{"key": "b", "value": 1}], "annotations": [{"key": "final", "value": true}]});
    ok(&api, "actions/fixed", fixed).await;
    for (name, action) in [("r-works", "p/f"), ("r-off", "off"), ("r-gone", "gone"), ("r-fixed", "fixed")] {
        rule(&api, name, "/_/t", &format!("/_/{action}")).await;
    }
    api.call("POST", "rules/r-off", Some(json!({"status": "inactive"}))).await;
    api.call("DELETE", "actions/gone", None).await;

    let reply = fire(&api, "t", json!({"b": "payload"})).await;
    let (record, lines) = fired(&api, &reply).await;
    for absent in ["end", "duration", "cause"] {
        assert!(record.get(absent).is_none(), "{absent}");
    }
    assert_eq!((&record["name"], &record["annotations"]), (&json!("t"), &json!([])));
    let response = &record["response"];
    assert_eq!((&response["status"], &response["success"]), (&json!("success"), &json!(true)));
    assert_eq!(response["result"], json!({"b": "payload"}), "the payload alone");

    let id = lines[3]["activationId"].as_str().unwrap();
    let failed = |rule: &str, action: &str, error: &str| json!({"rule": rule, "action": action, "statusCode": 1, "success": false, "error": error});
    let expected = [
        failed(
            "guest/r-fixed",
            "guest/fixed",
            "Request defines parameters that are not allowed (e.g., reserved properties).",
        ),
        failed("guest/r-gone", "guest/gone", "The requested resource does not exist."),
        failed(
            "guest/r-off",
            "guest/off",
            "Rule 'guest/r-off' is inactive, action 'guest/off' was not activated.",
        ),
        json!({"rule": "guest/r-works", "action": "guest/p/f", "statusCode": 0, "success": true, "activationId": id}),
    ];
    assert_eq!(lines, expected);
    let logs = api.get(&format!("activations/{}/logs", reply.activation())).await.json();
    assert_eq!(logs["logs"], record["logs"]);

    let called = api.record(id).await;
    assert!(called.get("cause").is_none() && called["namespace"] == "guest");
    let mut result = called["response"]["result"].clone();
    let headers = result.as_object_mut().unwrap().remove("__ow_headers").unwrap();
    assert_eq!(result, json!({"a": "trigger", "b": "payload", "c": "package"}));
    assert_eq!((&headers["content-type"], headers.get("authorization")), (&json!("application/json"), None));

    let listed = api.get("activations?name=t").await.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    for absent in ["end", "duration", "statusCode", "response"] {
        assert!(listed[0].get(absent).is_none(), "{absent}");
    }
    let empty = api.call("POST", "triggers/t", None).await;
    assert_eq!(fired(&api, &empty).await.0["response"]["result"], json!({}));
}

#[tokio::test]
async fn a_rule_may_call_what_others_publish() {
    let api = Api::start().await;
    let key = api.other().await;
    ok(&api, "packages/util", json!({"publish": true})).await;
    api.action("util/echo", "echo it").await;
    let as_other =
        |method: &'static str, path: &'static str, body: Value| api.call_as(&key, method, path, Some(body));
    assert_eq!(as_other("PUT", "triggers/t", json!({})).await.status, 200);
    let body = json!({"trigger": "/_/t", "action": "/guest/util/echo"});
    assert_eq!(as_other("PUT", "rules/r", body).await.status, 200);
    let reply = as_other("POST", "triggers/t", json!({"n": 1})).await;
    let get = |id: String| {
        let (api, key) = (&api, &key);
        async move {
            support::eventually("the record", || async {
                let reply = api.call_as(key, "GET", &format!("activations/{id}"), None).await;
                (reply.status == 200).then(|| reply.json())
            })
            .await
        }
    };
    let line: Value =
        serde_json::from_str(get(reply.activation()).await["logs"][0].as_str().unwrap()).unwrap();
    let called = get(line["activationId"].as_str().unwrap().to_owned()).await;
    assert_eq!((&called["namespace"], &called["response"]["result"]["n"]), (&json!("other"), &json!(1)));

    // Published no more: the rule stays and says why it does nothing.
    ok(&api, "packages/util", json!({"publish": false})).await;
    let reply = as_other("POST", "triggers/t", json!({})).await;
    let line: Value =
        serde_json::from_str(get(reply.activation()).await["logs"][0].as_str().unwrap()).unwrap();
    assert_eq!(line["error"], "The supplied authentication is not authorized to access 'guest/util/echo'.");
}

#[tokio::test]
async fn firings_and_the_calls_they_make_are_limited() {
    let mut limited = config();
    limited.limits.fires_per_minute = 1000;
    let api = Api::with(limited).await;
    let key = api.namespace("few", json!({"firesPerMinute": 2, "invocationsPerMinute": 1})).await;
    let call =
        |method: &'static str, path: &'static str, body: Value| api.call_as(&key, method, path, Some(body));
    call("PUT", "triggers/t", json!({})).await;
    call("PUT", "actions/f", json!({"exec": {"kind": "nodejs", "code": "echo it"}})).await;
    for name in ["rules/a", "rules/b"] {
        call("PUT", name, json!({"trigger": "/_/t", "action": "/_/f"})).await;
    }
    // The wall clock may go on to the next minute once: of a few firings beyond the limits, some are refused.
    let mut replies = Vec::new();
    for _ in 0..6 {
        replies.push(call("POST", "triggers/t", json!({})).await);
    }
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status == 429).collect();
    assert!((2..=4).contains(&refused.len()), "{replies:?}");
    let text = refused[0].refusal().1;
    assert!(
        text.starts_with("Too many requests in the last minute (count: ") && text.ends_with(", allowed: 2)."),
        "{text}"
    );
    let first = replies[0].activation();
    let record = support::eventually("the record", || async {
        let reply = api.call_as(&key, "GET", &format!("activations/{first}"), None).await;
        (reply.status == 200).then(|| reply.json())
    })
    .await;
    let lines = record["logs"].to_string();
    let (called, refused) =
        (lines.matches("activationId").count(), lines.matches("Too many requests").count());
    // Between its two rules, too, the clock may go on to the next minute.
    assert!((called, refused) == (1, 1) || (called, refused) == (2, 0), "{lines}");
}

#[tokio::test]
async fn where_records_are_not_kept_a_trigger_has_none() {
    let api = Api::start().await;
    let key = api.namespace("silent", json!({"storeActivations": false})).await;
    let call =
        |method: &'static str, path: &'static str, body: Value| api.call_as(&key, method, path, Some(body));
    call("PUT", "triggers/t", json!({})).await;
    call("PUT", "actions/f", json!({"exec": {"kind": "nodejs", "code": "echo it"}})).await;
    call("PUT", "rules/r", json!({"trigger": "/_/t", "action": "/_/f"})).await;
    assert_eq!(call("POST", "triggers/t", json!({})).await.status, 202);
    support::eventually("the call's end", || async {
        (api.server.controller.calls_in_flight() == 0).then_some(())
    })
    .await;
    assert_eq!(api.call_as(&key, "GET", "activations", None).await.text, "[]");
}
