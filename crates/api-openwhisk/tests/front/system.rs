//! The packages of `/whisk.system`, as clients see and use them.

use flint_controller::GUEST_KEY;
use serde_json::{Value, json};

use crate::support::{Api, Reply};

const SYSTEM: &str = "/api/v1/namespaces/whisk.system";

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

fn annotation<'a>(entity: &'a Value, key: &str) -> &'a Value {
    let pairs = entity["annotations"].as_array().unwrap();
    pairs.iter().find(|pair| pair["key"] == key).map_or(&Value::Null, |pair| &pair["value"])
}

/// Calls a feed as `wsk` and the npm client do.
async fn feed(api: &Api, action: &str, trigger: &str, event: &str, given: Value) -> Reply {
    let mut body = given;
    body["lifecycleEvent"] = json!(event);
    body["triggerName"] = json!(format!("/_/{trigger}"));
    body["authKey"] = json!(GUEST_KEY);
    api.call("POST", &format!("{action}?blocking=true&result=false"), Some(body)).await
}

#[tokio::test]
async fn everybody_lists_reads_and_binds_them() {
    let api = Api::start().await;
    let packages = api.get(&format!("{SYSTEM}/packages")).await.json();
    assert_eq!(names(&packages), ["alarms", "messaging", "samples", "utils"]);
    assert!(packages.as_array().unwrap().iter().all(|package| package["publish"] == true));
    assert_eq!(api.get(&format!("{SYSTEM}/packages?count=true")).await.json(), json!({"packages": 4}));
    assert_eq!(names(&api.get(&format!("{SYSTEM}/packages?limit=1&skip=1")).await.json()), ["messaging"]);

    let alarms = api.get(&format!("{SYSTEM}/packages/alarms")).await.json();
    assert_eq!(
        (names(&alarms["feeds"]), names(&alarms["actions"])),
        (vec!["alarm", "interval", "once"], vec![])
    );
    assert_eq!(annotation(&alarms, "description"), "Alarms and periodic utility");
    let utils = api.get(&format!("{SYSTEM}/packages/utils")).await.json();
    assert_eq!(
        names(&utils["actions"]),
        ["cat", "date", "echo", "head", "hosturl", "namespace", "smash", "sort", "split"]
    );
    let listed = api.get(&format!("{SYSTEM}/actions/samples/")).await.json();
    assert_eq!(names(&listed), ["curl", "greeting", "helloWorld", "wordCount"]);

    let alarm = api.get(&format!("{SYSTEM}/actions/alarms/alarm?code=true")).await.json();
    assert_eq!((&alarm["exec"]["kind"], annotation(&alarm, "feed")), (&json!("builtin"), &json!(true)));
    let cat = api.get(&format!("{SYSTEM}/actions/utils/cat?code=true")).await.json();
    assert_eq!(cat["exec"]["kind"], "nodejs:20");
    assert!(cat["exec"]["code"].as_str().unwrap().contains("module.exports"), "{cat}");
    assert_eq!(annotation(&cat, "sampleInput"), &json!({"lines": [4, 2, 3]}));

    let binding = json!({"binding": {"namespace": "whisk.system", "name": "alarms"}});
    assert_eq!(api.call("PUT", "packages/mine", Some(binding)).await.status, 200);
    assert_eq!(names(&api.get("packages/mine").await.json()["feeds"]), ["alarm", "interval", "once"]);
    for nothing in ["packages/none", "actions/utils/none", "actions/none", "triggers/t"] {
        let status = api.get(&format!("{SYSTEM}/{nothing}")).await.status;
        assert!([403, 404].contains(&status), "{nothing}: {status}");
    }
}

