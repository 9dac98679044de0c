//! Accepts connections and serves requests on them, with hyper directly.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, response::Response};
use flint_api_openwhisk::{Front, web_path};
use flint_controller::Controller;
use flint_model::ByteSize;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tokio_util::task::TaskTracker;
use tower::Service;

use super::{
    browser_guard, head_guard,
    places::{Place, Places},
    timer::ConnectionTimer,
};
use crate::config::ServerConfig;

/// Delay after a failed accept (mostly for lack of file descriptors), so that the loop does not spin.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a client may leave a response unread, since it occupies one of the connections.
const UNREAD: Duration = Duration::from_secs(120);
/// How long connections have for their last response once all calls are over.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Both fronts. The path selects one, unless the host belongs to a namespace.
pub(super) struct Fronts {
    pub(super) native: Router,
    pub(super) openwhisk: Front,
    pub(super) controller: Arc<Controller>,
    /// Whether the guest key is valid.
    pub(super) guest: bool,
    /// Maximum size of a request's head.
    pub(super) max_header: ByteSize,
    /// Hosts whose subdomains are namespaces.
    pub(super) web_hosts: Arc<[String]>,
}

impl Fronts {
    async fn answer(&self, request: hyper::Request<Incoming>) -> Result<Response, Infallible> {
        let path = request.uri().path();
        let native =
            (path == "/v1" || path.starts_with("/v1/") || matches!(path, "/health" | "/ready" | "/metrics"))
                && web_path(request.uri(), request.headers(), &self.web_hosts).is_none();
        let foreign = || self.guest.then(|| browser_guard::refusal(request.headers(), native)).flatten();
        if let Some(refusal) = head_guard::refusal(&request, self.max_header, native).or_else(foreign) {
            let front = if native { "native" } else { "openwhisk" };
            self.controller.metrics().http_request(front, refusal.status().as_u16());
            return Ok(refusal);
        }
        let request: Request = request.map(Body::new);
        if !native {
            return Ok(self.openwhisk.answer(request).await);
        }
        let response = self.native.clone().call(request).await;
        if let Ok(response) = &response {
            self.controller.metrics().http_request("native", response.status().as_u16());
        }
        response
    }
}

/// Serves until `closed` resolves; then accepts no connection, and each one ends after its current request.
pub(super) async fn serve(
    listener: TcpListener,
    fronts: Arc<Fronts>,
    config: ServerConfig,
    mut closed: oneshot::Receiver<()>,
) {
    let places = Places::new(config.max_connections);
    let tasks = TaskTracker::new();
    let http = http(&config);
    loop {
        let next = async {
            let (stream, _) = listener.accept().await?;
            // Only now is it known that somebody needs a place.
            Ok::<_, std::io::Error>((stream, places.next().await))
        };
        let (stream, holder) = tokio::select! {
            next = next => match next {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
            _ = &mut closed => break,
        };
        let connection = connection(http.clone(), stream, Arc::clone(&fronts), Arc::clone(holder.place()));
        tasks.spawn(async move {
            connection.await;
            drop(holder);
        });
    }
    drop(listener);
    places.end_all();
    tasks.close();
    tasks.wait().await;
}

/// HTTP by the configuration.
fn http(config: &ServerConfig) -> http1::Builder {
    // A quarter above the limit, so that clients slightly over it are told the limit. hyper's minimum is 8
    // KB. Its buffer bounds a head that comes in pieces, but not one that a single read returns.
    let most = usize::try_from(config.max_header.as_u64()).unwrap_or(usize::MAX).max(8192);
    let most = most.saturating_add(most / 4);
    let mut http = http1::Builder::new();
    http.header_read_timeout(config.header_timeout).keep_alive(true).max_header_size(most).max_buf_size(most);
    http
}

async fn connection(mut http: http1::Builder, stream: TcpStream, fronts: Arc<Fronts>, place: Arc<Place>) {
    // Best effort: without it, small responses are only delayed a little.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD.as_millis() as u32);
    // A reference count per connection: one shared by all requests would be contended.
    let shared = Arc::new((fronts, Arc::clone(&place)));
    let service = hyper::service::service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move {
            let (fronts, place) = &*shared;
            place.busy();
            let response = fronts.answer(request).await;
            place.responded();
            response
        }
    });
    let serving = http.timer(ConnectionTimer::default()).serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let served = tokio::select! {
        biased;
        served = serving.as_mut() => served,
        () = place.ending() => {
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                served = serving => served,
                () = place.without_request() => Ok(()),
            }
        }
    };
    if let Err(error) = served {
        // The client went away, or does not speak HTTP.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Waits for [`serve`] to end, once calls are over.
pub(super) async fn join(serving: tokio::task::JoinHandle<()>) {
    let abort = serving.abort_handle();
    if tokio::time::timeout(LAST_WORDS, serving).await.is_err() {
        abort.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// The response to a head of that size, sent in pieces.
    async fn answered(size: usize, piece: usize) -> String {
        let config = ServerConfig::default();
        let (mut client, server): (DuplexStream, _) = duplex(1 << 20);
        let most = config.max_header;
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| async move {
            let refusal = head_guard::refusal(&request, most, true);
            Ok::<_, Infallible>(refusal.unwrap_or_else(|| Response::new(Body::empty())))
        });
        let mut http = http(&config);
        let serving = tokio::spawn(
            http.timer(ConnectionTimer::default()).serve_connection(TokioIo::new(server), service),
        );
        let line = "GET / HTTP/1.1\r\nconnection: close\r\nx: ";
        let head = format!("{line}{}\r\n\r\n", "y".repeat(size - line.len() - 4));
        for piece in head.as_bytes().chunks(piece) {
            // It may be refused already.
            let _ = client.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        let _ = serving.await.unwrap();
        said
    }

    #[tokio::test]
    async fn a_head_is_bounded_however_it_is_read() {
        for piece in [1 << 20, 8192, 1000] {
            let said = answered(64 << 10, piece).await;
            assert!(said.starts_with("HTTP/1.1 200"), "{piece}: {said}");
            for (size, text) in
                [((64 << 10) + 1, "has 65537 bytes; at most 65536"), (70_000, "at most 65536")]
            {
                let said = answered(size, piece).await;
                assert!(said.starts_with("HTTP/1.1 431") && said.contains(text), "{piece}: {said}");
            }
            let said = answered(200_000, piece).await;
            assert!(said.starts_with("HTTP/1.1 431"), "{piece}: {said}");
        }
    }
}
