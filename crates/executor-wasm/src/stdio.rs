//! A program's stdin, the call's body, and its stdout, the answer; both with backpressure.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use flint_executor::{Body, BodyReceiver};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wasmtime_wasi::{
    cli::{IsTerminal, StdinStream, StdoutStream},
    p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult},
};

use crate::breach::Breach;

/// How much a program may write ahead of the reader.
pub(crate) const WINDOW: usize = 256 << 10;

/// A body that a program reads. Clones share the position.
#[derive(Clone)]
pub(crate) struct Inlet(Arc<Mutex<Incoming>>);

struct Incoming {
    piece: Bytes,
    rest: Option<BodyReceiver>,
    breach: Breach,
}

impl Inlet {
    pub(crate) fn new(body: Body, breach: Breach) -> Self {
        let (piece, rest) = match body {
            Body::Full(bytes) => (bytes, None),
            Body::Stream(pieces) => (Bytes::new(), Some(pieces)),
        };
        Self(Arc::new(Mutex::new(Incoming { piece, rest, breach })))
    }

    fn lock(&self) -> MutexGuard<'_, Incoming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Incoming {
    /// Ready when there is something to read, or at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.piece.is_empty() {
            let Some(rest) = &mut self.rest else { break };
            match rest.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(piece))) => self.piece = piece,
                Poll::Ready(Some(Err(error))) => {
                    self.rest = None;
                    self.breach.set(error);
                }
                Poll::Ready(None) => self.rest = None,
            }
        }
        Poll::Ready(())
    }

    fn take(&mut self, most: usize) -> Bytes {
        self.piece.split_to(most.min(self.piece.len()))
    }
}

#[async_trait::async_trait]
impl Pollable for Inlet {
    async fn ready(&mut self) {
        poll_fn(|cx| self.lock().poll_fill(cx)).await;
    }
}

#[async_trait::async_trait]
impl InputStream for Inlet {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let mut incoming = self.lock();
        if incoming.poll_fill(&mut Context::from_waker(Waker::noop())).is_pending() {
            return Ok(Bytes::new());
        }
        if !incoming.piece.is_empty() {
            return Ok(incoming.take(size));
        }
        match incoming.breach.get() {
            Some(error) => Err(StreamError::LastOperationFailed(io::Error::other(error.clone()).into())),
            None => Err(StreamError::Closed),
        }
    }
}

impl AsyncRead for Inlet {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut incoming = self.lock();
        if incoming.poll_fill(cx).is_pending() {
            return Poll::Pending;
        }
        let piece = incoming.take(into.remaining());
        into.put_slice(&piece);
        match incoming.breach.get() {
            Some(error) if piece.is_empty() => Poll::Ready(Err(io::Error::other(error.clone()))),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl IsTerminal for Inlet {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for Inlet {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }
}

/// A program's output, to be read by the host. Clones share the stream.
#[derive(Clone, Default)]
pub(crate) struct Outlet(Arc<Mutex<Outgoing>>);

#[derive(Default)]
struct Outgoing {
    bytes: BytesMut,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Outlet {
    /// Takes everything that was written and not read.
    pub(crate) fn take(&self) -> Bytes {
        let mut outgoing = self.lock();
        let bytes = outgoing.bytes.split().freeze();
        if let Some(writer) = outgoing.writer.take() {
            writer.wake();
        }
        bytes
    }

    /// Ready with output once there is some.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let mut outgoing = self.lock();
        if outgoing.bytes.is_empty() {
            outgoing.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(outgoing);
        Poll::Ready(self.take())
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    fn room(&self) -> usize {
        WINDOW.saturating_sub(self.bytes.len())
    }

    fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.room() > 0 {
            return Poll::Ready(());
        }
        self.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[async_trait::async_trait]
impl Pollable for Outlet {
    async fn ready(&mut self) {
        poll_fn(|cx| self.lock().poll_room(cx)).await;
    }
}

#[async_trait::async_trait]
impl OutputStream for Outlet {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut outgoing = self.lock();
        if bytes.len() > outgoing.room() {
            return Err(StreamError::trap("more was written than was allowed"));
        }
        outgoing.write(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(self.lock().room())
    }
}

impl AsyncWrite for Outlet {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut outgoing = self.lock();
        if outgoing.poll_room(cx).is_pending() {
            return Poll::Pending;
        }
        let taken = bytes.len().min(outgoing.room());
        outgoing.write(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for Outlet {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Outlet {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}
