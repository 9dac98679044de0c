//! Serves APIs: finds a request's operation, whose web action answers it.

use std::{borrow::Cow, sync::Arc, time::Instant};

use axum::{body::Body, response::Response};
use flint_controller::{Controller, ControllerError, Routing};
use flint_model::NamespaceName;
use flint_request_body::Uploads;
use http::{HeaderValue, Method, StatusCode, header::ALLOW, request::Parts};

use super::ROOT;
use crate::{
    parse::percent_decode,
    refusal::Refusal,
    web::{self, Asked, Projection, SECRET, Target},
};

/// Handles a request below `/api/v1/gateway`.
pub(crate) async fn serve(
    controller: &Arc<Controller>,
    uploads: &Uploads,
    parts: Parts,
    body: Body,
    transaction: Arc<str>,
    arrived: Instant,
) -> Response {
    let routing = match read(parts.uri.path()) {
        Some((namespace, segments, _)) => {
            let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
            controller.route_api(&namespace, &segments, parts.method.as_str()).await
        }
        None => Ok(Routing::Nobody),
    };
    let refused = |refusal: Refusal| web::refused(refusal, &parts.headers, &transaction);
    let routed = match routing {
        Ok(Routing::To(routed)) => *routed,
        // A CORS preflight request, which is answered for every path.
        Ok(Routing::OtherMethods(_) | Routing::Nobody) if parts.method == Method::OPTIONS => {
            return web::preflight(&parts.headers, &transaction);
        }
        Ok(Routing::Nobody) => return refused(ControllerError::NotFound.into()),
        Ok(Routing::OtherMethods(methods)) => return other_methods(&methods, refused),
        Err(error) => return refused(error.into()),
    };
    let mut headers = parts.headers;
    if let Some(secret) = routed.secret.as_deref().and_then(|secret| HeaderValue::from_str(secret).ok()) {
        headers.insert(SECRET, secret);
    }
    let (_, projection) = Projection::split(&routed.extension);
    // If the path has parameters, the action reads them from the path, base path included, as in OpenWhisk's
    // gateway.
    let rest = match (routed.has_parameters, read(parts.uri.path())) {
        (true, Some((_, _, rest))) => rest,
        _ => "",
    };
    let asked = Asked {
        method: &parts.method,
        headers,
        query: parts.uri.query().unwrap_or_default(),
        target: Some(Target { path: routed.action, projection, rest }),
        transaction: Arc::clone(&transaction),
        arrived,
        uploads,
    };
    web::serve(controller, asked, body).await
}

/// The namespace, the decoded segments below it, and the same path verbatim.
fn read(path: &str) -> Option<(NamespaceName, Vec<Cow<'_, str>>, &str)> {
    let below = path.strip_prefix(ROOT)?;
    let (namespace, rest) = below.split_at(below.find('/').unwrap_or(below.len()));
    let namespace = NamespaceName::parse(&percent_decode(namespace)?).ok()?;
    let segments = rest.split('/').skip(1).map(percent_decode).collect::<Option<Vec<_>>>()?;
    Some((namespace, segments, rest))
}

fn other_methods(methods: &[String], refused: impl Fn(Refusal) -> Response) -> Response {
    let methods = methods.join(", ").to_ascii_uppercase();
    let text = format!("HTTP method not allowed, supported methods: {methods}");
    let mut response = refused(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text));
    response.headers_mut().extend(HeaderValue::from_str(&methods).ok().map(|methods| (ALLOW, methods)));
    response
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_names_a_namespace_and_segments() {
        let path = |below: &str| {
            let path = format!("{ROOT}{below}");
            read(&path).map(|(namespace, segments, rest)| {
                (namespace.to_string(), segments.join("|"), rest.to_owned())
            })
        };
        assert_eq!(path("guest/a/b%2Fc/"), Some(("guest".into(), "a|b/c|".into(), "/a/b%2Fc/".into())));
        assert_eq!(path("a%20b"), Some(("a b".into(), String::new(), String::new())));
        for bad in ["", "/", "guest/%zz", "%2f/a"] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "[/a-z%.0-9]*") {
            let path = format!("{ROOT}{path}");
            let _ = read(&path);
        }
    }
}
