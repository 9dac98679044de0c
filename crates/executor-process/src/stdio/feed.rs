//! Writes a request's body into a program's stdin.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use flint_executor::{Body, BodyError, BodyReceiver};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    pipe::{PipeFlags, pipe_with},
};
use tokio::{io::AsyncWrite, net::unix::pipe};

/// The part that is still to be written.
#[derive(Debug)]
pub(super) struct Feed {
    pipe: Option<pipe::Sender>,
    rest: Bytes,
    more: Option<BodyReceiver>,
}

impl Feed {
    /// Also returns the program's end; `None` for an empty body, which means `/dev/null`.
    pub(super) fn new(body: Body) -> io::Result<(Self, Option<OwnedFd>)> {
        let (mut rest, more) = match body {
            Body::Full(bytes) => (bytes, None),
            Body::Stream(pieces) => (Bytes::new(), Some(pieces)),
        };
        if rest.is_empty() && more.is_none() {
            return Ok((Self { pipe: None, rest, more }, None));
        }
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        // A short body fits into the pipe before the program runs, and is done with.
        while !rest.is_empty() {
            match rustix::io::write(&ours, &rest) {
                Ok(written) => rest.advance(written),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let pipe = if rest.is_empty() && more.is_none() {
            None
        } else {
            Some(pipe::Sender::from_owned_fd_unchecked(ours)?)
        };
        Ok((Self { pipe, rest, more }, Some(theirs)))
    }

    /// Writes as much as the pipe takes. A program need not read its stdin to the end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        while let Some(pipe) = &mut self.pipe {
            if self.rest.is_empty() {
                match self.more.as_mut().map(|more| more.poll_recv(cx)) {
                    Some(Poll::Pending) => break,
                    Some(Poll::Ready(Some(piece))) => self.rest = piece.inspect_err(|_| self.pipe = None)?,
                    Some(Poll::Ready(None)) | None => self.close(),
                }
                continue;
            }
            match Pin::new(pipe).poll_write(cx, &self.rest) {
                Poll::Pending => break,
                Poll::Ready(Ok(written)) => self.rest.advance(written),
                Poll::Ready(Err(_)) => self.close(),
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        *self = Self { pipe: None, rest: Bytes::new(), more: None };
    }
}
