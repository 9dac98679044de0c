//! Requests for packages, triggers and rules, which only the OpenWhisk API has.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flint_api_native::resource::ErrorDetail;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::Value;

use super::{Client, collect, refusal_from};
use crate::failure::Failure;

/// An error response; `cause` says what is behind a standard text. A failed function may have nested its error in
/// another one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Refused {
    Plain { error: String, cause: Option<Value> },
    Nested { error: Inner },
}

#[derive(Deserialize)]
struct Inner {
    error: String,
}

impl Client {
    /// Sends a request to `/api/v1/namespaces/{path}`; a response without a body is `null`.
    pub(crate) async fn entity(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut request = Request::builder().method(method).uri(format!("/api/v1/namespaces/{path}"));
        if let Some(key) = self.authorization.as_ref().and_then(|bearer| bearer.strip_prefix("Bearer ")) {
            request = request.header(header::AUTHORIZATION, format!("Basic {}", STANDARD.encode(key)));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request
            .body(Full::new(body))
            .map_err(|error| Failure::usage(format!("cannot ask for {path}: {error}")))?;
        let answer = self.send(request).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = collect(answer).await?;
        if status.is_success() && body.is_empty() {
            return Ok(Value::Null);
        }
        if status.is_success()
            && let Ok(value) = serde_json::from_slice(&body)
        {
            return Ok(value);
        }
        Err(refusal_in(status, &headers, &body))
    }
}

/// The failure that an error response tells of.
fn refusal_in(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    match serde_json::from_slice(body) {
        // A function that failed has an `error` of its own, and what it likes as `cause`.
        Ok(Refused::Plain { cause: Some(Value::String(cause)), .. }) if status != StatusCode::BAD_GATEWAY => {
            refused(status, cause)
        }
        Ok(Refused::Plain { error, .. } | Refused::Nested { error: Inner { error } }) => {
            refused(status, error)
        }
        Err(_) => refusal_from(status, headers, body),
    }
}

/// The beginning of the API's error for a missing entity. Its errors are those of OpenWhisk, whose `code` is a
/// transaction's id, and a 404 may be about another entity: a rule is not enabled while its trigger is missing.
/// The text is OpenWhisk's, and does not change.
pub(crate) const NOT_THERE: &str = "The requested resource";

/// The API's own advice for a package that is not empty; the option has another name here.
const FORCE: &str = " Set force param or delete package contents.";

pub(super) fn refused(status: StatusCode, mut message: String) -> Failure {
    let (code, hint) = match status {
        StatusCode::BAD_REQUEST => ("invalid", None),
        StatusCode::UNAUTHORIZED => {
            ("unauthenticated", Some("give a key with --auth, FLINT_AUTH or ~/.config/flint/auth"))
        }
        StatusCode::FORBIDDEN => ("forbidden", None),
        StatusCode::NOT_FOUND => ("not_found", None),
        StatusCode::CONFLICT if message.contains("already exists") => {
            ("conflict", Some("say --update to change it"))
        }
        StatusCode::CONFLICT if message.contains(FORCE) => {
            message = message.replace(FORCE, "");
            ("conflict", Some("say --force to delete what is in it too, or delete that first"))
        }
        StatusCode::CONFLICT => ("conflict", None),
        StatusCode::PAYLOAD_TOO_LARGE => ("too_large", None),
        StatusCode::TOO_MANY_REQUESTS => ("throttled", Some("wait for the next minute")),
        StatusCode::SERVICE_UNAVAILABLE => ("unavailable", None),
        StatusCode::BAD_GATEWAY => ("function_failed", None),
        StatusCode::INTERNAL_SERVER_ERROR => ("internal", Some("the server's log has the cause")),
        _ => ("refused", None),
    };
    Failure::refused(ErrorDetail { code: code.to_owned(), message, hint: hint.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_standard_text_is_said_and_a_functions_own_error_as_it_is() {
        let said =
            |status: StatusCode, body: &str| refusal_in(status, &HeaderMap::new(), body.as_bytes()).message;
        let full = r#"{"error":"unavailable","code":"1","cause":"the disk is full"}"#;
        assert_eq!(said(StatusCode::SERVICE_UNAVAILABLE, full), "the disk is full");
        assert_eq!(said(StatusCode::NOT_FOUND, r#"{"error":"gone","code":"1"}"#), "gone");
        for own in [
            r#"{"error":"no such topic","cause":"ENOENT"}"#,
            r#"{"error":"no such topic","cause":{"errno":-2}}"#,
            r#"{"error":{"error":"no such topic"}}"#,
        ] {
            assert_eq!(said(StatusCode::BAD_GATEWAY, own), "no such topic", "{own}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let failure = refused(StatusCode::CONFLICT, "resource already exists".to_owned());
        assert_eq!(
            (failure.code.as_str(), failure.hint.as_deref()),
            ("conflict", Some("say --update to change it"))
        );
        let full = "Package not empty (contains 1 entity). Set force param or delete package contents.";
        let failure = refused(StatusCode::CONFLICT, full.to_owned());
        assert_eq!(failure.message, "Package not empty (contains 1 entity).");
        assert!(failure.hint.is_some_and(|hint| hint.contains("--force")));
    }
}
