//! A cell, as the server sees it: the cgroup and the `/tmp` made ready for one process that a zygote forks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::sandbox::Sandbox;
use crate::spec::ResourceLimits;
use crate::wire::{Ask, Request};

/// The file descriptor behind `/tmp` in a sandbox with [`crate::SandboxSpec::zygote`], where `/tmp` is a
/// symbolic link to `/proc/self/fd/200`. A program that a clone executes has a `/tmp` only if it inherits
/// this descriptor.
pub const TMP_FD: i32 = 200;

/// The limits of a cell and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellSpec {
    /// A name for messages and logs.
    pub id: String,
    /// Limits of the clone and its descendants. The kernel charges pages that it still shares with the zygote
    /// to the zygote. `open_files` has no effect: the clone inherits the zygote's `RLIMIT_NOFILE`.
    pub limits: ResourceLimits,
    /// Size of its `/tmp` in bytes. What is stored there also counts towards its memory limit.
    pub tmp_bytes: u64,
}

/// A cgroup and an empty tmpfs for one process. Dropping it gives both back.
#[derive(Debug)]
pub struct Cell {
    id: String,
    sid: u64,
    tmp: Option<OwnedFd>,
    connection: Arc<Connection>,
    /// Whether the launcher still keeps the cell for this handle.
    held: bool,
}

impl Cell {
    pub(crate) async fn make(connection: &Arc<Connection>, zygote: u64, spec: &CellSpec) -> Result<Self> {
        let sid = connection.next_number();
        let ask = Ask::Cell { cell: sid, limits: spec.limits, tmp_bytes: spec.tmp_bytes };
        // Made before the first `.await`, so that a cancelled caller gives the cell back on drop.
        let mut cell =
            Self { id: spec.id.clone(), sid, tmp: None, connection: connection.clone(), held: true };
        let (_, tmp) = connection.ask(&spec.id, zygote, ask).await?;
        cell.tmp = tmp;
        if cell.tmp.is_none() {
            return Err(Error::LauncherGone);
        }
        Ok(cell)
    }

    /// The name given in [`CellSpec::id`].
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The root of the cell's tmpfs as an `O_PATH` descriptor, to be sent to the clone.
    pub fn tmp(&self) -> BorrowedFd<'_> {
        self.tmp.as_ref().map(AsFd::as_fd).expect("a cell that was made has a tmpfs")
    }

    /// Wakes the zygote, which stands still between forks, and has the launcher expect a clone. Call it right
    /// before the zygote is told to fork for this cell: a process that was not expected is held against its
    /// zygote.
    ///
    /// # Errors
    /// [`Error::LauncherGone`]. Whether the zygote lives shows when it is told to fork.
    pub async fn expect(&self) -> Result<()> {
        self.connection.announce(self.sid).await.map_err(|_| Error::LauncherGone)
    }

    /// Inspects the process `pid` (a pid as the server sees it) from outside, moves it into the cell and
    /// returns a handle like that of any sandbox: killing it kills the process and its descendants, and
    /// nothing else. Send a clone no work before this has succeeded.
    ///
    /// A zygote that has not yet closed its copies of the clone's descriptors is waited for briefly. Dropping
    /// the future kills the process.
    ///
    /// # Errors
    /// [`Error::Tampered`] when the process is not a plain fork of the zygote, or the zygote is no longer
    /// what it was when sealed: end the zygote. [`Error::Ended`] when the process or its zygote has ended;
    /// [`Error::InvalidSpec`] when the zygote has not been sealed; [`Error::Setup`].
    pub async fn admit(mut self, pid: u32) -> Result<Sandbox> {
        let connection = self.connection.clone();
        let request = Request::Admit { sid: self.sid, pid };
        let started = connection.begin(self.sid, &self.id, &request, &[]).await?;
        self.held = false;
        drop(self);
        started.await.map_err(|_| Error::LauncherGone)?.map(|(sandbox, _)| sandbox)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if self.held {
            self.connection.say(&Request::DropCell { sid: self.sid });
        }
    }
}