#[tokio::test]
async fn a_function_of_theirs_runs_on_its_callers_account() {
    let api = Api::start().await;
    // The scripted executor answers with what it does not know: the first word of the code.
    let reply =
        api.call("POST", &format!("{SYSTEM}/actions/utils/echo?blocking=true"), Some(json!({}))).await;
    let record = api.record(&reply.activation()).await;
    assert_eq!(record["namespace"], "guest");
    assert_eq!(annotation(&record, "path"), "whisk.system/utils/echo");
    let seen = api.server.executor.seen();
    assert_eq!(seen.prepared.len(), 1, "only what was called was made ready");
    assert_eq!(seen.prepared[0].0, "whisk.system/utils/echo");
    // What nobody refers to is removed, and this is not that.
    api.server.controller.collect().await.unwrap();
    assert_eq!(api.get(&format!("{SYSTEM}/actions/utils/echo?code=true")).await.status, 200);
}

#[tokio::test]
async fn nobody_writes_there() {
    let api = Api::start().await;
    let code = json!({"exec": {"kind": "nodejs:default", "code": "echo"}});
    for (method, path, body) in [
        ("PUT", "actions/utils/cat?overwrite=true", Some(code.clone())),
        ("PUT", "actions/mine", Some(code)),
        ("PUT", "packages/mine", Some(json!({}))),
        ("DELETE", "packages/utils?force=true", None),
        ("DELETE", "actions/utils/cat", None),
        ("PUT", "triggers/t", Some(json!({}))),
        ("GET", "actions", None),
        ("GET", "activations", None),
    ] {
        let reply = api.call(method, &format!("{SYSTEM}/{path}"), body).await;
        assert_eq!(reply.status, 403, "{method} {path}: {reply:?}");
    }
    let controller = &api.server.controller;
    let made = controller.create_namespace("whisk.system".parse().unwrap(), Default::default()).await;
    assert_eq!(made.unwrap_err().to_string(), "The namespace 'whisk.system' is the server's own.");
    let namespaces = controller.namespaces().await.unwrap();
    assert_eq!(namespaces.len(), 1, "it is none that is kept");
    assert_eq!(api.call("GET", "/api/v1/web/whisk.system/utils/echo.json", None).await.status, 404);
}

#[tokio::test]
async fn a_feed_answers_as_openwhisks_package_does() {
    let api = Api::start().await;
    let trigger = json!({"annotations": [{"key": "feed", "value": "/whisk.system/alarms/alarm"}]});
    assert_eq!(api.call("PUT", "triggers/t", Some(trigger)).await.status, 200);
    let alarm = format!("{SYSTEM}/actions/alarms/alarm");
    let refused = feed(&api, &alarm, "t", "CREATE", json!({"trigger_payload": "x"})).await;
    assert_eq!(refused.status, 502, "{refused:?}");
    let error = &refused.json()["response"]["result"]["error"];
    assert_eq!(*error, json!({"error": "alarms trigger feed is missing the cron parameter"}));

    let created = feed(&api, &alarm, "t", "CREATE", json!({"cron": "0 0 1 1 *"})).await;
    assert_eq!((created.status, &created.json()["response"]["result"]), (200, &json!({"status": "success"})));
    assert!(!api.record(&created.activation()).await.to_string().contains(GUEST_KEY));
    // Through a binding, with a parameter of the binding's.
    let binding = json!({
        "binding": {"namespace": "whisk.system", "name": "alarms"},
        "parameters": [{"key": "trigger_payload", "value": {"from": "binding"}}]
    });
    assert_eq!(api.call("PUT", "packages/mine", Some(binding)).await.status, 200);
    let updated = feed(&api, "actions/mine/alarm", "t", "UPDATE", json!({})).await;
    assert_eq!(updated.status, 200, "{updated:?}");
    let read = feed(&api, "actions/mine/once", "t", "READ", json!({})).await.json();
    let config = &read["response"]["result"]["config"];
    assert_eq!((&config["cron"], &config["payload"]), (&json!("0 0 1 1 *"), &json!({"from": "binding"})));
    // `wsk trigger delete` deletes the trigger first.
    assert_eq!(api.call("DELETE", "triggers/t", None).await.status, 200);
    assert_eq!(feed(&api, &alarm, "t", "DELETE", json!({})).await.status, 200);
}
