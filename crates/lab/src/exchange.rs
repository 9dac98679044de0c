//! An HTTP/1.1 client for experiments that inspect responses: one kept-alive connection, whole responses in
//! memory.

use std::{io, net::SocketAddr};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{ArmError, HttpRequest};

/// A connection to a server.
pub struct HttpClient {
    address: SocketAddr,
    stream: TcpStream,
    buffer: BytesMut,
}

/// A response.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Bytes,
}

impl HttpAnswer {
    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl HttpClient {
    /// Connects to `address`.
    pub async fn connect(address: SocketAddr) -> Result<Self, ArmError> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| ArmError::Connect { to: address.to_string(), detail: error.to_string() })?;
        stream.set_nodelay(true)?;
        Ok(Self { address, stream, buffer: BytesMut::new() })
    }

    /// Whether the server has closed the connection while idle. Unsolicited data counts as an end, too.
    fn is_closed(&self) -> bool {
        let waits = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        !self.stream.try_read(&mut [0; 1]).is_err_and(waits)
    }

    /// Sends `request` and reads the response, whatever its status. Servers close connections after some idle
    /// seconds; then a new one is opened, as every client does.
    pub async fn exchange(&mut self, request: &HttpRequest) -> Result<HttpAnswer, ArmError> {
        if self.is_closed() {
            *self = Self::connect(self.address).await?;
        }
        self.stream.write_all(request.bytes()).await?;
        let mut answer = loop {
            if let Some(answer) = self.head()? {
                break answer;
            }
            self.fill().await?;
        };
        answer.body = match answer.header("content-length") {
            Some(length) => {
                let length = length
                    .parse()
                    .map_err(|_| ArmError::WrongAnswer("content-length is not a number".into()))?;
                self.take(length).await?
            }
            None if answer.header("transfer-encoding").is_some() => self.chunks().await?,
            None => Bytes::new(),
        };
        Ok(answer)
    }

    async fn fill(&mut self) -> Result<(), ArmError> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err(ArmError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    /// The head, once it is complete.
    fn head(&mut self) -> Result<Option<HttpAnswer>, ArmError> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response
            .parse(&self.buffer)
            .map_err(|error| ArmError::WrongAnswer(format!("not an HTTP response: {error}")))?;
        let httparse::Status::Complete(length) = parsed else { return Ok(None) };
        let status = response.code.unwrap_or(0);
        let headers = response
            .headers
            .iter()
            .map(|header| {
                (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned())
            })
            .collect();
        self.buffer.advance(length);
        Ok(Some(HttpAnswer { status, headers, body: Bytes::new() }))
    }

    async fn take(&mut self, length: usize) -> Result<Bytes, ArmError> {
        while self.buffer.len() < length {
            self.fill().await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn chunks(&mut self) -> Result<Bytes, ArmError> {
        let mut body = BytesMut::new();
        loop {
            match httparse::parse_chunk_size(&self.buffer) {
                Ok(httparse::Status::Complete((head, size))) => {
                    self.buffer.advance(head);
                    let size = usize::try_from(size)
                        .map_err(|_| ArmError::WrongAnswer("a chunk beyond all memory".into()))?;
                    body.extend_from_slice(&self.take(size).await?);
                    self.take(2).await?;
                    if size == 0 {
                        return Ok(body.freeze());
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

    async fn answer_to(response: &'static [u8]) -> Result<HttpAnswer, ArmError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            while stream.read(&mut request).await.is_ok_and(|n| n > 0) {
                for byte in response {
                    stream.write_all(&[*byte]).await.unwrap();
                }
            }
        });
        let request = HttpRequest::new("GET", "/", address, &[], b"", 200);
        let mut client = HttpClient::connect(address).await?;
        client.exchange(&request).await?;
        // The second response begins where the first one ended.
        client.exchange(&request).await
    }

    #[tokio::test]
    async fn answers_are_read_whole_with_their_headers() {
        let known =
            answer_to(b"HTTP/1.1 201 Created\r\nX-Id: 7\r\ncontent-length: 3\r\n\r\nabc").await.unwrap();
        assert_eq!((known.status, known.header("x-id"), &*known.body), (201, Some("7"), &b"abc"[..]));
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(&*answer_to(chunked).await.unwrap().body, b"abc");
        assert!(answer_to(b"SMTP ready\r\n\r\n").await.is_err());
    }

    #[tokio::test]
    async fn a_connection_that_the_server_has_ended_meanwhile_is_made_anew() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            // One response per connection, without announcing that it is the last.
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            }
        });
        let request = HttpRequest::new("GET", "/", address, &[], b"", 200);
        let mut client = HttpClient::connect(address).await.unwrap();
        for _ in 0..3 {
            assert_eq!(&*client.exchange(&request).await.unwrap().body, b"ok");
            // The end of the connection is on its way.
            client.stream.readable().await.unwrap();
        }
    }
}
