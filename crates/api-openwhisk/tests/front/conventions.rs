//! Contract §1: authentication, headers, errors, names, lists.

use axum::body::Body;
use flint_controller::GUEST_KEY;
use serde_json::json;

use crate::support::{self, Api, basic, config, request};

const NOT_SUPPLIED: &str = "The resource requires authentication, which was not supplied with the request";
const INVALID: &str = "The supplied authentication is invalid";

#[tokio::test]
async fn who_is_not_known_is_told_how_to_be() {
    let api = Api::start().await;
    let (id, secret) = GUEST_KEY.split_once(':').unwrap();
    let other_id = "11111111-71f6-4ed5-8c54-816aa4f8c502";
    for (header, text) in [
        (None, NOT_SUPPLIED),
        (Some("Bearer x".to_owned()), INVALID),
        (Some("Basic !".to_owned()), INVALID),
        (Some(basic("x")), INVALID),
        (Some(basic(&format!("{id}:{}", &secret[1..]))), INVALID),
        (Some(basic(&format!("{id}:{secret}x"))), INVALID),
        (Some(basic(&format!("{id}:{}", "a".repeat(64)))), INVALID),
        (Some(basic(&format!("{other_id}:{secret}"))), INVALID),
    ] {
        let headers: Vec<_> = header.iter().map(|value| ("authorization", value.as_str())).collect();
        for path in
            ["actions", "actions/x", "activations", "/api/v1/namespaces", "/api/v1/namespaces/guest/limits"]
        {
            let reply = api.send(request("GET", path, None, &headers)).await;
            assert_eq!(reply.refusal(), (401, text.to_owned()), "{header:?} {path}");
            assert_eq!(reply.header("www-authenticate"), Some("Basic realm=\"OpenWhisk secure realm\""));
        }
    }
}

