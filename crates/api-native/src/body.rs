//! Bodies between HTTP and the executors' streams.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    body::Body as HttpBody,
    http::{HeaderValue, StatusCode, header::CONNECTION},
    response::Response,
};
use bytes::Bytes;
use flint_controller::ControllerError;
use flint_executor::{Body, BodyError, BodyReceiver, body_channel};
use flint_request_body::{Pace, Unread, discard};
use http_body::{Frame, SizeHint};
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

/// A request's body as executors take it: small ones whole, large ones as a stream that ends with an error beyond `limit`, or when it
/// comes too slowly.
pub(crate) async fn incoming(body: HttpBody, limit: u64) -> Result<(Body, Upload), ApiError> {
    let hint = http_body::Body::size_hint(&body);
    if hint.upper().is_some_and(|upper| upper <= WHOLE.min(limit)) || hint.lower() > limit {
        return Ok((Body::Full(collect(body, limit).await?), Upload::default()));
    }
    let (sender, receiver) = body_channel();
    let unread = Arc::new(AtomicBool::new(true));
    let upload = Upload(Some(Arc::clone(&unread)));
    // Ends with the body, with the connection that it comes from, or soon after the receiver.
    tokio::spawn(async move {
        let mut body = body;
        let (mut taken, mut pace) = (0u64, Pace::default());
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
                None => break unread.store(false, Ordering::Release),
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
            if http_body::Body::is_end_stream(&body) {
                unread.store(false, Ordering::Release);
            }
            if sender.send(sent).await.is_err() || last {
                return discard(body).await;
            }
        }
    });
    Ok((Body::Stream(receiver), upload))
}

/// What is known of a streamed request beside its pieces.
#[derive(Default)]
pub(crate) struct Upload(Option<Arc<AtomicBool>>);

impl Upload {
    /// The answer of a call. Where that is over and has not read all of its request, the client is told to stop sending it.
    pub(crate) fn answered(self, mut answer: Response) -> Response {
        let is_over = || http_body::Body::size_hint(answer.body()).exact().is_some();
        if self.0.is_some_and(|unread| unread.load(Ordering::Acquire)) && is_over() {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stalls_is_late() {
        let (written, body) = written();
        let (body, upload) = incoming(body, 1 << 20).await.unwrap();
        let Body::Stream(mut pieces) = body else { panic!("it is not large") };
        written.send(Bytes::from_static(b"piece")).await.unwrap();
        assert_eq!(pieces.recv().await, Some(Ok(Bytes::from_static(b"piece"))));
        assert_eq!(pieces.recv().await, Some(Err(BodyError::Late)));
        assert!(upload.answered(Response::default()).headers().contains_key(CONNECTION));
    }

    #[tokio::test]
    async fn a_client_is_told_to_stop_sending_what_a_call_did_not_read() {
        const SIZE: u64 = 1 << 20;
        let closes = |answer: Response| answer.headers().contains_key(CONNECTION);
        let upload = || async {
            let (written, body) = written();
            let (body, upload) = incoming(body, SIZE).await.unwrap();
            let Body::Stream(pieces) = body else { panic!("it is not large") };
            written.send(Bytes::from_static(b"piece")).await.unwrap();
            (written, pieces, upload)
        };
        let (written, mut pieces, read) = upload().await;
        drop(written);
        while let Some(piece) = pieces.recv().await {
            assert_eq!(piece.unwrap(), "piece");
        }
        assert!(!closes(read.answered(Response::default())));
        let (written, pieces, unread) = upload().await;
        drop(pieces);
        // As long as it still sends, what comes is taken: it would not see its answer otherwise.
        for _ in 0..100 {
            written.send(Bytes::from_static(b"piece")).await.unwrap();
        }
        assert!(closes(unread.answered(Response::default())));
        let (_written, _pieces, goes_on) = upload().await;
        let answer = Response::new(outgoing(Body::Stream(body_channel().1)));
        assert!(!closes(goes_on.answered(answer)), "a call that goes on may read on");
    }
}
