//! Limits that an operator has set, and what is short: in the API's words, with what helps.

use axum::body::Body;
use flint_controller::ControllerConfig;
use flint_model::ByteSize;
use serde_json::{Value, json};

use crate::support::{self, Api, config, eventually, request};

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

#[tokio::test]
async fn a_namespace_has_sizes_and_bounds_of_its_own() {
    let api = Api::with(tight()).await;
    let own = json!({
        "maxPayloadSize": "4 KB", "maxParameterSize": "1 KB", "maxActionMemory": 1024, "minActionMemory": 64,
        "minActionTimeout": 10, "maxActionTimeout": 1000, "maxActionLogs": 1, "maxActionConcurrency": 4,
        "maxActionInstances": 3, "truncationSize": "4 B",
        "warmedContainerKeepingCount": 2, "warmedContainerKeepingTimeout": "20 minutes"
    });
    let key = api.namespace("large", own).await;
    let call =
        async |method: &str, path: &str, body: Value| api.call_as(&key, method, path, Some(body)).await;
    let shown = api.call_as(&key, "GET", "limits", None).await.json();
    for (limit, value) in [
        ("maxPayloadSize", json!("4 KB")),
        ("maxParameterSize", json!("1 KB")),
        ("minActionMemory", json!(64)),
        ("maxActionMemory", json!(1024)),
        ("minActionTimeout", json!(10)),
        ("maxActionTimeout", json!(1000)),
        ("minActionLogs", json!(0)),
        ("maxActionLogs", json!(1)),
        ("maxActionConcurrency", json!(4)),
        ("minActionConcurrency", json!(1)),
        ("maxActionInstances", json!(3)),
        ("truncationSize", json!("4 B")),
        ("warmedContainerKeepingCount", json!(2)),
        ("warmedContainerKeepingTimeout", json!("20min")),
    ] {
        assert_eq!(shown[limit], value, "{limit}");
    }
    let usual = api.get("limits").await.json();
    for limit in
        ["maxPayloadSize", "truncationSize", "warmedContainerKeepingCount", "warmedContainerKeepingTimeout"]
    {
        assert_eq!(usual.get(limit), None, "only where it is set");
    }

    let code = json!({"kind": "nodejs", "code": "echo it"});
    let with = |limits: Value| json!({"exec": code, "limits": limits});
    let fits = json!({"memory": 1024, "timeout": 10, "logs": 1, "instances": 3});
    assert_eq!(call("PUT", "actions/f", with(fits)).await.status, 200);
    for (limits, text) in [
        (json!({"memory": 2048}), "memory size 2048 MB exceeds allowed threshold of 1024 MB"),
        (json!({"memory": 32}), "memory size 32 MB below allowed threshold of 64 MB"),
        (
            json!({"timeout": 60_000}),
            "duration 60000 milliseconds exceeds allowed threshold of 1000 milliseconds",
        ),
        (json!({"logs": 2}), "logs size 2 MB exceeds allowed threshold of 1 MB"),
        (json!({"concurrency": 5}), "concurrency 5 exceeds allowed threshold of 4"),
        (
            json!({"instances": 4}),
            "Max action instance concurrency must not exceed your namespace concurrency of 3.",
        ),
    ] {
        let path = "actions/f?overwrite=true";
        assert_eq!(call("PUT", path, with(limits)).await.refusal(), (400, text.to_owned()));
    }
    let value = json!([{"key": "k", "value": "x".repeat(1024)}]);
    for (path, what) in [
        ("actions/f?overwrite=true", "parameters"),
        ("packages/p", "parameters"),
        ("triggers/t", "annotations"),
    ] {
        let (status, text) = call("PUT", path, json!({ what: value })).await.refusal();
        assert!(status == 413 && text.ends_with("> 1024 bytes."), "{path}: {text}");
    }

    // Its calls, waited for or not, its firings and its web actions bring more than others' may.
    assert_eq!(call("PUT", "triggers/t", json!({})).await.status, 200);
    let rule = json!({"trigger": "/_/t", "action": "/_/w"});
    let limits = json!({"timeout": 1000, "logs": 1});
    let web = json!({"exec": code, "limits": limits, "annotations": [{"key": "web-export", "value": true}]});
    assert_eq!(call("PUT", "actions/w", web).await.status, 200);
    assert_eq!(call("PUT", "rules/r", rule).await.status, 200);
    let sized = |length: usize| json!({"a": "x".repeat(length)});
    for (path, status) in
        [("actions/w", 202), ("actions/w?blocking=true&result=true", 200), ("triggers/t", 202)]
    {
        assert_eq!(call("POST", path, sized(3000)).await.status, status, "{path}");
        let text = "Request larger than allowed: 5008 > 4096 bytes.".to_owned();
        assert_eq!(call("POST", path, sized(5000)).await.refusal(), (413, text), "{path}");
    }
    let headers = [("content-type", "application/json")];
    for (length, status) in [(3000, 200), (5000, 413)] {
        let mut asked = request("POST", "/api/v1/web/large/default/w.json", None, &headers);
        *asked.body_mut() = Body::from(sized(length).to_string());
        assert_eq!(api.send(asked).await.status, status);
    }

    // Of a result that is too large, its error shows as much as the namespace is to see, waited for or not.
    let long = json!({"exec": {"kind": "nodejs", "code": "long it is"}, "limits": limits});
    assert_eq!(call("PUT", "actions/l", long).await.status, 200);
    let shown = "exceeded the allowed length: 1029 > 1024 bytes. The truncated response was: {\"a\"";
    let record = call("POST", "actions/l?blocking=true", json!({})).await.json();
    assert!(record["response"]["result"]["error"].as_str().unwrap().ends_with(shown), "{record}");
    let id = call("POST", "actions/l", json!({})).await.json()["activationId"].as_str().unwrap().to_owned();
    let record = eventually("the record", || async {
        let reply = api.call_as(&key, "GET", &format!("activations/{id}"), None).await;
        (reply.status == 200).then(|| reply.json())
    })
    .await;
    assert!(record["response"]["result"]["error"].as_str().unwrap().ends_with(shown), "{record}");

    // Functions of some are to serve several calls at once; sequences have no instances.
    let several =
        api.namespace("several", json!({"minActionConcurrency": 2, "maxActionConcurrency": 4})).await;
    assert_eq!(api.call_as(&several, "GET", "limits", None).await.json()["minActionConcurrency"], 2);
    let alone = json!({"exec": code});
    let refused = api.call_as(&several, "PUT", "actions/f", Some(alone)).await.refusal();
    assert_eq!(refused, (400, "concurrency 1 below allowed threshold of 2".to_owned()));
    let sequence = json!({"exec": {"kind": "sequence", "components": ["/whisk.system/utils/echo"]}});
    assert_eq!(api.call_as(&several, "PUT", "actions/s", Some(sequence)).await.status, 200);

    // What nothing could be within is refused to the operator.
    let contrary = serde_json::from_value(json!({"maxActionMemory": 64})).unwrap();
    let refused = api.server.controller.set_limits(&"large".parse().unwrap(), contrary).await.unwrap_err();
    assert!(refused.to_string().contains("minActionMemory is 128, and maxActionMemory 64"), "{refused}");
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
