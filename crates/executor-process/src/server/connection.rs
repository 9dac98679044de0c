//! One HTTP connection into a sandbox, driven by the task that waits for an answer on it.

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
pub(super) const LONGEST_HEAD: usize = 256 << 10;
/// Most headers in it.
pub(super) const MOST_HEADERS: usize = 1000;

/// Moves the bytes of a connection.
type Driver = http1::Connection<TokioIo<Socket>, RequestBody>;

/// A connection that was open when it was last driven.
pub(super) struct Connection {
    pub(super) sender: http1::SendRequest<RequestBody>,
    driver: Option<Pin<Box<Driver>>>,
}

impl Connection {
    /// Wraps a socket that is connected or connecting.
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

    /// Drives the connection. Its end is noticed by whatever waits for an answer.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            self.driver = None;
        }
    }

    /// Whether it can take a request, after checking whether the server has closed it.
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

/// A socket that ignores failed writes. A server may answer and close the connection without reading the
/// whole request; its answer is valid and can still be read. If there is no answer, reading reports that.
struct Socket(TcpStream);

impl Socket {
    /// Turns a write to a closed connection into a successful one.
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
