//! Contract §9.3, §9.4, §9.5, §9.7: what a web action is given, and what becomes of its result.

use axum::body::Body;
use bytes::Bytes;
use flint_controller::{PutCode, PutFunction};
use flint_model::{ByteSize, Contract, StrategyRequest};
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};

use crate::support::{
    self, Api, config,
    web::{export, get, given, web},
};

const CORS: &str = "access-control-allow-origin";

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
    let mut bounded = config();
    bounded.limits.bounds.max_body = ByteSize::mib(3);
    let api = Api::with(bounded).await;
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
    // Beyond the limit of such bodies, also when that is known by its end only.
    let piece = || Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b'x'; 2 << 20])));
    let long = Body::new(StreamBody::new(stream::iter([piece(), piece()])));
    let refused = api.send(web("POST", "f", &[], long)).await;
    assert_eq!(refused.status, 413, "{refused:?}");
    let record = api.record(&refused.activation()).await;
    assert_eq!(record["response"]["status"], "application error", "{record}");
}
