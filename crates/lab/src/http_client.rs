//! An HTTP/1.1 client for load generation: a request is built once and sent many times, its response verified
//! and discarded.
//!
//! The generator shares the machine with the arm, and whatever it spends per call is taken from the arm: this
//! client costs a write, a read and a scan of the headers.

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{Arm, ArmError, Connection};

/// A request that is sent repeatedly.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    bytes: Arc<[u8]>,
    expected_status: u16,
    is_head: bool,
}

impl HttpRequest {
    /// A request with a body; `headers` are whole lines without their line ends, of which one may replace
    /// `host`.
    pub fn new(
        method: &str,
        path: &str,
        host: impl fmt::Display,
        headers: &[String],
        body: &[u8],
        expected_status: u16,
    ) -> Self {
        let names_host =
            |header: &String| header.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("host:"));
        let host = match headers.iter().any(names_host) {
            true => String::new(),
            false => format!("host: {host}\r\n"),
        };
        let mut text = format!("{method} {path} HTTP/1.1\r\n{host}content-length: {}\r\n", body.len());
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        let bytes = [text.as_bytes(), body].concat();
        Self { bytes: bytes.into(), expected_status, is_head: method == "HEAD" }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A server that is sent each of `requests` in turn.
pub struct HttpArm {
    address: SocketAddr,
    requests: Arc<[HttpRequest]>,
    /// Counter shared by all connections.
    sent: Arc<AtomicUsize>,
}

impl HttpArm {
    /// An arm at `address` that sends these requests in turn, on whichever connection is free.
    ///
    /// # Panics
    /// If there is no request to send.
    pub fn new(address: SocketAddr, requests: Vec<HttpRequest>) -> Self {
        assert!(!requests.is_empty(), "an arm needs a request");
        Self { address, requests: requests.into(), sent: Arc::default() }
    }
}

#[async_trait]
impl Arm for HttpArm {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        let stream = connect(self.address).await?;
        Ok(Box::new(HttpConnection {
            address: self.address,
            stream,
            closing: false,
            buffer: BytesMut::new(),
            requests: self.requests.clone(),
            sent: self.sent.clone(),
        }))
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, ArmError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| ArmError::Connect { to: address.to_string(), detail: error.to_string() })?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

struct HttpConnection {
    address: SocketAddr,
    stream: TcpStream,
    /// The server closes the connection after this response, as in HTTP/1.0.
    closing: bool,
    buffer: BytesMut,
    requests: Arc<[HttpRequest]>,
    sent: Arc<AtomicUsize>,
}

/// Maximum size of a response's head.
const LONGEST_HEAD: usize = 64 << 10;

/// How the length of a response's body is determined.
enum Length {
    Known(usize),
    Chunked,
    UntilClose,
}

#[async_trait]
impl Connection for HttpConnection {
    async fn call(&mut self) -> Result<(), ArmError> {
        let next = self.sent.fetch_add(1, Ordering::Relaxed);
        self.call_which(next).await
    }

    async fn call_which(&mut self, which: usize) -> Result<(), ArmError> {
        let requests = Arc::clone(&self.requests);
        let request = &requests[which % requests.len()];
        if self.closing || self.is_closed() {
            self.stream = connect(self.address).await?;
            self.buffer.clear();
        }
        self.stream.write_all(&request.bytes).await?;
        let (status, length) = self.read_head(request.is_head).await?;
        match length {
            Length::Known(length) if status == request.expected_status => self.skip(length).await,
            Length::Chunked if status == request.expected_status => self.skip_chunks().await,
            Length::UntilClose if status == request.expected_status => self.skip_all().await,
            Length::Known(length) => {
                let shown = length.min(300);
                while self.buffer.len() < shown {
                    self.fill().await?;
                }
                let body = String::from_utf8_lossy(&self.buffer[..shown]).into_owned();
                self.skip(length).await?;
                Err(ArmError::Status { status, expected: request.expected_status, body })
            }
            Length::Chunked | Length::UntilClose => {
                self.closing = true;
                Err(ArmError::Status { status, expected: request.expected_status, body: "…".into() })
            }
        }
    }
}

impl HttpConnection {
    /// Whether the server has closed the connection while idle.
    fn is_closed(&self) -> bool {
        matches!(self.stream.try_read(&mut [0; 1]), Ok(0))
    }

