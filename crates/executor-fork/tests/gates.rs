//! The way of forked functions to the API: closed while the snapshot is made, open for as long as a clone serves, to whom it serves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use axum::{Router, body::Body};
use flint_executor::{Executor, StartContext};
use flint_executor_fork::ForkConfig;
use flint_gate::{Gate, GateConfig, Gates};
use flint_model::NamespaceName;
use serde_json::{Value, json};
use support::{House, adjusted, context, handler, json as call, text, warmed};

/// Says for whom the gate is open that a request came through.
async fn api(request: http::Request<Body>) -> String {
    let gate = request.extensions().get::<Gate>().unwrap();
    let admits = |name| gate.admits(&NamespaceName::parse(name).unwrap());
    format!("open={} one={} other={}", gate.is_open(), admits("one"), admits("other"))
}

const PYTHON: &str = r#"
import os, urllib.request
def ask():
    with urllib.request.urlopen(os.environ["__OW_API_HOST"], timeout=30) as answer:
        return answer.read().decode()
seen = [ask()]
def main(params):
    seen.append(ask())
    return {"seen": seen}
"#;

const NODE: &str = r#"
const http = require('http');
const ask = () => new Promise((resolve, reject) => {
  http.get(process.env.__OW_API_HOST, { agent: false }, (answer) => {
    let text = '';
    answer.on('data', (part) => { text += part; }).on('end', () => resolve(text));
  }).on('error', reject);
});
const seen = [];
exports.main = async () => { seen.push(await ask()); return { seen }; };
"#;

fn on_account_of(name: &str) -> StartContext {
    StartContext { namespace: NamespaceName::parse(name).ok(), ..context() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_closed_for_the_snapshot_and_open_to_those_that_clones_serve() {
    let gates = Gates::new(GateConfig::default());
    gates.serve(Router::new().fallback(api));
    let house = House::with_gates(ForkConfig::default(), Some(gates)).await;
    for (kind, code) in [("python:default", PYTHON), ("nodejs:default", NODE)] {
        let source = adjusted(warmed(handler(kind, code), &["{}"]), |function| {
            function.annotations.set("provide-api-key", true);
        });
        let prepared = house.prepare(source).await;
        assert_eq!(prepared.fallback, None, "{kind}");
        let seen = |answer: String| {
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let mut seen = answer["seen"].as_array().unwrap().clone();
            (seen.pop().unwrap(), seen)
        };
        let start = async |context| house.executor.start(&prepared, context).await.unwrap().instance;
        let one = start(on_account_of("one")).await;
        let (now, before) = seen(text(one.invoke(call("{}")).await));
        assert_eq!(now, "open=true one=true other=false", "{kind}");
        // Loading it, and each call of the warm-up.
        assert!(!before.is_empty(), "{kind}");
        assert!(before.iter().all(|said| *said == json!("open=false one=false other=false")), "{before:?}");
        // Clones of one function share a network: each is there for its own caller.
        let other = start(on_account_of("other")).await;
        let (now, _) = seen(text(other.invoke(call("{}")).await));
        assert_eq!(now, "open=true one=true other=true", "{kind}");
        one.stop().await;
        drop(one);
        let (now, _) = seen(text(other.invoke(call("{}")).await));
        assert_eq!(now, "open=true one=false other=true", "{kind}");
        other.stop().await;
        drop(other);
        // The next clone finds it as if none had been before.
        let one = start(on_account_of("one")).await;
        let (now, _) = seen(text(one.invoke(call("{}")).await));
        assert_eq!(now, "open=true one=true other=false", "{kind}");
        one.stop().await;
        drop((one, Arc::clone(&prepared)));
    }
    house.end().await;
}
