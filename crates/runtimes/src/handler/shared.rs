//! An instance that serves several calls at once.
//!
//! They share a process: a call that does not end by its deadline, or ends the process, takes the others along.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use flint_executor::{
    BodyError, BodySender, Call, CallEnd, Fault, Instance, Invoked, Reply, ReplyHead, body_channel,
    link::{Frame, FrameKind},
};
use flint_model::{ByteSize, InstanceId, Usage};
use flint_sandbox::Sandbox;
use tokio::{
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::timeout_at,
};

use super::{
    call::answer_head,
    hub::{Hub, Seat, Step},
    launch::{Cell, Phase, fault_of_error, platform},
};
use crate::{
    outcome,
    prepare::artefact::SharedArtefact,
    process::{ending, logs::Logs, meter},
};

/// A shim with a function loaded, that runs calls side by side.
pub struct SharedInstance {
    id: InstanceId,
    sandbox: Arc<Sandbox>,
    hub: Arc<Hub>,
    driver: JoinHandle<()>,
    /// Tasks that send the rest of streamed answers.
    relays: Mutex<JoinSet<()>>,
    /// What the sandbox sees of the disk stays there as long as the sandbox.
    _artefact: SharedArtefact,
}

impl SharedInstance {
    /// From a shim that was told of the concurrency when it loaded the function.
    pub fn new(id: InstanceId, cell: Cell, artefact: SharedArtefact) -> Self {
        let hub = Hub::new();
        let driver = tokio::spawn(Arc::clone(&hub).drive(Arc::clone(&cell.sandbox), cell.channel));
        let relays = Mutex::default();
        Self { id, sandbox: cell.sandbox, hub, driver, relays, _artefact: artefact }
    }