    async fn skip_all(&mut self) -> Result<(), ArmError> {
        self.buffer.clear();
        while self.stream.read_buf(&mut self.buffer).await? > 0 {
            self.buffer.clear();
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), ArmError> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err(ArmError::Broken(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    /// Reads the head of the response to a request, which is of `HEAD` or not.
    async fn read_head(&mut self, is_head: bool) -> Result<(u16, Length), ArmError> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut response = httparse::Response::new(&mut headers);
            let parsed = response
                .parse(&self.buffer)
                .map_err(|error| ArmError::WrongAnswer(format!("not an HTTP response: {error}")))?;
            if let httparse::Status::Complete(head_length) = parsed {
                let header = |name: &str| {
                    response
                        .headers
                        .iter()
                        .find(|header| header.name.eq_ignore_ascii_case(name))
                        .map(|header| header.value)
                };
                let status = response.code.unwrap_or(0);
                let connection = header("connection").unwrap_or_default().to_ascii_lowercase();
                self.closing = match response.version {
                    Some(0) => connection != b"keep-alive",
                    _ => connection == b"close",
                };
                let is_interim = matches!(status, 100..=199) && status != 101;
                let length = match header("content-length") {
                    // RFC 9112, 6.3: whatever its headers say.
                    _ if is_head || matches!(status, 100..=199 | 204 | 304) => Length::Known(0),
                    Some(text) => std::str::from_utf8(text)
                        .ok()
                        .and_then(|text| text.parse().ok())
                        .map(Length::Known)
                        .ok_or_else(|| ArmError::WrongAnswer("content-length is not a number".into()))?,
                    None if header("transfer-encoding").is_some() => Length::Chunked,
                    None if self.closing => Length::UntilClose,
                    None => Length::Known(0),
                };
                self.buffer.advance(head_length);
                if is_interim {
                    continue;
                }
                return Ok((status, length));
            }
            if self.buffer.len() > LONGEST_HEAD {
                return Err(ArmError::WrongAnswer("a head that does not end".into()));
            }
            self.fill().await?;
        }
    }

    async fn skip(&mut self, mut length: usize) -> Result<(), ArmError> {
        loop {
            let here = length.min(self.buffer.len());
            self.buffer.advance(here);
            length -= here;
            if length == 0 {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    async fn skip_chunks(&mut self) -> Result<(), ArmError> {
        loop {
            match httparse::parse_chunk_size(&self.buffer) {
                Ok(httparse::Status::Complete((head, size))) => {
                    self.buffer.advance(head);
                    let size = usize::try_from(size)
                        .ok()
                        .and_then(|size| size.checked_add(2))
                        .ok_or_else(|| ArmError::WrongAnswer("a chunk beyond all memory".into()))?;
                    self.skip(size).await?;
                    if size == 2 {
                        return Ok(());
                    }
                }
                Ok(httparse::Status::Partial) => self.fill().await?,
                Err(_) => return Err(ArmError::WrongAnswer("a malformed chunk".into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn answers(response: &'static [u8]) -> HttpArm {
        answers_to("GET", 200, response).await
    }

    async fn answers_to(method: &str, status: u16, response: &'static [u8]) -> HttpArm {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                while stream.read(&mut request).await.is_ok_and(|n| n > 0) {
                    for byte in response {
                        stream.write_all(&[*byte]).await.unwrap();
                    }
                }
            }
        });
        HttpArm::new(address, vec![HttpRequest::new(method, "/", address, &[], b"", status)])
    }

    #[tokio::test]
    async fn a_body_that_cannot_come_is_not_waited_for() {
        for (method, status, response) in [
            ("HEAD", 200, &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"[..]),
            ("HEAD", 200, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
            ("GET", 204, b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n"),
            ("GET", 304, b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"),
            ("GET", 200, b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"),
        ] {
            let mut connection = answers_to(method, status, response).await.connect().await.unwrap();
            for _ in 0..3 {
                connection.call().await.unwrap();
            }
        }
    }

    #[test]
    fn the_host_is_the_one_that_is_said() {
        let text = |headers: &[&str]| {
            let headers: Vec<_> = headers.iter().map(|&header| header.to_owned()).collect();
            let request = HttpRequest::new("GET", "/", "example.com", &headers, b"", 200);
            String::from_utf8(request.bytes().to_vec()).unwrap()
        };
        assert!(text(&["hosts: x"]).contains("\r\nhost: example.com\r\n"));
        let own = text(&["Host: other.example"]);
        assert!(own.contains("\r\nHost: other.example\r\n") && !own.contains("example.com"), "{own}");
    }

    #[tokio::test]
    async fn answers_in_pieces_are_read_to_their_end() {
        for response in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ] {
            let arm = answers(response).await;
            let mut connection = arm.connect().await.unwrap();
            for _ in 0..3 {
                connection.call().await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await.unwrap();
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
        });
        let arm = HttpArm::new(address, vec![HttpRequest::new("GET", "/", address, &[], b"", 200)]);
        let error = arm.connect().await.unwrap().call().await.unwrap_err().to_string();
        assert_eq!(error, "wrong answer: a head that does not end");
    }

    #[tokio::test]
    async fn a_server_that_closes_after_each_answer_is_connected_to_anew() {
        for response in [
            &b"HTTP/1.0 200 OK\r\n\r\nhello"[..],
            b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nConnection: Close\r\n\r\nhello",
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let _ = stream.read(&mut [0; 4096]).await;
                    stream.write_all(response).await.unwrap();
                }
            });
            let arm = HttpArm::new(address, vec![HttpRequest::new("GET", "/", address, &[], b"", 200)]);
            let mut connection = arm.connect().await.unwrap();
            for _ in 0..3 {
                connection.call().await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn another_status_is_a_wrong_answer_that_shows_the_body() {
        let arm = answers(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy").await;
        let error = arm.connect().await.unwrap().call().await.unwrap_err().to_string();
        assert_eq!(error, "status 503 instead of 200: busy");
    }
}
