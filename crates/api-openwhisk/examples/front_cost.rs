//! What the front and the controller cost per blocking call: everything but HTTP's bytes and the function itself.
//!
//! `cargo run --release -p flint-api-openwhisk --example front_cost`

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use axum::body::Body;
use flint_api_openwhisk::{FrontConfig, router};
use flint_controller::GUEST_KEY;
use http_body_util::BodyExt;
use support::{Server, basic, config, request};
use tower::Service;

const WARM_UP: usize = 20_000;
const CALLS: usize = 100_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(measure()).await.unwrap() });
}

async fn measure() {
    let dir = tempfile::tempdir().unwrap();
    let mut roomy = config();
    roomy.limits.invocations_per_minute = u32::MAX;
    let server = Server::start(dir.path(), roomy).await;
    let mut api = router(server.controller.clone(), FrontConfig::default());
    let auth = basic(GUEST_KEY);
    let headers = [("authorization", auth.as_str())];
    let action = serde_json::json!({"exec": {"kind": "nodejs:20", "code": "quick {}"}});
    let put = request("PUT", "actions/f", Some(action), &headers);
    assert!(api.call(put).await.unwrap().status().is_success());
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..WARM_UP + CALLS {
        let call = request("POST", "actions/f?blocking=true", None, &headers);
        let (mut parts, _) = call.into_parts();
        parts.headers.insert("content-type", "application/json".parse().unwrap());
        let call = http::Request::from_parts(parts, Body::from("{\"name\":\"you\"}"));
        let began = Instant::now();
        let response = api.call(call).await.unwrap();
        let took = began.elapsed();
        assert_eq!(response.status(), 200);
        let _ = response.into_body().collect().await.unwrap();
        if number >= WARM_UP {
            times.push(took);
        }
    }
    times.sort();
    let us = |share: f64| times[(CALLS as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("S21: p50 {:.1} µs, p90 {:.1} µs, p99 {:.1} µs", us(0.5), us(0.9), us(0.99));
    server.stop().await;
}
