//! The API as functions reach it from inside of their sandboxes: through a gate, over a socket, with keys that may and that may not.

use std::{
    future::pending,
    net::SocketAddr,
    time::{Duration, Instant},
};

use flint_api_openwhisk::{FrontConfig, router_inside};
use flint_controller::{ControllerConfig, GUEST_KEY};
use flint_gate::{Gate, GateConfig, Gates};
use flint_model::{ActivationId, ApiKey, NamespaceName};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Api, basic, config, eventually};

const FORBIDDEN: &str = "The supplied authentication is not authorized to access this resource.";

/// A server with one sandbox's gate.
struct Inside {
    api: Api,
    gate: Gate,
    address: SocketAddr,
    gates: Gates,
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Inside {
    /// Of a sandbox that works for guest.
    async fn start() -> Self {
        Self::with(config(), Some("guest")).await
    }

    async fn with(config: ControllerConfig, whose: Option<&str>) -> Self {
        let api = Api::with(config).await;
        let gates = Gates::new(GateConfig::default());
        gates.serve(router_inside(
            api.server.controller.clone(),
            FrontConfig { web_hosts: vec!["faas.example.com".into()], ..FrontConfig::default() },
        ));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let whose = whose.map(|name| NamespaceName::parse(name).unwrap());
        let gate = gates.open(listener.into(), pending(), whose).unwrap();
        Self { api, gate, address, gates }
    }

    /// What a function is answered that sends this.
    async fn say(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            request += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: serde_json::from_str(body).unwrap_or_default() }
    }

    async fn ask(&self, key: &str, method: &str, path: &str, body: &str) -> Answer {
        self.say(method, path, &[("authorization", &basic(key))], body).await
    }

    async fn end(self) {
        self.gates.close().await;
    }
}

impl Answer {
    /// Status and text of a refusal in the API's form.
    fn refusal(&self) -> (u16, &str) {
        assert!(self.body["code"].is_string(), "{self:?}");
        (self.status, self.body["error"].as_str().unwrap())
    }
}

