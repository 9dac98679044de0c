//! Bodies between HTTP and functions that speak it: piece by piece, as fast as the slower side goes.

use axum::body::Body as HttpBody;
use flint_executor::{Body, BodyError, body_channel};
use flint_request_body::{Pieces, Unread, hand_on};

/// A request's body; beyond `limit` bytes, or when it comes too slowly, it ends with an error.
pub(super) fn incoming(body: HttpBody, limit: u64) -> Body {
    let (sender, receiver) = body_channel();
    let failed = move |failed: Unread| match failed {
        Unread::TooLarge { .. } => BodyError::TooLarge(limit),
        Unread::Late => BodyError::Late,
        Unread::NoRoom => BodyError::Broken(failed.to_string()),
        Unread::Broken(why) => BodyError::Broken(why),
    };
    tokio::spawn(hand_on(body, limit, sender, failed, || ()));
    Body::Stream(receiver)
}

/// An answer's body.
pub(super) fn outgoing(body: Body) -> HttpBody {
    match body {
        Body::Full(bytes) => HttpBody::from(bytes),
        Body::Stream(pieces) => HttpBody::new(Pieces(pieces)),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{StreamExt, stream};
    use http_body::Frame;
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
