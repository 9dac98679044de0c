//! Contract §9.1, §9.2, §9.6: which actions are open to the web, to whom, and on whose account they run.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use flint_controller::GUEST_KEY;
use flint_model::AliasTarget;
use futures_util::{StreamExt, future::join_all, stream};
use serde_json::{Value, json};

use crate::support::{
    Api, basic, config, eventually, request,
    web::{export, get, web},
};

const NOT_FOUND: &str = "The requested resource does not exist.";

#[tokio::test]
async fn what_is_not_open_to_the_web_is_not_there() {
    let api = Api::start().await;
    api.action("closed", "echo it").await;
    let off = json!({"exec": {"kind": "nodejs", "code": "echo it"},
                     "annotations": [{"key": "web-export", "value": false}]});
    api.call("PUT", "actions/off", Some(off.clone())).await;
    let text = json!({"exec": {"kind": "nodejs", "code": "echo it"},
                      "annotations": [{"key": "web-export", "value": "true"}]});
    api.call("PUT", "actions/text", Some(text)).await;
    export(&api, "open", "echo it", json!({})).await;
    for path in [
        "/api/v1/web",
        "/api/v1/web/",
        "/api/v1/web/guest",
        "/api/v1/web/guest/default",
        "/api/v1/web/guest/default/closed",
        "/api/v1/web/guest/default/closed.json",
        "/api/v1/web/guest/default/off.json",
        "/api/v1/web/guest/default/text.json",
        "/api/v1/web/guest/default/none.json",
        "/api/v1/web/guest/nopackage/open.json",
        "/api/v1/web/nobody/default/open.json",
        "/api/v1/web/_/default/open.json",
        "/api/v1/web/guest/default/open.xml",
        "/api/v1/web/gu%2fest/default/open.json",
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            let reply = api.send(request(method, path, None, &[])).await;
            assert_eq!(reply.refusal(), (404, NOT_FOUND.to_owned()), "{method} {path}");
            assert!(reply.header("x-openwhisk-activation-id").is_none());
        }
    }
    assert_eq!(get(&api, "open.json").await.status, 200);
    api.call("PUT", "actions/open?overwrite=true", Some(json!({"annotations": off["annotations"]}))).await;
    assert_eq!(get(&api, "open.json").await.status, 404, "what is closed is closed at once");
}

#[tokio::test]
async fn every_method_runs_the_action() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"] {
        let reply = api.send(web(method, "f.json/a/b?x=1", &[("x-mine", "2")], Body::empty())).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{method}");
        let given: Value =
            serde_json::from_str(api.server.executor.calls_of("guest/f").last().unwrap()).unwrap();
        let shown = if method == "HEAD" { String::new() } else { given.to_string() };
        assert_eq!(reply.text, shown, "{method}");
        assert_eq!(given["__ow_method"], method.to_lowercase(), "{method}");
        assert_eq!((&given["__ow_path"], &given["x"]), (&json!("/a/b"), &json!("1")));
        assert_eq!(given["__ow_headers"]["x-mine"], "2");
        assert_eq!(api.record(&reply.activation()).await["name"], "f", "{method}");
        assert_eq!(reply.header("x-request-id").unwrap().len(), 32);
    }
    let reply = api.send(web("TRACE", "f.json", &[], Body::empty())).await;
    let methods = "GET, DELETE, POST, PUT, HEAD, OPTIONS, PATCH";
    assert_eq!(reply.refusal(), (405, format!("HTTP method not allowed, supported methods: {methods}")));
}

