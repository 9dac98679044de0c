//! Calls. Small JSON arguments take a short way: no stream, no HTTP head, parameters merged. Anything else is handed on as
//! the HTTP request that it is.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Uri, header, request::Parts},
    response::Response,
};
use flint_controller::{Accepts, Answer, Invocation, Mode};
use flint_executor::{Body, CallHead, media_type, remove_hop_by_hop};
use flint_model::ActivationId;

use crate::{
    Native,
    answer::{Accepted, accepted, finished, http_answer, shown},
    arguments::{CallQuery, merged, percent_decoded},
    auth::Tenant,
    body::{Upload, collect, incoming},
    error::{ApiError, Path},
    functions::path_of,
    resource::ErrorBody,
};

/// Invoke a function
///
/// A JSON body gives the arguments; the query adds further ones. To pass an argument with the same name as an option listed here,
/// percent-encode a letter of it: `%61sync=true`. A body of any other type, or a path after `invoke` (even just `/`), reaches the function as
/// the HTTP request it is. The response is the function's own. The header `X-Flint-Status` gives the outcome, and `X-Flint-Activation-Id` the
/// id of the activation record.
#[utoipa::path(post, path = "/v1/functions/{name}/invoke", tag = "functions",
    params(
        ("name" = String, Path, description = "Function name: `name`, or `package%2Fname`"),
        ("async" = Option<bool>, Query, description = "Return 202 as soon as the call is durable; default false"),
        ("record" = Option<bool>, Query, description = "Return 200 with the activation record instead of the function's answer, even if records are not kept; default false"),
        ("wait_ms" = Option<u64>, Query, description = "Maximum time to wait for the answer, in milliseconds; after that, 202 is returned and the call continues on its own"),
    ),
    request_body(description = "The arguments, or the body of an HTTP request; an empty body means no arguments", content(("application/json", example = json!({"name": "world"})), ("application/octet-stream"))),
    responses(
        (status = 200, description = "The function's answer, or with `record=true` an `ActivationResource`"),
        (status = "default", description = "Any status that a function speaking HTTP returns, or another error"),
        (status = 202, body = Accepted, description = "Accepted; the call continues on its own"),
        (status = 408, description = "The request body arrived too slowly"),
        (status = 413, description = "The request body exceeds `limits.max_payload` or, if it is not JSON, `limits.max_body`"),
        (status = 422, description = "The function returned an error: `{\"error\": …}`"),
        (status = 429, body = ErrorBody, description = "A limit of the namespace is reached"),
        (status = 500, description = "Flint could not run the function"),
        (status = 502, description = "The function does not load, crashed, or exceeded a limit"),
        (status = 503, body = ErrorBody, description = "No capacity at the moment"),
    ))]
pub(crate) async fn invoke(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    call(&native, &tenant, &name, request).await
}

/// The same with a path that the function sees.
pub(crate) async fn invoke_path(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    request: Request,
) -> Result<Response, ApiError> {
    let name = name_of(request.uri())?;
    call(&native, &tenant, &name, request).await
}

/// What is called by `/v1/functions/NAME/invoke/…`. [`Path`] would refuse a rest that is not UTF-8 once it is decoded, which nobody does here.
fn name_of(uri: &Uri) -> Result<String, ApiError> {
    let name = uri.path().split('/').nth(3).unwrap_or_default();
    String::from_utf8(percent_decoded(name))
        .map_err(|_| ApiError::invalid(format!("'{name}' is not the name of a function: it is not UTF-8")))
}

/// What comes after `/v1/functions/NAME/invoke/`, as it came: decoded, it would be another path, or a path and a query.
fn rest_of(uri: &Uri) -> Option<&str> {
    uri.path().splitn(6, '/').nth(5)
}

async fn call(
    native: &Arc<Native>,
    tenant: &Tenant,
    name: &str,
    request: Request,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let path = path_of(&tenant.caller, name)?;
    let (parts, body) = request.into_parts();
    let query = CallQuery::parse(parts.uri.query())?;
    let bounds = &tenant.caller.limits().bounds;
    let rest = rest_of(&parts.uri);
    let arrival = native.config.uploads.arrival(tenant.caller.namespace.name.as_str());
    let plain = rest.is_none() && takes_arguments(&parts);
    let (head, (body, upload)) = match plain {
        true => {
            let body = collect(body, bounds.max_payload.as_u64(), Some(arrival)).await?;
            (None, (Body::Full(merged(&query.rest, body)?), Upload::default()))
        }
        false => {
            let body = incoming(body, bounds.max_body.as_u64(), arrival).await?;
            (Some(head(&parts, rest, &query.rest)), body)
        }
    };
    let wait = query.wait.map_or(bounds.max_blocking_wait, |wait| wait.min(bounds.max_blocking_wait));
    let invocation = Invocation {
        path: path.clone(),
        body,
        head,
        mode: if query.asynchronous { Mode::NonBlocking } else { Mode::Blocking { wait } },
        accepts: if query.record { Accepts::Record } else { Accepts::Http },
        transaction: transaction(&parts.headers),
        arrived,
        api_key: Some(Arc::clone(&tenant.key)),
    };
    let answer = native.controller.invoke(&tenant.caller, invocation).await;
    let answer =
        answer.map_err(|error| ApiError::no_function(error, path.namespace.as_str(), &path.local()))?;
    Ok(upload.answered(match answer {
        // It may read on.
        Answer::Accepted(id) => return Ok(accepted(id)),
        Answer::Finished(activation) if query.record => shown(*activation),
        Answer::Finished(activation) => finished(*activation),
        Answer::Http(answer) => http_answer(answer),
    }))
}

