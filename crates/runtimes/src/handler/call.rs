//! One call over the link, from INVOKE to its answer.

use std::{borrow::Cow, future::poll_fn, sync::Arc, task::Poll, time::Instant};

use bytes::{Bytes, BytesMut};
use flint_executor::{
    Body, BodyError, Call, Fault, Invoked, Reply, ReplyHead, body_channel,
    link::{Frame, FrameKind, InvokeHead, LinkError, ResultHead, encode_headed, split_headed},
};
use flint_model::LogStream;
use flint_sandbox::Sandbox;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::{
    channel::{Channel, Event},
    launch::{Phase, fault_of_error},
    stream::Relay,
    upload::Upload,
};
use crate::{
    outcome::{self, done},
    process::{ending, logs::Logs},
};

/// A body up to this length is part of the INVOKE frame, in which it fits beside the longest head.
const INLINE: usize = 512 << 10;

/// The state of a call.
pub(super) struct Running {
    pub(super) channel: OwnedMutexGuard<Channel>,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) id: u32,
    pub(super) upload: Upload,
    pub(super) logs: Logs,
    pub(super) began: Instant,
    max_result: u64,
}

/// A finished call, or one whose answer is streamed.
pub(super) enum Outcome {
    Over(Invoked),
    Streaming(Invoked, Box<Relay>),
}

/// An incomplete JSON answer.
struct Gathering {
    body: BytesMut,
    size: u64,
}

/// Runs a call on an instance that serves no other call meanwhile. `warmup`: whether the shim should keep the
/// request.
pub(super) async fn run(
    channel: OwnedMutexGuard<Channel>,
    sandbox: Arc<Sandbox>,
    call: Call,
    warmup: bool,
) -> Outcome {
    let began = Instant::now();
    let (upload, logs) = (Upload::none(), Logs::new(call.max_logs));
    let mut running =
        Running { channel, sandbox, id: 0, upload, logs, began, max_result: call.max_result.as_u64() };
    if let Err(error) = running.begin(call, warmup) {
        return Outcome::Over(outcome::refused(&format!(
            "the request cannot be handed to the function: {error}"
        )));
    }
    let mut gathering: Option<Gathering> = None;
    loop {
        let frame = match running.next().await {
            Event::Frame(frame) => frame,
            other => {
                let nothing_ran = gathering.is_none() && running.upload.waits_for_caller();
                let fault = match other {
                    Event::Deadline if nothing_ran => running.broken(Event::Abandoned(BodyError::Late)).await,
                    other => running.broken(other).await,
                };
                // The shim has not called the function before the request is complete.
                let reusable = gathering.is_none() && fault.is_the_callers();
                return running.over(Err(fault), reusable).await;
            }
        };
        match (frame.kind, &mut gathering) {
            (FrameKind::Error, _) => {
                return running.over(Err(fault_of_error(&frame, Phase::Loaded)), false).await;
            }
            (FrameKind::Ack | FrameKind::Log, _) => running.minor(&frame),
            (FrameKind::Result, None) => {
                let fin = frame.fin;
                let (head, body) = match answer_head(frame) {
                    Ok(parts) => parts,
                    // If the answer is incomplete, the shim would go on sending the rest of it.
                    Err(fault) => return running.over(Err(fault), fin).await,
                };
                match (head, fin) {
                    (ReplyHead::Json, true) => {
                        let result = outcome::json(body, running.max_result);
                        return running.over(result, true).await;
                    }
                    (head @ ReplyHead::Http { .. }, true) => {
                        return running.over(Ok(Reply { head, body }), true).await;
                    }
                    (ReplyHead::Json, false) => gathering = Some(running.gather(None, &body)),
                    (head @ ReplyHead::Http { .. }, false) => return running.stream(head, body),
                }
            }
            (FrameKind::Body | FrameKind::End, Some(so_far)) => {
                let complete = frame.kind == FrameKind::End || frame.fin;
                let so_far = running
                    .gather(Some(std::mem::take(&mut so_far.body)).zip(Some(so_far.size)), &frame.payload);
                if complete {
                    let result = if so_far.size > running.max_result {
                        Err(outcome::too_large(so_far.size, running.max_result, &so_far.body))
                    } else {
                        outcome::json(so_far.body.freeze(), running.max_result)
                    };
                    return running.over(result, true).await;
                }
                gathering = Some(so_far);
            }
            (kind, _) => {
                let fault = Phase::Loaded.breach(format!("{} came in the middle of a call", kind.as_str()));
                return running.over(Err(fault), false).await;
            }
        }
    }
}

