//! Dispatches a request to its handler.

use std::{sync::Arc, time::Instant};

use axum::{Router, body::Body, extract::State, response::Response};
use flint_controller::{Caller, Controller};
use flint_request_body::Uploads;
use http::{StatusCode, request::Parts};

use crate::{
    actions, activations, basic_auth, description, gateway, info, invoke, packages,
    parse::{Method, Query, Route, RouteError, route, without_dots},
    refusal::Refusal,
    reply::{self, Reply},
    request::Request,
    rules, transaction, triggers,
    vanity::web_path,
    web::{self, Asked},
};

/// The API's configuration.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// When this binary was built, in the form that clients print.
    pub build: String,
    /// The build's identity: a commit or a version.
    pub build_number: String,
    /// Hosts, in lower case, whose subdomains are namespaces serving their web actions.
    pub web_hosts: Vec<String>,
    /// Memory permits for bodies, code and long lists, shared with other APIs.
    pub uploads: Arc<Uploads>,
}

impl Default for FrontConfig {
    fn default() -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { build: version.clone(), build_number: version, web_hosts: Vec::new(), uploads: Arc::default() }
    }
}

/// The API. It answers every path, unknown ones with its own 404, so other fronts have to come before it.
pub struct Front {
    pub(crate) controller: Arc<Controller>,
    config: FrontConfig,
}

impl Front {
    /// The API of `controller`.
    pub fn new(controller: Arc<Controller>, config: FrontConfig) -> Self {
        Self { controller, config }
    }

    /// Answers a request.
    pub async fn answer(&self, mut request: http::Request<Body>) -> Response {
        let arrived = Instant::now();
        *request.uri_mut() = without_dots(std::mem::take(request.uri_mut()));
        let transaction = transaction::of(request.headers());
        if let Some(path) = web_path(request.uri(), request.headers(), &self.config.web_hosts) {
            return Box::pin(open_to_all(self, Open::Action(path), request, transaction, arrived)).await;
        }
        let open = match route(Method::from(request.method()), request.uri().path()) {
            Ok(Route::Web) if gateway::verb(request.uri().path()).is_none() => {
                Some(Open::Action(request.uri().path().to_owned()))
            }
            Ok(Route::Gateway) => Some(Open::Api),
            _ => None,
        };
        if let Some(open) = open {
            return Box::pin(open_to_all(self, open, request, transaction, arrived)).await;
        }
        let response = match answer(self, request, Arc::clone(&transaction), arrived).await {
            Ok(reply) => reply.into_response(&transaction),
            Err(refusal) => {
                tracing::debug!(%transaction, status = refusal.status.as_u16(), error = refusal.text, "refused");
                reply::refused(&refusal, &transaction)
            }
        };
        self.controller.metrics().http_request("openwhisk", response.status().as_u16());
        response
    }
}

/// The same as an axum router.
pub fn router(controller: Arc<Controller>, config: FrontConfig) -> Router {
    Router::new().fallback(served).with_state(Arc::new(Front::new(controller, config)))
}

async fn served(State(front): State<Arc<Front>>, request: http::Request<Body>) -> Response {
    front.answer(request).await
}

/// Routes that need no key.
enum Open {
    /// A web action, with its path.
    Action(String),
    /// An API of the gateway.
    Api,
}

async fn open_to_all(
    front: &Front,
    open: Open,
    request: http::Request<Body>,
    transaction: Arc<str>,
    arrived: Instant,
) -> Response {
    let (parts, body) = request.into_parts();
    let uploads = &front.config.uploads;
    let response = match open {
        Open::Api => gateway::serve(&front.controller, uploads, parts, body, transaction, arrived).await,
        Open::Action(path) => {
            let asked = Asked {
                method: &parts.method,
                headers: parts.headers,
                query: parts.uri.query().unwrap_or_default(),
                target: web::target(&path),
                transaction,
                arrived,
                uploads,
            };
            web::serve(&front.controller, asked, body).await
        }
    };
    front.controller.metrics().http_request("web", response.status().as_u16());
    response
}

