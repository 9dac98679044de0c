//! An instance that serves several calls concurrently.
//!
//! The calls share a process: one whose function does not end by its deadline, or which ends the process,
//! ends the others too. A call that is held up by its caller does not.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use flint_executor::{
    BodyError, BodySender, Call, CallEnd, Fault, Instance, Invoked, LastWord, Reply, ReplyHead, body_channel,
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
    launch::{Cell, Phase, fault_of_error},
};
use crate::{
    outcome,
    prepare::artefact::SharedArtefact,
    process::{ending, meter},
};

/// A shim with a loaded function that runs calls concurrently.
pub struct SharedInstance {
    id: InstanceId,
    sandbox: Arc<Sandbox>,
    hub: Arc<Hub>,
    driver: Mutex<Option<JoinHandle<()>>>,
    /// The tasks that stream the rest of answers.
    relays: Mutex<JoinSet<()>>,
    /// Keeps the code on disk for as long as the sandbox sees it.
    _artefact: SharedArtefact,
}

impl SharedInstance {
    /// The shim must have been told of the concurrency when it loaded the function.
    pub fn new(id: InstanceId, cell: Cell, artefact: SharedArtefact) -> Self {
        let hub = Hub::new();
        let driver = tokio::spawn(Arc::clone(&hub).drive(Arc::clone(&cell.sandbox), cell.channel));
        let (driver, relays) = (Mutex::new(Some(driver)), Mutex::default());
        Self { id, sandbox: cell.sandbox, hub, driver, relays, _artefact: artefact }
    }

