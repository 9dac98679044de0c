//! Serves HTTP on one connection to a gate.

use std::time::Duration;

use axum::{Router, body::Body};
use http::{
    HeaderMap, HeaderName,
    header::{FORWARDED, HOST},
};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Service;

use crate::{Gate, patient::Patient};

/// Headers in which a client or a proxy names the server that was called. From a function they cannot be
/// trusted.
const SAID_OF_THE_SERVER: [HeaderName; 5] = [
    HOST,
    FORWARDED,
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-forwarded-for"),
];

/// Serves requests until the peer closes the connection or takes too long.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    http: &http1::Builder,
    stream: S,
    api: Router,
    gate: Gate,
    idle: Duration,
) {
    let service = hyper::service::service_fn(move |mut request: http::Request<Incoming>| {
        forget_the_server(request.headers_mut());
        request.extensions_mut().insert(gate.clone());
        api.clone().call(request.map(Body::new))
    });
    let stream = TokioIo::new(Patient::new(stream, idle));
    if let Err(error) = http.serve_connection(stream, service).await {
        // The function's doing: it closed the connection, or does not speak HTTP.
        tracing::debug!(%error, "a function's connection to the API ended early");
    }
}

fn forget_the_server(headers: &mut HeaderMap) {
    for name in &SAID_OF_THE_SERVER {
        headers.remove(name);
    }
}
