//! Bodies are streamed in both directions, with backpressure.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::json;

use super::{
    Subject,
    subject::{AMPLE, SHORT, done, request},
};
use crate::{Body, BodyError, CallHead, Fault, Invoked, ReplyHead, body_channel};

const MEGABYTES: usize = 50;
const MEGABYTE: usize = 1 << 20;

/// Fifty megabytes in each direction.
pub async fn long_bodies_stream_both_ways(subject: &Subject) {
    let instance = subject.start().await;
    let (sender, body) = body_channel();
    let feeding = tokio::spawn(async move {
        for n in 0..MEGABYTES {
            sender.send(Ok(Bytes::from(vec![n as u8; MEGABYTE]))).await.expect("the body is taken");
        }
    });
    let mut call = request("", json!({}), AMPLE);
    call.body = Body::Stream(body);
    call.head = Some(Box::new(octets()));
    let answer = done(instance.invoke(call).await).json();
    let wanted =
        json!({ "length": MEGABYTES * MEGABYTE, "last": MEGABYTES - 1, "type": "application/octet-stream" });
    assert_eq!(answer, wanted);
    feeding.await.expect("all of it was taken");

    let invoked = instance.invoke(request("stream", json!({ "megabytes": MEGABYTES }), AMPLE)).await;
    let Invoked::Streaming { mut body, end, .. } = invoked else { panic!("no stream: {invoked:?}") };
    let mut length = 0;
    while let Some(piece) = body.recv().await {
        let piece = piece.expect("the stream goes well");
        assert_eq!(piece[0] as usize, length / MEGABYTE % 251);
        length += piece.len();
    }
    assert_eq!(length, MEGABYTES * MEGABYTE);
    let end = end.await.expect("the call's end");
    assert!(end.reusable && end.fault.is_none(), "{end:?}");
    assert_eq!(end.streamed, length as u64);
    assert_eq!(end.logs.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["streamed"]);
    let next = subject.call(&instance, "echo", json!({ "text": "next" })).await;
    assert_eq!(next.json(), json!({ "text": "next" }));
    instance.stop().await;
}

/// The call runs to its end, and the instance serves the next one.
pub async fn a_caller_that_goes_away_does_no_harm(subject: &Subject) {
    let instance = subject.start().await;
    let invoked = instance.invoke(request("stream", json!({ "megabytes": 20 }), AMPLE)).await;
    let Invoked::Streaming { body, end, .. } = invoked else { panic!("no stream: {invoked:?}") };
    drop(body);
    let end = end.await.expect("the call's end");
    if end.reusable {
        let next = subject.call(&instance, "echo", json!({ "text": "next" })).await;
        assert_eq!(next.json(), json!({ "text": "next" }));
    }
    // A caller that reads nothing does not hold an instance beyond the deadline.
    let invoked = instance.invoke(request("stream", json!({ "megabytes": 20 }), SHORT)).await;
    if let Invoked::Streaming { mut body, end, .. } = invoked {
        let end = end.await.expect("the call's end");
        assert_eq!(end.fault, Some(Fault::Deadline));
        // A consumer that resumes reading must see that the body is incomplete.
        let mut last = None;
        while let Some(piece) = body.recv().await {
            last = Some(piece);
        }
        assert!(matches!(last, Some(Err(_))), "{last:?}");
    }
    instance.stop().await;
}

/// A request that breaks off, or stalls until the deadline, is its caller's fault: the function was not
/// called, and the instance serves on.
pub async fn a_request_that_breaks_off_ends_its_own_call_only(subject: &Subject) {
    let instance = subject.start().await;
    let errors = [BodyError::Broken("gone".into()), BodyError::TooLarge(7), BodyError::Late];
    for error in errors.map(Some).into_iter().chain([None]) {
        let (sender, body) = body_channel();
        sender.send(Ok(Bytes::from_static(b"{\"op\":"))).await.expect("room");
        let mut call = request("", json!({}), if error.is_some() { AMPLE } else { SHORT });
        call.body = Body::Stream(body);
        if let Some(error) = error.clone() {
            sender.send(Err(error)).await.expect("room");
        }
        let half = done(instance.invoke(call).await);
        assert_eq!(half.fault(), &Fault::Request(error.unwrap_or(BodyError::Late)));
        assert!(half.end.reusable);
        let next = subject.call(&instance, "echo", json!({ "text": "next" })).await;
        assert_eq!(next.json(), json!({ "text": "next" }));
    }
    instance.stop().await;
}

/// An answer of bytes becomes an HTTP response.
pub async fn binary_answers_are_http(subject: &Subject) {
    let instance = subject.start().await;
    let done = subject.call(&instance, "binary", json!({})).await;
    let reply = done.result.expect("an answer");
    assert!(matches!(reply.head, ReplyHead::Http { .. }), "{:?}", reply.head);
    assert_eq!(&reply.body[..], [0, 255, 1]);
    instance.stop().await;
}

fn octets() -> CallHead {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    CallHead { method: Method::POST, path: "/".into(), query: String::new(), headers }
}