    fn driver(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn relays(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long after the deadline the shim may take to end a call whose answer has begun, since it may only be
/// waiting for the answer to be read.
const GRACE: Duration = Duration::from_millis(500);
/// How long calls may take to learn of the end of a stopped instance, and their callers to read the rest.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// A call in progress.
struct Running {
    seat: Seat,
    sandbox: Arc<Sandbox>,
    deadline: Instant,
    /// Whether the shim has been told to drop the call, so that the instance can serve on without it.
    taken_back: bool,
}

impl Running {
    /// The next frame. After the deadline the instance is killed.
    async fn next(&mut self) -> Result<Frame, Fault> {
        if let Some(next) = self.next_until(self.deadline).await {
            return next;
        }
        if self.seat.waits_for_caller() {
            // The shim has not called the function before the request is complete.
            self.take_back("the request was not complete in time");
            return Err(Fault::Request(BodyError::Late));
        }
        self.sandbox.kill();
        Err(Fault::Deadline)
    }

    async fn next_until(&mut self, until: Instant) -> Option<Result<Frame, Fault>> {
        Some(match timeout_at(until.into(), self.seat.next()).await.ok()? {
            Step::Frame(frame) => Ok(frame),
            Step::Ended(fault) => Err(fault),
            Step::Abandoned(error) => {
                self.take_back("the caller has gone away");
                Err(Fault::Request(error))
            }
        })
    }

    fn take_back(&mut self, why: &str) {
        self.seat.cancel(why);
        self.taken_back = true;
    }

    /// After the deadline of a call whose answer has begun: has the shim end the call, or kills the instance.
    async fn let_go(&mut self) {
        self.seat.cancel("the call's time is over");
        let until = Instant::now() + GRACE;
        loop {
            let Some(Ok(frame)) = self.next_until(until).await else {
                return self.sandbox.kill();
            };
            match frame.kind {
                FrameKind::Body if !frame.fin => self.seat.acknowledge(frame.payload.len()),
                FrameKind::Body | FrameKind::End | FrameKind::Error => break,
                _ => return self.sandbox.kill(),
            }
        }
        self.taken_back = true;
    }

    fn over(self, result: Result<Reply, Fault>) -> Invoked {
        let end = self.end(result.as_ref().err());
        Invoked::Done { result, end: CallEnd { fault: None, ..end } }
    }

    /// Usage is not reported, since that of concurrent calls cannot be told apart.
    fn end(self, fault: Option<&Fault>) -> CallEnd {
        let reusable = self.taken_back || fault.is_none_or(leaves_it_whole);
        outcome::end(self.seat.leave(), Usage::default(), reusable, fault.cloned())
    }
}

/// An exception ends its own call only; any other fault is the instance's.
fn leaves_it_whole(fault: &Fault) -> bool {
    matches!(fault, Fault::Developer { .. } | Fault::InvalidAnswer { .. } | Fault::ResultTooLarge { .. })
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
        let sandbox = Arc::clone(&self.sandbox);
        let mut running = Running { seat, sandbox, deadline, taken_back: false };
        let (head, first, complete) = match answer(&mut running).await {
            Ok(begun) => begun,
            Err(fault) => return running.over(Err(fault)),
        };
        match (head, complete) {
            (ReplyHead::Json, true) => running.over(outcome::json(first, allowed)),
            (ReplyHead::Json, false) => {
                let result = gather(&mut running, &first, allowed).await;
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
        // It tells the calls of the end, which comes to it as it has come here.
        let mut driver = self.driver().take();
        if let Some(driver) = &mut driver
            && tokio::time::timeout(LAST_WORDS, &mut *driver).await.is_err()
        {
            driver.abort();
        }
        let mut relays = std::mem::take(&mut *self.relays());
        // Those whose callers read have ended by then.
        let _ = tokio::time::timeout(LAST_WORDS, async { while relays.join_next().await.is_some() {} }).await;
        relays.shutdown().await;
    }
}

impl Drop for SharedInstance {
    fn drop(&mut self) {
        self.sandbox.kill();
        if let Some(driver) = self.driver().take() {
            driver.abort();
        }
    }
}

/// A RESULT: its head, the first part of its body, and whether that is complete.
async fn answer(running: &mut Running) -> Result<(ReplyHead, Bytes, bool), Fault> {
    let frame = running.next().await?;
    let fin = frame.fin;
    match frame.kind {
        FrameKind::Result => {
            let begun = answer_head(frame);
            if begun.is_err() && !fin {
                // The shim would wait for ever for the rest to be consumed.
                running.take_back("the answer cannot be passed on");
            }
            begun.map(|(head, body)| (head, body, fin))
        }
        FrameKind::Error => Err(fault_of_error(&frame, Phase::Loaded)),
        kind => Err(Phase::Loaded.breach(format!("{} came in the middle of a call", kind.as_str()))),
    }
}

/// The piece of an answer's body in a frame, and whether it is the last; `None` for an END frame.
fn piece(frame: Frame) -> Result<Option<(Bytes, bool)>, Fault> {
    match frame.kind {
        FrameKind::Body => Ok(Some((frame.payload, frame.fin))),
        FrameKind::End => Ok(None),
        FrameKind::Error => Err(fault_of_error(&frame, Phase::Loaded)),
        kind => Err(Phase::Loaded.breach(format!("{} came in the middle of a body", kind.as_str()))),
    }
}

/// Collects a JSON answer of several frames; keeps no more of it than is allowed.
async fn gather(running: &mut Running, first: &[u8], allowed: u64) -> Result<Reply, Fault> {
    let most = usize::try_from(allowed).unwrap_or(usize::MAX);
    let mut body = BytesMut::from(&first[..first.len().min(most)]);
    let (mut size, mut complete) = (first.len() as u64, false);
    running.seat.acknowledge(first.len());
    while !complete && let Some((piece, last)) = piece(running.next().await?)? {
        size += piece.len() as u64;
        body.extend_from_slice(&piece[..piece.len().min(most - body.len())]);
        running.seat.acknowledge(piece.len());
        complete = last;
    }
    if size > allowed {
        return Err(outcome::too_large(size, allowed, &body));
    }
    outcome::json(body.freeze(), allowed)
}

/// Streams the rest of an answer until the end of the call, even if the caller has gone.
async fn relay(mut running: Running, first: Bytes, caller: BodySender, ended: oneshot::Sender<CallEnd>) {
    let last_word = LastWord::of(&caller);
    let mut streamed = 0;
    let fault = hand_on(&mut running, first, caller, &mut streamed).await.err();
    match &fault {
        Some(fault) => last_word.broken(fault),
        None => last_word.complete(),
    }
    if fault == Some(Fault::Deadline) {
        running.let_go().await;
    }
    let _ = ended.send(CallEnd { streamed, ..running.end(fault.as_ref()) });
}

async fn hand_on(
    running: &mut Running,
    first: Bytes,
    caller: BodySender,
    streamed: &mut u64,
) -> Result<(), Fault> {
    let (mut caller, mut next) = (Some(caller), Some((first, false)));
    while let Some((part, last)) = next {
        let length = part.len();
        // RESULT may carry no part of the body.
        if length > 0
            && let Some(sender) = caller.take()
        {
            match timeout_at(running.deadline.into(), sender.send(Ok(part))).await {
                Ok(Ok(())) => {
                    caller = Some(sender);
                    *streamed += length as u64;
                }
                Ok(Err(_)) => running.seat.cancel("the caller has gone away"),
                Err(_) => return Err(Fault::Deadline),
            }
        }
        running.seat.acknowledge(length);
        if last {
            break;
        }
        next = piece(running.next_until(running.deadline).await.unwrap_or(Err(Fault::Deadline))?)?;
    }
    Ok(())
}
