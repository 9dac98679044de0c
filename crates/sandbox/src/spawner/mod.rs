//! One process per call in a long-lived sandbox: the server's side of a sandbox with
//! [`crate::SandboxSpec::spawner`].
//!
//! Inside, a small trusted process drops every privilege as a payload does, and then executes `argv` once for
//! each request, with the call's own descriptors and environment. When a program has ended, its descendants
//! are killed before the end is reported: calls share the sandbox's `/tmp`, limits and network, but no
//! process.

mod wire;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::outcome::{ExitStatus, Usage};
use wire::encode;
pub(crate) use wire::{Answer, Request, answer, receive};

/// Longest request: the longest single argument, and as much again for the others and the environment.
pub(crate) const REQUEST_MAX: usize = 256 * 1024;

/// The server's end of the link to a sandbox's spawner, which runs one program at a time.
#[derive(Debug)]
pub struct Spawner {
    link: AsyncFd<OwnedFd>,
}

/// A program to be executed in a long-lived sandbox.
#[derive(Debug)]
pub struct Program<'a> {
    /// Appended to the sandbox's `argv`.
    pub arguments: &'a [String],
    /// Set in addition to the sandbox's environment, or instead of variables of the same name.
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
    /// Its exit status, or the errno with which it could not be executed.
    pub status: Result<ExitStatus, i32>,
    /// The usage of it and its descendants. `memory_peak_bytes` is that of the largest single process.
    pub usage: Usage,
}

impl Spawner {
    /// Makes a link: the server's end, and the sandbox's, which goes into [`crate::SandboxIo::link`].
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn link() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = crate::wire::pair()?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        // SAFETY: the descriptor is owned, and stays the same until it is dropped.
        let link = unsafe { AsyncFd::register(ours) }.map_err(io::Error::from)?;
        Ok((Self { link }, theirs))
    }

    /// Requests the execution of a program. [`Self::ended`] returns its end; until then no other program may
    /// be requested.
    ///
    /// # Errors
    /// The sandbox has ended, or arguments and environment are longer than a request may be.
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

    /// Waits for the end of the program requested last. Cancellation-safe.
    ///
    /// # Errors
    /// The sandbox has ended together with it.
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
