//! The messages between server and launcher: JSON on a `SOCK_SEQPACKET` pair, with descriptors as ancillary
//! data.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::error::Fault;
use crate::outcome::{Exit, Usage};
use crate::seal::{SealSpec, Sealed};
use crate::spec::{LauncherConfig, ResourceLimits, SandboxSpec};

/// Largest message through the socket, in bytes. A longer one travels in a memfd.
pub(crate) const MESSAGE_MAX: usize = 160 * 1024;
/// Largest message of all: the longest arguments and environment, escaped as JSON.
pub(crate) const ASIDE_MAX: usize = 16 << 20;
/// Most descriptors in one message.
const DESCRIPTORS_MAX: usize = 5;

/// From server to launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request<'a> {
    /// The first message; with the socket of the [announcements](crate::announcements).
    Hello { config: Cow<'a, LauncherConfig>, server_pid: u32 },
    /// Start a sandbox; with the descriptors: stdin if `stdin`, stdout, stderr, link if `link`. `listen`: a
    /// port of its loopback to listen on before anything runs inside.
    Start { sid: u64, spec: Cow<'a, SandboxSpec>, stdin: bool, link: bool, listen: Option<u16> },
    /// A `Start` that is too long for the socket. The memfd that contains it precedes its own descriptors.
    StartAside { sid: u64, length: usize },
    /// Admit the process `pid` to the cell `sid`; answered by [`Event::Started`] or [`Event::Failed`].
    Admit { sid: u64, pid: u32 },
    /// Nobody will use this cell. No answer.
    DropCell { sid: u64 },
    /// Take this sandbox out of the background. No answer.
    Foreground { sid: u64 },
    /// End this sandbox, whose descriptors did not reach the server. No answer.
    Kill { sid: u64 },
    /// A question about a running sandbox; answered by [`Event::Done`].
    Ask { seq: u64, sid: u64, ask: Ask },
    /// End everything and exit.
    Shutdown,
}

/// The questions about a running sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Freeze,
    Thaw,
    Usage,
    /// [`Self::Usage`] without the present memory, for which a file has to be opened.
    Spent,
    Connect {
        port: u16,
        v6: bool,
    },
    /// Answered with the listening socket.
    Listen {
        port: u16,
    },
    Attach {
        source: PathBuf,
        target: String,
    },
    OpenNetwork,
    Seal {
        expect: SealSpec,
    },
    /// `cell` is the number of the new cell and of the sandbox that will be in it; answered with the
    /// descriptor of its tmpfs.
    Cell {
        cell: u64,
        limits: ResourceLimits,
        tmp_bytes: u64,
    },
}

/// The answer to an [`Ask`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Told {
    Done,
    Usage(Usage),
    Sealed(Sealed),
}

/// From launcher to server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// Answer to Hello.
    Up,
    /// Answer to Hello: the launcher cannot work.
    Down { fault: Fault },
    /// The payload runs; with the pidfd of the sandbox's pid 1, and the listening socket if one was asked
    /// for.
    Started { sid: u64, setup_us: u64 },
    /// The sandbox did not start, and nothing is left of it.
    Failed { sid: u64, fault: Fault },
    /// The sandbox has ended.
    Exited { sid: u64, exit: Exit },
    /// Answer to Ask; with the socket for Connect and Listen, the tmpfs for Cell.
    Done { seq: u64, answer: Result<Told, Fault> },
}

/// The descriptors that came with a message.
pub(crate) type Descriptors = Result<Vec<OwnedFd>, Lost>;

/// The receiver's descriptor table had no room for all descriptors of a message. Those that did arrive have
/// been closed, since they are of no use without the others.
#[derive(Debug)]
pub(crate) struct Lost;

/// Sends one message. On a non-blocking socket, `WouldBlock` means that nothing was sent.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send_bytes(socket, &serde_json::to_vec(message)?, fds)
}

/// Like [`send`], for a message that is serialised already.
pub(crate) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A memfd with a message that is too long for the socket.
pub(crate) fn lay_aside(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("flint-message", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// The content of such a memfd.
pub(crate) fn take_up(file: OwnedFd, length: usize) -> io::Result<Vec<u8>> {
    if length > ASIDE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    File::from(file).read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Receives one message into `buffer` (of [`MESSAGE_MAX`] bytes); `None` when the peer has gone. Descriptors
/// may be lost, the message is not.
pub(crate) fn receive<'b, T: Deserialize<'b>>(
    socket: BorrowedFd<'_>,
    buffer: &'b mut [u8],
) -> io::Result<Option<(T, Descriptors)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message cut short"));
    }
    let message = serde_json::from_slice(&buffer[..received.bytes])?;
    // The buffer has room for as many as are ever sent, so truncation means that this process's descriptor
    // table is full.
    let lost = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Some((message, if lost { Err(Lost) } else { Ok(fds) })))
}

/// A connected pair, close-on-exec, with buffers for a few large messages.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for end in [ours.as_fd(), theirs.as_fd()] {
        // The kernel caps this at net.core.wmem_max, whose default holds at least one message.
        let _ = sockopt::set_socket_send_buffer_size(end, 2 * MESSAGE_MAX);
    }
    Ok((ours, theirs))
}