#[tokio::test]
async fn it_runs_on_its_owners_account() {
    let mut small = config();
    small.limits.concurrent_invocations = 1000;
    let api = Api::with(small).await;
    let other = api.namespace("other", json!({"invocationsPerMinute": 2})).await;
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"},
                      "annotations": [{"key": "web-export", "value": true}]});
    assert_eq!(api.call_as(&other, "PUT", "actions/f", Some(body)).await.status, 200);
    let path = "/api/v1/web/other/default/f.json";
    let reply = api.send(request("GET", path, None, &[("authorization", &basic(GUEST_KEY))])).await;
    assert_eq!((reply.status, &reply.json()["__ow_user"]), (200, &json!("guest")));
    assert_eq!(reply.json()["__ow_headers"].get("authorization"), None, "the caller's key is not for it");
    let mine = api.call_as(&other, "GET", &format!("activations/{}", reply.activation()), None).await;
    assert_eq!((mine.status, &mine.json()["namespace"]), (200, &json!("other")));
    assert_eq!(api.get(&format!("activations/{}", reply.activation())).await.status, 404);
    let bearer = [("authorization", format!("Bearer {GUEST_KEY}"))];
    let bearer: Vec<_> = bearer.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let reply = api.send(request("GET", path, None, &bearer)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["__ow_headers"].get("authorization"), None, "nor in the way of Flint's own API");
    // A minute may end meanwhile; then it begins anew once.
    let mut refused = Vec::new();
    for _ in 0..4 {
        let reply = api.send(request("GET", path, None, &[])).await;
        refused.extend((reply.status == 429).then(|| reply.refusal().1));
    }
    assert!(refused.len() >= 2, "{refused:?}");
    assert!(refused[0].starts_with("Too many requests in the last minute (count: "), "{refused:?}");
    assert!(refused[0].ends_with(", allowed: 2)."), "{refused:?}");
    let name = "other".parse().unwrap();
    api.server.controller.set_blocked(&name, true).await.unwrap();
    let blocked = api.send(request("GET", path, None, &[])).await;
    assert_eq!(blocked.refusal().0, 404, "a blocked namespace serves nobody");
    api.server.controller.delete_namespace(&name).await.unwrap();
    assert_eq!(api.send(request("GET", path, None, &[])).await.refusal().0, 404);
}

#[tokio::test]
async fn who_has_no_valid_key_is_anybody() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    let wrong = basic(&GUEST_KEY.replace("123zO3", "000000"));
    for header in ["Basic nonsense", "Bearer mine", &wrong] {
        let given = api.send(web("GET", "f.json", &[("authorization", header)], Body::empty())).await.json();
        assert_eq!(given.get("__ow_user"), None, "{header}");
        assert_eq!(given["__ow_headers"]["authorization"], header, "an action may have keys of its own");
    }
}

#[tokio::test]
async fn the_key_of_a_blocked_namespace_is_nobodys_and_not_shown() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    let other = basic(&api.namespace("other", json!({})).await);
    api.server.controller.set_blocked(&"other".parse().unwrap(), true).await.unwrap();
    let reply = api.send(web("GET", "f.json", &[("authorization", &other)], Body::empty())).await;
    assert_eq!(reply.status, 200);
    let given = reply.json();
    assert_eq!((given.get("__ow_user"), given["__ow_headers"].get("authorization")), (None, None));
}

#[tokio::test]
async fn an_action_may_ask_for_a_key_or_a_secret() {
    let api = Api::start().await;
    let guest = basic(GUEST_KEY);
    let key = ("authorization", guest.as_str());
    let secret = |value| ("x-require-whisk-auth", value);
    for (annotation, headers, status) in [
        (json!(true), vec![], 401),
        (json!(true), vec![secret("true")], 401),
        (json!(true), vec![key], 200),
        (json!("s3cret"), vec![key], 401),
        (json!("s3cret"), vec![secret("s3cret")], 200),
        (json!(7), vec![secret("7")], 200),
        (json!(7), vec![secret("8")], 401),
        (json!(false), vec![], 200),
        (json!({"a": 1}), vec![key, secret("x")], 401),
    ] {
        export(&api, "f", "echo it", json!({"require-whisk-auth": annotation})).await;
        let reply = api.send(web("GET", "f.json", &headers, Body::empty())).await;
        assert_eq!(reply.status, status, "{annotation} {headers:?}");
        if status == 401 {
            reply.refusal();
            assert!(reply.header("x-openwhisk-activation-id").is_none(), "it did not run");
        }
    }
}

