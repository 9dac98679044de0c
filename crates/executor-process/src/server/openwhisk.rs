//! Contract `openwhisk`: `/init` once, then `/run` for each call, on port 8080 (OpenWhisk's action proxy protocol).

use bytes::Bytes;
use flint_executor::{Call, Fault, Reply};
use flint_model::Function;
use http::{
    HeaderValue, Method, Request, StatusCode,
    header::{CONTENT_TYPE, HOST},
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::body::RequestBody;
use crate::run_request;
use flint_runtimes::{json, outcome, process::command::PORT};

/// `POST /init`. The function's own program is the proxy, so no code is sent.
pub(super) fn init(function: &Function, environment: &[(String, String)]) -> Request<RequestBody> {
    #[derive(Serialize)]
    struct Init<'a> {
        value: InitValue<'a>,
    }
    #[derive(Serialize)]
    struct InitValue<'a> {
        name: String,
        main: &'a str,
        binary: bool,
        env: Map<String, Value>,
    }
    let path = &function.path;
    let own = run_request::identity(function);
    let mut env: Map<String, Value> = own.into_iter().map(|(key, value)| (key, value.into())).collect();
    env.extend(environment.iter().map(|(key, value)| (key.clone(), value.clone().into())));
    let main = function.main.as_deref().unwrap_or("main");
    let value = InitValue { name: path.name.to_string(), main, binary: false, env };
    // Strings and maps of strings always serialise.
    post("/init", serde_json::to_vec(&Init { value }).unwrap_or_default().into())
}

/// `POST /run`. `arguments` is the call's body, which must be a JSON value.
pub(super) fn run(
    function: &Function,
    call: &Call,
    arguments: &Bytes,
) -> Result<Request<RequestBody>, Fault> {
    let body = run_request::of(function, call, arguments)?;
    Ok(post("/run", body.into()))
}

fn post(path: &'static str, body: Bytes) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::Full(Some(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(host) = HeaderValue::try_from(format!("127.0.0.1:{PORT}")) {
        request.headers_mut().insert(HOST, host);
    }
    request
}

/// Whether `/init` succeeded.
pub(super) fn initialised(status: StatusCode, body: &Bytes) -> Result<(), Fault> {
    if status == StatusCode::OK {
        return Ok(());
    }
    Err(error_of(body).unwrap_or_else(|| Fault::InvalidAnswer { text: json::beginning(body) }))
}

/// The result of an answer to `/run`, and whether the proxy can serve on.
pub(super) fn result(
    status: StatusCode,
    body: Bytes,
    size: u64,
    allowed: u64,
) -> (Result<Reply, Fault>, bool) {
    if status == StatusCode::SERVICE_UNAVAILABLE {
        return (
            Err(Fault::Platform { cause: "the action proxy says that it is shutting down".into() }),
            false,
        );
    }
    if size > allowed {
        return (Err(outcome::too_large(size, allowed, &body)), status == StatusCode::OK);
    }
    if status == StatusCode::OK {
        return (outcome::json(body, allowed), true);
    }
    (Err(error_of(&body).unwrap_or_else(|| Fault::InvalidAnswer { text: json::beginning(&body) })), false)
}

/// The error in `{"error": …}`.
fn error_of(body: &Bytes) -> Option<Fault> {
    let object: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let message = match object.get("error")? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(Fault::Developer { message })
}
