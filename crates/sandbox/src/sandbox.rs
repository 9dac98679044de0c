//! The server's handle to one sandbox.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::process::{Signal, pidfd_send_signal};
use tokio::sync::watch;

use crate::cell::{Cell, CellSpec};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::outcome::{Exit, ExitStatus, Usage};
use crate::seal::{SealSpec, Sealed};
use crate::spec::check_limits;
use crate::wire::{Ask, Request, Told};

/// A running (or ended) sandbox. Dropping it kills it.
#[derive(Debug)]
pub struct Sandbox {
    id: String,
    sid: u64,
    setup_us: u64,
    pidfd: OwnedFd,
    exit: watch::Receiver<Option<Exit>>,
    connection: Arc<Connection>,
}

impl Sandbox {
    pub(crate) fn new(
        id: String,
        sid: u64,
        setup_us: u64,
        pidfd: OwnedFd,
        exit: watch::Receiver<Option<Exit>>,
        connection: Arc<Connection>,
    ) -> Self {
        Self { id, sid, setup_us, pidfd, exit, connection }
    }

    /// The name given in [`crate::SandboxSpec::id`].
    pub fn id(&self) -> &str {
        &self.id
    }

    /// From the launcher's receipt of the request to the payload's `execve`, in microseconds.
    pub fn setup_us(&self) -> u64 {
        self.setup_us
    }

    /// Waits for the end. May be called any number of times, also concurrently; cancellation-safe.
    pub async fn wait(&self) -> Exit {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await.map(|exit| exit.clone());
        let lost = Exit { setup_us: self.setup_us, ..Exit::new(ExitStatus::Lost, Usage::default()) };
        ended.ok().flatten().unwrap_or(lost)
    }

    /// A future that resolves when the sandbox has ended, and does not keep it alive.
    pub fn end(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut exit = self.exit.clone();
        async move {
            // An error means that the sender is gone, and so the sandbox.
            let _ = exit.wait_for(Option::is_some).await;
        }
    }

    /// How the sandbox ended, if it has.
    pub fn exited(&self) -> Option<Exit> {
        self.exit.borrow().clone()
    }

    /// Kills every process of the sandbox at once. Does not wait; [`Self::wait`] does. No effect once it has
    /// ended.
    pub fn kill(&self) {
        if self.exit.borrow().is_none() {
            let _ = pidfd_send_signal(self.pidfd.as_fd(), Signal::KILL);
            // Under the freezer of v1, frozen processes do not die; the launcher thaws them.
            self.connection.thaw_to_die(self.sid);
        }
    }

    /// Takes the sandbox out of the background (see [`crate::SandboxSpec::background`]), because somebody
    /// waits for it from now on. Does not wait.
    pub fn foreground(&self) {
        self.connection.say(&Request::Foreground { sid: self.sid });
    }

    /// Freezes every process of the sandbox until [`Self::thaw`]; returns when all are frozen.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a freezer cgroup, [`Error::Ended`], [`Error::Operation`].
    pub async fn freeze(&self) -> Result<()> {
        self.ask(Ask::Freeze).await.map(drop)
    }

    /// Thaws the sandbox.
    ///
    /// # Errors
    /// As [`Self::freeze`].
    pub async fn thaw(&self) -> Result<()> {
        self.ask(Ask::Thaw).await.map(drop)
    }

    /// What the sandbox uses now and has used.
    ///
    /// # Errors
    /// [`Error::Ended`], [`Error::Operation`].
    pub async fn usage(&self) -> Result<Usage> {
        self.counted(Ask::Usage).await
    }

    /// What it has used. The present memory, for which the launcher has to open a file, is reported as 0.
    ///
    /// # Errors
    /// As [`Self::usage`].
    pub async fn spent(&self) -> Result<Usage> {
        self.counted(Ask::Spent).await
    }

    async fn counted(&self, ask: Ask) -> Result<Usage> {
        match self.ask(ask).await? {
            (Told::Usage(usage), _) => Ok(usage),
            _ => Ok(Usage::default()),
        }
    }

    /// Connects to a TCP port on the sandbox's loopback (127.0.0.1, then ::1). The socket is non-blocking.
    ///
    /// # Errors
    /// [`Error::Operation`] with `ConnectionRefused` while nothing listens there yet; [`Error::Ended`].
    pub async fn connect(&self, port: u16) -> Result<OwnedFd> {
        match self.connect_to(port, false).await {
            Err(Error::Operation { source, .. }) if source.kind() == io::ErrorKind::ConnectionRefused => {
                self.connect_to(port, true).await
            }
            other => other,
        }
    }

