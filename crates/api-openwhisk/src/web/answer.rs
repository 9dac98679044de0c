//! Answers of web actions, and their refusals.

use axum::{body::Body, response::Response};
use flint_controller::HttpAnswer;
use flint_model::ActivationId;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;

use super::{Projected, cors::Cors, stream::outgoing};
use crate::{
    refusal::Refusal,
    reply::{ACTIVATION, REALM},
    transaction,
};

/// A call that came to nothing, and what is known of it.
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    pub(super) activation: Option<ActivationId>,
}

impl<T: Into<Refusal>> From<T> for Refused {
    fn from(refusal: T) -> Self {
        Self { refusal: refusal.into(), activation: None }
    }
}

/// The projection of a result.
pub(super) fn projected(answer: Projected, id: ActivationId) -> Response {
    let Projected { status, content_type, headers, body } = answer;
    let mut response = of(status, headers, Body::from(body), Some(id));
    response.headers_mut().extend(content_type.map(|value| (CONTENT_TYPE, value)));
    response
}

/// An answer of a function that speaks HTTP itself.
pub(super) fn http(answer: HttpAnswer) -> Response {
    let HttpAnswer { activation, status, mut headers, body } = answer;
    // The length of what is really sent is said by the server.
    headers.remove(CONTENT_LENGTH);
    of(status, headers, outgoing(body), Some(activation))
}

/// Nothing at all.
pub(super) fn empty() -> Response {
    of(StatusCode::OK, HeaderMap::new(), Body::empty(), None)
}

/// `{"error": …, "code": …}`, with line breaks as web actions have it.
pub(super) fn refused(refused: &Refused, transaction: &str) -> Response {
    #[derive(Serialize)]
    struct Text<'a> {
        error: &'a str,
        code: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<&'a str>,
    }
    let Refusal { status, text, cause, retry_after } = &refused.refusal;
    let body = serde_json::to_vec_pretty(&Text { error: text, code: transaction, cause: cause.as_deref() });
    let mut response =
        of(*status, HeaderMap::new(), Body::from(body.unwrap_or_default()), refused.activation);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().extend(retry_after.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
    if *status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, REALM);
    }
    response
}

/// With what every answer carries.
pub(super) fn finished(mut response: Response, cors: Cors, transaction: &str) -> Response {
    let headers = response.headers_mut();
    cors.apply(headers);
    if let Ok(value) = HeaderValue::from_str(transaction) {
        headers.insert(transaction::HEADER, value);
    }
    response
}

fn of(status: StatusCode, headers: HeaderMap, body: Body, id: Option<ActivationId>) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    // 32 hex digits.
    let id = id.and_then(|id| HeaderValue::from_str(&id.to_string()).ok());
    match id {
        Some(id) => response.headers_mut().insert(ACTIVATION, id),
        // An action must not speak in the platform's name.
        None => response.headers_mut().remove(ACTIVATION),
    };
    response
}
