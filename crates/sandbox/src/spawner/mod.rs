//! A process a call in a sandbox that stays: what the server holds of a sandbox with [`crate::SandboxSpec::spawner`].
//!
//! Inside, a small trusted process has shed every privilege as a payload does and then executes `argv` once for each request, with descriptors
//! and an environment of the call's own. When a program has ended, whatever it started is killed before its end is told, so that calls
//! share the sandbox's `/tmp`, limits and network, and no process.

mod wire;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::outcome::{ExitStatus, Usage};
use wire::encode;
pub(crate) use wire::{Answer, Request, answer, receive};

/// Longest request: the longest argument, and as much again for others and what is set for the call.
pub(crate) const REQUEST_MAX: usize = 256 * 1024;

/// The server's end of the link to a sandbox's spawner. One program at a time.
#[derive(Debug)]
pub struct Spawner {
    link: AsyncFd<OwnedFd>,
}

/// A program to be executed in a sandbox that stays.
#[derive(Debug)]
pub struct Program<'a> {
    /// What follows the sandbox's `argv`.
    pub arguments: &'a [String],
    /// What is set for it beside the sandbox's environment, or instead of it.
    pub env: &'a [(String, String)],
    /// fd 0; `None` is `/dev/null`.
    pub stdin: Option<OwnedFd>,
    /// fd 1.
    pub stdout: OwnedFd,
    /// fd 2.
    pub stderr: OwnedFd,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its status, or why it was not executed (an errno).
    pub status: Result<ExitStatus, i32>,
    /// What it and its descendants used. `memory_peak_bytes` is the largest process among them.
    pub usage: Usage,
}

impl Spawner {
    /// A new link: this end, and the sandbox's, which goes into [`crate::SandboxIo::link`].
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn link() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = crate::wire::pair()?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        // SAFETY: the descriptor is owned, and stays the same until it is dropped.
        let link = unsafe { AsyncFd::register(ours) }.map_err(io::Error::from)?;
        Ok((Self { link }, theirs))
    }

    /// Has a program executed. [`Self::ended`] tells how it ended; until then no other may be asked for.
    ///
    /// # Errors
    /// When the sandbox has ended, or arguments and environment are longer than [`Program`] may have.
    pub async fn run(&self, program: Program<'_>) -> io::Result<()> {
        let bytes = encode(program.arguments, program.env)?;
        let null = match &program.stdin {
            Some(_) => None,
            None => Some(std::fs::File::open("/dev/null")?),
        };
        let stdin: BorrowedFd<'_> = match (&program.stdin, &null) {
            (Some(stdin), _) => stdin.as_fd(),
            (None, Some(null)) => null.as_fd(),
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let fds = [stdin, program.stdout.as_fd(), program.stderr.as_fd()];
        self.link
            .async_io(Interest::WRITABLE, |link| crate::wire::send_bytes(link.as_fd(), &bytes, &fds))
            .await
    }

    /// Waits for the end of the program that was asked for last. Cancellation-safe.
    ///
    /// # Errors
    /// When the sandbox has ended with it.
    pub async fn ended(&self) -> io::Result<Ended> {
        let mut bytes = [0; Answer::SIZE];
        let read = self
            .link
            .async_io(Interest::READABLE, |link| rustix::io::read(link, &mut bytes).map_err(io::Error::from))
            .await?;
        match Answer::parse(&bytes[..read]) {
            Some(answer) => Ok(answer.into()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl From<Answer> for Ended {
    fn from(answer: Answer) -> Self {
        let usage =
            Usage { cpu_us: answer.cpu_us, memory_bytes: 0, memory_peak_bytes: answer.memory_peak_bytes };
        Self { status: answer.status, usage }
    }
}
