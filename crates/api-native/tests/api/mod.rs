//! The native API on a controller of its own, and requests to it.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test program uses a part, and fails by panicking"
)]

#[path = "../../../controller/tests/support/mod.rs"]
pub mod server;

use axum::{Router, body::Body};
use flint_api_native::{ActivationFeed, NativeConfig, router};
use flint_controller::{ControllerConfig, GUEST_KEY};
use http::{
    Request,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::BodyExt;
use serde_json::Value;
use server::{Server, eventually};
use tempfile::TempDir;
use tower::ServiceExt;

/// The API's router, and the server behind it.
pub struct Api {
    pub server: Server,
    pub router: Router,
    pub feed: ActivationFeed,
    _dir: TempDir,
}

impl Api {
    pub async fn with(config: ControllerConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), config).await;
        let feed = ActivationFeed::default();
        let config = NativeConfig {
            operator: None,
            open_metrics: false,
            feed: feed.clone(),
            abilities: Vec::new(),
            executors: Vec::new(),
            maintenance: None,
            uploads: std::sync::Arc::default(),
        };
        Self { router: router(server.controller.clone(), config), server, feed, _dir: dir }
    }

    pub async fn send(&self, method: &str, path: &str, body: Body, length: Option<usize>) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(AUTHORIZATION, format!("Bearer {GUEST_KEY}"))
            .header(CONTENT_TYPE, "application/json");
        if let Some(length) = length {
            request = request.header(CONTENT_LENGTH, length);
        }
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, Body::empty(), None).await
    }

    pub async fn invoke(&self, query: &str) -> String {
        let path = format!("/v1/functions/f/invoke?{query}");
        let (status, body) = self.send("POST", &path, Body::from("{\"n\":1}"), None).await;
        assert_eq!(status, 202, "{body}");
        body["activation"].as_str().unwrap().to_owned()
    }

    /// Where the call is, once it is there.
    pub async fn state(&self, id: &str, state: &str) -> Value {
        eventually(state, || async {
            let (_, call) = self.get(&format!("/v1/calls/{id}")).await;
            (call["state"] == state).then_some(call)
        })
        .await
    }

    /// Its record, once it is over.
    pub async fn record(&self, id: &str) -> Value {
        eventually("the record", || async {
            self.server.executor.go();
            let (status, record) = self.get(&format!("/v1/activations/{id}")).await;
            (status == 200).then_some(record)
        })
        .await
    }
}
