//! A place for a process that a zygote forks, seen from the server.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::sandbox::Sandbox;
use crate::spec::ResourceLimits;
use crate::wire::{Ask, Request};

/// The descriptor that `/tmp` leads to in a sandbox with [`crate::SandboxSpec::zygote`]. A process started by a clone must inherit it to have a `/tmp`.
pub const TMP_FD: i32 = 200;

/// What a cell is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellSpec {
    /// A name for messages and logs.
    pub id: String,
    /// Limits of the process that will live there and of all that it starts. Pages that it shares with the zygote are charged to the zygote;
    /// `open_files` is inherited from the zygote, not set.
    pub limits: ResourceLimits,
    /// Size of its `/tmp`, in bytes; what is stored there also counts as its memory.
    pub tmp_bytes: u64,
}

/// A place for one process: a cgroup and an empty tmpfs. Dropping it gives both back.
#[derive(Debug)]
pub struct Cell {
    id: String,
    sid: u64,
    tmp: Option<OwnedFd>,
    connection: Arc<Connection>,
    /// Whether the launcher still holds the cell for us.
    held: bool,
}

impl Cell {
    pub(crate) async fn make(connection: &Arc<Connection>, zygote: u64, spec: &CellSpec) -> Result<Self> {
        let sid = connection.next_number();
        let ask = Ask::Cell { cell: sid, limits: spec.limits, tmp_bytes: spec.tmp_bytes };
        // Made first: whoever gives up while the answer is under way gives the cell back.
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

    /// The root of the cell's tmpfs, an `O_PATH` descriptor, to be handed to the process that will live here.
    pub fn tmp(&self) -> BorrowedFd<'_> {
        self.tmp.as_ref().map(AsFd::as_fd).expect("a cell that was made has a tmpfs")
    }

    /// Checks the process `pid` (as the server sees it) from outside, moves it into the cell, and gives a handle like that of any sandbox: killing
    /// it kills the process and all that it has started, and nothing else. Give a clone nothing to work on before this has succeeded.
    ///
    /// A zygote that has not closed its copies of the clone's descriptors yet is given a moment. Dropping the future ends the process.
    ///
    /// # Errors
    /// [`Error::Tampered`] when it is not what an honest fork is, or its zygote is no longer what it was when sealed: end the zygote. [`Error::Ended`] when the process or its zygote
    /// has ended; [`Error::InvalidSpec`] when the zygote has not been sealed; [`Error::Setup`].
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
