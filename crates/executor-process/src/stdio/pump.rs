//! Runs one process from start to end: feeds stdin, reads stdout, logs stderr and enforces the time limit.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use flint_executor::{BodyError, Fault};
use flint_sandbox::Exit;
use tokio::{io::AsyncReadExt, net::unix::pipe};

use super::{feed::Feed, place::Process};
use flint_runtimes::process::{logs::Logs, output::Output, timer::Timer};

/// How much is read at a time.
const PIECE: usize = 64 << 10;

/// An event in the life of a process.
#[derive(Debug)]
pub(super) enum Event {
    /// A piece of stdout.
    Piece(Bytes),
    /// The process has ended, and all of its output has been read.
    Ended(Box<Exit>),
    Deadline,
    /// The request's body broke off.
    Abandoned(BodyError),
    /// The process could not be started.
    NotExecuted(Fault),
}

/// A running process.
pub(super) struct Pump {
    pub(super) process: Arc<Process>,
    pub(super) feed: Feed,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) output: Output,
    pub(super) logs: Logs,
    pub(super) timer: Timer,
    buffer: BytesMut,
}

impl Pump {
    pub(super) fn new(
        process: Process,
        feed: Feed,
        stdout: pipe::Receiver,
        output: Output,
        logs: Logs,
        timer: Timer,
    ) -> Self {
        Self {
            process: Arc::new(process),
            feed,
            stdout: Some(stdout),
            output,
            logs,
            timer,
            buffer: BytesMut::new(),
        }
    }

    /// The next event.
    pub(super) async fn next(&mut self) -> Event {
        let process = Arc::clone(&self.process);
        let mut ended = pin!(process.ended());
        let exit = poll_fn(|cx| {
            if let Poll::Ready(event) = self.poll(cx) {
                return Poll::Ready(Err(event));
            }
            ended.as_mut().poll(cx).map(Ok)
        });
        match exit.await {
            Err(event) => event,
            Ok(Err(fault)) => Event::NotExecuted(fault),
            Ok(Ok(exit)) => match self.rest_of_stdout() {
                Some(piece) => Event::Piece(piece),
                None => {
                    self.output.drain(&mut self.logs);
                    Event::Ended(Box::new(exit))
                }
            },
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.timer.poll(cx).is_ready() {
            return Poll::Ready(Event::Deadline);
        }
        if let Err(error) = self.feed.poll(cx) {
            return Poll::Ready(Event::Abandoned(error));
        }
        self.output.poll(cx, &mut self.logs);
        if let Some(stdout) = &mut self.stdout {
            self.buffer.reserve(PIECE);
            match pin!(stdout.read_buf(&mut self.buffer)).poll(cx) {
                Poll::Ready(Ok(length)) if length > 0 => {
                    return Poll::Ready(Event::Piece(self.buffer.split().freeze()));
                }
                Poll::Ready(_) => self.stdout = None,
                Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    /// What is left in the pipe, once all writers have ended.
    fn rest_of_stdout(&mut self) -> Option<Bytes> {
        let stdout = self.stdout.as_ref()?;
        let mut space = [std::mem::MaybeUninit::uninit(); PIECE];
        loop {
            match rustix::io::read(stdout, &mut space[..]) {
                Ok((bytes, _)) if !bytes.is_empty() => return Some(Bytes::copy_from_slice(bytes)),
                Err(rustix::io::Errno::INTR) => {}
                _ => {
                    self.stdout = None;
                    return None;
                }
            }
        }
    }

    /// Keeps everything but stdout going while the caller does not take the answer.
    pub(super) fn poll_meanwhile(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.timer.poll(cx).is_ready() {
            return Poll::Ready(Event::Deadline);
        }
        if let Err(error) = self.feed.poll(cx) {
            return Poll::Ready(Event::Abandoned(error));
        }
        self.output.poll(cx, &mut self.logs);
        Poll::Pending
    }
}
