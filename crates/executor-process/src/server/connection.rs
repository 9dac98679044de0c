//! One HTTP connection into a sandbox, driven by whoever waits for an answer on it.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::body::RequestBody;

/// The longest head of a response.
const LONGEST_HEAD: usize = 256 << 10;

/// What moves the bytes.
type Driver = http1::Connection<TokioIo<TcpStream>, RequestBody>;

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
        let shake = http1::Builder::new().max_buf_size(LONGEST_HEAD).handshake(TokioIo::new(socket));
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
