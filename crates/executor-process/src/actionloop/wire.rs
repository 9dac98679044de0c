//! Exchanges lines with the program, while collecting its output and enforcing the time limit.

use std::{
    future::poll_fn,
    io,
    os::fd::OwnedFd,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use flint_executor::Fault;
use flint_runtimes::process::{
    ending, logs::Logs, meter::Meter, output::Output, output::pipe_from, timer::Timer,
};
use flint_sandbox::Sandbox;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    pipe::{PipeFlags, pipe_with},
};
use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    net::unix::pipe,
};

use super::line::Unfinished;

/// How much is read at a time.
const PIECE: usize = 16 << 10;
/// The largest capacity of a pipe.
const PIPE_MAX: usize = 1 << 20;

/// The program's ends of the pipes.
pub(super) struct TheirEnds {
    pub(super) stdin: OwnedFd,
    pub(super) answers: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Flint's ends of the pipes.
pub(super) struct Pipes {
    calls: pipe::Sender,
    answers: pipe::Receiver,
    output: Output,
}

impl Pipes {
    pub(super) fn open() -> io::Result<(Self, TheirEnds)> {
        let (stdin, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        let (answers, their_answers) = pipe_from()?;
        let (output, [stdout, stderr]) = Output::both()?;
        let pipes = Self { calls: pipe::Sender::from_owned_fd_unchecked(ours)?, answers, output };
        Ok((pipes, TheirEnds { stdin, answers: their_answers, stdout, stderr }))
    }
}

/// Flint's end of the connection to one program.
pub(super) struct Wire {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) timer: Timer,
    pub(super) meter: Meter,
    pipes: Pipes,
    buffer: BytesMut,
}

/// A line from the program.
#[derive(Debug)]
pub(super) struct Line {
    /// Its beginning, up to the limit.
    pub(super) text: Bytes,
    /// Its whole length.
    pub(super) size: u64,
    /// Whether the program had been sent the whole request when it answered. Otherwise it would take the rest
    /// for the next request.
    pub(super) was_asked: bool,
}

/// Why no line arrived.
#[derive(Debug)]
pub(super) enum Broken {
    Deadline,
    /// The program has closed descriptor 3, most likely by ending.
    Closed,
}

impl Wire {
    pub(super) fn new(sandbox: Arc<Sandbox>, pipes: Pipes, timer: Timer) -> Self {
        Self { sandbox, timer, meter: Meter::default(), pipes, buffer: BytesMut::new() }
    }

    /// Sends a line, if it is not empty, and waits for one, of which `most` bytes are kept.
    pub(super) async fn exchange(
        &mut self,
        mut line: Bytes,
        most: u64,
        logs: &mut Logs,
    ) -> Result<Line, Broken> {
        let mut answer = Unfinished::new(most);
        let asked = poll_fn(|cx| {
            if self.timer.poll(cx).is_ready() {
                return Poll::Ready(Err(Broken::Deadline));
            }
            self.poll_write(cx, &mut line);
            loop {
                if answer.take(&mut self.buffer) {
                    return Poll::Ready(Ok(line.is_empty()));
                }
                self.buffer.reserve(PIECE);
                match pin!(self.pipes.answers.read_buf(&mut self.buffer)).poll(cx) {
                    Poll::Ready(Ok(length)) if length > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(Err(Broken::Closed)),
                    Poll::Pending => break,
                }
            }
            self.pipes.output.poll(cx, logs);
            Poll::Pending
        });
        let was_asked = asked.await?;
        let (text, size) = answer.finish();
        Ok(Line { text, size, was_asked })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, line: &mut Bytes) {
        while !line.is_empty() {
            match Pin::new(&mut self.pipes.calls).poll_write(cx, line) {
                Poll::Ready(Ok(written)) => line.advance(written),
                // The reading side reports how the program ended.
                Poll::Ready(Err(_)) => line.clear(),
                Poll::Pending => return,
            }
        }
    }

    /// Discards lines that no call has asked for, so that the next line answers the next call.
    pub(super) fn forget_idle_lines(&mut self) {
        self.buffer.clear();
        let (mut space, mut taken) = ([std::mem::MaybeUninit::uninit(); PIECE], 0);
        while taken < PIPE_MAX {
            match rustix::io::read(&self.pipes.answers, &mut space[..]) {
                Ok((bytes, _)) if !bytes.is_empty() => taken += bytes.len(),
                _ => return,
            }
        }
    }

    /// Discards output written since the last call.
    pub(super) fn forget_idle_output(&mut self) {
        self.pipes.output.drain(&mut Logs::new(flint_model::ByteSize::bytes(0)));
    }

    /// Collects the output written so far.
    pub(super) fn drain(&mut self, logs: &mut Logs) {
        self.pipes.output.drain(logs);
    }

    /// The fault of a failed exchange, after which the program is unusable.
    pub(super) async fn fault(&mut self, broken: Broken, logs: &mut Logs) -> Fault {
        let output = &mut self.pipes.output;
        match broken {
            Broken::Deadline => {
                ending::by_force(&self.sandbox, output, logs).await;
                Fault::Deadline
            }
            Broken::Closed => ending::of_itself(&self.sandbox, output, logs).await,
        }
    }
}
