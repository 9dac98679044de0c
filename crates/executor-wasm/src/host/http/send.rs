//! One request and its answer.

use std::{pin::Pin, time::Duration};

use http::{Request, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::{HttpClient, Sent, Target, bounded::Bounded};

/// The most headers of an answer.
const MAX_HEADERS: usize = 100;

impl HttpClient {
    /// Sends a request on a connection of its own, and gives the answer with what drives the connection.
    pub(super) async fn send(
        &self,
        target: &Target,
        request: Request<WasiBody>,
        options: RequestOptions,
        place: OwnedSemaphorePermit,
    ) -> Sent {
        let bounds = self.bounds();
        let at_most = |wish: Option<Duration>, most: Duration| wish.map_or(most, |wish| wish.min(most));
        let connecting = async {
            let stream = TokioIo::new(self.connect(target).await?);
            let head = usize::try_from(bounds.response_head.as_u64()).unwrap_or(usize::MAX);
            let handshake = http1::Builder::new()
                .max_headers(MAX_HEADERS)
                .max_buf_size(head.max(8 << 10))
                .handshake(stream);
            Ok::<_, Error>(handshake.await?)
        };
        let connected = timeout(at_most(options.connect_timeout, bounds.connect), connecting).await;
        let (mut sender, connection) = connected.map_err(|_| Error::ConnectionTimeout)??;

        let request = origin_form(request)?
            .map(|body| Bounded::request(body, bounds.request_body.as_u64()).boxed_unsync());
        let mut connection = Box::pin(connection);
        let answering = async {
            let mut answer = std::pin::pin!(sender.send_request(request));
            // The connection has to be driven for anything to come.
            tokio::select! {
                biased;
                answer = &mut answer => Ok((answer?, false)),
                ended = &mut connection => {
                    ended?;
                    Ok::<_, Error>((answer.await?, true))
                }
            }
        };
        let answered = timeout(at_most(options.first_byte_timeout, bounds.idle), answering).await;
        let (response, ended) = answered.map_err(|_| Error::ConnectionReadTimeout)??;

        let idle = at_most(options.between_bytes_timeout, bounds.idle);
        let body = |body| Bounded::response(body, bounds.response_body.as_u64(), idle, place).boxed_unsync();
        let driving = async move {
            if !ended {
                Pin::new(&mut connection).await?;
            }
            Ok(())
        };
        Ok((response.map(body), Box::new(driving)))
    }
}

/// The request as it is written to a server: with the path alone, its host being in the header.
fn origin_form(mut request: Request<WasiBody>) -> Result<Request<WasiBody>, Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() =
        Uri::builder().path_and_query(path).build().map_err(|_| Error::HttpRequestUriInvalid)?;
    Ok(request)
}
