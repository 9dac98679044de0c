//! Error responses: status, code, cause, next step.

use std::sync::Arc;

use axum::{
    Json,
    extract::{
        self, FromRequest, FromRequestParts, Query, Request,
        rejection::{JsonRejection, PathRejection, QueryRejection},
    },
    http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use flint_controller::{ControllerError, ErrorKind};
use flint_model::{ByteSize, FunctionPath};
use flint_request_body::{Arrival, NoRoom, Unread, read};
use serde::de::DeserializeOwned;

use crate::{
    Native,
    auth::Tenant,
    resource::{ErrorBody, ErrorDetail},
};

/// Maximum JSON body of a request that is neither a call nor a deploy.
const MOST_JSON: u64 = 2 << 20;

/// What to do about code that is too large.
const LEAVE_OUT: &str =
    "leave out what the function does not need (.flintignore), or ask the operator for more";

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: ErrorBody,
    /// Seconds to wait before trying again.
    retry_after: Option<u32>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, body: ErrorBody::new(code, message), retry_after: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.body = self.body.hint(hint);
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub(crate) fn no_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", "the request has no key")
            .hint("send `Authorization: Bearer uuid:secret`; with the command line use --auth, FLINT_AUTH or ~/.config/flint/auth")
    }

    pub(crate) fn bad_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", "the key is malformed, unknown, or its namespace is blocked")
            .hint("a key is a UUID, a colon and 64 letters and digits; the guest key works only while the server listens on loopback")
    }

    pub(crate) fn wrong_scope(message: &str, hint: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message).hint(hint)
    }

    /// JSON with code exceeds the bound that follows from that of the code.
    pub(crate) fn deploy_too_large(size: u64, allowed: u64, max_code: u64) -> Self {
        let (size, allowed, max_code) =
            (beyond(size, allowed), ByteSize::bytes(allowed), ByteSize::bytes(max_code));
        let message = format!("the request is {size}; limits.max_code is {max_code}, which allows {allowed}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).hint(LEAVE_OUT)
    }

    /// A function was not found: the controller's own message does not name it.
    pub(crate) fn no_function(error: ControllerError, namespace: &str, name: &str) -> Self {
        match error {
            ControllerError::NotFound | ControllerError::NoSuch(_) => {
                let missing = format!("there is no function '{name}' in namespace '{namespace}'");
                Self::new(StatusCode::NOT_FOUND, "not_found", missing).hint(match name.rsplit_once('@') {
                    Some((function, _)) => {
                        format!("`flint versions {function}` shows which versions and aliases that one has")
                    }
                    None => {
                        "`flint list` shows what is there; `flint deploy FILE --name NAME` creates one".into()
                    }
                })
            }
            other => other.into(),
        }
    }

    /// The same for a sequence.
    pub(crate) fn no_sequence(error: ControllerError, namespace: &str, name: &str) -> Self {
        match error {
            ControllerError::NotFound | ControllerError::NoSuch(_) => Self::new(
                StatusCode::NOT_FOUND,
                "not_found",
                format!("there is no sequence '{name}' in namespace '{namespace}'"),
            )
            .hint("`flint sequence list` shows what is there; `flint sequence create` makes one"),
            other => other.into(),
        }
    }

    /// The same for the package that a function or sequence is written into.
    pub(crate) fn no_package(error: ControllerError, path: &FunctionPath) -> Self {
        match (error, &path.package) {
            (ControllerError::NoSuch(_), Some(package)) => {
                let missing = format!("there is no package '{package}' in namespace '{}'", path.namespace);
                Self::new(StatusCode::NOT_FOUND, "not_found", missing)
                    .hint(format!("`flint package create {package}` makes it"))
            }
            (other, _) => other.into(),
        }
    }

    /// The same for a record.
    pub(crate) fn no_activation(error: ControllerError, id: &str) -> Self {
        match error {
            ControllerError::NotFound | ControllerError::NoSuch(_) => Self::new(
                StatusCode::NOT_FOUND,
                "not_found",
                format!("there is no record of activation {id}"),
            )
            .hint("`flint activations` shows what is recorded; a call that still runs has no record yet"),
            other => other.into(),
        }
    }

    /// The same for a namespace.
    pub(crate) fn no_namespace(error: ControllerError, name: &str) -> Self {
        match error {
            ControllerError::NoSuch(what) if what != name => Self::new(
                StatusCode::NOT_FOUND,
                "not_found",
                format!("there is no key '{what}' in namespace '{name}'"),
            )
            .hint("`flint namespace keys NAME` lists them"),
            ControllerError::NotFound | ControllerError::NoSuch(_) => {
                Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no namespace '{name}'"))
                    .hint("`flint namespace list` shows what is there")
            }
            ControllerError::Exists => {
                Self::new(StatusCode::CONFLICT, "exists", format!("there is a namespace '{name}' already"))
                    .hint("`flint namespace keys NAME --add` makes a further key for it")
            }
            other => other.into(),
        }
    }

    /// The error's detail, for a response that has already begun.
    pub(crate) fn into_detail(self) -> ErrorDetail {
        self.body.error
    }
}

