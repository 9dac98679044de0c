//! Bodies between HTTP and functions that speak it: piece by piece, as fast as the slower side goes.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body as HttpBody;
use bytes::Bytes;
use flint_executor::{Body, BodyError, BodyReceiver, body_channel};
use flint_request_body::{Pace, discard};
use http_body::Frame;

/// A request's body; beyond `limit` bytes, or when it comes too slowly, it ends with an error.
pub(super) fn incoming(body: HttpBody, limit: u64) -> Body {
    let (sender, receiver) = body_channel();
    // Ends with the body, with the connection that it comes from, or soon after the receiver.
    tokio::spawn(async move {
        let (mut body, mut taken, mut pace) = (body, 0_u64, Pace::default());
        loop {
            let frame = tokio::select! {
                frame = pace.frame(&mut body) => frame,
                () = sender.closed() => return discard(body).await,
            };
            let Ok(frame) = frame else {
                let _ = sender.send(Err(BodyError::Late)).await;
                return discard(body).await;
            };
            let piece = match frame.map(|frame| frame.map(Frame::into_data)) {
                None => return,
                Some(Ok(Ok(piece))) => piece,
                Some(Ok(Err(_trailers))) => continue,
                Some(Err(error)) => {
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

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};
    use http_body_util::StreamBody;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stalls_is_late() {
        let first = stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"piece")))]);
        let stalls = HttpBody::new(StreamBody::new(first.chain(stream::pending())));
        let Body::Stream(mut pieces) = incoming(stalls, 1 << 20) else { panic!("it is a stream") };
        assert_eq!(pieces.recv().await, Some(Ok(Bytes::from_static(b"piece"))));
        assert_eq!(pieces.recv().await, Some(Err(BodyError::Late)));
        assert_eq!(pieces.recv().await, None);
    }
}