#[tokio::test]
async fn without_loopback_the_guest_key_does_not_work_also_where_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let server = support::Server::start(dir.path(), config()).await;
    assert!(server.controller.authenticate(GUEST_KEY).await.is_ok());
    assert!(!server.controller.has_own_keys().await.unwrap());
    server.stop().await;
    let closed = flint_controller::ControllerConfig { guest: false, ..config() };
    let server = support::Server::start(dir.path(), closed).await;
    assert!(server.controller.authenticate(GUEST_KEY).await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn a_blocked_namespaces_keys_and_deleted_keys_stop_working_at_once() {
    let api = Api::start().await;
    let controller = &api.server.controller;
    let key = api.other().await;
    let name = "other".parse().unwrap();
    let status = async || api.call_as(&key, "GET", "actions", None).await.status;
    assert_eq!(status().await, 200);
    controller.set_blocked(&name, true).await.unwrap();
    assert_eq!(status().await, 401);
    controller.set_blocked(&name, false).await.unwrap();
    assert_eq!(status().await, 200);
    let id = controller.keys(&name).await.unwrap()[0].id;
    controller.delete_key(&name, id).await.unwrap();
    assert_eq!(status().await, 401);
}

#[tokio::test]
async fn what_needs_no_key_needs_none() {
    let api = Api::start().await;
    for path in ["/", "/ping", "/api/v1", "/api/v1/", "/invokers"] {
        assert_eq!(api.send(request("GET", path, None, &[])).await.status, 200, "{path}");
    }
    for path in ["/api/v1/namespaces/_/actions/x", "/api/v1/no/such/path", "/api/v1"] {
        let reply = api.send(request("OPTIONS", path, None, &[])).await;
        assert_eq!((reply.status, reply.text.as_str()), (200, ""), "{path}");
        assert_eq!(reply.header("access-control-allow-methods"), Some("GET, DELETE, POST, PUT, HEAD"));
    }
}

#[tokio::test]
async fn every_answer_carries_its_transaction_and_cors() {
    let api = Api::start().await;
    for path in ["/ping", "actions", "actions/missing", "/no/such"] {
        let reply = api.get(path).await;
        let id = reply.header("x-request-id").unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{path}: {id}");
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(
            reply.header("access-control-allow-headers"),
            Some("Authorization, Origin, X-Requested-With, Content-Type, Accept, User-Agent")
        );
    }
    let auth = basic(GUEST_KEY);
    for (sent, kept) in [("0123456789abcdef0123456789abcdef", true), ("sid_main", false), ("a b", false)] {
        let headers = [("x-request-id", sent), ("authorization", auth.as_str())];
        let reply = api.send(request("GET", "actions/missing", None, &headers)).await;
        assert_eq!(reply.header("x-request-id") == Some(sent), kept, "{sent}");
        assert_eq!(reply.refusal(), (404, "The requested resource does not exist.".to_owned()));
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_the_apis_form() {
    let api = Api::start().await;
    for path in ["/x", "/api/v1/x", "/api/v1/namespaces/_/x", "/api/v1/namespaces/_/activations/1/x"] {
        let expected = (404, "The requested resource could not be found.".to_owned());
        assert_eq!(api.get(path).await.refusal(), expected, "{path}");
    }
    for (method, path, methods) in [
        ("POST", "/api/v1/namespaces", "GET"),
        ("PUT", "/api/v1/namespaces/_/limits", "GET"),
        ("POST", "activations", "GET"),
        ("DELETE", "activations/00000000000000000000000000000000", "GET"),
        ("PUT", "actions", "GET"),
        ("PATCH", "actions/x", "GET, PUT, DELETE, POST"),
    ] {
        let reply = api.call(method, path, None).await;
        let text = format!("HTTP method not allowed, supported methods: {methods}");
        assert_eq!(reply.refusal(), (405, text), "{method} {path}");
        assert_eq!(reply.header("allow"), Some(methods));
    }
}

#[tokio::test]
async fn names_are_checked_with_the_texts_of_the_api() {
    let api = Api::start().await;
    let illegal = "The name of the entity contains illegal characters.".to_owned();
    for name in ["%20a", "a%20", "-a", "a%2Fb", "%C3%A9", "a%00", "%zz", "%2e%2e"] {
        assert_eq!(api.get(&format!("actions/{name}")).await.refusal(), (400, illegal.clone()), "{name}");
    }
    let long = format!("actions/{}", "a".repeat(257));
    let text = "Name segement longer than allowed: 257 > 256.".to_owned();
    assert_eq!(api.get(&long).await.refusal(), (400, text));
    let text = "The namespace contains illegal characters.".to_owned();
    assert_eq!(api.get("/api/v1/namespaces/-/actions").await.refusal(), (400, text));
    let path = format!("/api/v1/namespaces/{}/actions", "n".repeat(300));
    assert_eq!(api.get(&path).await.refusal(), (400, "Namespace longer than allowed: 300 > 256.".to_owned()));
    for name in ["a%20b", "R%26D", "x@y.z-1", "_", &"a".repeat(256)] {
        let body = json!({"exec": {"kind": "nodejs:20", "code": "echo it"}});
        let reply = api.call("PUT", &format!("actions/{name}?"), Some(body)).await;
        assert_eq!(reply.status, 200, "{name}: {reply:?}");
        assert_eq!(api.get(&format!("actions/{name}")).await.status, 200, "{name}");
    }
    for own in ["_", "%5F", "guest", "%67uest"] {
        assert_eq!(api.get(&format!("/api/v1/namespaces/{own}/limits")).await.status, 200, "{own}");
    }
}

#[tokio::test]
async fn lists_are_paged_newest_first() {
    let api = Api::start().await;
    for number in 0..5 {
        api.action(&format!("f{number}"), "echo it").await;
        // `updated` has milliseconds.
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    api.action("f1", "echo it").await;
    let names = async |query: &str| {
        let list = api.get(&format!("actions{query}")).await.json();
        list.as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["f1", "f4", "f3", "f2", "f0"]);
    assert_eq!(names("?limit=2&skip=1").await, ["f4", "f3"]);
    assert_eq!(names("?limit=0").await.len(), 5);
    assert_eq!(api.get("actions?count=true").await.text, r#"{"actions":5}"#);
    assert_eq!(api.get("actions?count=true&skip=3").await.text, r#"{"actions":2}"#);
    for (list, parameter, query, detail) in [
        ("actions", "limit", "limit=201", "The value '201' is not in the range of 0 to 200 for actions."),
        (
            "activations",
            "limit",
            "limit=201",
            "The value '201' is not in the range of 0 to 200 for activations.",
        ),
        ("packages", "skip", "skip=-1", "The value '-1' is not greater than or equal to 0 for packages."),
        ("rules", "limit", "limit=x", "The value 'x' is not an integer for rules."),
        ("triggers", "count", "count=perhaps", "'perhaps' is not a valid Boolean value"),
    ] {
        let text = format!("The query parameter '{parameter}' was malformed:\n{detail}");
        assert_eq!(api.get(&format!("{list}?{query}")).await.refusal(), (400, text), "{list} {query}");
    }
}

#[tokio::test]
async fn one_number_makes_a_version() {
    let api = Api::start().await;
    api.call("PUT", "triggers/for-rule", Some(json!({}))).await;
    api.action("for-rule-f", "echo it").await;
    for (path, mut body) in [
        ("packages/x", json!({})),
        ("actions/x-f", json!({"exec": {"kind": "nodejs", "code": "echo it"}})),
        ("actions/x-s", json!({"exec": {"kind": "sequence", "components": ["/_/for-rule-f"]}})),
        ("triggers/x-t", json!({})),
        ("rules/x-r", json!({"trigger": "/_/for-rule", "action": "/_/for-rule-f"})),
    ] {
        let path = format!("{path}?overwrite=true");
        for (sent, told) in [(json!("1.0"), "1.0.0"), (json!(null), "1.0.1"), (json!("2"), "2.0.0")] {
            body["version"] = sent;
            let reply = api.call("PUT", &path, Some(body.clone())).await;
            assert_eq!((reply.status, &reply.json()["version"]), (200, &json!(told)), "{path} {reply:?}");
        }
        body["version"] = json!("0.0");
        let (status, text) = api.call("PUT", &path, Some(body)).await.refusal();
        assert!(
            status == 400 && text.contains("'0.0' is not a version: write one to three numbers"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn bodies_that_are_not_what_they_should_be_are_refused() {
    let api = Api::start().await;
    let auth = basic(GUEST_KEY);
    let send = async |content_type: Option<&str>, body: &str| {
        let mut request = request("PUT", "actions/x", None, &[("authorization", &auth)]);
        if let Some(content_type) = content_type {
            request.headers_mut().insert("content-type", content_type.parse().unwrap());
        }
        *request.body_mut() = Body::from(body.to_owned());
        api.send(request).await.refusal()
    };
    let (status, text) = send(Some("application/json"), "{").await;
    assert!(status == 400 && text.starts_with("The request content was malformed:\n"), "{text}");
    assert_eq!(send(Some("application/json"), "").await.0, 400);
    assert_eq!(send(Some("application/json"), "[]").await.0, 400);
    let expected = "The request's Content-Type is not supported. Expected:\napplication/json".to_owned();
    assert_eq!(send(Some("text/plain"), "{}").await, (415, expected));
    assert_eq!(send(Some("application/json; charset=utf-8"), "{}").await, (400, "exec undefined".to_owned()));
    assert_eq!(send(None, "{}").await, (400, "exec undefined".to_owned()));
    for body in [json!({"parameters": {"a": 1}}), json!({"annotations": {"a": 1}}), json!({"limits": 1})] {
        let (status, text) = api.call("PUT", "actions/x", Some(body)).await.refusal();
        assert!(status == 400 && text.starts_with("The request content was malformed:\n"), "{text}");
    }
}
