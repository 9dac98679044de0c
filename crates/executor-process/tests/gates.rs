//! The way of functions to the API from sandboxes without network: who has one, from when, and whose it is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use axum::{Router, body::Body};
use flint_executor::{Executor, FunctionSource, Instance, PrewarmTarget};
use flint_gate::{Gate, GateConfig, Gates};
use flint_model::{ActivationId, CodeFormat, Contract, NamespaceName, Reuse};
use serde_json::Value;
use support::{House, adjusted, context, function, handler, json, side_by_side, text};

/// Says for whom the gate is open that a request came through, and whether it knows the end of the activation that asks.
async fn api(request: http::Request<Body>) -> String {
    let gate = request.extensions().get::<Gate>().unwrap();
    let admits = |name| gate.admits(&NamespaceName::parse(name).unwrap());
    let asks = request.uri().path().trim_start_matches('/').parse::<ActivationId>().ok();
    let ends = asks.is_some_and(|id| gate.deadline(id).is_some());
    format!("open={} guest={} other={} ends={ends}", gate.is_open(), admits("guest"), admits("other"))
}

async fn house() -> House {
    let gates = Gates::new(GateConfig::default());
    gates.serve(Router::new().fallback(api));
    House::with(|config| {
        config.api_host = Some("http://192.0.2.1:1".into());
        config.gates = Some(gates);
    })
    .await
}

fn with_key(source: FunctionSource, wanted: bool) -> FunctionSource {
    adjusted(source, |function| function.annotations.set("provide-api-key", wanted))
}

const ASK: &str = r#"
import json, os, urllib.request
def ask(path=""):
    try:
        with urllib.request.urlopen(os.environ["__OW_API_HOST"] + "/" + path, timeout=30) as answer:
            return {"said": answer.read().decode()}
    except OSError as error:
        return {"failed": str(error), "host": os.environ["__OW_API_HOST"]}
"#;

const OPEN: &str = "open=true guest=true other=false ends=false";

/// What the function says, of JSON or within what it was told.
async fn said(instance: &dyn Instance) -> Value {
    let answer: Value = serde_json::from_str(&text(instance.invoke(json("{}")).await)).unwrap();
    answer["said"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_contract_has_one() {
    let house = house().await;
    let program = |contract, rest: &str| {
        let code = format!("#!/usr/bin/python3\n{ASK}{rest}");
        with_key(function("native", contract, CodeFormat::Executable, code), true)
    };
    let server = r#"
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.dumps(ask()).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Handler).serve_forever()
"#;
    let looped = r#"
import sys
out = os.fdopen(3, "w")
for line in sys.stdin:
    out.write(json.dumps(ask()) + "\n")
    out.flush()
"#;
    let javascript = "exports.main = async () => { const answer = await fetch(process.env.__OW_API_HOST + '/'); return { said: await answer.text() }; };";
    let kept = |source| adjusted(source, |function| function.strategy.reuse = Reuse::Warm);
    let fresh = |source| adjusted(source, |function| function.strategy.reuse = Reuse::Never);
    let print = "print(json.dumps(ask()))\n";
    let python = format!("{ASK}def main(params): return ask()\n");
    for (what, source) in [
        ("python", with_key(handler("python:default", &python), true)),
        ("nodejs", with_key(handler("nodejs:default", javascript), true)),
        ("stdio, fresh", fresh(program(Contract::Stdio, print))),
        ("stdio, kept", kept(program(Contract::Stdio, print))),
        ("skeleton", kept(program(Contract::Skeleton, print))),
        ("actionloop", program(Contract::ActionLoop, looped)),
        ("http", program(Contract::Http, server)),
        ("openwhisk", program(Contract::OpenWhisk, server)),
    ] {
        let instance = house.start(source).await;
        assert_eq!(said(&*instance).await, OPEN, "{what}");
        instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_wants_no_key_has_none() {
    let house = house().await;
    let code = format!("{ASK}def main(params): return ask()\n");
    let instance = house.start(with_key(handler("python:default", &code), false)).await;
    let answer: Value = serde_json::from_str(&text(instance.invoke(json("{}")).await)).unwrap();
    assert_eq!(answer["host"], "http://192.0.2.1:1", "{answer}");
    instance.stop().await;
    // Nor does it find one where the others have theirs.
    let code = format!(
        "{ASK}def main(params):\n    os.environ['__OW_API_HOST'] = 'http://127.0.0.1:3233'\n    return ask()\n"
    );
    let instance = house.start(with_key(handler("python:default", &code), false)).await;
    let answer: Value = serde_json::from_str(&text(instance.invoke(json("{}")).await)).unwrap();
    assert!(answer["failed"].as_str().unwrap().contains("refused"), "{answer}");
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_was_up_before_is_given_one_for_whom_it_is_taken() {
    let house = house().await;
    let code = format!("{ASK}early = ask()\ndef main(params): return {{**ask(), 'early': early}}\n");
    let source = with_key(handler("python:default", &code), true);
    let target =
        PrewarmTarget { kind: source.function.kind.clone(), memory: source.function.limits.memory, count: 1 };
    house.executor.prewarm(&[target]).await;
    let prepared = house.prepare(source).await;
    let until = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let started = house.executor.start(&prepared, context()).await.unwrap();
        let answer: Value = serde_json::from_str(&text(started.instance.invoke(json("{}")).await)).unwrap();
        assert_eq!((answer["said"].as_str(), answer["early"]["said"].as_str()), (Some(OPEN), Some(OPEN)));
        started.instance.stop().await;
        if started.started.is_zero() {
            break;
        }
        assert!(std::time::Instant::now() < until, "no runtime was ready within a minute");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    house.executor.prewarm(&[]).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_call_is_known_where_its_sandbox_goes_on() {
    let house = house().await;
    let code = format!("{ASK}def main(params, context): return ask(context.activation_id)\n");
    let source = with_key(side_by_side(handler("python:default", &code), "main"), true);
    let instance = house.start(source).await;
    assert_eq!(said(&*instance).await, "open=true guest=true other=false ends=true");
    instance.stop().await;
    house.end().await;
}
