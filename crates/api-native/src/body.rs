//! Bodies between HTTP and the executors' streams.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{body::Body as HttpBody, http::StatusCode};
use bytes::Bytes;
use flint_controller::ControllerError;
use flint_executor::{Body, BodyError, BodyReceiver, body_channel};
use flint_request_body::Unread;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use crate::error::ApiError;

/// Bodies up to this size are read whole before a call begins: cheaper than a stream.
const WHOLE: u64 = 64 * 1024;

/// All of a request's body, if it has at most `limit` bytes.
pub(crate) async fn collect(body: HttpBody, limit: u64) -> Result<Bytes, ApiError> {
    flint_request_body::read(body, limit).await.map_err(|unread| match unread {
        Unread::TooLarge { size } => {
            ControllerError::TooLarge { what: "Request", size, allowed: limit }.into()
        }
        Unread::Late => ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", unread.to_string()),
        Unread::Broken(_) => ApiError::invalid(unread.to_string()),
    })
}

/// A request's body as executors take it: small ones whole, large ones as a stream that ends with an error beyond `limit`.
pub(crate) async fn incoming(body: HttpBody, limit: u64) -> Result<Body, ApiError> {
    let hint = http_body::Body::size_hint(&body);
    if hint.upper().is_some_and(|upper| upper <= WHOLE.min(limit)) || hint.lower() > limit {
        return Ok(Body::Full(collect(body, limit).await?));
    }
    let (sender, receiver) = body_channel();
    // Ends with the body, with the receiver, or with the connection that the body comes from.
    tokio::spawn(async move {
        let mut body = body;
        let mut taken = 0u64;
        while let Some(frame) = body.frame().await {
            let piece = match frame.map(Frame::into_data) {
                Ok(Ok(piece)) => piece,
                Ok(Err(_trailers)) => continue,
                Err(error) => {
                    let _ = sender.send(Err(BodyError::Broken(error.to_string()))).await;
                    return;
                }
            };
            taken += piece.len() as u64;
            let sent = if taken > limit { Err(BodyError::TooLarge(limit)) } else { Ok(piece) };
            let last = sent.is_err();
            if sender.send(sent).await.is_err() || last {
                return;
            }
        }
    });
    Ok(Body::Stream(receiver))
}

/// An executor's body as HTTP takes it.
pub(crate) fn outgoing(body: Body) -> HttpBody {
    match body {
        Body::Full(bytes) => HttpBody::from(bytes),
        Body::Stream(pieces) => HttpBody::new(Pieces(pieces)),
    }
}

/// A streamed answer. An error in it breaks the connection, which is how HTTP/1 says that an answer is not complete.
struct Pieces(BodyReceiver);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A body that somebody else writes piece by piece.
pub(crate) fn written() -> (mpsc::Sender<Bytes>, HttpBody) {
    let (sender, receiver) = mpsc::channel(16);
    (sender, HttpBody::new(Written(receiver)))
}

struct Written(mpsc::Receiver<Bytes>);

impl http_body::Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
