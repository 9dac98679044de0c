//! The API on a controller with the real store and a scripted executor; requests as clients send them.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../controller/tests/support/mod.rs"]
mod server;
pub mod web;

use axum::{Router, body::Body};
use base64::{Engine, engine::general_purpose::STANDARD};
use flint_api_openwhisk::{Arriving, FrontConfig, Uploads, router};
use flint_controller::{ControllerConfig, GUEST_KEY};
use http::{
    HeaderMap, Request,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

pub use server::{Scripted, Server, config, eventually};

/// The API.
pub struct Api {
    pub server: Server,
    router: Router,
    /// The server's data.
    pub dir: TempDir,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    /// The body, `null` when it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Status and error text of a refusal; checks that it has the form that every refusal has.
    pub fn refusal(&self) -> (u16, String) {
        let body = self.json();
        assert_eq!(body["code"].as_str(), self.header("x-request-id"), "{self:?}");
        (self.status, body["error"].as_str().unwrap_or_else(|| panic!("no error in {self:?}")).to_owned())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn activation(&self) -> String {
        self.header("x-openwhisk-activation-id")
            .unwrap_or_else(|| panic!("no activation in {self:?}"))
            .to_owned()
    }
}

impl Api {
    pub async fn start() -> Self {
        Self::with(config()).await
    }

    pub async fn with(config: ControllerConfig) -> Self {
        Self::with_queues(config, flint_scheduler::SchedulerConfig::default()).await
    }

    pub async fn with_queues(config: ControllerConfig, queues: flint_scheduler::SchedulerConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::of(Server::start_with(dir.path(), config, queues).await, dir)
    }

    /// With an executor of one's own.
    pub async fn on(executor: std::sync::Arc<Scripted>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::of(Server::start_on(dir.path(), executor).await, dir)
    }

    /// With so many bytes for bodies that arrive.
    pub async fn with_room_for(bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), config()).await;
        let uploads = Uploads::new(Arriving::new(bytes)).into();
        Self::in_front(server, dir, FrontConfig { uploads, ..FrontConfig::default() })
    }

    fn of(server: Server, dir: TempDir) -> Self {
        Self::in_front(server, dir, FrontConfig::default())
    }

    fn in_front(server: Server, dir: TempDir, front: FrontConfig) -> Self {
        let web_hosts = vec!["faas.example.com".to_owned()];
        let build =
            FrontConfig { build: "2026-01-01".into(), build_number: "abc".into(), web_hosts, ..front };
        Self { router: router(server.controller.clone(), build), server, dir }
    }

    /// Any request, with its answer's body unread.
    pub async fn unread(&self, request: Request<Body>) -> http::Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Any request.
    pub async fn send(&self, request: Request<Body>) -> Reply {
        let (parts, body) = self.unread(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Reply { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// A request with a key; a path that begins with a letter stands below guest's namespace.
    pub async fn call_as(&self, key: &str, method: &str, path: &str, body: Option<Value>) -> Reply {
        self.send(request(method, path, body, &[(AUTHORIZATION.as_str(), &basic(key))])).await
    }

    /// A request of guest's.
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        self.call_as(GUEST_KEY, method, path, body).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, None).await
    }

    /// Creates or overwrites a Node.js action with this script as its code.
    pub async fn action(&self, name: &str, script: &str) -> Value {
        let body = json!({"exec": {"kind": "nodejs:default", "code": script}});
        let reply = self.call("PUT", &format!("actions/{name}?overwrite=true"), Some(body)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    /// Calls an action and waits.
    pub async fn blocking(&self, name: &str, body: Value) -> Reply {
        self.call("POST", &format!("actions/{name}?blocking=true"), Some(body)).await
    }

    /// A record, once it is there.
    pub async fn record(&self, id: &str) -> Value {
        eventually("the record", || async {
            let reply = self.get(&format!("activations/{id}")).await;
            (reply.status == 200).then(|| reply.json())
        })
        .await
    }

    /// A second namespace, with its key.
    pub async fn other(&self) -> String {
        self.namespace("other", json!({})).await
    }

    /// A namespace with limits of its own, with its key.
    pub async fn namespace(&self, name: &str, limits: Value) -> String {
        let limits = serde_json::from_value(limits).unwrap();
        let created = self.server.controller.create_namespace(name.parse().unwrap(), limits).await;
        created.unwrap().1.expose()
    }
}

/// A request.
pub fn request(method: &str, path: &str, body: Option<Value>, headers: &[(&str, &str)]) -> Request<Body> {
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/api/v1/namespaces/_/{path}"),
    };
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    match body {
        Some(body) => {
            let body = body.to_string();
            request
                .header(CONTENT_TYPE, "application/json")
                .header("content-length", body.len())
                .body(body.into())
        }
        None => request.body(Body::empty()),
    }
    .unwrap()
}

/// A Basic header.
pub fn basic(key: &str) -> String {
    format!("Basic {}", STANDARD.encode(key))
}