#[tokio::test]
async fn a_web_action_is_what_live_says_and_old_versions_are_not_open_by_number() {
    let api = Api::start().await;
    export(&api, "f", r#"answer {"n":"old"}"#, json!({})).await;
    api.action("f", r#"answer {"n":"new"}"#).await;
    assert_eq!(get(&api, "f.json").await.json(), json!({"n": "new"}));
    let owner = api.blocking("f@0.0.1", json!({})).await;
    assert_eq!(owner.json()["response"]["result"], json!({"n": "old"}));
    let (caller, path) = (api.server.guest().await, "guest/f".parse().unwrap());
    let live = async |name: &str, number: &str| {
        let target = AliasTarget { version: number.parse().unwrap(), weight: 1 };
        api.server.controller.set_alias(&caller, &path, name.parse().unwrap(), vec![target]).await.unwrap();
    };
    live("old", "0.0.1").await;
    for closed in ["f@0.0.1.json", "f@0.0.2.json", "f@old.json", "f@0.0.1.http"] {
        assert_eq!(get(&api, closed).await.refusal(), (404, NOT_FOUND.to_owned()), "{closed}");
    }
    live("live", "0.0.1").await;
    assert_eq!(get(&api, "f.json").await.json(), json!({"n": "old"}));
    // What the version that runs says about the web counts, not what the newest does.
    let closing = json!({"annotations": [{"key": "web-export", "value": false}]});
    assert_eq!(api.call("PUT", "actions/f?overwrite=true", Some(closing)).await.status, 200);
    assert_eq!(get(&api, "f.json").await.json(), json!({"n": "old"}));
    live("live", "0.0.3").await;
    assert_eq!(get(&api, "f.json").await.refusal(), (404, NOT_FOUND.to_owned()));
}

#[tokio::test]
async fn a_namespace_has_a_host_of_its_own() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    api.call("PUT", "packages/public", Some(json!({}))).await;
    let body = json!({"exec": {"kind": "nodejs", "code": r#"answer {"html":"<p>home"}"#},
                      "annotations": [{"key": "web-export", "value": true}]});
    assert_eq!(api.call("PUT", "actions/public/index", Some(body)).await.status, 200);
    let at = async |host: &str, path: &str| api.send(request("GET", path, None, &[("host", host)])).await;
    let reply = at("guest.faas.example.com", "/").await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "<p>home"));
    let given = at("guest.faas.example.com:80", "/default/f.json/x?q=1").await.json();
    assert_eq!((&given["__ow_path"], &given["q"]), (&json!("/x"), &json!("1")));
    assert_eq!(
        at("guest.faas.example.com", "/api/v1").await.refusal().0,
        404,
        "it has nothing but web actions"
    );
    assert_eq!(at("nobody.faas.example.com", "/").await.refusal().0, 404);
    assert_eq!(at("faas.example.com", "/api/v1").await.status, 200);
}

#[tokio::test]
async fn an_action_of_a_package_is_open_directly_and_through_a_binding() {
    let api = Api::start().await;
    let other = api.other().await;
    let package = json!({"publish": true, "parameters": [{"key": "from", "value": "package"}, {"key": "a", "value": 1}]});
    assert_eq!(api.call("PUT", "packages/p", Some(package)).await.status, 200);
    let body = json!({"exec": {"kind": "nodejs", "code": "echo it"},
                      "annotations": [{"key": "web-export", "value": true}, {"key": "final", "value": true}]});
    assert_eq!(api.call("PUT", "actions/p/f", Some(body)).await.status, 200);
    let binding = json!({"binding": {"namespace": "guest", "name": "p"},
                         "parameters": [{"key": "from", "value": "binding"}]});
    assert_eq!(api.call_as(&other, "PUT", "packages/bound", Some(binding)).await.status, 200);
    for (path, from, account) in [("guest/p", "package", "guest"), ("other/bound", "binding", "other")] {
        let reply = api.send(request("GET", &format!("/api/v1/web/{path}/f.json"), None, &[])).await;
        assert_eq!((reply.status, &reply.json()["from"], &reply.json()["a"]), (200, &json!(from), &json!(1)));
        let key = if account == "guest" { GUEST_KEY } else { &other };
        let record = api.call_as(key, "GET", &format!("activations/{}", reply.activation()), None).await;
        assert_eq!((record.status, &record.json()["namespace"]), (200, &json!(account)), "{path}");
        let fixed = api.send(request("GET", &format!("/api/v1/web/{path}/f.json?a=2"), None, &[])).await;
        assert_eq!(fixed.refusal().0, 400, "a package's parameters are final too");
    }
    let hidden = json!({"publish": false});
    api.call("PUT", "packages/p?overwrite=true", Some(hidden)).await;
    let gone = api.send(request("GET", "/api/v1/web/other/bound/f.json", None, &[])).await;
    assert_eq!(gone.refusal(), (404, NOT_FOUND.to_owned()));
}

