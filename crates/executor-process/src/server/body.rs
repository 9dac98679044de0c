//! A request's body in the form that the HTTP client takes.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use flint_executor::{Body, BodyError, BodyReceiver};
use http_body::{Frame, SizeHint};

/// The body to send.
#[derive(Debug)]
pub(super) enum RequestBody {
    Full(Option<Bytes>),
    Stream(BodyReceiver, Upload),
}

/// The progress of a streamed request's body, shared with the task that waits for the answer: the HTTP client
/// owns the body, and reports only that it broke.
#[derive(Clone, Debug, Default)]
pub(super) struct Upload(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Sending,
    /// Everything received so far has been sent.
    Waiting,
    Broken(BodyError),
}

impl Upload {
    /// Whether the caller has to supply the next piece.
    pub(super) fn waits_for_caller(&self) -> bool {
        matches!(self.state(), State::Waiting)
    }

    /// Why the body broke off.
    pub(super) fn error(&self) -> Option<BodyError> {
        match self.state() {
            State::Broken(error) => Some(error),
            _ => None,
        }
    }

    fn state(&self) -> State {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl RequestBody {
    /// The progress of the body, if it is a stream.
    pub(super) fn upload(&self) -> Option<Upload> {
        match self {
            Self::Full(_) => None,
            Self::Stream(_, upload) => Some(upload.clone()),
        }
    }
}

impl From<Body> for RequestBody {
    fn from(body: Body) -> Self {
        match body {
            Body::Full(bytes) => Self::Full(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Body::Stream(pieces) => Self::Stream(pieces, Upload::default()),
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(pieces, upload) => {
                let piece = pieces.poll_recv(cx);
                upload.set(match &piece {
                    Poll::Pending => State::Waiting,
                    Poll::Ready(Some(Err(error))) => State::Broken(error.clone()),
                    Poll::Ready(_) => State::Sending,
                });
                piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(..) => SizeHint::default(),
        }
    }
}