    async fn connect_to(&self, port: u16, v6: bool) -> Result<OwnedFd> {
        let failed = |source| Error::Operation {
            id: self.id.clone(),
            operation: format!("connect to port {port}"),
            source,
        };
        let (_, socket) = self.ask(Ask::Connect { port, v6 }).await?;
        let socket = socket.ok_or_else(|| failed(io::Error::other("the launcher sent no socket")))?;
        connected(socket).await.map_err(failed)
    }

    /// A non-blocking socket that listens on `port` of the sandbox's loopback (127.0.0.1), like that of
    /// [`crate::Launcher::start_and_listen`], for a sandbox in which only trusted code has run yet.
    ///
    /// # Errors
    /// [`Error::Ended`]; [`Error::Operation`], for example because the port is taken.
    pub async fn listen(&self, port: u16) -> Result<OwnedFd> {
        let (_, socket) = self.ask(Ask::Listen { port }).await?;
        socket.ok_or_else(|| Error::Operation {
            id: self.id.clone(),
            operation: format!("listen on port {port} inside"),
            source: io::Error::other("the launcher sent no socket"),
        })
    }

    /// Mounts a directory of the host read-only inside the running sandbox, for a runtime that was started
    /// before its function was known.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`], [`Error::Ended`], [`Error::Operation`].
    pub async fn attach(&self, source: &Path, target: &str) -> Result<()> {
        self.ask(Ask::Attach { source: source.to_owned(), target: target.to_owned() }).await.map(drop)
    }

    /// Seals a sandbox with [`crate::SandboxSpec::zygote`] at its freeze point, from which on its main
    /// process only forks: inspects it from outside for state that its clones would share.
    /// [`crate::Cell::admit`] compares with the state found. May be repeated.
    ///
    /// From then on the main process runs only while [`crate::Cell::expect`] asks for it: a while after the
    /// last fork it is stopped (SIGSTOP). A zygote that has processes which nobody asked for, or that is
    /// woken, is ended, and [`Exit::tampered`] says so.
    ///
    /// # Errors
    /// [`Error::NotForkable`] with the obstacles found, a few of each kind, worded for the function's
    /// developer; [`Error::InvalidSpec`] when the sandbox is no zygote; [`Error::Ended`],
    /// [`Error::Operation`].
    pub async fn seal(&self, expect: &SealSpec) -> Result<Sealed> {
        match self.ask(Ask::Seal { expect: expect.clone() }).await? {
            (Told::Sealed(sealed), _) => Ok(sealed),
            _ => Err(Error::LauncherGone),
        }
    }

    /// Opens egress in a sandbox that was started with [`crate::SandboxSpec::network_closed`]; no effect on
    /// one without [`crate::Network::Egress`].
    ///
    /// # Errors
    /// [`Error::Ended`], [`Error::Operation`].
    pub async fn open_network(&self) -> Result<()> {
        self.ask(Ask::OpenNetwork).await.map(drop)
    }

    /// Makes a cell for one process that the main process will fork: a cgroup with limits and an empty tmpfs.
    /// Made ahead of time it costs the call nothing. Cells are removed when they are dropped or their sandbox
    /// ends.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] when the sandbox is no zygote or the limits are too low; [`Error::Ended`], [`Error::Operation`].
    pub async fn cell(&self, spec: &CellSpec) -> Result<Cell> {
        check_limits(&spec.limits).map_err(|fault| fault.setup(&spec.id))?;
        Cell::make(&self.connection, self.sid, spec).await
    }

    async fn ask(&self, ask: Ask) -> Result<(Told, Option<OwnedFd>)> {
        if self.exit.borrow().is_some() {
            return Err(Error::Ended { id: self.id.clone() });
        }
        self.connection.ask(&self.id, self.sid, ask).await
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until a connection is established or refused.
async fn connected(socket: OwnedFd) -> io::Result<OwnedFd> {
    let stream = tokio::net::TcpStream::from_std(std::net::TcpStream::from(socket))?;
    stream.writable().await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => Ok(stream.into_std()?.into()),
    }
}
