//! Drives a guest and its answer together in one task.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use flint_executor::{BodyError, BodySender};
use flint_runtimes::json;
use http::StatusCode;
use http_body::Body as _;
use tokio::sync::oneshot;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::{contracts::Responded, cut::cut, drive::Work, limits::Starved, state::Pace, stdio::Outlet};

/// An answer up to this length is returned whole; a longer one is streamed.
pub(crate) const WHOLE: usize = 1 << 20;

/// How a guest ended.
pub(crate) struct Ended {
    pub(crate) outcome: wasmtime::Result<()>,
    /// The total size of its memories in bytes.
    pub(crate) memory: usize,
    /// Whether it was refused memory.
    pub(crate) starved: Starved,
}

/// The source of the answer.
pub(crate) enum Source {
    Stdout(Outlet),
    Http { head: Head, body: Option<HyperOutgoingBody> },
}

/// A response's head.
pub(crate) enum Head {
    Awaited(oneshot::Receiver<Responded>),
    Here(Box<http::response::Parts>),
    /// The function reported that there is no response, and why.
    Refused(String),
    /// The function ended without a response.
    Absent,
}

/// A running guest and its answer.
pub(crate) struct Exchange {
    guest: Option<Work<Ended>>,
    pace: Arc<Pace>,
    pub(crate) ended: Option<Ended>,
    pub(crate) source: Source,
    /// The part of the answer that has been received and not passed on.
    pub(crate) whole: BytesMut,
    /// How many bytes were passed on: known of an exchange that is cut, too.
    pub(crate) streamed: Arc<AtomicU64>,
    /// Why the answer broke off.
    pub(crate) broken: Option<String>,
}

/// How an answer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Guest and answer have ended.
    Whole,
    /// There is more than is kept, or the answer takes its time.
    Streams,
    /// Guest and answer have ended; the answer may be JSON, has this many bytes, and was not kept entirely.
    TooLong(u64),
}

/// When an answer is passed on before its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// When it has more bytes than this.
    pub(crate) bytes: usize,
    /// Whether to pass on an HTTP response as far as it has come when its function waits for something.
    pub(crate) waits: bool,
}

impl Exchange {
    pub(crate) fn new(guest: Work<Ended>, pace: Arc<Pace>, source: Source) -> Self {
        let (guest, whole, streamed) = (Some(guest), BytesMut::new(), Arc::default());
        Self { guest, pace, ended: None, source, whole, streamed, broken: None }
    }

    /// Drives the guest until the answer is complete or must be streamed.
    pub(crate) async fn begin(&mut self, patience: Patience) -> Begun {
        poll_fn(|cx| {
            loop {
                self.poll_guest(cx);
                self.poll_head(cx);
                let more = matches!(self.poll_piece(cx), Poll::Ready(Some(())));
                if self.whole.len() > patience.bytes {
                    return Poll::Ready(Begun::Streams);
                }
                if more && self.pace.overstayed() {
                    // Yields: a guest that writes in every tick must let others run like one that only
                    // computes.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if more {
                    continue;
                }
                if self.guest.is_none() && !self.expects_more() {
                    return Poll::Ready(Begun::Whole);
                }
                let answers = matches!(self.source, Source::Http { head: Head::Here(_), .. });
                if self.guest.is_some() && patience.waits && answers {
                    return Poll::Ready(Begun::Streams);
                }
                return Poll::Pending;
            }
        })
        .await
    }

    /// Continues an answer that would be streamed, for a call that wants JSON: collects an answer that may
    /// become JSON to its end, and keeps up to `most` bytes.
    pub(crate) async fn whole_json(&mut self, most: usize) -> Begun {
        let patience = Patience { bytes: most, waits: false };
        for _ in 0..2 {
            if !json::may_become_object_or_array(&self.whole) {
                return Begun::Streams;
            }
            if self.whole.len() <= most && self.begin(patience).await == Begun::Whole {
                return Begun::Whole;
            }
        }
        let mut beyond = 0;
        loop {
            beyond += self.whole.len().saturating_sub(most);
            self.whole.truncate(most);
            self.pace.give_way().await;
            if self.begin(patience).await == Begun::Whole {
                return Begun::TooLong((self.whole.len() + beyond) as u64);
            }
        }
    }

    /// Whether the answer has ended properly before its guest.
    pub(crate) fn answered(&self) -> bool {
        self.guest.is_some() && self.broken.is_none()
    }

