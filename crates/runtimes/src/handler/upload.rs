//! Sends a request's body to the shim, within the link's window.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use flint_executor::{
    Body, BodyError, BodyReceiver,
    link::{Frame, FrameKind, WINDOW},
};

/// Longest part of a body in one frame: short enough that logs and acknowledgements are handled in between.
const PIECE: usize = 128 << 10;

/// The unsent part of a body.
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
    /// END was sent, or there is no body.
    Done,
    /// The caller broke off.
    Broken(BodyError),
}

impl Upload {
    /// No body to send.
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

    /// Records that the shim has consumed `bytes`.
    pub(super) fn acknowledged(&mut self, bytes: usize) {
        self.unacknowledged = self.unacknowledged.saturating_sub(bytes);
    }

    /// Whether everything received from the caller is sent and more is to come.
    pub(super) fn waits_for_caller(&self) -> bool {
        self.state == State::Sending && self.rest.is_empty() && self.more.is_some()
    }

    /// Takes the error with which the body broke off, once.
    pub(super) fn take_error(&mut self) -> Option<BodyError> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Broken(error) => Some(error),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Appends the next frame, if one can be sent now.
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
            // The acknowledgement will wake this task.
            return false;
        }
        self.unacknowledged += length;
        Frame::put_header(out, FrameKind::Body, false, self.call, length);
        out.extend_from_slice(&self.rest[..length]);
        self.rest.advance(length);
        true
    }
}
