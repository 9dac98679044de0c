//! One HTTP connection into a sandbox, driven by whoever waits for an answer on it.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::body::RequestBody;

/// The longest head of a response.
const LONGEST_HEAD: usize = 256 << 10;
/// The most headers in it.
const MOST_HEADERS: usize = 1000;

/// What moves the bytes.
type Driver = http1::Connection<TokioIo<Socket>, RequestBody>;

/// A connection that is open, as far as is known.
pub(super) struct Connection {
    pub(super) sender: http1::SendRequest<RequestBody>,
    driver: Option<Pin<Box<Driver>>>,
}

impl Connection {
    /// Over a socket that is connected, or about to be.
    pub(super) async fn over(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::net::TcpStream::from(socket);
        socket.set_nonblocking(true)?;
        let _ = socket.set_nodelay(true);
        let socket = TcpStream::from_std(socket)?;
        socket.writable().await?;
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        let mut http = http1::Builder::new();
        http.max_buf_size(LONGEST_HEAD).max_headers(MOST_HEADERS);
        let shake = http.handshake(TokioIo::new(Socket(socket)));
        let (sender, driver) = shake.await.map_err(io::Error::other)?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    /// Moves bytes. The connection's end is seen by whoever waits for something on it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            self.driver = None;
        }
    }

    /// Whether it takes a request, after looking whether the server has closed it meanwhile.
    pub(super) fn poll_usable(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.poll(cx);
        if self.driver.is_none() {
            return Poll::Ready(false);
        }
        let ready = self.sender.poll_ready(cx);
        self.poll(cx);
        ready.map(|ready| ready.is_ok())
    }
}

/// A server may answer, and close, without reading all of its request. Its answer counts, and is there to be read, so that nothing is made of a request that
/// cannot be written: what is read tells when there is no answer.
struct Socket(TcpStream);

impl Socket {
    /// What was written, or would have been where nobody reads it.
    fn written(result: Poll<io::Result<usize>>, length: usize) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Err(error)) if is_closed(&error) => Poll::Ready(Ok(length)),
            other => other,
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Self::written(Pin::new(&mut self.0).poll_write(cx, bytes), bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        Self::written(Pin::new(&mut self.0).poll_write_vectored(cx, slices), length)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