    /// Passes on the rest; `false` if the caller has gone, in which case the guest was dropped.
    pub(crate) async fn relay(&mut self, sender: BodySender) -> bool {
        loop {
            let piece = self.whole.split().freeze();
            let length = piece.len() as u64;
            if length > 0 && sender.send(Ok(piece)).await.is_err() {
                self.guest = None;
                return false;
            }
            self.streamed.fetch_add(length, Ordering::Relaxed);
            let gone = sender.closed();
            tokio::pin!(gone);
            let next = poll_fn(|cx| {
                self.poll_guest(cx);
                match self.poll_piece(cx) {
                    Poll::Ready(Some(())) => return Poll::Ready(Next::Piece),
                    Poll::Ready(None) => return Poll::Ready(Next::End),
                    Poll::Pending => {}
                }
                gone.as_mut().poll(cx).map(|()| Next::Gone)
            });
            match next.await {
                Next::Piece => self.pace.give_way().await,
                Next::End => break,
                Next::Gone => {
                    self.guest = None;
                    return false;
                }
            }
        }
        if let Some(why) = &self.broken {
            let _ = sender.send(Err(BodyError::Broken(why.clone()))).await;
        }
        true
    }

    /// Drives the guest after its answer has ended.
    pub(crate) async fn finish(&mut self) {
        poll_fn(|cx| {
            self.poll_guest(cx);
            if self.guest.is_none() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn poll_guest(&mut self, cx: &mut Context<'_>) {
        if let Some(guest) = &mut self.guest
            && let Poll::Ready(ended) = guest.as_mut().poll(cx)
        {
            if let (Err(_), Source::Http { body, .. }) = (&ended.outcome, &mut self.source) {
                // The part that has arrived is not the answer.
                self.broken = body.take().map(|_| "the function failed in the middle of its answer".into());
            }
            self.guest = None;
            self.ended = Some(ended);
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) {
        let Source::Http { head, body } = &mut self.source else { return };
        let Head::Awaited(receiver) = head else { return };
        match std::pin::Pin::new(receiver).poll(cx) {
            Poll::Pending => {}
            Poll::Ready(Ok(Ok(response))) => {
                let (parts, content) = response.into_parts();
                *head = Head::Here(Box::new(parts));
                *body = Some(content);
            }
            Poll::Ready(Ok(Err(code))) => *head = Head::Refused(code),
            Poll::Ready(Err(_)) => *head = Head::Absent,
        }
    }

    /// Moves the next piece of the answer to [`Self::whole`]; ready with `None` at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        match &mut self.source {
            Source::Stdout(outlet) => match outlet.poll_take(cx) {
                Poll::Ready(bytes) => {
                    put(&mut self.whole, bytes);
                    Poll::Ready(Some(()))
                }
                Poll::Pending if self.guest.is_none() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            },
            Source::Http { head: Head::Awaited(_), .. } => Poll::Pending,
            Source::Http { body: slot, .. } => {
                let Some(body) = slot else { return Poll::Ready(None) };
                match std::pin::Pin::new(body).poll_frame(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Some(Ok(frame))) => {
                        // Trailers are not passed on.
                        if let Ok(bytes) = frame.into_data() {
                            put(&mut self.whole, bytes);
                        }
                        Poll::Ready(Some(()))
                    }
                    Poll::Ready(Some(Err(error))) => {
                        (*slot, self.broken) = (None, Some(cut(error)));
                        Poll::Ready(None)
                    }
                    Poll::Ready(None) => {
                        *slot = None;
                        Poll::Ready(None)
                    }
                }
            }
        }
    }

    /// Whether the answer may be the JSON result that a call wants.
    pub(crate) fn may_succeed(&self) -> bool {
        match &self.source {
            Source::Stdout(_) => true,
            Source::Http { head: Head::Here(parts), .. } => parts.status.is_success(),
            Source::Http { .. } => false,
        }
    }

    fn expects_more(&self) -> bool {
        match &self.source {
            Source::Stdout(_) => false,
            Source::Http { head: Head::Awaited(_), .. } => true,
            Source::Http { body, .. } => body.is_some(),
        }
    }

    /// The response's head, once it is there.
    pub(crate) fn take_head(&mut self) -> Option<(StatusCode, http::HeaderMap)> {
        match &mut self.source {
            Source::Http { head: Head::Here(parts), .. } => {
                Some((parts.status, std::mem::take(&mut parts.headers)))
            }
            _ => None,
        }
    }
}

enum Next {
    Piece,
    End,
    Gone,
}

/// Takes the first piece over without copying it.
fn put(whole: &mut BytesMut, bytes: Bytes) {
    if whole.is_empty() {
        *whole = BytesMut::from(bytes);
    } else {
        whole.extend_from_slice(&bytes);
    }
}
