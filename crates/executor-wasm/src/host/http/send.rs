//! Sends one request and returns its response.

use std::{pin::Pin, time::Duration};

use http::{Request, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::{Sent, bounded::Bounded, way::Way};

/// Most headers of a response.
const MAX_HEADERS: usize = 100;

/// Sends a request on a connection of its own; returns the response and the future that drives the
/// connection.
pub(super) async fn send(way: Way, request: Request<WasiBody>, options: RequestOptions) -> Sent {
    let bounds = way.bounds();
    let at_most = |wish: Option<Duration>, most: Duration| wish.map_or(most, |wish| wish.min(most));
    let connecting = async {
        let stream = TokioIo::new(way.connect().await?);
        let head = usize::try_from(bounds.response_head.as_u64()).unwrap_or(usize::MAX);
        let handshake =
            http1::Builder::new().max_headers(MAX_HEADERS).max_buf_size(head.max(8 << 10)).handshake(stream);
        Ok::<_, Error>(handshake.await?)
    };
    let connected = timeout(at_most(options.connect_timeout, bounds.connect), connecting).await;
    let (mut sender, connection) = connected.map_err(|_| Error::ConnectionTimeout)??;

    let request =
        origin_form(request)?.map(|body| Bounded::request(body, bounds.request_body.as_u64()).boxed_unsync());
    let mut connection = Box::pin(connection);
    let answering = async {
        let mut answer = std::pin::pin!(sender.send_request(request));
        // The connection must be driven for the response to arrive.
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
    let (place, share) = way.permits();
    let body = |body| Bounded::response(body, bounds.response_body.as_u64(), idle, place).boxed_unsync();
    let driving = async move {
        let _share = share;
        if !ended {
            Pin::new(&mut connection).await?;
        }
        Ok(())
    };
    Ok((response.map(body), Box::new(driving)))
}

/// The request in origin form: the URI is the path only, and the host is in the header.
fn origin_form(mut request: Request<WasiBody>) -> Result<Request<WasiBody>, Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() =
        Uri::builder().path_and_query(path).build().map_err(|_| Error::HttpRequestUriInvalid)?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use flint_model::ByteSize;
    use http::StatusCode;
    use http_body_util::{Empty, Full};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        task::JoinHandle,
    };
    use wasmtime_wasi_http::WasiHttpHooks;

    use super::{
        super::{HttpBounds, HttpClient, Outbound, Reach},
        *,
    };

    /// A server that answers one connection with `answer` and reports the head of the request that it read.
    async fn server(answer: &'static [u8], then_wait: bool) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            // A client may give up before it has sent anything.
            while !head.ends_with(b"\r\n\r\n")
                && let Ok(byte) = stream.read_u8().await
            {
                head.push(byte);
            }
            let _ = stream.write_all(answer).await; // who has seen enough goes away
            if then_wait {
                // Until the client has given up.
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
            String::from_utf8(head).unwrap()
        });
        (authority, serving)
    }

    fn outbound(bounds: HttpBounds, allow: &str) -> Outbound {
        Outbound::to(HttpClient::new(bounds, Reach::Everything).unwrap(), allow)
    }

    async fn send(
        outbound: &mut Outbound,
        uri: String,
        body: WasiBody,
    ) -> Result<(StatusCode, Bytes), Error> {
        let request =
            Request::builder().method("POST").uri(&uri).header("host", uri.split('/').nth(2).unwrap());
        let sending = outbound.send_request(request.body(body).unwrap(), None, Box::new(async { Ok(()) }));
        let (response, driving) = Pin::from(sending).await?;
        let driving = tokio::spawn(Pin::from(driving));
        let (status, body) = (response.status(), response.into_body().collect().await);
        driving.abort();
        body.map(|body| (status, body.to_bytes()))
    }

    fn nothing() -> WasiBody {
        Empty::new().map_err(|never| match never {}).boxed_unsync()
    }

    #[tokio::test]
    async fn a_request_goes_out_and_its_answer_comes_back() {
        let (to, serving) = server(b"HTTP/1.1 203 X\r\ncontent-length: 2\r\n\r\nhi", false).await;
        let mut outbound = outbound(HttpBounds::default(), &format!("http://{to}"));
        let (status, body) = send(&mut outbound, format!("http://{to}/a?b=c"), nothing()).await.unwrap();
        assert_eq!((status.as_u16(), &body[..]), (203, &b"hi"[..]));
        let head = serving.await.unwrap();
        assert!(
            head.starts_with("POST /a?b=c HTTP/1.1\r\n") && head.contains(&format!("host: {to}")),
            "{head}"
        );
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_like_any_other() {
        let (to, serving) =
            server(b"HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", false)
                .await;
        let mut outbound = outbound(HttpBounds::default(), &format!("http://{to}"));
        assert_eq!(send(&mut outbound, format!("http://{to}/"), nothing()).await.unwrap().0, 302);
        serving.await.unwrap();
        let followed = send(&mut outbound, "http://127.0.0.1:1/".to_owned(), nothing()).await;
        assert!(matches!(followed, Err(Error::HttpRequestDenied)), "{followed:?}");
    }

    #[tokio::test]
    async fn bodies_are_bounded_both_ways() {
        let four = HttpBounds {
            response_body: ByteSize::bytes(4),
            request_body: ByteSize::bytes(4),
            ..HttpBounds::default()
        };
        let (to, serving) = server(b"HTTP/1.1 200 X\r\n\r\n12345", false).await;
        let mut bounded = outbound(four, "*");
        bounded.allow(&format!("http://{to}"));
        let answered = send(&mut bounded, format!("http://{to}/"), nothing()).await;
        assert!(matches!(answered, Err(Error::HttpResponseBodySize(_))), "{answered:?}");
        serving.await.unwrap();
        let (to, serving) = server(b"", true).await;
        bounded.allow(&format!("http://{to}"));
        let large = Full::new(Bytes::from_static(b"12345")).map_err(|never| match never {}).boxed_unsync();
        assert!(send(&mut bounded, format!("http://{to}/"), large).await.is_err());
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn who_does_not_answer_is_not_waited_for() {
        let impatient = || HttpBounds { idle: Duration::from_millis(50), ..HttpBounds::default() };
        for beginning in [&b""[..], b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nhalf"] {
            let (to, serving) = server(beginning, true).await;
            let answered =
                send(&mut outbound(impatient(), &format!("http://{to}")), format!("http://{to}/"), nothing())
                    .await;
            assert!(matches!(answered, Err(Error::ConnectionReadTimeout)), "{answered:?}");
            serving.await.unwrap();
        }
    }

    #[tokio::test]
    async fn hostile_answers_are_errors() {
        let mut many = b"HTTP/1.1 200 X\r\n".to_vec();
        (0..1000).for_each(|number| many.extend_from_slice(format!("h{number}: x\r\n").as_bytes()));
        let endless: &'static [u8] = vec![b'a'; 1 << 20].leak();
        for answer in [&b"SSH-2.0-OpenSSH\r\n"[..], many.leak(), endless] {
            let (to, serving) = server(answer, false).await;
            let answered = send(
                &mut outbound(HttpBounds::default(), &format!("http://{to}")),
                format!("http://{to}/"),
                nothing(),
            )
            .await;
            assert!(matches!(answered, Err(Error::Hyper(_))), "{answered:?}");
            serving.await.unwrap();
        }
    }

    #[tokio::test]
    async fn requests_at_once_are_bounded() {
        let one = HttpBounds { at_once: 1, ..HttpBounds::default() };
        let (to, serving) = server(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n", false).await;
        let mut outbound = outbound(one, &format!("http://{to}"));
        let request = || Request::builder().uri(format!("http://{to}/")).body(nothing()).unwrap();
        let first = outbound.send_request(request(), None, Box::new(async { Ok(()) }));
        let second = outbound.send_request(request(), None, Box::new(async { Ok(()) }));
        let refused = Pin::from(second).await.err();
        assert!(matches!(refused, Some(Error::ConnectionLimitReached)), "{refused:?}");
        let (answer, _) = Pin::from(first).await.unwrap();
        drop(answer);
        serving.await.unwrap();
        assert_eq!(outbound.places.available_permits(), 1, "the place is free again");
    }
}