#[tokio::test]
async fn a_sequence_is_a_web_action_too() {
    let api = Api::start().await;
    api.action("first", "echo it").await;
    api.action("last", r#"answer {"statusCode":201,"body":"done"}"#).await;
    let body = json!({"exec": {"kind": "sequence", "components": ["/_/first", "/_/last"]},
                      "annotations": [{"key": "web-export", "value": true}]});
    assert_eq!(api.call("PUT", "actions/both", Some(body)).await.status, 200);
    let reply = get(&api, "both?q=1").await;
    assert_eq!((reply.status, reply.text.as_str()), (201, "done"));
    let record = api.record(&reply.activation()).await;
    assert_eq!((&record["name"], record["logs"].as_array().map(Vec::len)), (&json!("both"), Some(2)));
    let first: Value = serde_json::from_str(&api.server.executor.calls_of("guest/first")[0]).unwrap();
    assert_eq!((&first["q"], &first["__ow_method"]), (&json!("1"), &json!("get")));
}

#[tokio::test]
async fn bodies_that_stall_do_not_fill_the_memory_and_leave_room_to_other_owners() {
    const KB: usize = 1 << 10;
    let api = Api::with_room_for(256 * KB).await;
    let key = api.namespace("other", json!({})).await;
    let echo = json!({"exec": {"kind": "nodejs:default", "code": "echo it"},
                      "annotations": [{"key": "web-export", "value": true}]});
    api.call("PUT", "actions/f", Some(echo.clone())).await;
    api.call_as(&key, "PUT", "/api/v1/namespaces/other/actions/f", Some(echo)).await;
    let pieces =
        |kb: usize| stream::iter([kb; 2]).map(|kb| Ok::<_, io::Error>(Bytes::from(vec![b'x'; kb * KB])));
    let stalls = || {
        let stalls = pieces(64).take(1).chain(stream::pending());
        web("POST", "f.json", &[], Body::from_stream(stalls))
    };
    let comes = |owner: &str, kb| {
        let mut request = request("POST", &format!("/api/v1/web/{owner}/default/f.json"), None, &[]);
        request.headers_mut().insert("content-type", "text/plain".parse().unwrap());
        *request.body_mut() = Body::from_stream(pieces(kb));
        api.send(request)
    };
    let held = join_all((0..3).map(|_| api.send(stalls())));
    let others = async {
        let refused = eventually("a refusal", || async {
            let reply = comes("guest", 10).await;
            (reply.status != 200).then_some(reply)
        });
        let refused = refused.await;
        assert_eq!((refused.refusal().0, refused.header("retry-after")), (503, Some("5")), "{refused:?}");
        assert!(refused.text.contains("large bodies are arriving"), "{refused:?}");
        for (owner, kb) in [("guest", 8), ("other", 10)] {
            assert_eq!(comes(owner, kb).await.status, 200, "{owner}");
        }
    };
    tokio::select! {
        late = held => panic!("{late:?}"),
        () = others => {}
    }
}
