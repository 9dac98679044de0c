//! The client of the REST API.

mod address;
mod credentials;
mod entity;
mod feed;
mod lines;

use std::{io::ErrorKind, pin::pin, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flint_api_native::resource::{ErrorBody, ErrorDetail};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

pub(crate) use address::{Address, segment};
pub(crate) use credentials::{GUEST_KEY, key_for};
pub(crate) use entity::NOT_THERE;
pub(crate) use feed::feed_path;
pub(crate) use lines::Lines;

use crate::{
    cli::Global,
    failure::{Exit, Failure},
    output::Progress,
};

/// Time limit for connecting.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Silence after which the server's health is checked. There is no limit for a response itself: a call, a
/// deploy or a backup may take minutes.
const SILENCE: Duration = Duration::from_secs(20);
/// Time limit of that health check.
const HEALTH_WITHIN: Duration = Duration::from_secs(10);

/// A server, and the key for it.
#[derive(Clone)]
pub(crate) struct Client {
    address: Address,
    authorization: Option<String>,
}

impl Client {
    /// From the command line, the environment and the user's files.
    pub(crate) fn new(global: &Global) -> Result<Self, Failure> {
        let address = Address::parse(&global.url)?;
        let authorization = key_for(&address, global.auth.as_deref())?.map(|key| format!("Bearer {key}"));
        Ok(Self { address, authorization })
    }

    /// With a given key.
    pub(crate) fn with_key(url: &str, key: &str) -> Result<Self, Failure> {
        Ok(Self { address: Address::parse(url)?, authorization: Some(format!("Bearer {key}")) })
    }

    /// Sends a request and returns the response, whatever its status. Each request has a connection of its
    /// own, since a command sends few.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let _waiting = Progress::start(format!("waiting for {}", self.address));
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.address.host_header());
        if let Some(authorization) = &self.authorization {
            let value = authorization
                .parse()
                .map_err(|_| Failure::usage("the key has characters that cannot be sent"))?;
            headers.entry(header::AUTHORIZATION).or_insert(value);
        }
        let mut sender = self.connected().await?;
        match unless_dead(sender.send_request(request), SILENCE, || self.lives()).await {
            Some(answer) => answer.map_err(|error| self.broken(&error)),
            None => Err(self
                .unreachable("it accepts connections and says nothing on them, not even to GET /health")
                .hint("check that --url names a Flint server, and its log; what was asked for may have been done")),
        }
    }

    async fn connected(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let connect = TcpStream::connect((self.address.host(), self.address.port()));
        let stream = match tokio::time::timeout(CONNECT_WITHIN, connect).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(self
                    .unreachable(&error.to_string())
                    .hint("start the server with `flint up`, or name another one with --url or FLINT_URL"));
            }
            Err(_) => {
                let late = format!("it did not accept a connection within {} s", CONNECT_WITHIN.as_secs());
                return Err(self.unreachable(&late).hint("check --url or FLINT_URL"));
            }
        };
        sender(stream).await.map_err(|error| self.broken(&error))
    }

    fn unreachable(&self, why: &str) -> Failure {
        Failure::new(Exit::Unreachable, "unreachable", format!("no answer from {}: {why}", self.address))
    }

    fn broken(&self, error: &hyper::Error) -> Failure {
        self.unreachable(&format!("the connection broke ({error})"))
            .hint("check that --url names a Flint server, and its log; then repeat")
    }

    /// Whether the server answers at all.
    async fn lives(&self) -> bool {
        let asked = async {
            let stream = match TcpStream::connect((self.address.host(), self.address.port())).await {
                Ok(stream) => stream,
                // A stopping server accepts no connections but ends its calls; if it were gone, the waiting
                // connection would be closed.
                Err(error) => return error.kind() == ErrorKind::ConnectionRefused,
            };
            let request = Request::get("/health").header(header::HOST, self.address.host_header());
            let (Ok(request), Ok(mut sender)) = (request.body(Full::default()), sender(stream).await) else {
                return false;
            };
            sender.send_request(request).await.is_ok()
        };
        tokio::time::timeout(HEALTH_WITHIN, asked).await.unwrap_or(false)
    }

    /// Sends a request; a status of 400 or more is an error.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<(&str, Bytes)>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
        if let Some((content_type, _)) = &body {
            request = request.header(header::CONTENT_TYPE, *content_type);
        }
        let body = body.map(|(_, bytes)| bytes).unwrap_or_default();
        let request = request
            .body(Full::new(body))
            .map_err(|error| Failure::usage(format!("cannot ask for {path}: {error}")))?;
        let answer = self.send(request).await?;
        if answer.status().is_client_error() || answer.status().is_server_error() {
            return Err(refusal(answer).await);
        }
        Ok(answer)
    }

    /// Sends a request to the OpenWhisk API, which has another form of authentication and of errors.
    pub(crate) async fn openwhisk(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Bytes, Failure> {
        #[derive(serde::Deserialize)]
        struct Refused {
            error: String,
            cause: Option<String>,
        }
        let mut request = Request::builder().method(method).uri(path);
        if let Some(key) = self.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer ")) {
            request = request.header(header::AUTHORIZATION, format!("Basic {}", STANDARD.encode(key)));
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| Failure::usage(format!("cannot ask for {path}: {error}")))?;
        let answer = self.send(request).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = collect(answer).await?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice(&body) {
            Ok(Refused { error, cause }) => {
                let mut failure = entity::refused(status, cause.unwrap_or(error));
                // Hints about other entities' names do not apply to APIs.
                failure.hint = failure.hint.filter(|_| status == StatusCode::UNAUTHORIZED);
                Err(failure)
            }
            Err(_) => Err(refusal_from(status, &headers, &body)),
        }
    }

    /// Reads a resource.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        decode(self.request(Method::GET, path, "application/json", None).await?).await
    }

    /// Writes a resource and reads what it is now.
    pub(crate) async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::usage(format!("cannot ask for {path}: {error}")))?;
        let body = Some(("application/json", Bytes::from(body)));
        decode(self.request(method, path, "application/json", body).await?).await
    }

    /// Deletes a resource.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.request(Method::DELETE, path, "application/json", None).await.map(drop)
    }
}

