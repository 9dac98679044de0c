//! The API as seen by functions inside their sandboxes, through a [`Gate`].
//!
//! It is a subset of the public API: nothing without a key, nothing for keys of callers for whom the sandbox
//! does not work, no web actions (which would let a function without network access reach those of every
//! namespace), nothing about the server. A request's `Host` has no effect.

use std::{sync::Arc, time::Instant};

use axum::{Router, body::Body, extract::State, response::Response};
use flint_controller::Controller;
use flint_gate::Gate;
use flint_model::ApiKey;
use http::{HeaderValue, StatusCode, header::CONNECTION};

use crate::{
    basic_auth,
    front::{Front, FrontConfig, answer_caller},
    parse::{Method, RouteError, route, without_dots},
    refusal::Refusal,
    reply::{self, Reply},
    transaction,
};

/// The API's router for [`flint_gate::Gates::serve`].
pub fn router_inside(controller: Arc<Controller>, config: FrontConfig) -> Router {
    Router::new().fallback(handle).with_state(Arc::new(Front::new(controller, config)))
}

async fn handle(State(front): State<Arc<Front>>, request: http::Request<Body>) -> Response {
    let transaction = transaction::of(request.headers());
    let answered = answer(&front, request, Arc::clone(&transaction)).await;
    let response = match answered {
        Ok(reply) => reply.into_response(&transaction),
        Err(refusal) => {
            tracing::debug!(%transaction, status = refusal.status.as_u16(), error = refusal.text, "refused inside");
            let mut response = reply::refused(&refusal, &transaction);
            // A refused request must not occupy a connection; its body, if any, is not waited for.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            response
        }
    };
    front.controller.metrics().http_request("gate", response.status().as_u16());
    response
}

async fn answer(
    front: &Front,
    request: http::Request<Body>,
    transaction: Arc<str>,
) -> Result<Reply, Refusal> {
    let arrived = Instant::now();
    let (mut parts, body) = request.into_parts();
    parts.uri = without_dots(parts.uri);
    // Set on every request that comes through a gate.
    let Some(gate) = parts.extensions.get::<Gate>() else { return Err(RouteError::Unknown.into()) };
    if !gate.is_open() {
        return Err(forbidden(
            "the function is not called yet: while it is loaded and warmed up for its snapshot it can call nothing; call from its handler",
        ));
    }
    let key = basic_auth::key_of(&parts.headers)?;
    let caller = front.controller.authenticate(&key).await?;
    if !gate.admits(&caller.namespace.name) {
        return Err(forbidden(
            "from inside of a function only the key of the namespace that it runs for is accepted",
        ));
    }
    let deadline = ApiKey::without_activation(&key).1.and_then(|id| gate.deadline(id));
    let request = front.request(&parts, caller, key, transaction, arrived);
    let route = route(Method::from(&parts.method), parts.uri.path())?;
    let answering = answer_caller(&request, route, &parts, body);
    match deadline {
        None => answering.await,
        Some(deadline) => {
            let answered = tokio::time::timeout_at(deadline.into(), answering).await;
            answered.unwrap_or_else(|_| Err(over()))
        }
    }
}

fn forbidden(cause: &str) -> Refusal {
    let text = "The supplied authentication is not authorized to access this resource.";
    Refusal { cause: Some(cause.to_owned()), ..Refusal::new(StatusCode::FORBIDDEN, text) }
}

/// The error when nobody waits for the answer any more.
fn over() -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "The time of the activation that made this request is over.")
}
