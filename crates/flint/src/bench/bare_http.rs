//! The upper bound: a hyper server that answers every request with the same bytes.

use std::{convert::Infallible, net::SocketAddr, sync::mpsc, thread};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

use crate::output::tell;

/// Starts the server on a free port and in its own runtime; it lives as long as the process.
pub(super) fn start(answer: &'static [u8]) -> anyhow::Result<SocketAddr> {
    let (address, started) = mpsc::channel();
    thread::Builder::new()
        .name("bare-http".into())
        .spawn(move || {
            let served = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .and_then(|runtime| runtime.block_on(serve(answer, &address)));
            if let Err(error) = served {
                tell!("flint bench: the bare HTTP server ended: {error}");
            }
        })
        .context("starting the bare HTTP server")?;
    started.recv().context("the bare HTTP server did not start")
}

async fn serve(answer: &'static [u8], address: &mpsc::Sender<SocketAddr>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    // The receiver is gone only if the benchmark is.
    let _ = address.send(listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(http1::Builder::new().serve_connection(
            TokioIo::new(stream),
            service_fn(move |request: Request<Incoming>| async move {
                // The body is read, as every server has to.
                let _ = request.into_body().collect().await;
                let mut response = Response::new(Full::new(Bytes::from_static(answer)));
                let json = hyper::header::HeaderValue::from_static("application/json");
                response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
                Ok::<_, Infallible>(response)
            }),
        ));
    }
}
