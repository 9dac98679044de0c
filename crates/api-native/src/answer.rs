//! Turns the outcome of a call into an HTTP response.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use flint_controller::HttpAnswer;
use flint_model::{Activation, ActivationId, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    body::outgoing,
    feed::cut_logs,
    resource::{ActivationResource, StatusWord},
};

const ACTIVATION: HeaderName = HeaderName::from_static("x-flint-activation-id");
const STATUS: HeaderName = HeaderName::from_static("x-flint-status");

/// A call that continues on its own.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Accepted {
    /// Activation id of the call. `GET /v1/activations/{id}` returns its result once it has ended.
    activation: String,
}

pub(crate) fn accepted(id: ActivationId) -> Response {
    let activation = id.to_string();
    let mut response = (StatusCode::ACCEPTED, Json(Accepted { activation })).into_response();
    mark(&mut response, id, None);
    response
}

pub(crate) fn finished(activation: Activation) -> Response {
    let status = match activation.response.status {
        Status::Success => StatusCode::OK,
        Status::ApplicationError => StatusCode::UNPROCESSABLE_ENTITY,
        Status::DeveloperError => StatusCode::BAD_GATEWAY,
        Status::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let body =
        activation.response.result.map_or_else(|| "{}".to_owned(), |result| Box::<str>::from(result).into());
    let mut response = (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body)
        .into_response();
    mark(&mut response, activation.id, Some(activation.response.status));
    response
}

pub(crate) fn http_answer(answer: HttpAnswer) -> Response {
    let HttpAnswer { activation, status, mut headers, body } = answer;
    // The server sets the length of what it actually sends.
    headers.remove(header::CONTENT_LENGTH);
    let mut response = Response::new(outgoing(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let class = if status.is_client_error() || status.is_server_error() {
        Status::ApplicationError
    } else {
        Status::Success
    };
    mark(&mut response, activation, Some(class));
    response
}

fn mark(response: &mut Response, id: ActivationId, status: Option<Status>) {
    let headers = response.headers_mut();
    // 32 hex digits.
    if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(ACTIVATION, id);
    }
    match status {
        Some(status) => headers.insert(STATUS, HeaderValue::from_static(status.word())),
        // Functions must not set Flint's own header.
        None => headers.remove(STATUS),
    };
}

/// The activation record in place of the answer. Long logs are truncated: the response may be kept in memory
/// for a client that does not read.
pub(crate) fn shown(mut activation: Activation) -> Response {
    cut_logs(&mut activation.logs);
    let (id, status) = (activation.id, activation.response.status);
    let mut response = Json(ActivationResource::from(activation)).into_response();
    mark(&mut response, id, Some(status));
    response
}
