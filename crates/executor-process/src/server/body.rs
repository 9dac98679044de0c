//! A request's body as the HTTP client wants it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use flint_executor::{Body, BodyError, BodyReceiver};
use http_body::{Frame, SizeHint};

/// What is sent.
#[derive(Debug)]
pub(super) enum RequestBody {
    Full(Option<Bytes>),
    Stream(BodyReceiver),
}

impl From<Body> for RequestBody {
    fn from(body: Body) -> Self {
        match body {
            Body::Full(bytes) => Self::Full(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Body::Stream(pieces) => Self::Stream(pieces),
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
            Self::Stream(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
