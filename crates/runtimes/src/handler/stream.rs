//! Streams the rest of an answer from the link to the caller, while collecting logs and enforcing the time
//! limit.

use std::{future::poll_fn, task::Poll};

use bytes::Bytes;
use flint_executor::{BodySender, CallEnd, Fault, LastWord, link::FrameKind};
use tokio::sync::{mpsc::error::TrySendError, oneshot};

use super::{
    call::Running,
    channel::Event,
    launch::{Phase, fault_of_error},
};
use crate::outcome;

/// A call whose answer has begun.
pub(super) struct Relay {
    running: Running,
    first: Bytes,
    /// `None` once the caller has gone.
    caller: Option<BodySender>,
    last_word: LastWord,
    /// How many bytes the caller was given.
    streamed: u64,
    ended: oneshot::Sender<CallEnd>,
}

impl Relay {
    pub(super) fn new(
        running: Running,
        first: Bytes,
        caller: BodySender,
        ended: oneshot::Sender<CallEnd>,
    ) -> Self {
        let last_word = LastWord::of(&caller);
        Self { running, first, caller: Some(caller), last_word, streamed: 0, ended }
    }

    /// Streams until the end of the call, even if the caller has gone.
    pub(super) async fn run(mut self) {
        let first = std::mem::take(&mut self.first);
        let fault = match self.hand_on(first).await {
            Ok(()) => self.relay().await.err(),
            Err(fault) => Some(fault),
        };
        match &fault {
            Some(fault) => self.last_word.broken(fault),
            None => self.last_word.complete(),
        }
        drop(self.caller);
        let Running { mut channel, sandbox, mut logs, began, .. } = self.running;
        channel.output.drain(&mut logs);
        let usage = channel.meter.after_call(&sandbox, began).await;
        let reusable = fault.is_none();
        // Released before the end is reported, since the next call may follow at once.
        drop(channel);
        let end = outcome::end(logs, usage, reusable, fault);
        let _ = self.ended.send(CallEnd { streamed: self.streamed, ..end });
    }

    async fn relay(&mut self) -> Result<(), Fault> {
        loop {
            let frame = match self.running.next().await {
                Event::Frame(frame) => frame,
                other => return Err(self.running.broken(other).await),
            };
            match frame.kind {
                FrameKind::Body => {
                    let complete = frame.fin;
                    self.hand_on(frame.payload).await?;
                    if complete {
                        return Ok(());
                    }
                }
                FrameKind::End => return Ok(()),
                FrameKind::Ack | FrameKind::Log => self.running.minor(&frame),
                FrameKind::Error => return Err(fault_of_error(&frame, Phase::Loaded)),
                other => {
                    return Err(
                        Phase::Loaded.breach(format!("{} came in the middle of a body", other.as_str()))
                    );
                }
            }
        }
    }

    /// Passes a piece to the caller, waiting within the time limit, and acknowledges it to the shim.
    async fn hand_on(&mut self, piece: Bytes) -> Result<(), Fault> {
        let length = piece.len();
        if length == 0 {
            return Ok(());
        }
        if let Some(caller) = self.caller.take() {
            match caller.try_send(Ok(piece)) {
                Ok(()) => self.caller = Some(caller),
                Err(TrySendError::Full(piece)) => {
                    if self.wait_for(&caller).await? && caller.try_send(piece).is_ok() {
                        self.caller = Some(caller);
                    }
                }
                Err(TrySendError::Closed(_)) => {}
            }
            if self.caller.is_some() {
                self.streamed += length as u64;
            } else {
                let id = self.running.id;
                let gone = br#"{"kind":"cancelled","message":"the caller has gone away"}"#;
                self.running.channel.send(FrameKind::Error, id, gone);
            }
        }
        self.running.acknowledge(length);
        Ok(())
    }

    /// Waits until the caller can take a piece; false if it has gone. Collects output meanwhile.
    async fn wait_for(&mut self, caller: &BodySender) -> Result<bool, Fault> {
        let room = caller.reserve();
        tokio::pin!(room);
        let running = &mut self.running;
        let taken = poll_fn(|cx| {
            if let Poll::Ready(permit) = room.as_mut().poll(cx) {
                return Poll::Ready(Some(permit.is_ok()));
            }
            if running.channel.timer.poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            running.channel.output.poll(cx, &mut running.logs);
            Poll::Pending
        })
        .await;
        match taken {
            Some(taken) => Ok(taken),
            None => Err(self.running.broken(Event::Deadline).await),
        }
    }
}
