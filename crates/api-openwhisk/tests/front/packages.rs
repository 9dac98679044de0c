//! Contract §6 and §11: packages, bindings, and who may use whose.

use serde_json::{Value, json};

use crate::support::{self, Api, Reply};

async fn put(api: &Api, name: &str, body: Value) -> Reply {
    api.call("PUT", &format!("packages/{name}?overwrite=true"), Some(body)).await
}

/// A package that is there afterwards.
async fn package(api: &Api, name: &str, body: Value) -> Value {
    let reply = put(api, name, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// `[{"key", "value"}…]` as one object.
fn pairs(list: &Value) -> Value {
    let pairs = list.as_array().unwrap().iter();
    pairs
        .map(|pair| (pair["key"].as_str().unwrap().to_owned(), pair["value"].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// A package of guest's that everybody may use: `util` with the action `echo`, which answers its arguments.
async fn shared(api: &Api) {
    package(api, "util", json!({"publish": true, "parameters": [{"key": "a", "value": "util"}, {"key": "b", "value": "util"}]})).await;
    api.action("util/echo", "echo it").await;
}

#[tokio::test]
async fn a_package_is_created_shown_overwritten_and_deleted() {
    let api = Api::start().await;
    let body = json!({
        "namespace": "_", "name": "x", "binding": {}, "publish": true, "updated": 1,
        "parameters": [{"key": "a", "value": 1}], "annotations": [{"key": "description", "value": "d"}]
    });
    let created = package(&api, "p", body).await;
    let expected = json!({
        "namespace": "guest", "name": "p", "version": "0.0.1", "publish": true, "binding": {},
        "parameters": [{"key": "a", "value": 1}], "annotations": [{"key": "description", "value": "d"}],
        "updated": created["updated"]
    });
    assert_eq!(created, expected);
    let mut shown = expected.clone();
    (shown["actions"], shown["feeds"]) = (json!([]), json!([]));
    assert_eq!(api.get("packages/p").await.json(), shown);

    for query in ["", "?overwrite=false"] {
        let reply = api.call("PUT", &format!("packages/p{query}"), Some(json!({}))).await;
        assert_eq!(reply.refusal(), (409, "resource already exists".to_owned()));
    }
    // Each field that is given replaces the old one, annotations too; the others stay.
    let changed =
        package(&api, "p", json!({"annotations": [{"key": "x", "value": 1}], "publish": null})).await;
    assert_eq!((&changed["version"], &changed["publish"]), (&json!("0.0.2"), &json!(true)));
    assert_eq!(changed["annotations"], json!([{"key": "x", "value": 1}]));
    assert_eq!(changed["parameters"], json!([{"key": "a", "value": 1}]));
    assert_eq!(
        package(&api, "p", json!({"version": "2.0.0", "publish": false})).await["publish"],
        json!(false)
    );

    let deleted = api.call("DELETE", "packages/p", None).await;
    assert_eq!((deleted.status, deleted.json()["version"].as_str()), (200, Some("2.0.0")));
    for method in ["GET", "DELETE"] {
        let reply = api.call(method, "packages/p", None).await;
        assert_eq!(reply.refusal(), (404, "The requested resource does not exist.".to_owned()));
    }
}

#[tokio::test]
async fn what_cannot_be_a_package_is_refused() {
    let api = Api::start().await;
    package(&api, "p", json!({})).await;
    api.action("f", "echo it").await;
    let reserved = (400, "Package name 'default' is reserved.".to_owned());
    assert_eq!(put(&api, "default", json!({})).await.refusal(), reserved);
    let taken = (409, "Resource by this name exists but is not in this collection.".to_owned());
    assert_eq!(put(&api, "f", json!({})).await.refusal(), taken);
    assert_eq!(api.get("packages/f").await.refusal(), taken);
    assert_eq!(api.get("actions/p").await.refusal(), taken);
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    assert_eq!(api.call("PUT", "actions/p?overwrite=true", Some(body)).await.refusal(), taken);
    assert_eq!(api.call("POST", "actions/p?blocking=true", None).await.refusal(), taken);
    let large = json!({"parameters": [{"key": "a", "value": "x".repeat(1 << 20)}]});
    let (status, text) = put(&api, "large", large).await.refusal();
    assert!(status == 413 && text.starts_with("parameters larger than allowed: "), "{text}");
    let methods = (405, "HTTP method not allowed, supported methods: GET, PUT, DELETE".to_owned());
    assert_eq!(api.call("POST", "packages/refresh", None).await.refusal(), methods);
    for body in [json!([]), json!({"parameters": {"a": 1}}), json!({"binding": {"namespace": "_"}})] {
        let (status, text) = put(&api, "new", body.clone()).await.refusal();
        assert!(status == 400 && text.starts_with("The request content was malformed:\n"), "{body}: {text}");
    }
}

#[tokio::test]
async fn actions_live_in_packages_that_are_there() {
    let api = Api::start().await;
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    let missing = (404, "The requested resource 'guest/p' does not exist.".to_owned());
    assert_eq!(api.call("PUT", "actions/p/f", Some(body.clone())).await.refusal(), missing);
    package(&api, "p", json!({})).await;
    let action = api.action("p/f", "echo it").await;
    assert_eq!((&action["namespace"], &action["name"]), (&json!("guest/p"), &json!("f")));
    // A feed by the annotation's presence, whatever its value.
    for value in [json!(false), json!(null), json!(""), json!(true)] {
        let feed = json!({"exec": {"kind": "nodejs", "code": "echo it"}, "annotations": [{"key": "feed", "value": value}]});
        api.call("PUT", "actions/p/feed?overwrite=true", Some(feed)).await;
        assert_eq!(names(&api.get("packages/p").await.json()["feeds"]), ["feed"], "{value}");
    }
    api.action("outside", "echo it").await;

    let shown = api.get("packages/p").await.json();
    assert_eq!((names(&shown["actions"]), names(&shown["feeds"])), (vec!["f"], vec!["feed"]));
    assert_eq!(shown["actions"][0]["version"], "0.0.1");
    assert_eq!(pairs(&shown["actions"][0]["annotations"])["exec"], "nodejs:20");
    assert_eq!(names(&api.get("actions/p/").await.json()).len(), 2);
    assert_eq!(names(&api.get("actions").await.json()).len(), 3);
    assert_eq!(api.get("actions/p/?count=true").await.json(), json!({"actions": 2}));
    assert_eq!(api.get("actions/none/").await.status, 404);

    // In two packages, the same name is two actions.
    package(&api, "q", json!({})).await;
    assert_eq!(api.get("actions/q/f").await.status, 404);

    let full = "Package not empty (contains 2 entities). Set force param or delete package contents.";
    assert_eq!(api.call("DELETE", "packages/p", None).await.refusal(), (409, full.to_owned()));
    assert_eq!(api.call("DELETE", "actions/p/feed", None).await.status, 200);
    let one = "Package not empty (contains 1 entity). Set force param or delete package contents.";
    assert_eq!(api.call("DELETE", "packages/p?force=false", None).await.refusal(), (409, one.to_owned()));
    assert_eq!(api.blocking("p/f", json!({})).await.status, 200);
    assert_eq!(api.call("DELETE", "packages/p?force=true", None).await.status, 200);
    assert_eq!(api.blocking("p/f", json!({})).await.status, 404, "a call meets what was deleted");
    assert_eq!(names(&api.get("actions").await.json()), ["outside"]);
}

#[tokio::test]
async fn a_binding_names_what_it_stands_for() {
    let api = Api::start().await;
    shared(&api).await;
    let bound = package(
        &api,
        "mine",
        json!({
            "binding": {"namespace": "_", "name": "util"}, "parameters": [{"key": "b", "value": "mine"}],
            "annotations": [{"key": "binding", "value": "forged"}, {"key": "x", "value": 1}]
        }),
    )
    .await;
    let binding = json!({"namespace": "guest", "name": "util"});
    assert_eq!(
        (&bound["binding"], &pairs(&bound["annotations"])),
        (&binding, &json!({"x": 1, "binding": binding}))
    );
    assert_eq!(
        pairs(&bound["parameters"]),
        json!({"b": "mine"}),
        "what is written is told, not what is inherited"
    );

    let shown = api.get("packages/mine").await.json();
    assert_eq!((&shown["name"], &shown["binding"]), (&json!("mine"), &binding));
    assert_eq!(pairs(&shown["parameters"]), json!({"a": "util", "b": "mine"}));
    assert_eq!((names(&shown["actions"]), names(&shown["feeds"])), (vec!["echo"], vec![]));
    assert_eq!(names(&api.get("actions/mine/").await.json()), ["echo"]);
    assert_eq!(names(&api.get("actions").await.json()), ["echo"], "a binding holds nothing itself");

    let list = api.get("packages").await.json();
    assert_eq!(names(&list), ["mine", "util"]);
    assert_eq!((&list[0]["binding"], &list[1]["binding"]), (&binding, &json!(false)));
    assert!(list[0].get("parameters").is_none() && list[0].get("updated").is_some());
    assert_eq!(api.get("packages?count=true&skip=1").await.json(), json!({"packages": 1}));
    assert_eq!(names(&api.get("packages?limit=1&skip=1").await.json()), ["util"]);

    // An overwrite keeps what it stands for; its annotation stays Flint's.
    let again = package(&api, "mine", json!({"annotations": []})).await;
    assert_eq!((&again["binding"], &pairs(&again["annotations"])), (&binding, &json!({"binding": binding})));

    let through = "Operation not permitted on package binding.".to_owned();
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    assert_eq!(api.call("PUT", "actions/mine/new", Some(body)).await.refusal(), (400, through.clone()));
    assert_eq!(api.call("DELETE", "actions/mine/echo", None).await.refusal(), (400, through));
    assert_eq!(api.call("DELETE", "packages/mine", None).await.status, 200, "whatever its provider holds");
    assert_eq!(api.get("actions/util/echo").await.status, 200);
}

#[tokio::test]
async fn what_cannot_be_bound_is_refused() {
    let api = Api::start().await;
    let key = api.other().await;
    shared(&api).await;
    package(&api, "private", json!({})).await;
    package(&api, "bound", json!({"binding": {"namespace": "_", "name": "util"}, "publish": true})).await;
    api.action("f", "echo it").await;
    let bind = |namespace: &str, name: &str| json!({"binding": {"namespace": namespace, "name": name}});
    for (name, status, text) in [
        ("none", 400, "Binding references a package that does not exist."),
        ("f", 409, "Cannot bind to a resource that is not a package."),
        ("bound", 400, "Cannot bind to another package binding."),
    ] {
        assert_eq!(put(&api, "new", bind("_", name)).await.refusal(), (status, text.to_owned()), "{name}");
        assert_eq!(
            put(&api, "bound", bind("guest", name)).await.refusal(),
            (status, text.to_owned()),
            "{name}"
        );
    }
    let converted = "Resource is a package and cannot be converted into a binding.".to_owned();
    assert_eq!(put(&api, "private", bind("_", "util")).await.refusal(), (409, converted.clone()));
    assert_eq!(put(&api, "util", bind("_", "util")).await.refusal(), (409, converted));
    // Of a foreign namespace, only what is shared; whether there is anything else is not told.
    for name in ["private", "none", "f", "bound"] {
        let text = format!("The supplied authentication is not authorized to access 'guest/{name}'.");
        let reply = api.call_as(&key, "PUT", "packages/new", Some(bind("guest", name))).await;
        assert_eq!(reply.refusal(), (403, text), "{name}");
    }
    assert_eq!(api.call_as(&key, "PUT", "packages/new", Some(bind("guest", "util"))).await.status, 200);
    let text = "The supplied authentication is not authorized to access 'nobody/p'.".to_owned();
    assert_eq!(put(&api, "new", bind("nobody", "p")).await.refusal(), (403, text));
}

#[tokio::test]
async fn parameters_come_from_provider_binding_action_and_call_in_that_order() {
    let api = Api::start().await;
    let list = |layer: &str, keys: &[&str]| -> Value {
        keys.iter().map(|key| json!({"key": key, "value": layer})).collect()
    };
    package(&api, "p", json!({"parameters": list("package", &["a", "b", "c", "d"])})).await;
    package(
        &api,
        "m",
        json!({
            "binding": {"namespace": "_", "name": "p"}, "parameters": list("binding", &["b", "c", "d"])
        }),
    )
    .await;
    let action =
        json!({"exec": {"kind": "nodejs", "code": "echo it"}, "parameters": list("action", &["c", "d"])});
    api.call("PUT", "actions/p/f", Some(action)).await;
    let result = |reply: Reply| {
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["response"]["result"].clone()
    };
    let args = |answer: &Value| {
        let mut args = answer.clone();
        args.as_object_mut().unwrap().retain(|key, _| key.len() == 1);
        args
    };
    let direct = result(api.blocking("p/f", json!({"d": "call"})).await);
    assert_eq!(args(&direct), json!({"a": "package", "b": "package", "c": "action", "d": "call"}));
    let bound = result(api.blocking("m/f", json!({"d": "call"})).await);
    assert_eq!(args(&bound), json!({"a": "package", "b": "binding", "c": "action", "d": "call"}));

    let shown = pairs(&api.get("actions/m/f").await.json()["parameters"]);
    assert_eq!(shown, json!({"a": "package", "b": "binding", "c": "action", "d": "action"}));
    // A change of either is met by the next call, however warm it was.
    package(&api, "p", json!({"parameters": list("new", &["a", "b"])})).await;
    assert_eq!(args(&result(api.blocking("m/f", json!({})).await))["a"], "new");
    assert_eq!(args(&result(api.blocking("p/f", json!({})).await))["b"], "new");
    package(&api, "m", json!({"parameters": []})).await;
    assert_eq!(args(&result(api.blocking("m/f", json!({})).await))["b"], "new");
    // And one of the action, through the binding too.
    let changed = json!({"parameters": list("changed", &["c"])});
    api.call("PUT", "actions/p/f?overwrite=true", Some(changed)).await;
    assert_eq!(args(&result(api.blocking("m/f", json!({})).await))["c"], "changed");
}

#[tokio::test]
async fn inherited_parameters_of_a_final_action_are_final_too() {
    let api = Api::start().await;
    package(&api, "p", json!({"parameters": [{"key": "a", "value": 1}, {"key": "open", "value": null}]}))
        .await;
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"}, "annotations": [{"key": "final", "value": true}]});
    api.call("PUT", "actions/p/f", Some(body)).await;
    let reserved = "Request defines parameters that are not allowed (e.g., reserved properties).".to_owned();
    assert_eq!(api.blocking("p/f", json!({"a": 2})).await.refusal(), (400, reserved.clone()));
    assert_eq!(api.blocking("p/f", json!({"open": 2})).await.status, 200);
    package(
        &api,
        "m",
        json!({
            "binding": {"namespace": "_", "name": "p"}, "parameters": [{"key": "open", "value": 3}]
        }),
    )
    .await;
    assert_eq!(api.blocking("m/f", json!({"open": 2})).await.refusal(), (400, reserved));
}

#[tokio::test]
async fn a_foreign_published_action_runs_on_its_callers_account() {
    let api = Api::start().await;
    let key = api.other().await;
    shared(&api).await;
    let bind = json!({"binding": {"namespace": "guest", "name": "util"}, "parameters": [{"key": "b", "value": "mine"}]});
    assert_eq!(api.call_as(&key, "PUT", "packages/mine", Some(bind)).await.status, 200);
    for (path, binding) in [
        ("/api/v1/namespaces/guest/actions/util/echo", None),
        ("/api/v1/namespaces/_/actions/mine/echo", Some(json!("other/mine"))),
    ] {
        let reply = api.call_as(&key, "POST", &format!("{path}?blocking=true"), Some(json!({}))).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let record = reply.json();
        assert_eq!(
            (&record["namespace"], &record["subject"], &record["name"]),
            (&json!("other"), &json!("other"), &json!("echo"))
        );
        let annotations = pairs(&record["annotations"]);
        assert_eq!(annotations["path"], "guest/util/echo");
        assert_eq!(annotations.get("binding"), binding.as_ref());
        let id = reply.activation();
        assert_eq!(api.call_as(&key, "GET", &format!("activations/{id}"), None).await.status, 200);
        assert_eq!(api.get(&format!("activations/{id}")).await.status, 404, "it is not the provider's");
        let reply = api.call_as(&key, "GET", path, None).await;
        assert_eq!((reply.status, &reply.json()["namespace"]), (200, &json!("guest/util")));
    }
    // Each account has an instance of its own.
    api.blocking("util/echo", json!({})).await;
    let pool = api.server.controller.host_state().pool;
    let mut owners: Vec<_> = pool.functions.iter().map(|used| used.namespace.to_string()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["guest", "other"]);

    // An accepted call goes the same way.
    let reply = api.call_as(&key, "POST", "actions/mine/echo", Some(json!({}))).await;
    let id = reply.activation();
    let record = support::eventually("the record", || async {
        let reply = api.call_as(&key, "GET", &format!("activations/{id}"), None).await;
        (reply.status == 200).then(|| reply.json())
    })
    .await;
    assert_eq!(record["response"]["result"]["b"], "mine");
    assert_eq!(pairs(&record["annotations"])["binding"], "other/mine");

    // Records are found by the name that was called: through the binding, its name.
    for (name, count) in
        [("util/echo", 1), ("mine/echo", 2), ("util%2Fecho", 1), ("echo", 0), ("other/mine", 0)]
    {
        let path = format!("activations?count=true&name={name}");
        assert_eq!(
            api.call_as(&key, "GET", &path, None).await.json(),
            json!({ "activations": count }),
            "{name}"
        );
    }
}

#[tokio::test]
async fn of_others_only_what_they_publish_is_open_and_nothing_is_told_of_the_rest() {
    let api = Api::start().await;
    let key = api.other().await;
    shared(&api).await;
    package(&api, "private", json!({})).await;
    api.action("private/f", "echo it").await;
    package(&api, "bound", json!({"binding": {"namespace": "_", "name": "util"}, "publish": true})).await;
    let guest = |path: &str| format!("/api/v1/namespaces/guest/{path}");
    let forbidden = |what: &str| {
        (403, format!("The supplied authentication is not authorized to access 'guest/{what}'."))
    };
    assert_eq!(names(&api.call_as(&key, "GET", &guest("packages"), None).await.json()), ["util"]);
    assert_eq!(
        api.call_as(&key, "GET", &guest("packages?count=true"), None).await.json(),
        json!({"packages": 1})
    );
    assert_eq!(api.call_as(&key, "GET", &guest("packages/util"), None).await.status, 200);
    assert_eq!(names(&api.call_as(&key, "GET", &guest("actions/util/"), None).await.json()), ["echo"]);
    assert_eq!(api.call_as(&key, "GET", &guest("actions/util/none"), None).await.status, 404);
    for name in ["private", "bound", "none"] {
        assert_eq!(
            api.call_as(&key, "GET", &guest(&format!("packages/{name}")), None).await.refusal(),
            forbidden(name)
        );
        for method in ["GET", "POST"] {
            let path = guest(&format!("actions/{name}/f"));
            assert_eq!(
                api.call_as(&key, method, &path, None).await.refusal(),
                forbidden(&format!("{name}/f"))
            );
        }
    }
    // Nothing is written in what is only read.
    for (method, path) in [
        ("PUT", "packages/new"),
        ("PUT", "packages/util?overwrite=true"),
        ("DELETE", "packages/util"),
        ("DELETE", "actions/util/echo"),
        ("PUT", "actions/util/new"),
    ] {
        let body = (method == "PUT").then(|| json!({"exec": {"kind": "nodejs", "code": "echo it"}}));
        let reply = api.call_as(&key, method, &guest(path), body).await;
        assert_eq!(reply.status, 403, "{method} {path}");
    }

    // What is published no more is closed at once, also to calls that are warm, and to bindings.
    let bind = json!({"binding": {"namespace": "guest", "name": "util"}});
    api.call_as(&key, "PUT", "packages/mine", Some(bind)).await;
    let direct = guest("actions/util/echo?blocking=true");
    for path in [direct.as_str(), "actions/mine/echo?blocking=true"] {
        assert_eq!(api.call_as(&key, "POST", path, Some(json!({}))).await.status, 200, "{path}");
    }
    package(&api, "util", json!({"publish": false})).await;
    for path in [direct.as_str(), "actions/mine/echo?blocking=true"] {
        assert_eq!(api.call_as(&key, "POST", path, Some(json!({}))).await.status, 403, "{path}");
    }
    assert_eq!(api.call_as(&key, "GET", "packages/mine", None).await.refusal(), forbidden("util"));
    assert_eq!(api.blocking("util/echo", json!({})).await.status, 200, "its owner calls it as before");
}

#[tokio::test]
async fn what_is_not_shared_takes_no_room_in_the_list_of_what_is() {
    let api = Api::start().await;
    let key = api.other().await;
    let long = json!([{"key": "a", "value": "x".repeat(900_000)}]);
    for number in 0..10 {
        package(&api, &format!("private{number}"), json!({"annotations": long})).await;
        package(&api, &format!("util{number}"), json!({"publish": true})).await;
    }
    assert_eq!(api.get("packages").await.status, 400, "its owner sees all of them, in smaller parts");
    assert_eq!(api.get("packages?count=true").await.json(), json!({"packages": 20}));
    let guest = |query: &str| format!("/api/v1/namespaces/guest/packages{query}");
    let listed = api.call_as(&key, "GET", &guest(""), None).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let all = listed.json();
    assert!(names(&all).len() == 10 && names(&all).iter().all(|name| name.starts_with("util")), "{all}");
    let part = api.call_as(&key, "GET", &guest("?limit=2&skip=1"), None).await.json();
    assert_eq!(names(&part), names(&all)[1..3]);
    let count = api.call_as(&key, "GET", &guest("?count=true"), None).await.json();
    assert_eq!(count, json!({"packages": 10}));
}

#[tokio::test]
async fn a_package_with_too_much_in_it_says_how_its_actions_are_listed() {
    let api = Api::start().await;
    shared(&api).await;
    let long = json!([{"key": "a", "value": "x".repeat(900_000)}]);
    for number in 0..10 {
        let body = json!({"exec": {"kind": "nodejs:default", "code": "echo it"}, "annotations": long});
        let path = format!("actions/util/f{number}");
        assert_eq!(api.call("PUT", &path, Some(body)).await.status, 200);
        if number == 1 {
            assert_eq!(api.get("packages/util").await.status, 200, "one of some length is shown");
        }
    }
    let (status, text) = api.get("packages/util").await.refusal();
    let list = "/api/v1/namespaces/guest/actions/util/";
    let said = [format!("GET {list}?limit=20,"), "`wsk action list /guest/util -l 20`".to_owned()];
    assert!(status == 400 && said.iter().all(|step| text.contains(step.as_str())), "{text}");
    assert_eq!(names(&api.get(&format!("{list}?limit=5&skip=9")).await.json()).len(), 2, "of 11");
}

#[tokio::test]
async fn a_binding_whose_provider_is_gone_says_so() {
    let api = Api::start().await;
    shared(&api).await;
    package(&api, "mine", json!({"binding": {"namespace": "_", "name": "util"}})).await;
    assert_eq!(api.blocking("mine/echo", json!({})).await.status, 200);
    assert_eq!(api.call("DELETE", "packages/util?force=true", None).await.status, 200);
    let gone = (404, "The requested resource 'guest/util' does not exist.".to_owned());
    assert_eq!(api.get("packages/mine").await.refusal(), gone);
    assert_eq!(api.blocking("mine/echo", json!({})).await.refusal(), gone);
    let cause = api.get("actions/mine/echo").await.json()["cause"].clone();
    assert_eq!(cause, json!("'guest/mine' is bound to package 'guest/util', which does not exist"));
    assert_eq!(names(&api.get("packages").await.json()), ["mine"]);
    assert_eq!(api.call("DELETE", "packages/mine", None).await.status, 200);
}
