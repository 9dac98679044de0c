//! Bodies between HTTP and the executors' streams.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body as HttpBody;
use bytes::Bytes;
use flint_executor::{Body, BodyError, BodyReceiver, body_channel};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::mpsc;

use crate::error::ApiError;

/// Bodies up to this size are read whole before a call begins: cheaper than a stream.
const WHOLE: u64 = 64 * 1024;

/// How much of a body that is too large is read before it is refused, and how long that may take.
const DISCARDED: u64 = 64 * 1024 * 1024;
const DISCARDED_WITHIN: Duration = Duration::from_secs(10);

/// All of a request's body, if it has at most `limit` bytes.
pub(crate) async fn collect(mut body: HttpBody, limit: u64) -> Result<Bytes, ApiError> {
    let too_large = || {
        ApiError::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the request's body is larger than {limit} bytes"))
            .hint("the server's bounds are limits.max_payload for JSON, limits.max_body for anything else and limits.max_code for code")
    };
    if http_body::Body::size_hint(&body).lower() > limit {
        discard(body).await;
        return Err(too_large());
    }
    match Limited::new(&mut body, usize::try_from(limit).unwrap_or(usize::MAX)).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(body).await;
            Err(too_large())
        }
        Err(error) => Err(ApiError::invalid(format!("the request's body ended early: {error}"))),
    }
}

/// Reads what is left of a body and forgets it: a client that is still writing would not see the refusal. Within bounds; who
/// sends more than that has the connection closed.
async fn discard(body: HttpBody) {
    let reading = async {
        let (mut body, mut left) = (body, DISCARDED);
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Late or not, the refusal is next.
    let _ = tokio::time::timeout(DISCARDED_WITHIN, reading).await;
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
