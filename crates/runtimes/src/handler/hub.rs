//! Multiplexes concurrent calls over the link of one instance.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use flint_executor::{
    BodyError, Call, Fault,
    link::{ErrorKind, Frame, FrameKind, LinkError, LinkFailure, WINDOW},
};
use flint_model::{ByteSize, LogStream};
use flint_sandbox::Sandbox;

use super::{
    call::put_invoke,
    channel::{Channel, Event},
    inbox::{Inbox, TooMuch},
    launch::{Phase, fault_of_error},
    upload::Upload,
};
use crate::process::{ending, logs::Logs};

/// The timer of an idle link; only calls have deadlines.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Bound on the bytes waiting to be sent. Windows alone do not bound them: a shim may acknowledge bytes that
/// it has not read.
const UNSENT_MAX: usize = WINDOW;

/// The concurrent calls of one instance.
pub(super) struct Hub(Mutex<State>);

struct State {
    calls: BTreeMap<u32, Slot>,
    out: BytesMut,
    /// Bytes consumed of answers since the link was last driven, by call.
    taken: Vec<(u32, usize)>,
    last_call: u32,
    /// Set once the instance serves no more calls.
    ended: Option<Fault>,
    /// Output while no call runs, which is discarded.
    nobody: Logs,
    /// The task that drives the link.
    driver: Option<Waker>,
}

/// One call.
struct Slot {
    logs: Logs,
    inbox: Inbox,
    upload: Upload,
    abandoned: Option<BodyError>,
    waker: Option<Waker>,
}

/// An event of a call.
#[derive(Debug)]
pub(super) enum Step {
    Frame(Frame),
    /// The instance has ended or violated the protocol.
    Ended(Fault),
    /// The request's body broke off.
    Abandoned(BodyError),
}

impl Slot {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Hub {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            calls: BTreeMap::new(),
            out: BytesMut::new(),
            taken: Vec::new(),
            last_call: 0,
            ended: None,
            nobody: Logs::new(ByteSize::bytes(0)),
            driver: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a call.
    pub(super) fn begin(self: &Arc<Self>, call: Call) -> Result<Seat, LinkError> {
        let mut state = self.state();
        state.last_call = state.last_call.checked_add(1).unwrap_or(1);
        let (id, logs) = (state.last_call, Logs::new(call.max_logs));
        let upload = put_invoke(&mut state.out, id, call, false)?;
        let slot = Slot { logs, inbox: Inbox::default(), upload, abandoned: None, waker: None };
        state.calls.insert(id, slot);
        state.wake_driver();
        Ok(Seat { hub: Arc::clone(self), id })
    }

