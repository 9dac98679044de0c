//! What came of a call, as HTTP.

use std::time::{Duration, Instant};

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use flint_controller::{Answer, HttpAnswer};
use flint_executor::Body;
use flint_model::{Activation, ActivationId, FunctionPath, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Native,
    auth::Tenant,
    body::outgoing,
    error::ApiError,
    resource::{ActivationResource, StatusWord},
};

const ACTIVATION: HeaderName = HeaderName::from_static("x-flint-activation-id");
const STATUS: HeaderName = HeaderName::from_static("x-flint-status");
/// How long a record may take to be written down after its call has ended.
const RECORD_WITHIN: Duration = Duration::from_secs(2);

/// A call that goes on by itself.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Accepted {
    /// Its activation: `GET /v1/activations/{id}` has the result when it has ended.
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
    let HttpAnswer { activation, status, mut headers, body, .. } = answer;
    // The length of what is really sent is said by the server.
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
        // A function must not speak in Flint's name.
        None => headers.remove(STATUS),
    };
}

/// The activation record in place of the answer. An answer of HTTP's is read to its end and left out.
pub(crate) async fn record(
    native: &Native,
    tenant: &Tenant,
    path: &FunctionPath,
    answer: Answer,
) -> Result<Response, ApiError> {
    let id = answer.activation();
    if let Answer::Http(answer) = answer {
        // What does not come to its end is seen in the record.
        if let Body::Stream(mut pieces) = answer.body {
            while let Some(Ok(_)) = pieces.recv().await {}
        }
    } else if let Answer::Finished(activation) = answer {
        let status = activation.response.status;
        return Ok(shown(*activation, status));
    }
    let namespace = &tenant.caller.namespace.name;
    let began = Instant::now();
    loop {
        match native.controller.activation(&tenant.caller, namespace, id).await {
            Ok(activation) => {
                let status = activation.response.status;
                return Ok(shown(activation, status));
            }
            Err(error) if began.elapsed() > RECORD_WITHIN => {
                tracing::debug!(%id, function = %path, "its record was asked for and is not there");
                return Err(ApiError::no_activation(error, &id.to_string()));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn shown(activation: Activation, status: Status) -> Response {
    let id = activation.id;
    let mut response = Json(ActivationResource::from(activation)).into_response();
    mark(&mut response, id, Some(status));
    response
}
