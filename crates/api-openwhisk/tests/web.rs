//! Contract §9: web actions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use axum::body::Body;
use flint_controller::{GUEST_KEY, PutCode, PutFunction};
use flint_model::{AliasTarget, Contract, StrategyRequest};
use http::Request;
use serde_json::{Value, json};
use support::{Api, Reply, basic, config, request};

const NOT_FOUND: &str = "The requested resource does not exist.";

/// Deploys a web action with this script and these further annotations.
async fn export(api: &Api, name: &str, script: &str, annotations: Value) {
    let mut all = vec![json!({"key": "web-export", "value": true})];
    for (key, value) in annotations.as_object().unwrap() {
        all.push(json!({"key": key, "value": value}));
    }
    let body = json!({"exec": {"kind": "nodejs:default", "code": script}, "annotations": all});
    let _ = api.call("DELETE", &format!("actions/{name}"), None).await;
    let reply = api.call("PUT", &format!("actions/{name}"), Some(body)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn web(method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let mut request = request(method, &format!("/api/v1/web/guest/default/{path}"), None, headers);
    *request.body_mut() = body.into();
    request
}

async fn get(api: &Api, path: &str) -> Reply {
    api.send(web("GET", path, &[], Body::empty())).await
}

/// What an echoing action was given, without what every request has.
async fn given(api: &Api, request: Request<Body>) -> Value {
    let reply = api.send(request).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let mut value = reply.json();
    for key in ["__ow_method", "__ow_headers", "__ow_path"] {
        assert!(value.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    value
}

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
async fn bodies_become_arguments() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    let send = async |content_type: &str, body: &str| {
        given(&api, web("POST", "f.json?q=1&a=query", &[("content-type", content_type)], body.to_owned()))
            .await
    };
    assert_eq!(send("application/json", r#"{"a":[1]}"#).await, json!({"q": "1", "a": [1]}));
    assert_eq!(send("application/x-www-form-urlencoded", "a=b+c").await, json!({"q": "1", "a": "b c"}));
    let alone = |body: Value| json!({"q": "1", "a": "query", "__ow_body": body});
    assert_eq!(send("application/json", "[1]").await, alone(json!([1])));
    assert_eq!(send("text/plain", "hi").await, alone(json!("hi")));
    assert_eq!(send("image/png", "hi").await, alone(json!("aGk=")));
    assert_eq!(given(&api, web("POST", "f.json?", &[], Body::empty())).await, json!({}));

    export(&api, "raw", "echo it", json!({"raw-http": true})).await;
    let raw = web("POST", "raw.json?q=1&__ow_user=me", &[("content-type", "application/json")], "{\"a\":1}");
    assert_eq!(
        given(&api, raw).await,
        json!({"__ow_query": "q=1&__ow_user=me", "__ow_body": "eyJhIjoxfQ=="})
    );
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    let send = async |content_type: &str, body: Vec<u8>| {
        api.send(web("POST", "f.json", &[("content-type", content_type)], body)).await.refusal()
    };
    for body in ["{", "nonsense", "{}{}"] {
        let (status, text) = send("application/json", body.into()).await;
        assert!(status == 400 && text.starts_with("The request content was malformed:\n"), "{body}: {text}");
    }
    assert_eq!(send("nonsense", "x".into()).await.0, 400);
    let large = vec![b'x'; (1 << 20) + 1];
    let text = "Request larger than allowed: 1048577 > 1048576 bytes.".to_owned();
    assert_eq!(send("text/plain", large.clone()).await, (413, text.clone()));
    let length = large.len().to_string();
    let request = web("POST", "f.json", &[("content-length", &length)], large);
    assert_eq!(api.send(request).await.refusal(), (413, text));
}

#[tokio::test]
async fn final_and_reserved_parameters_are_not_the_requests() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({"final": true})).await;
    let parameters = json!({"parameters": [{"key": "a", "value": 1}, {"key": "b", "value": null}]});
    api.call("PUT", "actions/f?overwrite=true", Some(parameters)).await;
    let text = "Request defines parameters that are not allowed (e.g., reserved properties).".to_owned();
    for path in ["f.json?a=2", "f.json?__ow_user=me", "f.json?__ow_body=", "f?__ow_method=x"] {
        assert_eq!(get(&api, path).await.refusal(), (400, text.clone()), "{path}");
    }
    for body in [json!({"a": 2}), json!({"__ow_query": 1})] {
        let request = web("POST", "f.json", &[("content-type", "application/json")], body.to_string());
        assert_eq!(api.send(request).await.refusal(), (400, text.clone()), "{body}");
    }
    let open = given(&api, web("GET", "f.json?b=2&__ow_mine=3", &[], Body::empty())).await;
    assert_eq!(open, json!({"a": 1, "b": "2", "__ow_mine": "3"}));
}

#[tokio::test]
async fn results_become_answers() {
    let api = Api::start().await;
    for (script, extension, status, media, body) in [
        (r#"answer {"body":"<p>"}"#, "", 200, Some("text/html; charset=UTF-8"), "<p>"),
        (r#"answer {"body":"<p>"}"#, ".http", 200, Some("text/html; charset=UTF-8"), "<p>"),
        (r#"answer {}"#, ".http", 204, None, ""),
        (
            r#"answer {"statusCode":"444","headers":{"content-type":"text/plain"},"body":"x"}"#,
            ".http",
            444,
            Some("text/plain; charset=UTF-8"),
            "x",
        ),
        (r#"answer {"body":{"n":1.10}}"#, ".http", 200, Some("application/json"), r#"{"n":1.10}"#),
        (r#"answer {"n":1.10}"#, ".json", 200, Some("application/json"), r#"{"n":1.10}"#),
        ("answer [1]", ".json", 200, Some("application/json"), "[1]"),
        (r#"answer {"html":"<p>"}"#, ".html", 200, Some("text/html; charset=UTF-8"), "<p>"),
        (r#"answer {"svg":"<svg/>"}"#, ".svg", 200, Some("image/svg+xml"), "<svg/>"),
        (r#"answer {"text":[1]}"#, ".text", 200, Some("text/plain; charset=UTF-8"), "[\n  1\n]"),
        // An error of the action's own is projected the same way.
        (r#"answer {"error":{"a":1}}"#, ".json", 200, Some("application/json"), r#"{"a":1}"#),
        (r#"answer {"error":{"statusCode":418}}"#, ".http", 418, None, ""),
        (r#"answer {"error":"mine"}"#, ".text", 200, Some("text/plain; charset=UTF-8"), "mine"),
    ] {
        export(&api, "f", script, json!({})).await;
        let reply = get(&api, &format!("f{extension}")).await;
        let shown = (reply.status, reply.header("content-type"), reply.text.as_str());
        assert_eq!(shown, (status, media, body), "{script} {extension}");
        reply.activation();
    }
}

#[tokio::test]
async fn results_that_are_no_answer_are_refused() {
    let api = Api::start().await;
    for (script, extension, status, text) in [
        ("answer [1]", ".http", 400, "Response is not valid 'message/http'."),
        (r#"answer {"statusCode":"x"}"#, ".http", 400, "Response is not valid 'message/http'."),
        (
            r#"answer {"headers":{"content-type":"x"},"body":"x"}"#,
            ".http",
            400,
            "Response did not specify a known content-type.",
        ),
        (
            r#"answer {"headers":{"content-type":"image/png"},"body":"!"}"#,
            ".http",
            400,
            "Response type in header did not match generated content type.",
        ),
        (r#"answer {"error":7}"#, ".json", 400, "Response is not valid 'application/json'."),
        ("answer {}", ".html", 400, "Response is not valid 'text/html'."),
        ("answer {}", ".svg", 400, "Response is not valid 'image/svg+xml'."),
        ("answer {}", ".text", 404, "Response does not include requested property."),
        ("throw boom", ".http", 400, "There was an error processing your request."),
        ("exit now", ".json", 400, "There was an error processing your request."),
        ("init-platform no memory", ".text", 400, "There was an error processing your request."),
    ] {
        export(&api, "f", script, json!({})).await;
        let reply = get(&api, &format!("f{extension}")).await;
        assert_eq!(reply.refusal(), (status, text.to_owned()), "{script} {extension}");
        assert!(reply.text.starts_with("{\n  \"error\""), "with line breaks: {}", reply.text);
        reply.activation();
    }
}

#[tokio::test]
async fn headers_of_the_action_are_sent() {
    let api = Api::start().await;
    let result = json!({"headers": {"Set-Cookie": ["a=1", "b=2"], "x-number": 7, "connection": "close",
                                    "X-OpenWhisk-Activation-Id": "mine"}, "body": "x"});
    export(&api, "f", &format!("answer {result}"), json!({})).await;
    let reply = get(&api, "f").await;
    let cookies: Vec<_> = reply.headers.get_all("set-cookie").iter().map(|v| v.to_str().unwrap()).collect();
    assert_eq!((cookies, reply.header("x-number")), (vec!["a=1", "b=2"], Some("7")));
    assert_eq!((reply.header("connection"), reply.activation().len()), (None, 32));
}

#[tokio::test]
async fn an_answer_that_the_client_does_not_take_is_406() {
    let api = Api::start().await;
    export(&api, "f", r#"answer {"body":"<p>"}"#, json!({})).await;
    for (accept, path, status) in [
        ("text/html", "f", 200),
        ("text/*", "f.html", 200),
        ("*/*;q=0.1", "f.json", 200),
        ("application/json", "f.html", 406),
        ("image/png, text/plain", "f", 406),
        ("text/html", "f.json", 406),
    ] {
        let reply = api.send(web("GET", path, &[("accept", accept)], Body::empty())).await;
        assert_eq!(reply.status, status, "{accept} {path}");
        if status == 406 {
            let text = reply.refusal().1;
            assert!(
                text.starts_with("Resource representation is only available with these types:\n"),
                "{text}"
            );
            reply.activation();
        }
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_goes_on_by_itself() {
    let mut impatient = config();
    impatient.limits.bounds.max_blocking_wait = std::time::Duration::from_millis(20);
    let api = Api::with(impatient).await;
    export(&api, "f", "wait here", json!({})).await;
    let reply = get(&api, "f.json").await;
    assert_eq!(reply.refusal(), (202, "Response not yet ready.".to_owned()));
    support::eventually("the call", || async {
        (!api.server.executor.calls_of("guest/f").is_empty()).then_some(())
    })
    .await;
    api.server.executor.go();
    assert_eq!(api.record(&reply.activation()).await["response"]["result"], json!({"waited": true}));
}

const CORS: &str = "access-control-allow-origin";

#[tokio::test]
async fn pages_of_other_sites_may_ask_unless_the_action_says_otherwise() {
    let api = Api::start().await;
    export(&api, "f", r#"answer {"headers":{"Access-Control-Allow-Origin":"https://mine"}}"#, json!({}))
        .await;
    let all = "Authorization, Origin, X-Requested-With, Content-Type, Accept, User-Agent";
    for (method, status, asked, allowed) in [
        ("OPTIONS", 200, Some("x-a, x-b"), "x-a, x-b"),
        ("OPTIONS", 200, None, all),
        ("GET", 204, Some("x-a"), "x-a"),
        ("GET", 204, None, all),
    ] {
        let headers: Vec<_> =
            asked.map(|asked| ("access-control-request-headers", asked)).into_iter().collect();
        let reply = api.send(web(method, "f", &headers, Body::empty())).await;
        assert_eq!((reply.status, reply.header(CORS), reply.text.as_str()), (status, Some("*"), ""));
        assert_eq!(reply.header("access-control-allow-headers"), Some(allowed));
        let methods = "OPTIONS, GET, DELETE, POST, PUT, HEAD, PATCH";
        assert_eq!(reply.header("access-control-allow-methods"), Some(methods));
    }
    assert_eq!(api.server.executor.calls_of("guest/f").len(), 2, "OPTIONS did not run it");
}

#[tokio::test]
async fn an_action_may_answer_options_itself() {
    let api = Api::start().await;
    let result = json!({"headers": {"Access-Control-Allow-Origin": "https://mine"}, "body": "x"});
    let annotations = json!({"web-custom-options": true, "require-whisk-auth": "s3cret"});
    export(&api, "f", &format!("answer {result}"), annotations).await;
    let reply = api.send(web("OPTIONS", "f", &[], Body::empty())).await;
    assert_eq!((reply.status, reply.header(CORS), reply.text.as_str()), (200, Some("https://mine"), ""));
    assert_eq!(reply.header("access-control-allow-methods"), None, "the platform says nothing");
    reply.activation();
    assert_eq!(api.send(web("GET", "f", &[], Body::empty())).await.refusal().0, 401);
    let open = api.send(web("GET", "f", &[("x-require-whisk-auth", "s3cret")], Body::empty())).await;
    assert_eq!((open.status, open.header(CORS)), (200, Some("https://mine")));
}

#[tokio::test]
async fn a_stream_is_passed_on() {
    let api = Api::start().await;
    export(&api, "f", "stream 3", json!({})).await;
    let reply = get(&api, "f.http").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/plain")));
    assert_eq!(reply.text, "piece 0\npiece 1\npiece 2\n");
    assert_eq!(reply.header(CORS), Some("*"));
    api.record(&reply.activation()).await;
    // What is to be JSON has to be JSON.
    assert_eq!(get(&api, "f.json").await.refusal().0, 400);
}

#[tokio::test]
async fn a_function_that_speaks_http_gets_the_request_and_gives_the_answer() {
    let api = Api::start().await;
    let deploy = async |code: &str| {
        let put = PutFunction {
            overwrite: true,
            code: Some(PutCode {
                kind: "nodejs".into(),
                content: code.to_owned().into(),
                format: None,
                main: None,
            }),
            annotations: serde_json::from_value(json!([{"key": "web-export", "value": true}])).unwrap(),
            strategy: StrategyRequest { contract: Some(Contract::Http), ..StrategyRequest::default() },
            ..PutFunction::default()
        };
        let caller = api.server.guest().await;
        api.server.controller.put_function(&caller, "guest/f".parse().unwrap(), put, &|_| {}).await.unwrap();
    };
    deploy("http 418:text/teapot {\"statusCode\":200}").await;
    let large = "x".repeat(2 << 20);
    let reply = api.send(web("POST", "f/a?q=1", &[("content-type", "text/plain")], large.clone())).await;
    let shown = (reply.status, reply.header("content-type"), reply.text.as_str());
    assert_eq!(
        shown,
        (418, Some("text/teapot"), "{\"statusCode\":200}"),
        "its answer is not read as a projection"
    );
    assert_eq!(
        api.server.executor.calls_of("guest/f"),
        [large],
        "the body as it came, beyond the limit of JSON"
    );
    let given = api.send(web("GET", "f.json", &[], Body::empty())).await;
    assert_eq!(given.refusal().0, 400, "another extension asks for JSON: the arguments and the result");
    assert!(api.server.executor.calls_of("guest/f")[1].contains("__ow_method"));
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