    /// Drives the link; returns the next event.
    fn poll(&self, cx: &mut Context<'_>, channel: &mut Channel) -> Poll<Event> {
        let mut state = self.state();
        if state.driver.as_ref().is_none_or(|driver| !driver.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        let State { calls, out, taken, nobody, .. } = &mut *state;
        channel.out().extend_from_slice(&out.split());
        taken.drain(..).for_each(|(call, bytes)| channel.acknowledge(call, bytes));
        let mut held_back = channel.out().len() >= UNSENT_MAX;
        for slot in calls.values_mut() {
            while !held_back && slot.upload.poll_frame(cx, channel.out()) {
                held_back = channel.out().len() >= UNSENT_MAX;
            }
            if let Some(error) = slot.upload.take_error() {
                slot.abandoned = Some(error);
                slot.wake();
            }
        }
        // Output that the shim cannot attribute, of a child process for example, goes to the oldest call.
        let logs = calls.first_entry().map_or(nobody, |oldest| &mut oldest.into_mut().logs);
        let event = channel.poll(cx, logs, &mut Upload::none());
        if held_back && channel.out().is_empty() {
            // Uploads that were held back must be polled again, and nothing else would wake this task: the
            // link does so only after a partial write.
            cx.waker().wake_by_ref();
        }
        event
    }

    /// Passes a frame to its call; the error is a fault that ends the instance.
    fn deliver(&self, frame: Frame, channel: &mut Channel) -> Result<(), Fault> {
        let mut state = self.state();
        let State { calls, nobody, .. } = &mut *state;
        if matches!(frame.kind, FrameKind::Result | FrameKind::End | FrameKind::Error) {
            let logs = calls.first_entry().map_or(nobody, |oldest| &mut oldest.into_mut().logs);
            channel.output.drain(logs);
        }
        if frame.call == 0 {
            return Err(match frame.kind {
                FrameKind::Error => fault_of_error(&frame, Phase::Loaded),
                kind => Phase::Loaded.breach(format!("{} came", kind.as_str())),
            });
        }
        // A late frame of a call that has ended.
        let Some(slot) = calls.get_mut(&frame.call) else { return Ok(()) };
        match (frame.kind, &frame.payload[..]) {
            (FrameKind::Ack, [a, b, c, d]) => {
                slot.upload.acknowledged(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
            }
            (FrameKind::Log, [stream, line @ ..]) => {
                let stream = if *stream == 1 { LogStream::Stdout } else { LogStream::Stderr };
                slot.logs.push(stream, &[line, b"\n"].concat());
            }
            _ => {
                slot.inbox.push(frame).map_err(|TooMuch| {
                    Phase::Loaded.breach("more of an answer came than was asked for".to_owned())
                })?;
                slot.wake();
            }
        }
        Ok(())
    }

    /// Drives the link until the instance ends.
    pub(super) async fn drive(self: Arc<Self>, sandbox: Arc<Sandbox>, mut channel: Channel) {
        channel.timer.set(Instant::now() + NEVER);
        let fault = loop {
            match std::future::poll_fn(|cx| self.poll(cx, &mut channel)).await {
                Event::Frame(frame) => {
                    if let Err(fault) = self.deliver(frame, &mut channel) {
                        break fault;
                    }
                }
                Event::Deadline => channel.timer.set(Instant::now() + NEVER),
                Event::Broken(error) => {
                    break Phase::Loaded.breach(format!("what is on the link is no frame: {error}"));
                }
                Event::Closed | Event::Abandoned(_) => {
                    let mut logs = Logs::new(ByteSize::kib(64));
                    let fault = ending::of_itself(&sandbox, &mut channel.output, &mut logs).await;
                    self.state().last_words(logs);
                    break fault;
                }
            }
        };
        sandbox.kill();
        let mut state = self.state();
        state.ended = Some(fault);
        state.calls.values_mut().for_each(Slot::wake);
    }
}

impl State {
    fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Adds the output written at the end to every running call, since each may need it to find the cause.
    fn last_words(&mut self, logs: Logs) {
        let (lines, _) = logs.finish();
        for slot in self.calls.values_mut() {
            for line in &lines {
                slot.logs.push(line.stream, format!("{}\n", line.text).as_bytes());
            }
        }
    }
}

/// A call's registration. Dropping it unregisters the call.
pub(super) struct Seat {
    hub: Arc<Hub>,
    id: u32,
}

impl Seat {
    /// The next event of the call.
    pub(super) async fn next(&self) -> Step {
        std::future::poll_fn(|cx| {
            let mut state = self.hub.state();
            let State { calls, ended, .. } = &mut *state;
            let Some(slot) = calls.get_mut(&self.id) else {
                return Poll::Ready(Step::Ended(Fault::Exited { end: None }));
            };
            if let Some(frame) = slot.inbox.pop() {
                return Poll::Ready(Step::Frame(frame));
            }
            if let Some(error) = slot.abandoned.take() {
                return Poll::Ready(Step::Abandoned(error));
            }
            if let Some(fault) = ended {
                return Poll::Ready(Step::Ended(fault.clone()));
            }
            slot.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Queues a frame of the call.
    fn send(&self, kind: FrameKind, payload: &[u8]) {
        let mut state = self.hub.state();
        Frame::put_header(&mut state.out, kind, false, self.id, payload.len());
        state.out.extend_from_slice(payload);
        state.wake_driver();
    }

    /// Tells the shim that nobody waits for the call any more.
    pub(super) fn cancel(&self, why: &str) {
        let error = LinkFailure { kind: ErrorKind::Cancelled, message: why.to_owned() };
        self.send(FrameKind::Error, &serde_json::to_vec(&error).unwrap_or_default());
    }

    /// Whether the request is incomplete and the caller has to supply the next piece.
    pub(super) fn waits_for_caller(&self) -> bool {
        self.hub.state().calls.get(&self.id).is_some_and(|slot| slot.upload.waits_for_caller())
    }

    /// Tells the shim that `bytes` of the answer have been consumed.
    pub(super) fn acknowledge(&self, bytes: usize) {
        if bytes > 0 {
            let mut state = self.hub.state();
            state.taken.push((self.id, bytes));
            state.wake_driver();
        }
    }

    /// Ends the call and returns its logs.
    pub(super) fn leave(self) -> Logs {
        let slot = self.hub.state().calls.remove(&self.id);
        slot.map_or_else(|| Logs::new(ByteSize::bytes(0)), |slot| slot.logs)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hub.state().calls.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream};

    use flint_executor::Body;
    use flint_model::{ActivationId, Timestamp};

    use super::*;

    fn call(body: Vec<u8>) -> Call {
        Call {
            activation: ActivationId::generate(),
            transaction: "t".into(),
            deadline: Instant::now() + NEVER,
            deadline_at: Timestamp::now(),
            head: None,
            body: Body::Full(body.into()),
            api_key: None,
            max_result: ByteSize::mib(1),
            max_logs: ByteSize::mib(1),
        }
    }

    #[tokio::test]
    async fn no_more_is_kept_for_a_shim_that_says_it_has_taken_what_it_has_not_read() {
        let (mut channel, [_stdout, _stderr, link]) = Channel::open(Instant::now() + NEVER).unwrap();
        let mut link = UnixStream::from(link);
        let hub = Hub::new();
        let _seat = hub.begin(call(vec![b'x'; 16 * WINDOW])).unwrap();
        let mut ack = BytesMut::new();
        Frame::new(FrameKind::Ack, 1, (WINDOW as u32).to_be_bytes().to_vec()).encode(&mut ack);
        for _ in 0..100 {
            link.write_all(&ack).unwrap();
            let came = std::future::poll_fn(|cx| hub.poll(cx, &mut channel)).await;
            let Event::Frame(frame) = came else { panic!("{came:?}") };
            hub.deliver(frame, &mut channel).unwrap();
        }
        assert!(channel.out().len() < 2 * WINDOW, "{}", channel.out().len());
    }
}