impl From<ControllerError> for ApiError {
    fn from(error: ControllerError) -> Self {
        let kind = error.kind();
        if let Some(detail) = error.detail() {
            tracing::error!(%detail, "a request failed");
        }
        let (status, code) = match kind {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
            ErrorKind::Unauthenticated => return Self::bad_key(),
            ErrorKind::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            ErrorKind::Timeout => (StatusCode::REQUEST_TIMEOUT, "timeout"),
            ErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            ErrorKind::Unprocessable => (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable"),
            ErrorKind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            ErrorKind::Throttled => (StatusCode::TOO_MANY_REQUESTS, "throttled"),
            ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            ErrorKind::NotImplemented => (StatusCode::NOT_IMPLEMENTED, "not_implemented"),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        let message = match error {
            ControllerError::TooLarge { what: "exec", size, allowed } => code_is_too_large(size, allowed),
            _ => error.cause().unwrap_or_else(|| error.to_string()),
        };
        let refusal = Self::new(status, code, message);
        let mut refusal = match hint(&error) {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        };
        refusal.retry_after = error.retry_after();
        refusal
    }
}

impl From<NoRoom> for ApiError {
    fn from(error: NoRoom) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", error.to_string());
        Self { retry_after: Some(NoRoom::RETRY_AFTER), ..refusal }
    }
}

impl From<Unread> for ApiError {
    fn from(unread: Unread) -> Self {
        let (status, code) = match unread {
            Unread::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Unread::Late => (StatusCode::REQUEST_TIMEOUT, "timeout"),
            Unread::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Unread::Broken(_) => (StatusCode::BAD_REQUEST, "invalid"),
        };
        Self { retry_after: unread.retry_after(), ..Self::new(status, code, unread.to_string()) }
    }
}

/// The next step, if the cause alone does not imply it.
fn hint(error: &ControllerError) -> Option<&'static str> {
    Some(match error {
        ControllerError::UnknownKind { .. } | ControllerError::NotOnThisHost { .. } => {
            "`flint doctor` shows what this host can run, and how to get what is missing"
        }
        ControllerError::NoCode => "send `code`: a new function needs some",
        ControllerError::NoFunction(_) => {
            "`flint invoke` calls it; `flint sequence get` and `flint sequence rm` show and delete it"
        }
        ControllerError::NoSequence(_) => "`flint get` and `flint rm` show and delete functions",
        ControllerError::NoProvider { .. } => {
            "`flint package bind PACKAGE NAME --update` binds it to another one, `flint package delete NAME` deletes it"
        }
        ControllerError::Race => "repeat the request",
        ControllerError::ListTooLarge { .. } => {
            "ask for a page with query `limit`, for example `flint list -n 20` or `flint sequence list -n 20`"
        }
        ControllerError::Limit(_) => {
            "the server's bounds are configuration keys limits.*; `flint config limits` shows them"
        }
        ControllerError::TooLarge { what: "secret", .. } => "the server's bound is secrets.max_size",
        ControllerError::TooLarge { what: "exec", .. } => LEAVE_OUT,
        ControllerError::TooLarge { what: "Request without its code", .. } => {
            "what is around the code may have 4 MB, and twice limits.max_parameters, of which the operator gives a namespace another with `flint namespace limits`"
        }
        ControllerError::TooLarge { what: "parameters" | "annotations", .. } => {
            "the server's bound is limits.max_parameters; the operator gives a namespace another with `flint namespace limits`"
        }
        ControllerError::TooLarge { .. } => {
            "the server's bounds are limits.max_payload for JSON and limits.max_body for other bodies; the operator gives a namespace another limits.max_payload with `flint namespace limits`"
        }
        ControllerError::Rate { .. } => {
            "wait for the next minute; the operator raises it by limits.invocations_per_minute, or with `flint namespace limits`"
        }
        ControllerError::Concurrency { .. } => {
            "wait for calls to end; the operator raises it by limits.concurrent_invocations, or with `flint namespace limits`"
        }
        ControllerError::KindForbidden(_) => {
            "the operator changes that with `flint namespace limits NAME --allowed-kinds …`"
        }
        ControllerError::Store(_) | ControllerError::Internal(_) => "the server's log has the cause",
        _ => return None,
    })
}