async fn answer(
    front: &Front,
    request: http::Request<Body>,
    transaction: Arc<str>,
    arrived: Instant,
) -> Result<Reply, Refusal> {
    let (parts, body) = request.into_parts();
    let controller = &front.controller;
    let route = match route(Method::from(&parts.method), parts.uri.path()) {
        Ok(Route::Root) => return info::root(controller),
        Ok(Route::Ping) => return Ok(Reply::text("pong")),
        Ok(Route::Invokers) => return info::invokers(),
        Ok(Route::HealthyInvokers) => return Ok(Reply::raw_json(StatusCode::OK, "1")),
        Ok(Route::InvokersReady) => return info::ready(controller).await,
        Ok(Route::InFlight) => return Reply::json(StatusCode::OK, &controller.calls_in_flight()),
        Ok(Route::Api) => return info::api(&front.config),
        Ok(Route::ApiDocs) => return Ok(Reply::raw_json(StatusCode::OK, description::document())),
        Ok(Route::Docs) => return Ok(Reply::html(description::page())),
        Ok(Route::Preflight) => return Ok(Reply::empty()),
        // The web routes that get here manage APIs.
        Ok(Route::Web) if parts.method == http::Method::OPTIONS => return Ok(Reply::empty()),
        Err(error @ RouteError::Unknown) => return Err(error.into()),
        // Unauthenticated requests are not told what exists.
        other => other,
    };
    let key = basic_auth::key_of(&parts.headers)?;
    let caller = controller.authenticate(&key).await?;
    let request = front.request(&parts, caller, key, transaction, arrived);
    answer_caller(&request, route?, &parts, body).await
}

impl Front {
    /// A request with its authenticated caller.
    pub(crate) fn request<'a>(
        &'a self,
        parts: &'a Parts,
        caller: Caller,
        key: String,
        transaction: Arc<str>,
        arrived: Instant,
    ) -> Request<'a> {
        Request {
            controller: &self.controller,
            uploads: &self.config.uploads,
            caller,
            key,
            transaction,
            arrived,
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            headers: &parts.headers,
        }
    }
}

/// Handles requests that need a key; other routes are unknown here.
pub(crate) async fn answer_caller(
    request: &Request<'_>,
    route: Route<'_>,
    parts: &Parts,
    body: Body,
) -> Result<Reply, Refusal> {
    match route {
        Route::ActionInvoke(name) => invoke::invoke(request, name, body).await,
        Route::ActionGet(name) => actions::get(request, name).await,
        Route::ActionPut(name) => actions::put(request, name, body).await,
        Route::ActionDelete(name) => actions::delete(request, name).await,
        Route::ActionList(namespace, package) => actions::list(request, namespace, package).await,
        Route::ActivationList(namespace) => request.roomy(|| activations::list(request, namespace)).await,
        Route::Activation(namespace, id) => request.roomy(|| activations::get(request, namespace, id)).await,
        Route::ActivationResult(namespace, id) => {
            request.roomy(|| activations::result(request, namespace, id)).await
        }
        Route::ActivationLogs(namespace, id) => {
            request.roomy(|| activations::logs(request, namespace, id)).await
        }
        Route::Namespaces => info::namespaces(request),
        Route::Limits(namespace) => info::limits(request, namespace),
        Route::PackageList(namespace) => packages::list(request, namespace).await,
        Route::PackagePut(name) => packages::put(request, name, body).await,
        Route::PackageGet(name) => packages::get(request, name).await,
        Route::PackageDelete(name) => packages::delete(request, name).await,
        Route::TriggerList(namespace) => triggers::list(request, namespace).await,
        Route::TriggerPut(name) => triggers::put(request, name, body).await,
        Route::TriggerGet(name) => triggers::get(request, name).await,
        Route::TriggerDelete(name) => triggers::delete(request, name).await,
        Route::TriggerFire(name) => triggers::fire(request, name, body).await,
        Route::RuleList(namespace) => rules::list(request, namespace).await,
        Route::RulePut(name) => rules::put(request, name, body).await,
        Route::RuleGet(name) => rules::get(request, name).await,
        Route::RuleDelete(name) => rules::delete(request, name).await,
        Route::RuleStatus(name) => rules::set_status(request, name, body).await,
        Route::Web => match gateway::verb(parts.uri.path()) {
            Some(verb) => gateway::manage(request, verb, Method::from(&parts.method), body).await,
            None => Err(RouteError::Unknown.into()),
        },
        // Handled before authentication.
        _ => Err(RouteError::Unknown.into()),
    }
}
