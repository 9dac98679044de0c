//! Refusals of requests before they reach a front, in that front's format.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde_json::json;

/// The refusal, in the format of the native API or of OpenWhisk's.
pub(super) fn refusal(status: StatusCode, code: &str, message: &str, hint: &str, native: bool) -> Response {
    let body = match native {
        true => json!({ "error": { "code": code, "message": message, "hint": hint } }),
        false => json!({ "error": format!("{message}: {hint}"), "code": code }),
    };
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
