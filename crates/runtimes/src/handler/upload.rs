//! A request's body on its way to the shim, within the link's window.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use flint_executor::{
    Body, BodyError, BodyReceiver,
    link::{Frame, FrameKind, WINDOW},
};

/// The most of a body in one frame: small enough that logs and acknowledgements are looked at in between.
const PIECE: usize = 128 << 10;

/// What is still to be sent of a body.
#[derive(Debug)]
pub(super) struct Upload {
    call: u32,
    rest: Bytes,
    more: Option<BodyReceiver>,
    unacknowledged: usize,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Sending,
    /// END was sent, or nothing was to be.
    Done,
    /// The caller's side broke.
    Broken(BodyError),
}

impl Upload {
    /// Nothing to send.
    pub(super) fn none() -> Self {
        Self { call: 0, rest: Bytes::new(), more: None, unacknowledged: 0, state: State::Done }
    }

    /// A body of which nothing has been sent.
    pub(super) fn new(call: u32, body: Body) -> Self {
        let (rest, more) = match body {
            Body::Full(bytes) => (bytes, None),
            Body::Stream(pieces) => (Bytes::new(), Some(pieces)),
        };
        Self { call, rest, more, unacknowledged: 0, state: State::Sending }
    }

    /// The shim has taken `bytes`.
    pub(super) fn acknowledged(&mut self, bytes: usize) {
        self.unacknowledged = self.unacknowledged.saturating_sub(bytes);
    }

    /// Whether everything that the caller has given is sent, and it has not given all.
    pub(super) fn waits_for_caller(&self) -> bool {
        self.state == State::Sending && self.rest.is_empty() && self.more.is_some()
    }

    /// Why the body ended early, once.
    pub(super) fn take_error(&mut self) -> Option<BodyError> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Broken(error) => Some(error),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Appends the next frame, if there is one to be sent now.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> bool {
        if self.state != State::Sending {
            return false;
        }
        if self.rest.is_empty() {
            match self.more.as_mut().map(|more| more.poll_recv(cx)) {
                Some(Poll::Pending) => return false,
                Some(Poll::Ready(Some(Ok(piece)))) => {
                    self.rest = piece;
                    return true;
                }
                Some(Poll::Ready(Some(Err(error)))) => {
                    self.state = State::Broken(error);
                    return false;
                }
                Some(Poll::Ready(None)) | None => {
                    self.state = State::Done;
                    Frame::put_header(out, FrameKind::End, false, self.call, 0);
                    return true;
                }
            }
        }
        let length = self.rest.len().min(PIECE).min(WINDOW - self.unacknowledged.min(WINDOW));
        if length == 0 {
            // An acknowledgement wakes this task.
            return false;
        }
        self.unacknowledged += length;
        Frame::put_header(out, FrameKind::Body, false, self.call, length);
        out.extend_from_slice(&self.rest[..length]);
        self.rest.advance(length);
        true
    }
}