impl Running {
    /// Queues INVOKE for the next poll, with the body if it is short.
    fn begin(&mut self, call: Call, warmup: bool) -> Result<(), LinkError> {
        self.channel.timer.set(call.deadline);
        self.id = self.channel.next_call();
        self.upload = put_invoke(self.channel.out(), self.id, call, warmup)?;
        Ok(())
    }

    /// The next event that concerns this call.
    pub(super) async fn next(&mut self) -> Event {
        let Self { channel, logs, upload, id, .. } = self;
        loop {
            let event = poll_fn(|cx| channel.poll(cx, logs, upload)).await;
            match event {
                // A frame of an earlier call, sent before the shim knew that the call had ended.
                Event::Frame(frame) if frame.call != *id && frame.call != 0 => {}
                other => return other,
            }
        }
    }

    /// Handles ACK and LOG.
    pub(super) fn minor(&mut self, frame: &Frame) {
        match (frame.kind, &frame.payload[..]) {
            (FrameKind::Ack, [a, b, c, d]) => {
                self.upload.acknowledged(u32::from_be_bytes([*a, *b, *c, *d]) as usize)
            }
            (FrameKind::Log, [stream, line @ ..]) => {
                let stream = if *stream == 1 { LogStream::Stdout } else { LogStream::Stderr };
                self.logs.push(stream, &[line, b"\n"].concat());
            }
            _ => {}
        }
    }

    /// Tells the shim that `bytes` of the answer have been consumed.
    pub(super) fn acknowledge(&mut self, bytes: usize) {
        if bytes > 0 {
            let id = self.id;
            self.channel.acknowledge(id, bytes);
        }
    }

    /// Adds a piece to a JSON answer; keeps no more of it than is allowed.
    fn gather(&mut self, so_far: Option<(BytesMut, u64)>, piece: &[u8]) -> Gathering {
        let (mut body, size) = so_far.unwrap_or_default();
        let room = usize::try_from(self.max_result).unwrap_or(usize::MAX).saturating_sub(body.len());
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        self.acknowledge(piece.len());
        Gathering { body, size: size + piece.len() as u64 }
    }

    /// The fault of a call whose instance will not answer any more.
    pub(super) async fn broken(&mut self, event: Event) -> Fault {
        let Self { channel, sandbox, logs, .. } = self;
        match event {
            Event::Deadline => {
                ending::by_force(sandbox, &mut channel.output, logs).await;
                Fault::Deadline
            }
            Event::Closed => ending::of_itself(sandbox, &mut channel.output, logs).await,
            Event::Abandoned(error) => {
                channel.send(
                    FrameKind::Error,
                    self.id,
                    br#"{"kind":"cancelled","message":"the caller has gone away"}"#,
                );
                channel.send_now().await;
                Fault::Request(error)
            }
            Event::Broken(error) => Phase::Loaded.breach(format!("what is on the link is no frame: {error}")),
            Event::Frame(frame) => Phase::Loaded.breach(format!("{} came", frame.kind.as_str())),
        }
    }

    async fn over(mut self, result: Result<Reply, Fault>, reusable: bool) -> Outcome {
        let Self { channel, sandbox, logs, began, .. } = &mut self;
        channel.output.drain(logs);
        let usage = channel.meter.after_call(sandbox, *began).await;
        Outcome::Over(done(result, self.logs, usage, reusable))
    }

    fn stream(self, head: ReplyHead, first: Bytes) -> Outcome {
        let (sender, body) = body_channel();
        let (ended, end) = oneshot::channel();
        Outcome::Streaming(
            Invoked::Streaming { head, body, end },
            Box::new(Relay::new(self, first, sender, ended)),
        )
    }
}

