//! Contract §7 and §8: sequences and compositions, as clients write, read and call them.

use serde_json::{Value, json};

use crate::support::{Api, config};

fn sequence(components: &[&str]) -> Value {
    json!({"exec": {"kind": "sequence", "components": components}})
}

fn annotation(entity: &Value, key: &str) -> Value {
    let list = entity["annotations"].as_array().unwrap();
    list.iter().find(|pair| pair["key"] == key).map(|pair| pair["value"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_sequence_is_written_read_listed_and_deleted() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    let mut body = sequence(&["/_/f", "/guest/f"]);
    body["parameters"] = json!([{"key": "lost", "value": 1}]);
    body["annotations"] = json!([{"key": "a", "value": 1}, {"key": "conductor", "value": true}]);
    let made = api.call("PUT", "actions/s", Some(body.clone())).await;
    assert_eq!(made.status, 200, "{made:?}");
    let made = made.json();
    let components = json!(["/guest/f", "/guest/f"]);
    assert_eq!(made["exec"], json!({"kind": "sequence", "components": components}));
    assert_eq!(made["parameters"], json!([{"key": "_actions", "value": components}]));
    assert_eq!((&made["version"], annotation(&made, "exec")), (&json!("0.0.1"), json!("sequence")));
    assert_eq!(annotation(&made, "provide-api-key"), json!(false));
    assert_eq!(api.get("actions/s?code=false").await.json(), made);
    assert_eq!(
        api.call("PUT", "actions/s", Some(body)).await.refusal(),
        (409, "resource already exists".into())
    );

    let list = api.get("actions").await.json();
    let item = list.as_array().unwrap().iter().find(|item| item["name"] == "s").unwrap().clone();
    assert_eq!((annotation(&item, "exec"), &item["exec"]), (json!("sequence"), &json!({"binary": false})));
    assert_eq!(api.get("actions?count=true").await.json(), json!({"actions": 2}));

    // Without exec, what it calls stays.
    let update = json!({"annotations": [{"key": "b", "value": 2}], "delAnnotations": ["conductor"]});
    let updated = api.call("PUT", "actions/s?overwrite=true", Some(update)).await.json();
    assert_eq!((&updated["exec"], &updated["version"]), (&made["exec"], &json!("0.0.2")));
    assert_eq!((annotation(&updated, "a"), annotation(&updated, "b")), (json!(1), json!(2)));
    assert_eq!(annotation(&updated, "conductor"), Value::Null);

    // A sequence becomes code, and code a sequence.
    let code = api.action("s", "answer {}").await;
    assert_eq!((&code["exec"]["kind"], &code["parameters"]), (&json!("nodejs:20"), &json!([])));
    assert_eq!((&code["version"], annotation(&code, "a")), (&json!("0.0.3"), json!(1)));
    let back = api.call("PUT", "actions/s?overwrite=true", Some(sequence(&["/guest/f"]))).await.json();
    assert_eq!((&back["version"], annotation(&back, "exec")), (&json!("0.0.4"), json!("sequence")));

    // Limits are what they were, one by one, and parameters are not.
    let write = async |mut body: Value, limits: Value, expected: [u64; 2]| {
        body["limits"] = limits;
        let written = api.call("PUT", "actions/s?overwrite=true", Some(body)).await.json();
        let limits = json!({"timeout": expected[0], "memory": expected[1], "logs": 10, "concurrency": 1});
        assert_eq!(written["limits"], limits, "{written}");
        written
    };
    let code = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    write(sequence(&["/guest/f"]), json!({"timeout": 1000}), [1000, 256]).await;
    let written = write(code.clone(), json!({"memory": 512}), [1000, 512]).await;
    assert_eq!(written["parameters"], json!([]));
    let parameters = json!({"parameters": [{"key": "p", "value": 1}]});
    write(parameters, json!({}), [1000, 512]).await;
    let written = write(sequence(&["/guest/f"]), json!({"memory": 128}), [1000, 128]).await;
    assert_eq!(written["parameters"][0]["key"], "_actions");
    let written = write(code, json!({"timeout": 2000}), [2000, 128]).await;
    assert_eq!(written["parameters"], json!([]));
    write(sequence(&["/guest/f"]), json!({}), [2000, 128]).await;

    let deleted = api.call("DELETE", "actions/s", None).await;
    assert_eq!((deleted.status, &deleted.json()["exec"]["kind"]), (200, &json!("sequence")));
    assert_eq!(api.get("actions/s").await.status, 404);
}

#[tokio::test]
async fn what_cannot_be_a_sequence_is_refused() {
    let mut config = config();
    config.limits.bounds.max_sequence = 2;
    let api = Api::with(config).await;
    api.action("f", "echo it").await;
    for (components, status, error) in [
        (json!([]), 400, "No component specified for the sequence."),
        (Value::Null, 400, "No component specified for the sequence."),
        (json!(["/_/f", "/_/f", "/_/f"]), 400, "Too many actions in the sequence."),
        (json!(["/_/none"]), 400, "Sequence component does not exist."),
        (json!(["/_/s"]), 400, "Sequence may not refer to itself."),
        (json!(["/other/p/f"]), 403, "The supplied authentication is not authorized to access 'other/p/f'."),
    ] {
        let body = json!({"exec": {"kind": "sequence", "components": components}});
        let refused = api.call("PUT", "actions/s", Some(body)).await.refusal();
        assert_eq!(refused, (status, error.to_owned()), "{components}");
    }
    let (status, error) = api.call("PUT", "actions/s", Some(sequence(&["f"]))).await.refusal();
    let name = "The fully qualified name of the entity must contain at least the namespace and the name of the entity.";
    assert_eq!((status, error), (400, format!("The request content was malformed:\n{name}")));
    assert_eq!(api.get("").await.status, 404);
}

#[tokio::test]
async fn a_sequence_goes_through_packages_and_never_to_itself_through_a_binding() {
    let api = Api::start().await;
    for (path, body) in [
        ("packages/p", json!({"parameters": [{"key": "x", "value": 1}]})),
        (
            "packages/b",
            json!({"binding": {"namespace": "_", "name": "p"}, "parameters": [{"key": "y", "value": 2}]}),
        ),
    ] {
        let reply = api.call("PUT", path, Some(body)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    api.action("p/f", "echo it").await;
    let made = api.call("PUT", "actions/p/s", Some(sequence(&["/_/b/f"]))).await;
    assert_eq!(made.status, 200, "{made:?}");
    // It is shown with what it would inherit, and written without.
    let parameters = |shown: &Value| {
        let pairs = shown["parameters"].as_array().unwrap().iter();
        let pair = |pair: &Value| (pair["key"].as_str().unwrap().to_owned(), pair["value"].clone());
        Value::Object(pairs.map(pair).collect())
    };
    let list = json!(["/guest/b/f"]);
    assert_eq!(parameters(&made.json()), json!({"_actions": list}));
    for (path, expected) in
        [("p/s", json!({"x": 1, "_actions": list})), ("b/s", json!({"x": 1, "y": 2, "_actions": list}))]
    {
        for query in ["", "?code=false"] {
            let shown = api.get(&format!("actions/{path}{query}")).await.json();
            assert_eq!(parameters(&shown), expected, "{path}{query}");
        }
    }
    let over = api.blocking("b/s", json!({})).await;
    assert_eq!(over.json()["response"]["result"], json!({"x": 1, "y": 2}));
    assert_eq!(annotation(&over.json(), "binding"), json!("guest/b"));
    assert_eq!(annotation(&over.json(), "path"), json!("guest/p/s"));
    for components in [["/_/b/s"], ["/_/p/s"]] {
        let refused =
            api.call("PUT", "actions/p/s?overwrite=true", Some(sequence(&components))).await.refusal();
        assert_eq!(refused, (400, "Sequence may not refer to itself.".to_owned()));
    }
    let refused = api.call("PUT", "actions/p/new", Some(sequence(&["/_/b/new"]))).await.refusal();
    assert_eq!(refused, (400, "Sequence may not refer to itself.".to_owned()));
    let refused = api.call("PUT", "actions/b/new", Some(sequence(&["/_/b/f"]))).await.refusal();
    assert_eq!(refused, (400, "Operation not permitted on package binding.".to_owned()));
}

#[tokio::test]
async fn a_sequence_that_its_caller_may_not_call_to_the_end_does_not_begin() {
    let api = Api::start().await;
    let key = api.other().await;
    let util = async |publish: bool| {
        let put = api.call("PUT", "packages/util?overwrite=true", Some(json!({"publish": publish}))).await;
        assert_eq!(put.status, 200, "{put:?}");
    };
    util(true).await;
    api.action("util/f", "echo it").await;
    let other =
        async |method: &str, path: &str, body: Value| api.call_as(&key, method, path, Some(body)).await;
    let code = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    for (path, body) in [
        ("packages/mine", json!({"binding": {"namespace": "guest", "name": "util"}})),
        ("packages/own", json!({})),
        ("actions/first", code.clone()),
        ("actions/own/f", code),
        ("actions/s", sequence(&["/_/first", "/_/own/f", "/_/mine/f"])),
        ("triggers/t", json!({})),
        ("rules/r", json!({"trigger": "/_/t", "action": "/_/s"})),
    ] {
        let put = other("PUT", path, body).await;
        assert_eq!(put.status, 200, "{put:?}");
    }
    let runs = || api.server.executor.calls_of("other/first").len();
    assert_eq!(other("POST", "actions/s?blocking=true", json!({})).await.status, 200);
    assert_eq!(runs(), 1);

    util(false).await;
    let text = "The supplied authentication is not authorized to access 'other/mine/f'.";
    for path in ["actions/s", "actions/s?blocking=true"] {
        let refused = other("POST", path, json!({})).await;
        assert_eq!(refused.refusal(), (403, text.to_owned()), "{path}");
    }
    let refused = other("PUT", "actions/s?overwrite=true", sequence(&["/_/mine/f"])).await;
    assert_eq!(refused.refusal(), (403, text.to_owned()));
    let fired = other("POST", "triggers/t", json!({})).await;
    let record = format!("activations/{}", fired.activation());
    let record = crate::support::eventually("the trigger's record", || async {
        let reply = api.call_as(&key, "GET", &record, None).await;
        (reply.status == 200).then(|| reply.json())
    })
    .await;
    assert!(record["logs"][0].as_str().unwrap().contains(text), "{record}");
    assert_eq!(runs(), 1, "nothing ran");

    // What is missing is found to be so when its turn comes.
    util(true).await;
    assert_eq!(api.call("DELETE", "actions/util/f", None).await.status, 200);
    for package in [None, Some("packages/own?force=true")] {
        if let Some(package) = package {
            assert_eq!(api.call_as(&key, "DELETE", package, None).await.status, 200);
        }
        let over = other("POST", "actions/s?blocking=true", json!({})).await;
        let missing = json!({"error": "Sequence component does not exist."});
        assert_eq!((over.status, &over.json()["response"]["result"]), (502, &missing));
    }
    assert_eq!(runs(), 3);
}

#[tokio::test]
async fn a_sequence_is_called_in_every_mode() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    api.action("fails", r#"answer {"error":"mine"}"#).await;
    api.action("list", "answer [1,2]").await;
    for (name, components) in
        [("good", &["/_/f", "/_/f"][..]), ("bad", &["/_/fails", "/_/f"]), ("array", &["/_/f", "/_/list"])]
    {
        api.call("PUT", &format!("actions/{name}"), Some(sequence(components))).await;
    }
    let reply = api.blocking("good", json!({"a": 1})).await;
    let record = reply.json();
    assert_eq!(
        (reply.status, reply.activation()),
        (200, record["activationId"].as_str().unwrap().to_owned())
    );
    assert_eq!(record["response"]["result"], json!({"a": 1}));
    let ids = record["logs"].as_array().unwrap();
    assert_eq!(ids.len(), 2);
    for (key, value) in [
        ("kind", json!("sequence")),
        ("path", json!("guest/good")),
        ("topmost", json!(true)),
        ("conductor", Value::Null),
    ] {
        assert_eq!(annotation(&record, key), value, "{key}");
    }
    assert!(annotation(&record, "waitTime").is_u64() && annotation(&record, "limits")["memory"] == 256);
    let step = api.record(ids[0].as_str().unwrap()).await;
    assert_eq!((&step["cause"], annotation(&step, "causedBy")), (&record["activationId"], json!("sequence")));
    assert_eq!(api.record(&reply.activation()).await["logs"], record["logs"]);
    let logs = api.get(&format!("activations/{}/logs", reply.activation())).await;
    assert_eq!(logs.json(), json!({"logs": ids}));

    let result = api.call("POST", "actions/good?blocking=true&result=true", Some(json!({"a": 1}))).await;
    assert_eq!((result.status, result.json()), (200, json!({"a": 1})));
    let failed = api.blocking("bad", json!({})).await;
    assert_eq!((failed.status, &failed.json()["response"]["status"]), (502, &json!("application error")));
    assert_eq!(api.blocking("array", json!({})).await.json(), json!([1, 2]));
    let accepted = api.call("POST", "actions/good", Some(json!({"a": 2}))).await;
    assert_eq!(accepted.status, 202);
    assert_eq!(api.record(&accepted.activation()).await["response"]["result"], json!({"a": 2}));
    let (status, _) = api.call("POST", "actions/good?blocking=true", Some(json!([]))).await.refusal();
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_composition_says_that_it_is_one() {
    let api = Api::start().await;
    api.action("f", r#"answer {"f":1}"#).await;
    let body = json!({
        "exec": {"kind": "nodejs:default", "code": "echo it"},
        "annotations": [{"key": "conductor", "value": true}],
    });
    api.call("PUT", "actions/c", Some(body)).await;
    let record = api.blocking("c", json!({"action": "f", "state": {"s": 2}})).await.json();
    assert_eq!(record["response"]["result"], json!({"f": 1, "s": 2}));
    assert_eq!(
        (annotation(&record, "conductor"), annotation(&record, "kind")),
        (json!(true), json!("sequence"))
    );
    assert_eq!(record["logs"].as_array().unwrap().len(), 3);
}
