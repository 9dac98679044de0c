//! Bodies between HTTP and the executors' streams.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    body::Body as HttpBody,
    http::{HeaderValue, header::CONNECTION},
    response::Response,
};
use bytes::Bytes;
use flint_controller::{ControllerError, largest_deploy};
use flint_executor::{Body, BodyError, body_channel};
use flint_model::ByteSize;
use flint_request_body::{Arrival, Pieces, Unread, hand_on};
use tokio::sync::mpsc;

use crate::error::ApiError;

/// Bodies up to this size are read whole before a call begins: cheaper than a stream.
const WHOLE: u64 = 64 * 1024;

/// All of a request's body, if it has at most `limit` bytes, and room.
pub(crate) async fn collect(
    body: HttpBody,
    limit: u64,
    arrival: Option<Arrival<'_>>,
) -> Result<Bytes, ApiError> {
    let too_large = |size| ControllerError::TooLarge { what: "Request", size, allowed: limit }.into();
    collect_or(body, limit, arrival, too_large).await
}

/// The same for a body that is code.
pub(crate) async fn collect_code(
    body: HttpBody,
    max_code: u64,
    arrival: Option<Arrival<'_>>,
) -> Result<Bytes, ApiError> {
    let too_large = |size| ControllerError::TooLarge { what: "exec", size, allowed: max_code }.into();
    collect_or(body, max_code, arrival, too_large).await
}

/// The same for JSON around code, which is base64 in it.
pub(crate) async fn collect_deploy(
    body: HttpBody,
    max_code: u64,
    max_parameters: ByteSize,
    arrival: Option<Arrival<'_>>,
) -> Result<Bytes, ApiError> {
    let limit = largest_deploy(ByteSize::bytes(max_code), max_parameters);
    collect_or(body, limit, arrival, |size| ApiError::deploy_too_large(size, limit, max_code)).await
}

async fn collect_or(
    body: HttpBody,
    limit: u64,
    arrival: Option<Arrival<'_>>,
    too_large: impl FnOnce(u64) -> ApiError,
) -> Result<Bytes, ApiError> {
    flint_request_body::read(body, limit, arrival).await.map_err(|unread| match unread {
        Unread::TooLarge { size } => too_large(size),
        unread => unread.into(),
    })
}

/// A request's body as executors take it: small ones whole, large ones as a stream that ends with an error beyond `limit`, or when it
/// comes too slowly.
pub(crate) async fn incoming(
    body: HttpBody,
    limit: u64,
    arrival: Arrival<'_>,
) -> Result<(Body, Upload), ApiError> {
    let hint = http_body::Body::size_hint(&body);
    if hint.upper().is_some_and(|upper| upper <= WHOLE.min(limit)) || hint.lower() > limit {
        return Ok((Body::Full(collect(body, limit, Some(arrival)).await?), Upload::default()));
    }
    let (sender, receiver) = body_channel();
    let unread = Arc::new(AtomicBool::new(true));
    let upload = Upload(Some(Arc::clone(&unread)));
    let failed = move |failed: Unread| match failed {
        Unread::TooLarge { .. } => BodyError::TooLarge(limit),
        Unread::Late => BodyError::Late,
        Unread::NoRoom => BodyError::Broken(failed.to_string()),
        Unread::Broken(why) => BodyError::Broken(why),
    };
    tokio::spawn(hand_on(body, limit, sender, failed, move || unread.store(false, Ordering::Release)));
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

/// A body that somebody else writes piece by piece; so many are kept for a client that does not read.
pub(crate) fn written(pieces: usize) -> (mpsc::Sender<Result<Bytes, Infallible>>, HttpBody) {
    let (sender, receiver) = mpsc::channel(pieces);
    (sender, HttpBody::new(Pieces(receiver)))
}

#[cfg(test)]
mod tests {
    use flint_request_body::Arriving;

    use super::*;

    async fn incoming(body: HttpBody, limit: u64) -> Result<(Body, Upload), ApiError> {
        super::incoming(body, limit, Arriving::default().arrival("guest")).await
    }

    #[tokio::test]
    async fn code_and_json_around_it_are_refused_as_what_they_are() {
        let large = || HttpBody::from(vec![b' '; (4 << 20) + 5]);
        let told = |refused: Result<Bytes, ApiError>| refused.unwrap_err().into_detail().message;
        let code = told(collect_code(large(), 3 << 20, None).await);
        assert_eq!(code, "the code is 4 MB; limits.max_code is 3 MB");
        let request = told(collect_deploy(large(), 3, ByteSize::bytes(0), None).await);
        assert_eq!(request, "the request is 4194309 bytes; limits.max_code is 3 B, which allows 4194308 B");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stalls_is_late() {
        let (written, body) = written(1);
        let (body, upload) = incoming(body, 1 << 20).await.unwrap();
        let Body::Stream(mut pieces) = body else { panic!("it is not large") };
        written.send(Ok(Bytes::from_static(b"piece"))).await.unwrap();
        assert_eq!(pieces.recv().await, Some(Ok(Bytes::from_static(b"piece"))));
        assert_eq!(pieces.recv().await, Some(Err(BodyError::Late)));
        assert!(upload.answered(Response::default()).headers().contains_key(CONNECTION));
    }

    #[tokio::test]
    async fn a_client_is_told_to_stop_sending_what_a_call_did_not_read() {
        const SIZE: u64 = 1 << 20;
        let closes = |answer: Response| answer.headers().contains_key(CONNECTION);
        let upload = || async {
            let (written, body) = written(1);
            let (body, upload) = incoming(body, SIZE).await.unwrap();
            let Body::Stream(pieces) = body else { panic!("it is not large") };
            written.send(Ok(Bytes::from_static(b"piece"))).await.unwrap();
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
            written.send(Ok(Bytes::from_static(b"piece"))).await.unwrap();
        }
        assert!(closes(unread.answered(Response::default())));
        let (_written, _pieces, goes_on) = upload().await;
        let answer = Response::new(outgoing(Body::Stream(body_channel().1)));
        assert!(!closes(goes_on.answered(answer)), "a call that goes on may read on");
    }
}
