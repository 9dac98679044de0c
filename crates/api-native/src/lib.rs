//! Flint's own REST API: a thin translation between HTTP and the controller, described by `docs/openapi.json`.
//!
//! Authentication is by key, `Authorization: Bearer uuid:secret` or Basic. Two scopes: a namespace's key opens its
//! functions and activations; the operator's key ([`NativeConfig::operator`]) opens namespaces, backups and what the host can do.
#![forbid(unsafe_code)]

mod activations;
mod answer;
mod arguments;
mod auth;
mod body;
mod dead_letters;
mod deploy;
mod error;
mod explain;
mod feed;
mod functions;
mod invoke;
mod listed;
mod logs;
mod namespaces;
mod openapi;
pub mod resource;
mod secrets;
mod sequences;
mod server;
mod versions;

use std::{path::PathBuf, sync::Arc, time::Instant};

use async_trait::async_trait;
use axum::{
    Router,
    routing::{any, delete, get, post, put},
};
use flint_controller::Controller;
use flint_executor::Executor;
use flint_model::ApiKey;
use flint_request_body::Uploads;

#[cfg(feature = "fuzzing")]
pub use deploy::fuzz_deploy;
pub use feed::ActivationFeed;
pub use namespaces::namespace_refusal;
pub use openapi::document;
use resource::AbilityResource;

/// Everything the API needs besides the controller.
pub struct NativeConfig {
    /// The operator's key, for namespaces, backups and the host's abilities; `None` = nobody has access.
    pub operator: Option<ApiKey>,
    /// Serve metrics without a key, on a server reachable from its own machine only.
    pub open_metrics: bool,
    /// Publishes ended activations.
    pub feed: ActivationFeed,
    /// The host's abilities, determined when the server started.
    pub abilities: Vec<AbilityResource>,
    /// The executors, for explanations of strategies.
    pub executors: Vec<Arc<dyn Executor>>,
    /// Operations of the composition root, where they apply.
    pub maintenance: Option<Arc<dyn Maintenance>>,
    /// Memory permits for bodies, code and long lists, shared with other APIs.
    pub uploads: Arc<Uploads>,
}

/// Operations on the server's data as a whole.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Copies all data into the directory `to` on the server's machine; returns the number of files and
    /// bytes, or what is in the way.
    async fn backup(&self, to: PathBuf) -> Result<(usize, u64), String>;
}

/// State shared by all handlers.
pub(crate) struct Native {
    pub(crate) controller: Arc<Controller>,
    pub(crate) config: NativeConfig,
    pub(crate) started: Instant,
}

/// The API's routes. There is no middleware: everything that happens to a call is visible in its handler.
pub fn router(controller: Arc<Controller>, config: NativeConfig) -> Router {
    let native = Arc::new(Native { controller, config, started: Instant::now() });
    Router::new()
        .route("/v1/functions", get(functions::list))
        .route("/v1/functions/{name}", get(functions::get).put(deploy::deploy).delete(functions::delete))
        .route("/v1/functions/{name}/code", get(functions::code))
        .route("/v1/functions/{name}/versions", get(versions::list))
        .route("/v1/functions/{name}/rollback", post(versions::rollback))
        .route(
            "/v1/functions/{name}/aliases/{alias}",
            put(versions::set_alias).delete(versions::delete_alias),
        )
        .route("/v1/functions/{name}/logs", get(logs::of_function))
        .route("/v1/functions/{name}/invoke", any(invoke::invoke))
        .route("/v1/functions/{name}/invoke/", any(invoke::invoke))
        .route("/v1/functions/{name}/invoke/{*path}", any(invoke::invoke_path))
        .route("/v1/sequences", get(sequences::list))
        .route("/v1/sequences/{name}", get(sequences::get).put(sequences::put).delete(sequences::delete))
        .route("/v1/activations", get(activations::list))
        .route("/v1/activations/{id}", get(activations::get))
        .route("/v1/activations/{id}/logs", get(activations::logs))
        .route("/v1/calls/{id}", get(activations::accepted))
        .route("/v1/dead-letters", get(dead_letters::list).delete(dead_letters::delete_some))
        .route("/v1/dead-letters/redrive", post(dead_letters::redrive_some))
        .route("/v1/dead-letters/{id}", get(dead_letters::get).delete(dead_letters::delete))
        .route("/v1/dead-letters/{id}/redrive", post(dead_letters::redrive))
        .route("/v1/secrets", get(secrets::list))
        .route("/v1/secrets/rotate-key", post(secrets::rotate_key))
        .route("/v1/secrets/{name}", put(secrets::put).delete(secrets::delete))
        .route("/v1/logs", get(logs::of_all))
        .route("/v1/explain/{name}", get(explain::explain))
        .route("/v1/namespaces", get(namespaces::list).post(namespaces::create))
        .route(
            "/v1/namespaces/{namespace}",
            get(namespaces::get).patch(namespaces::patch).delete(namespaces::delete),
        )
        .route("/v1/namespaces/{namespace}/keys", post(namespaces::create_key))
        .route("/v1/namespaces/{namespace}/keys/{id}", delete(namespaces::delete_key))
        .route("/v1/backup", post(server::backup))
        .route("/v1/doctor", get(server::doctor))
        .route("/v1/openapi.json", get(openapi::serve))
        .route("/health", get(server::health))
        .route("/ready", get(server::ready))
        .route("/metrics", get(server::metrics))
        .route("/v1", any(error::no_route))
        .route("/v1/", any(error::no_route))
        .route("/v1/{*rest}", any(error::no_route))
        .method_not_allowed_fallback(error::wrong_method)
        .with_state(native)
}
