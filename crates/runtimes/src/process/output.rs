//! The read ends of a function's stdout and stderr.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
};

use flint_model::LogStream;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    pipe::{PipeFlags, pipe_with},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::unix::pipe,
};

use super::logs::Logs;

/// How much is read at a time.
const PIECE: usize = 32 << 10;
/// How many reads are made before other tasks get their turn.
const READS_A_TURN: usize = 8;
/// The largest capacity of a pipe, and so of the output present when an answer arrives.
const PIPE_MAX: usize = 1 << 20;

/// Both streams; `None` once the function has closed it.
#[derive(Debug)]
pub struct Output {
    streams: [Option<pipe::Receiver>; 2],
}

const NAMES: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

/// A pipe whose read end is ours.
pub fn pipe_from() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    // Unchecked, which saves a system call: it is known to be a pipe.
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    Ok((pipe::Receiver::from_owned_fd_unchecked(ours)?, theirs))
}

impl Output {
    /// Both streams, and their write ends for the sandbox.
    pub fn both() -> io::Result<(Self, [OwnedFd; 2])> {
        let (stdout, out) = pipe_from()?;
        let (stderr, err) = pipe_from()?;
        Ok((Self { streams: [Some(stdout), Some(stderr)] }, [out, err]))
    }

    /// Stderr only, because stdout is the answer.
    pub fn stderr_only() -> io::Result<(Self, OwnedFd)> {
        let (stderr, err) = pipe_from()?;
        Ok((Self { streams: [None, Some(stderr)] }, err))
    }

    /// Whether both streams have ended.
    pub fn ended(&self) -> bool {
        self.streams.iter().all(Option::is_none)
    }

    /// Reads the available bytes, up to a bound, and registers for a wake-up when there are more.
    pub fn poll(&mut self, cx: &mut Context<'_>, logs: &mut Logs) {
        for (slot, name) in self.streams.iter_mut().zip(NAMES) {
            let mut reads = 0;
            while let Some(stream) = slot {
                if reads == READS_A_TURN {
                    cx.waker().wake_by_ref();
                    break;
                }
                reads += 1;
                let mut space = [MaybeUninit::uninit(); PIECE];
                let mut buffer = ReadBuf::uninit(&mut space);
                match Pin::new(stream).poll_read(cx, &mut buffer) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => logs.push(name, buffer.filled()),
                    Poll::Ready(_) => *slot = None,
                }
            }
        }
    }

    /// Reads everything that is in the pipes now. Called when an answer has arrived: all output of its call
    /// is there already, and later output, however much, is not waited for.
    pub fn drain(&mut self, logs: &mut Logs) {
        for (slot, name) in self.streams.iter_mut().zip(NAMES) {
            let mut taken = 0;
            while let Some(stream) = slot {
                let mut space = [MaybeUninit::uninit(); PIECE];
                match rustix::io::read(&*stream, &mut space[..]) {
                    Ok((bytes, _)) if !bytes.is_empty() => {
                        logs.push(name, bytes);
                        taken += bytes.len();
                        // A short read means that the pipe is empty.
                        if bytes.len() < PIECE || taken >= PIPE_MAX {
                            break;
                        }
                    }
                    Ok(_) => *slot = None,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// Reads both streams to their ends.
    pub async fn read_to_end(&mut self, logs: &mut Logs) {
        std::future::poll_fn(|cx| {
            self.poll(cx, logs);
            if self.ended() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