/// Appends INVOKE, with the body if it is short; returns the part of the body that is still to be sent.
pub(super) fn put_invoke(out: &mut BytesMut, id: u32, call: Call, warmup: bool) -> Result<Upload, LinkError> {
    let activation = call.activation.to_string();
    let request = call.head.as_deref();
    let text = |value| String::from_utf8_lossy(HeaderValue::as_bytes(value));
    let head = InvokeHead {
        activation: &activation,
        deadline: call.deadline_at.as_millis(),
        method: request.map(|head| head.method.as_str()),
        path: request.map(|head| head.path.as_str()),
        query: request.map(|head| head.query.as_str()),
        headers: request.map_or_else(Vec::new, |head| {
            head.headers
                .iter()
                .map(|(name, value)| (name.as_str(), text(value)))
                .collect::<Vec<(_, Cow<'_, str>)>>()
        }),
        transaction: Some(&call.transaction),
        api_key: call.api_key.as_deref(),
        api_host: None,
        warmup,
    };
    match call.body {
        Body::Full(bytes) if bytes.len() <= INLINE => {
            encode_headed(out, FrameKind::Invoke, true, id, Some(&head), &bytes)?;
            Ok(Upload::none())
        }
        body => {
            encode_headed(out, FrameKind::Invoke, false, id, Some(&head), b"")?;
            Ok(Upload::new(id, body))
        }
    }
}

/// The head of a RESULT, and the part of the body in the same frame.
pub(super) fn answer_head(frame: Frame) -> Result<(ReplyHead, Bytes), Fault> {
    let malformed = |detail: String| Fault::InvalidAnswer { text: detail };
    let (head, body) =
        split_headed(FrameKind::Result, frame.payload).map_err(|error| malformed(error.to_string()))?;
    if head.is_empty() {
        return Ok((ReplyHead::Json, body));
    }
    let head: ResultHead = serde_json::from_slice(&head).map_err(|error| malformed(error.to_string()))?;
    let status = StatusCode::from_u16(head.status)
        .map_err(|_| malformed(format!("{} is not an HTTP status of an answer", head.status)))?;
    let too_many = |_| malformed(format!("{} HTTP headers are too many", head.headers.len()));
    let mut headers = HeaderMap::try_with_capacity(head.headers.len()).map_err(too_many)?;
    for (name, value) in &head.headers {
        match (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str())) {
            (Ok(name), Ok(value)) => headers.try_append(name, value).map_err(too_many)?,
            _ => return Err(malformed(format!("'{name}: {value}' is not an HTTP header"))),
        };
    }
    Ok((outcome::http(status, headers)?, body))
}

/// Discards output written between calls.
pub(super) async fn forget_idle_output(channel: &mut Channel) {
    poll_fn(|cx| {
        channel.forget_idle_output(cx);
        Poll::Ready(())
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_headers_than_there_can_be_are_no_answer() {
        let head = |count: usize| {
            let headers = vec![r#"["a",""]"#; count].join(",");
            let head = format!(r#"{{"status":200,"headers":[{headers}]}}"#);
            let payload = [&(head.len() as u32).to_be_bytes()[..], head.as_bytes()].concat();
            answer_head(Frame::new(FrameKind::Result, 1, payload))
        };
        assert!(matches!(head(100), Ok((ReplyHead::Http { headers, .. }, _)) if headers.len() == 100));
        let long = format!(r#"{{"status":200,"headers":[["a","{}"]]}}"#, "b".repeat(300 << 10));
        let payload = [&(long.len() as u32).to_be_bytes()[..], long.as_bytes()].concat();
        let refused = answer_head(Frame::new(FrameKind::Result, 1, payload)).unwrap_err();
        assert!(
            matches!(&refused, Fault::InvalidAnswer { text } if text.contains("its head is longer")),
            "{refused}"
        );
        let refused = head(26_000).unwrap_err();
        assert!(matches!(&refused, Fault::InvalidAnswer { text } if text.contains("26000")), "{refused}");
    }
}