/// Whether the body is arguments: JSON, or nothing at all.
fn takes_arguments(parts: &Parts) -> bool {
    match media_type(&parts.headers) {
        Some(media) => media.eq_ignore_ascii_case(b"application/json"),
        None => {
            !parts.headers.contains_key(header::TRANSFER_ENCODING)
                && parts.headers.get(header::CONTENT_LENGTH).is_none_or(|length| length == "0")
        }
    }
}

/// The request as the function sees it: without what belongs to the connection or to Flint.
fn head(parts: &Parts, rest: Option<&str>, query: &str) -> Box<CallHead> {
    let mut headers = parts.headers.clone();
    remove_hop_by_hop(&mut headers);
    for name in [header::AUTHORIZATION, header::HOST, header::EXPECT] {
        headers.remove(name);
    }
    Box::new(CallHead {
        method: parts.method.clone(),
        path: format!("/{}", rest.unwrap_or_default()),
        query: query.to_owned(),
        headers,
    })
}

/// The caller's own transaction id, if it is one, or a new one.
pub(crate) fn transaction(headers: &HeaderMap) -> Arc<str> {
    let own = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    match own.filter(|id| {
        (1..=64).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    }) {
        Some(id) => id.into(),
        None => ActivationId::generate().to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = axum::http::Request::builder().method(Method::POST).uri("/v1/functions/f/invoke");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn json_and_nothing_are_arguments() {
        for headers in [
            &[][..],
            &[("content-length", "0")],
            &[("content-type", "Application/JSON; charset=utf-8"), ("content-length", "2")],
        ] {
            assert!(takes_arguments(&parts(headers)), "{headers:?}");
        }
        for headers in [
            &[("content-length", "3")][..],
            &[("transfer-encoding", "chunked")],
            &[("content-type", "image/png")],
        ] {
            assert!(!takes_arguments(&parts(headers)), "{headers:?}");
        }
    }

    #[test]
    fn the_function_does_not_see_credentials_or_the_connections_headers() {
        let parts = parts(&[
            ("authorization", "Bearer x"),
            ("connection", "x-hop, close"),
            ("x-hop", "1"),
            ("proxy-connection", "close"),
            ("host", "h"),
            ("x-mine", "2"),
            ("cookie", "c"),
        ]);
        let head = head(&parts, Some("a/b"), "q=1");
        assert_eq!((head.path.as_str(), head.query.as_str()), ("/a/b", "q=1"));
        let mut names: Vec<_> = head.headers.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["cookie", "x-mine"]);
    }

    #[test]
    fn the_function_sees_its_path_as_it_came() {
        let uri = Uri::from_static("/v1/functions/a%2Fb/invoke/x%20y%3Fz=1/%2F..//?q=1");
        assert_eq!(rest_of(&uri), Some("x%20y%3Fz=1/%2F..//"));
        assert_eq!(rest_of(&Uri::from_static("/v1/functions/f/invoke/?q=1")), Some(""));
        assert_eq!(rest_of(&Uri::from_static("/v1/functions/f/invoke?q=/")), None);
    }

    #[test]
    fn a_functions_name_is_decoded() {
        let name = |uri| name_of(&Uri::from_static(uri)).ok();
        assert_eq!(name("/v1/functions/a%2Fb+c%20d/invoke/%ff/x?q=/").as_deref(), Some("a/b+c d"));
        assert_eq!(name("/v1/functions/%ff/invoke/x"), None);
    }

    #[test]
    fn a_transaction_id_from_outside_is_taken_only_when_it_is_harmless() {
        assert_eq!(&*transaction(&parts(&[("x-request-id", "abc-1")]).headers), "abc-1");
        assert_eq!(transaction(&parts(&[("x-request-id", "a b\tc")]).headers).len(), 32);
        assert_eq!(transaction(&parts(&[]).headers).len(), 32);
    }
}