/// Code beyond its limit.
fn code_is_too_large(size: u64, allowed: u64) -> String {
    format!("the code is {}; limits.max_code is {}", beyond(size, allowed), ByteSize::bytes(allowed))
}

/// A size beyond a limit, in megabytes unless that would look the same.
fn beyond(size: u64, allowed: u64) -> String {
    match size >> 20 > allowed >> 20 {
        true => format!("{} MB", size >> 20),
        false => format!("{size} bytes"),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"flint\", Basic realm=\"flint\""),
            );
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Fallback for an unknown path below `/v1`.
pub(crate) async fn no_route(uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("the API has no {}", uri.path()))
        .hint("GET /v1/openapi.json describes it")
}

/// Fallback for a known path with an unsupported method.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} has no method {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
        .hint("GET /v1/openapi.json describes it")
}

/// Extractor of the operator's JSON body, with this API's errors.
pub(crate) struct Body<T>(pub(crate) T);

/// Extractor of a namespace's key and JSON body: who sends it says whose room it takes.
pub(crate) struct Sent<T>(pub(crate) Tenant, pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        json(request, None).await.map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<Native>> for Sent<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, native: &Arc<Native>) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let tenant = Tenant::from_request_parts(&mut parts, native).await?;
        let arrival = native.config.uploads.arrival(tenant.caller.namespace.name.as_str());
        let sent = json(Request::from_parts(parts, body), Some(arrival)).await?;
        Ok(Self(tenant, sent))
    }
}

async fn json<T: DeserializeOwned>(request: Request, arrival: Option<Arrival<'_>>) -> Result<T, ApiError> {
    let (parts, body) = request.into_parts();
    // Read here: axum would wait for it without a time limit.
    let body = read(body, MOST_JSON, arrival).await.map_err(|unread| match unread {
        Unread::TooLarge { .. } => {
            ApiError::from(unread).hint(format!("{} MB are read here at most", MOST_JSON >> 20))
        }
        unread => unread.into(),
    })?;
    let is_object = is_object(&body);
    let request = Request::from_parts(parts, body.into());
    match Json::from_request(request, &()).await {
        Ok(_) | Err(JsonRejection::JsonDataError(_)) if !is_object => Err(no_object()),
        Ok(Json(body)) => Ok(body),
        Err(JsonRejection::JsonDataError(wrong)) => Err(ApiError::invalid(wrong.body_text())),
        Err(JsonRejection::MissingJsonContentType(missing)) => {
            Err(ApiError::new(missing.status(), "unsupported_media_type", missing.body_text()))
        }
        Err(other) => Err(ApiError::new(other.status(), "invalid", other.body_text())),
    }
}

/// Whether a JSON body is an object: serde would also read a struct from an array.
pub(crate) fn is_object(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"{")
}