#[tokio::test]
async fn a_function_does_what_its_namespaces_key_may() {
    let inside = Inside::start().await;
    inside.api.action("hello", "echo it").await;
    let base = "/api/v1/namespaces/_";
    let invoke = format!("{base}/actions/hello?blocking=true");
    let called = inside.ask(GUEST_KEY, "POST", &invoke, r#"{"a": 1}"#).await;
    assert_eq!((called.status, &called.body["response"]["result"]), (200, &json!({"a": 1})));
    let id = called.body["activationId"].as_str().unwrap().to_owned();
    inside.api.record(&id).await;
    let record = inside.ask(GUEST_KEY, "GET", &format!("{base}/activations/{id}"), "").await;
    assert_eq!((record.status, record.body["name"].as_str()), (200, Some("hello")));
    assert_eq!(record.body.get("cause"), None, "as in OpenWhisk, only steps of compositions have one");
    let later = inside.ask(GUEST_KEY, "POST", &format!("{base}/actions/hello"), "{}").await;
    assert_eq!(later.status, 202);
    let trigger = format!("{base}/triggers/t");
    assert_eq!(inside.ask(GUEST_KEY, "PUT", &trigger, "{}").await.status, 200);
    assert!(matches!(inside.ask(GUEST_KEY, "POST", &trigger, "{}").await.status, 202 | 204));
    let put = r#"{"exec": {"kind": "nodejs:default", "code": "echo it"}}"#;
    assert_eq!(inside.ask(GUEST_KEY, "PUT", &format!("{base}/actions/made"), put).await.status, 200);
    assert_eq!(inside.ask(GUEST_KEY, "DELETE", &format!("{base}/actions/made"), "").await.status, 200);
    assert_eq!(inside.ask(GUEST_KEY, "GET", "/api/v1/namespaces", "").await.body, json!(["guest"]));
    // A key that says for which activation it is, is the key all the same.
    let given = ApiKey::of_activation(GUEST_KEY, ActivationId::generate());
    assert_eq!(inside.ask(&given, "GET", "/api/v1/namespaces", "").await.status, 200);
    inside.end().await;
}

#[tokio::test]
async fn nobody_elses_key_is_let_in_and_none_before_there_is_a_call() {
    let inside = Inside::start().await;
    let other = inside.api.other().await;
    inside.api.action("hello", "echo it").await;
    let list = "/api/v1/namespaces/_/actions";
    let refused = inside.ask(&other, "GET", list, "").await;
    assert_eq!(refused.refusal(), (403, FORBIDDEN));
    assert!(refused.body["cause"].as_str().unwrap().contains("only the key of the namespace"));
    let missing = inside.say("GET", list, &[], "").await;
    assert_eq!(
        missing.refusal(),
        (401, "The resource requires authentication, which was not supplied with the request")
    );
    let wrong = format!("{}x", &GUEST_KEY[..GUEST_KEY.len() - 1]);
    let refused = inside.ask(&wrong, "GET", list, "").await;
    assert_eq!(refused.refusal(), (401, "The supplied authentication is invalid"));
    assert!(refused.head.to_ascii_lowercase().contains("connection: close"), "{}", refused.head);
    // As long as the other namespace has a call there, its key is let in, and then no more.
    let admission = inside.gate.admit(NamespaceName::parse("other").unwrap());
    assert_eq!(inside.ask(&other, "GET", list, "").await.status, 200);
    drop(admission);
    assert_eq!(inside.ask(&other, "GET", list, "").await.status, 403);
    inside.end().await;

    // While a snapshot is made nobody calls: no key helps, and nothing comes of it.
    let inside = Inside::with(config(), None).await;
    inside.api.action("hello", "echo it").await;
    let invoke = "/api/v1/namespaces/_/actions/hello";
    let refused = inside.ask(GUEST_KEY, "POST", invoke, "{}").await;
    assert_eq!(refused.refusal(), (403, FORBIDDEN));
    assert!(refused.body["cause"].as_str().unwrap().contains("not called yet"), "{refused:?}");
    assert!(inside.api.server.executor.seen().calls.is_empty());
    inside.end().await;
}

#[tokio::test]
async fn what_takes_no_key_outside_is_not_there_inside() {
    let inside = Inside::start().await;
    let export = json!({
        "exec": {"kind": "nodejs:default", "code": "answer {\"body\": \"open\"}"},
        "annotations": [{"key": "web-export", "value": true}],
    });
    assert_eq!(inside.api.call("PUT", "actions/open", Some(export)).await.status, 200);
    assert_eq!(inside.api.get("/api/v1/web/guest/default/open").await.status, 200);
    for path in [
        "/",
        "/ping",
        "/api/v1",
        "/api/v1/api-docs",
        "/invokers",
        "/invokers/healthy/count",
        "/invokers/ready",
        "/activation/count",
        "/api/v1/web/guest/default/open",
        "/api/v1/web/guest/default/open.json",
        "/v1",
        "/v1/functions",
        "/v1/namespaces",
        "/metrics",
        "/health",
        "/ready",
        "//v1/functions",
        "/api/v1/../../v1/functions",
        "/%76%31/functions",
    ] {
        let without = inside.say("GET", path, &[], "").await;
        assert_eq!(without.refusal().0, 401, "{path}");
        let with = inside.ask(GUEST_KEY, "GET", path, "").await;
        assert!(matches!(with.refusal().0, 404 | 405), "{path}: {with:?}");
    }
    // Neither is a web action by its namespace's name, or by another form of the address.
    let key = basic(GUEST_KEY);
    for (path, host) in [
        ("/default/open", "guest.faas.example.com"),
        ("http://guest.faas.example.com/default/open", "127.0.0.1:3233"),
        ("http://127.0.0.1/v1/functions", "127.0.0.1:3233"),
    ] {
        for headers in [&[("host", host)][..], &[("host", host), ("x-forwarded-host", host)][..]] {
            assert_eq!(inside.say("GET", path, headers, "").await.status, 401, "{path} {host}");
            let keyed = [headers, &[("authorization", key.as_str())]].concat();
            assert_eq!(inside.say("GET", path, &keyed, "").await.status, 404, "{path} {host}");
        }
    }
    assert_eq!(inside.say("OPTIONS", "/api/v1/namespaces", &[], "").await.status, 401);
    inside.end().await;
}

#[tokio::test]
async fn a_chain_of_calls_that_wait_is_not_stopped_by_its_own_limit() {
    let mut limited = config();
    limited.limits.concurrent_invocations = 1;
    let inside = Inside::with(limited, Some("guest")).await;
    let body = json!({
        "exec": {"kind": "nodejs:default", "code": "wait here"},
        "annotations": [{"key": "provide-api-key", "value": true}],
    });
    inside.api.call("PUT", "actions/outer", Some(body)).await;
    inside.api.action("inner", "echo it").await;
    let outer = inside.api.blocking("outer", json!({}));
    let nested = async {
        let key = eventually("the key of the call that runs", || async {
            inside.api.server.executor.seen().keys.get("guest/outer").cloned()
        })
        .await;
        let path = "/api/v1/namespaces/_/actions/inner?blocking=true&result=true";
        // Nobody else has a place; who waits for it lends his.
        let stranger = inside.ask(GUEST_KEY, "POST", path, "{}").await;
        assert_eq!(stranger.refusal().0, 429);
        let answer = inside.ask(&key, "POST", path, r#"{"n": 1}"#).await;
        assert_eq!((answer.status, answer.body), (200, json!({"n": 1})));
        inside.api.server.executor.go();
    };
    let (outer, ()) = tokio::join!(outer, nested);
    assert_eq!(outer.status, 200, "{outer:?}");
    inside.end().await;
}

#[tokio::test]
async fn what_an_activation_asked_for_is_let_go_when_its_time_is_over() {
    let inside = Inside::start().await;
    inside.api.action("slow", "wait here").await;
    let id = ActivationId::generate();
    let running = inside.gate.running(id, Instant::now() + Duration::from_secs(2));
    let key = ApiKey::of_activation(GUEST_KEY, id);
    let path = "/api/v1/namespaces/_/actions/slow?blocking=true";
    let cut = inside.ask(&key, "POST", path, "{}").await;
    assert_eq!(cut.refusal(), (408, "The time of the activation that made this request is over."));
    drop(running);
    // As when a connection is dropped, what was called goes on to its own end.
    eventually("the end of what was called", || async {
        inside.api.server.executor.go();
        (inside.api.server.controller.calls_in_flight() == 0).then_some(())
    })
    .await;
    inside.end().await;
}
