//! Bodies between HTTP and functions that speak it: piece by piece, as fast as the slower side goes.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body as HttpBody;
use bytes::Bytes;
use flint_executor::{Body, BodyError, BodyReceiver, body_channel};
use flint_request_body::discard;
use http_body::Frame;
use http_body_util::BodyExt;

/// A request's body; beyond `limit` bytes it ends with an error.
pub(super) fn incoming(body: HttpBody, limit: u64) -> Body {
    let (sender, receiver) = body_channel();
    // Ends with the body, with the connection that it comes from, or soon after the receiver.
    tokio::spawn(async move {
        let (mut body, mut taken) = (body, 0_u64);
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = sender.closed() => return discard(body).await,
            };
            let Some(frame) = frame else { return };
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
                return discard(body).await;
            }
        }
    });
    Body::Stream(receiver)
}

/// An answer's body.
pub(super) fn outgoing(body: Body) -> HttpBody {
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
}