/// The error for a JSON body that is not an object.
pub(crate) fn no_object() -> ApiError {
    ApiError::invalid("the body has to be a JSON object").hint("GET /v1/openapi.json describes it")
}

/// Extractor of a query, with this API's errors.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let refused = |rejection: QueryRejection| ApiError::invalid(rejection.body_text());
        Query::from_request_parts(parts, state).await.map(|Query(query)| Self(query)).map_err(refused)
    }
}

/// Extractor of path segments, with this API's errors.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let refused = |rejection: PathRejection| ApiError::invalid(rejection.body_text());
        extract::Path::from_request_parts(parts, state)
            .await
            .map(|extract::Path(named)| Self(named))
            .map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::body::written;

    async fn read<T: DeserializeOwned>(media: &str, body: axum::body::Body) -> Result<T, ApiError> {
        let request = axum::http::Request::builder().header(header::CONTENT_TYPE, media);
        Body::<T>::from_request(request.body(body).unwrap(), &()).await.map(|Body(value)| value)
    }

    async fn sent(body: axum::body::Body) -> Result<Value, StatusCode> {
        read("application/json", body).await.map_err(|refusal| refusal.status)
    }

    #[tokio::test(start_paused = true)]
    async fn json_comes_in_time_and_within_its_bound() {
        assert_eq!(sent("{}".into()).await, Ok(json!({})));
        let (_stalls, body) = written(1);
        assert_eq!(sent(body).await, Err(StatusCode::REQUEST_TIMEOUT));
        let large = vec![b' '; MOST_JSON as usize + 1];
        assert_eq!(sent(large.into()).await, Err(StatusCode::PAYLOAD_TOO_LARGE));
    }

    #[test]
    fn code_that_is_too_large_is_said_with_the_key_that_bounds_it() {
        let refused = |size| {
            let error = ControllerError::TooLarge { what: "exec", size, allowed: 48 << 20 };
            ApiError::from(error).into_detail().message
        };
        assert_eq!(refused(60 << 20), "the code is 60 MB; limits.max_code is 48 MB");
        assert_eq!(refused((48 << 20) + 1), "the code is 50331649 bytes; limits.max_code is 48 MB");
        let request = ApiError::deploy_too_large(70 << 20, 68 << 20, 48 << 20).into_detail().message;
        assert_eq!(request, "the request is 70 MB; limits.max_code is 48 MB, which allows 68 MB");
    }

    #[test]
    fn who_sends_too_much_around_code_is_told_what_bounds_it() {
        let error = ControllerError::TooLarge { what: "Request without its code", size: 9, allowed: 8 };
        let hint = ApiError::from(error).into_detail().hint.unwrap();
        assert!(hint.contains("twice limits.max_parameters"), "{hint}");
    }

    #[tokio::test]
    async fn other_json_than_an_object_and_fields_of_other_types_are_refused_alike() {
        const JSON: &str = "application/json";
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default)]
        struct Asked {
            limit: usize,
        }
        let refused = async |media: &'static str, body: &'static str| {
            let refusal = read::<Asked>(media, body.into()).await.unwrap_err();
            (refusal.status.as_u16(), refusal.body.error.code, refusal.body.error.message)
        };
        assert_eq!(read::<Asked>(JSON, " {\"limit\": 1}".into()).await.unwrap().limit, 1);
        for body in ["[1]", "[]", " [\"x\"]", "3", "\"x\"", "null"] {
            let (status, code, message) = refused(JSON, body).await;
            assert_eq!((status, code.as_str()), (400, "invalid"), "{body}");
            assert_eq!(message, "the body has to be a JSON object", "{body}");
        }
        for body in ["{\"limit\": \"x\"}", "{", "[", ""] {
            let (status, code, message) = refused(JSON, body).await;
            assert_eq!((status, code.as_str()), (400, "invalid"), "{body}: {message}");
        }
        let (status, code, _) = refused("text/plain", "{}").await;
        assert_eq!((status, code.as_str()), (415, "unsupported_media_type"));
    }
}