/// Opens an HTTP connection.
async fn sender(stream: TcpStream) -> hyper::Result<SendRequest<Full<Bytes>>> {
    // Best effort: without it, small requests are only delayed a little.
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the connection, that is with the response's body or this process.
    tokio::spawn(connection);
    Ok(sender)
}

/// The output of `answer`; `None` if it is silent and the server is not alive.
async fn unless_dead<T>(
    answer: impl Future<Output = T>,
    silence: Duration,
    lives: impl AsyncFn() -> bool,
) -> Option<T> {
    let mut answer = pin!(answer);
    loop {
        if let Ok(answer) = tokio::time::timeout(silence, answer.as_mut()).await {
            return Some(answer);
        }
        tokio::select! {
            biased;
            answer = answer.as_mut() => return Some(answer),
            lives = lives() => if !lives {
                return None;
            },
        }
    }
}

/// Reads a whole body.
pub(crate) async fn collect(answer: Response<Incoming>) -> Result<Bytes, Failure> {
    answer.into_body().collect().await.map(|whole| whole.to_bytes()).map_err(cut_short)
}

/// The error code of an incomplete response.
pub(crate) const CUT_SHORT: &str = "cut_short";

/// The error for a server that went away during a response.
pub(crate) fn cut_short(error: hyper::Error) -> Failure {
    Failure::new(Exit::Unreachable, CUT_SHORT, format!("the answer ended early: {error}"))
        .hint("the server may have stopped or the function crashed while it was answering; `flint activations` shows what is recorded")
}

async fn decode<T: DeserializeOwned>(answer: Response<Incoming>) -> Result<T, Failure> {
    parsed(&collect(answer).await?)
}

/// Parses an answer to a request that was not refused; a server that is none of Flint's may have sent it.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        Failure::new(
            Exit::Refused,
            "unexpected_answer",
            format!("the server's answer is not what this version of flint expects: {error}"),
        )
        .hint("use the same version of flint on both sides (`flint --version`)")
    })
}

/// The server's error; also if the server is not Flint.
async fn refusal(answer: Response<Incoming>) -> Failure {
    let (status, headers) = (answer.status(), answer.headers().clone());
    match collect(answer).await {
        Ok(body) => refusal_from(status, &headers, &body),
        Err(failure) => failure,
    }
}

/// The error in a body that was already read.
pub(crate) fn refusal_from(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
    if let Ok(ErrorBody { error }) = serde_json::from_slice(body) {
        let mut failure = Failure::refused(error);
        if status == StatusCode::UNAUTHORIZED && failure.hint.is_none() {
            failure.hint = Some("give a key with --auth, FLINT_AUTH or ~/.config/flint/auth".into());
        }
        return failure;
    }
    let media =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("no content type");
    Failure::refused(ErrorDetail {
        code: "unexpected_answer".into(),
        message: format!("the server answered {status} ({media}), which is not an answer of Flint's API"),
        hint: Some("check that --url names a Flint server".into()),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        future::{pending, poll_fn},
        task::Poll,
    };

    use super::*;

    const AT_ONCE: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn a_server_that_accepts_nobody_any_more_may_still_answer() {
        // Bound, which reserves the port, but not listening, like a stopping server.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        assert!(Client::with_key(&url, "u:s").unwrap().lives().await);
    }

    #[test]
    fn an_answer_that_is_not_flints_is_refused_with_the_next_step() {
        assert_eq!(parsed::<[u8; 2]>(b"[1, 2]").unwrap(), [1, 2]);
        let failure = parsed::<[u8; 2]>(b"<html>").unwrap_err();
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Refused, "unexpected_answer"));
        assert!(failure.hint.is_some());
    }

    #[tokio::test]
    async fn an_answer_is_waited_for_as_long_as_its_server_lives() {
        assert_eq!(unless_dead(pending::<()>(), AT_ONCE, async || false).await, None);
        let asked = Cell::new(0);
        let lives = async || {
            asked.set(asked.get() + 1);
            asked.get() < 3
        };
        assert_eq!(unless_dead(pending::<()>(), AT_ONCE, lives).await, None);
        assert_eq!(asked.get(), 3);
        // A response that arrives during the health check counts.
        let asked = Cell::new(false);
        let answer = poll_fn(|context| match asked.get() {
            true => Poll::Ready(7),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        });
        let silent = async || {
            asked.set(true);
            pending::<bool>().await
        };
        assert_eq!(unless_dead(answer, AT_ONCE, silent).await, Some(7));
    }
}