    fn relays(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way.
struct Running {
    seat: Seat,
    sandbox: Arc<Sandbox>,
    deadline: Instant,
}

impl Running {
    async fn next(&self) -> Result<Frame, Fault> {
        match timeout_at(self.deadline.into(), self.seat.next()).await {
            Ok(Step::Frame(frame)) => Ok(frame),
            Ok(Step::Ended(fault)) => Err(fault),
            Ok(Step::Abandoned(error)) => {
                self.seat
                    .send(FrameKind::Error, br#"{"kind":"cancelled","message":"the caller has gone away"}"#);
                Err(platform(format!("the request's body did not come to its end: {error}")))
            }
            Err(_) => {
                self.sandbox.kill();
                Err(Fault::Deadline)
            }
        }
    }

    fn over(self, result: Result<Reply, Fault>) -> Invoked {
        let reusable = result.as_ref().err().is_none_or(leaves_it_whole);
        Invoked::Done { result, end: end(self.seat.leave(), reusable, None) }
    }
}

/// A function that throws has thrown for its own call only; any other fault is the instance's.
fn leaves_it_whole(fault: &Fault) -> bool {
    matches!(fault, Fault::Developer { .. } | Fault::InvalidAnswer { .. } | Fault::ResultTooLarge { .. })
}

/// What calls that run side by side use cannot be told apart.
fn end(logs: Logs, reusable: bool, fault: Option<Fault>) -> CallEnd {
    outcome::end(logs, Usage::default(), reusable, fault)
}

#[async_trait]
impl Instance for SharedInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, call: Call) -> Invoked {
        let (deadline, allowed) = (call.deadline, call.max_result.as_u64());
        let seat = match self.hub.begin(call) {
            Ok(seat) => seat,
            Err(error) => {
                return outcome::refused(&format!("the request cannot be handed to the function: {error}"));
            }
        };
        let running = Running { seat, sandbox: Arc::clone(&self.sandbox), deadline };
        let (head, first, complete) = match answer(&running).await {
            Ok(begun) => begun,
            Err(fault) => return running.over(Err(fault)),
        };
        match (head, complete) {
            (ReplyHead::Json, true) => running.over(outcome::json(first, allowed)),
            (ReplyHead::Json, false) => {
                let result = gather(&running, &first, allowed).await;
                running.over(result)
            }
            (head, true) => running.over(Ok(Reply { head, body: first })),
            (head, false) => {
                let (sender, body) = body_channel();
                let (ended, end) = oneshot::channel();
                let mut relays = self.relays();
                while relays.try_join_next().is_some() {}
                relays.spawn(relay(running, first, sender, ended));
                Invoked::Streaming { head, body, end }
            }
        }
    }

    async fn memory(&self) -> Option<ByteSize> {
        meter::memory(&self.sandbox).await
    }

    async fn pause(&self) {
        ending::pause(&self.sandbox).await;
    }

    async fn resume(&self) {
        ending::resume(&self.sandbox).await;
    }

    async fn ended(&self) {
        self.sandbox.wait().await;
    }

    async fn stop(&self) {
        ending::completely(&self.sandbox).await;
        let mut relays = std::mem::take(&mut *self.relays());
        relays.shutdown().await;
        self.driver.abort();
    }
}

impl Drop for SharedInstance {
    fn drop(&mut self) {
        self.sandbox.kill();
        self.driver.abort();
    }
}

/// RESULT: its head, the first part of its body, and whether that is all.
async fn answer(running: &Running) -> Result<(ReplyHead, Bytes, bool), Fault> {
    let frame = running.next().await?;
    let fin = frame.fin;
    match frame.kind {
        FrameKind::Result => answer_head(frame).map(|(head, body)| (head, body, fin)),
        FrameKind::Error => Err(fault_of_error(&frame, Phase::Loaded)),
        kind => Err(Phase::Loaded.breach(format!("{} came in the middle of a call", kind.as_str()))),
    }
}

/// The next piece of an answer's body; `None` at its end.
async fn piece(running: &Running, complete: &mut bool) -> Result<Option<Bytes>, Fault> {
    if *complete {
        return Ok(None);
    }
    let frame = running.next().await?;
    match frame.kind {
        FrameKind::Body => {
            *complete = frame.fin;
            Ok(Some(frame.payload))
        }
        FrameKind::End => Ok(None),
        FrameKind::Error => Err(fault_of_error(&frame, Phase::Loaded)),
        kind => Err(Phase::Loaded.breach(format!("{} came in the middle of a body", kind.as_str()))),
    }
}

/// A JSON answer of several frames, of which no more is kept than is allowed.
async fn gather(running: &Running, first: &[u8], allowed: u64) -> Result<Reply, Fault> {
    let most = usize::try_from(allowed).unwrap_or(usize::MAX);
    let mut body = BytesMut::from(&first[..first.len().min(most)]);
    let (mut size, mut complete) = (first.len() as u64, false);
    running.seat.acknowledge(first.len());
    while let Some(piece) = piece(running, &mut complete).await? {
        size += piece.len() as u64;
        body.extend_from_slice(&piece[..piece.len().min(most - body.len())]);
        running.seat.acknowledge(piece.len());
    }
    if size > allowed {
        return Err(outcome::too_large(size, allowed, &body));
    }
    outcome::json(body.freeze(), allowed)
}

/// Sends the rest of a streamed answer, to the call's end, also when the caller has gone away.
async fn relay(running: Running, first: Bytes, caller: BodySender, ended: oneshot::Sender<CallEnd>) {
    let (mut caller, mut complete) = (Some(caller), false);
    let mut next = Ok(Some(first));
    let fault = loop {
        let part = match next {
            Ok(Some(part)) => part,
            Ok(None) => break None,
            Err(fault) => break Some(fault),
        };
        let length = part.len();
        // The first part may be empty.
        if length > 0
            && let Some(sender) = caller.take()
        {
            match timeout_at(running.deadline.into(), sender.send(Ok(part))).await {
                Ok(Ok(())) => caller = Some(sender),
                Ok(Err(_)) => running
                    .seat
                    .send(FrameKind::Error, br#"{"kind":"cancelled","message":"the caller has gone away"}"#),
                Err(_) => {
                    running.sandbox.kill();
                    break Some(Fault::Deadline);
                }
            }
        }
        running.seat.acknowledge(length);
        next = piece(&running, &mut complete).await;
    };
    if let (Some(fault), Some(caller)) = (&fault, caller) {
        let _ = caller.try_send(Err(BodyError::Broken(fault.to_string())));
    }
    let reusable = fault.as_ref().is_none_or(leaves_it_whole);
    let _ = ended.send(end(running.seat.leave(), reusable, fault));
}
