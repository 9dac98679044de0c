//! Bodies that fail when they grow too large or stall.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, Sleep},
};
use wasmtime_wasi_http::Error;

/// A body with at most `left` more bytes, each piece of which must arrive within `idle`.
pub(super) struct Bounded<B> {
    inner: Pin<Box<B>>,
    left: u64,
    too_large: fn() -> Error,
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
    /// The call's permit for a concurrent request, held until the body is gone.
    _place: Option<OwnedSemaphorePermit>,
}

impl<B> Bounded<B> {
    /// A request's body.
    pub(super) fn request(inner: B, most: u64) -> Self {
        let too_large = || Error::HttpRequestBodySize(None);
        Self { inner: Box::pin(inner), left: most, too_large, idle: None, _place: None }
    }

    /// A response's body.
    pub(super) fn response(inner: B, most: u64, idle: Duration, place: Option<OwnedSemaphorePermit>) -> Self {
        let too_large = || Error::HttpResponseBodySize(None);
        let idle = Some((idle, Box::pin(tokio::time::sleep(idle))));
        Self { inner: Box::pin(inner), left: most, too_large, idle, _place: place }
    }
}

impl<B: Body<Data = Bytes, Error: Into<Error>>> Body for Bounded<B> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = this.inner.as_mut().poll_frame(context) else {
            let Some((_, sleep)) = &mut this.idle else { return Poll::Pending };
            ready!(sleep.as_mut().poll(context));
            return Poll::Ready(Some(Err(Error::ConnectionReadTimeout)));
        };
        if let Some((idle, sleep)) = &mut this.idle {
            sleep.as_mut().reset(Instant::now() + *idle);
        }
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(Into::into)?;
            let size = frame.data_ref().map_or(0, |data| data.remaining() as u64);
            this.left = this.left.checked_sub(size).ok_or_else(this.too_large)?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
