//! Contract `http`: the caller's request goes to the server on `$PORT`, its response comes back.

use flint_executor::{Body, Call};
use http::{
    HeaderMap, HeaderValue, Method, Request, Uri,
    header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST},
};

use super::body::RequestBody;
use flint_runtimes::{outcome::remove_hop_by_hop, process::command::PORT};

/// The request as the server gets it. A call without an HTTP request is a POST of its JSON to `/`.
pub(super) fn request(call: Call) -> Result<Request<RequestBody>, String> {
    let (method, target, mut headers) = match call.head {
        Some(head) => {
            let head = *head;
            let path = if head.path.starts_with('/') { head.path } else { format!("/{}", head.path) };
            let target = if head.query.is_empty() { path } else { format!("{path}?{}", head.query) };
            (head.method, target, head.headers)
        }
        None => {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            (Method::POST, "/".to_owned(), headers)
        }
    };
    let target = target
        .parse::<Uri>()
        .map_err(|error| format!("the path and query '{target}' are not a URI: {error}"))?;
    remove_hop_by_hop(&mut headers);
    // Whoever took the request from the caller has answered it.
    headers.remove(EXPECT);
    if matches!(call.body, Body::Full(_)) {
        // The body at hand says it.
        headers.remove(CONTENT_LENGTH);
    }
    let text = |value: String| HeaderValue::try_from(value).ok();
    let own = [
        ("x-flint-activation-id", text(call.activation.to_string())),
        ("x-flint-deadline-ms", text(call.deadline_at.as_millis().to_string())),
        ("x-flint-transaction-id", text(call.transaction.to_string())),
    ];
    for (name, value) in own {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    if !headers.contains_key(HOST)
        && let Some(host) = text(format!("127.0.0.1:{PORT}"))
    {
        headers.insert(HOST, host);
    }
    let mut request = Request::new(RequestBody::from(call.body));
    *request.method_mut() = method;
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    Ok(request)
}
