//! The messages between server and launcher: JSON over a `SOCK_SEQPACKET` pair, descriptors beside it.

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

/// Largest message through the socket, in bytes. What is longer is laid aside, in a file in memory.
pub(crate) const MESSAGE_MAX: usize = 160 * 1024;
/// Largest message of all: the longest arguments and environment, quoted.
pub(crate) const ASIDE_MAX: usize = 16 << 20;
/// As many descriptors go with one message.
const DESCRIPTORS_MAX: usize = 5;

/// From server to launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request<'a> {
    /// The first message.
    Hello { config: Cow<'a, LauncherConfig>, server_pid: u32 },
    /// With the descriptors: stdin if `stdin`, stdout, stderr, link if `link`. `listen`: a port on its loopback to listen on before anything runs there.
    Start { sid: u64, spec: Cow<'a, SandboxSpec>, stdin: bool, link: bool, listen: Option<u16> },
    /// A `Start` that is too long for the socket; with the file it is in, before its own descriptors.
    StartAside { sid: u64, length: usize },
    /// Put the process `pid` into the cell `sid`; answered by [`Event::Started`] or [`Event::Failed`].
    Admit { sid: u64, pid: u32 },
    /// Nobody will use this cell. No answer.
    DropCell { sid: u64 },
    /// Somebody waits for this sandbox from now on. No answer.
    Foreground { sid: u64 },
    /// End this sandbox, whose descriptors did not arrive. No answer.
    Kill { sid: u64 },
    /// Something about a running sandbox; answered by [`Event::Done`].
    Ask { seq: u64, sid: u64, ask: Ask },
    /// End everything and exit.
    Shutdown,
}

/// What can be asked about a running sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Freeze,
    Thaw,
    Usage,
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
    /// `cell` is its number and will be that of the sandbox in it; answered with the descriptor of its tmpfs.
    Cell {
        cell: u64,
        limits: ResourceLimits,
        tmp_bytes: u64,
    },
}

/// What an [`Ask`] is answered with.
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
    /// The payload runs; with the pidfd of the sandbox's pid 1, and the listening socket if one was asked for.
    Started { sid: u64, setup_us: u64 },
    /// It does not, and nothing is left of it.
    Failed { sid: u64, fault: Fault },
    /// It has ended.
    Exited { sid: u64, exit: Exit },
    /// Answer to Ask; with the socket for Connect and Listen, the tmpfs for Cell.
    Done { seq: u64, answer: Result<Told, Fault> },
}

/// The descriptors that came with a message.
pub(crate) type Descriptors = Result<Vec<OwnedFd>, Lost>;

/// Whoever received the message had no room for all of its descriptors. Those that did arrive have been closed: one alone is of no use.
#[derive(Debug)]
pub(crate) struct Lost;

/// Sends one message. On a non-blocking socket `WouldBlock` means that nothing was sent.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send_bytes(socket, &serde_json::to_vec(message)?, fds)
}

/// As [`send`], for a message serialised before.
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

/// A file in memory with a message that is too long.
pub(crate) fn lay_aside(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("flint-message", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// What is in such a file.
pub(crate) fn take_up(file: OwnedFd, length: usize) -> io::Result<Vec<u8>> {
    if length > ASIDE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    File::from(file).read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Receives one message into `buffer` (of [`MESSAGE_MAX`] bytes). `None`: the other side has gone. Descriptors may be lost on the way, the message is not.
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
    // There is room for as many as are ever sent: what is missing found none in this process's table.
    let lost = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Some((message, if lost { Err(Lost) } else { Ok(fds) })))
}

/// A connected pair, close-on-exec, with room for a few large messages.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for end in [ours.as_fd(), theirs.as_fd()] {
        // The system's default maximum holds one message; as root there may be more.
        let _ = sockopt::set_socket_send_buffer_size(end, 2 * MESSAGE_MAX);
    }
    Ok((ours, theirs))
}
