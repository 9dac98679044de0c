//! User namespaces for payloads: one per slot, used by one sandbox at a time.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::descriptors::keep;
use crate::inside::PAYLOAD_ID;
use crate::sys;

/// A user namespace that maps uid and gid [`PAYLOAD_ID`] to `outside` and nothing else.
pub(super) fn namespace(outside: u32) -> io::Result<OwnedFd> {
    // SAFETY: the launcher is single-threaded.
    let (pid, pidfd) = unsafe { sys::helper(libc::CLONE_NEWUSER | libc::CLONE_FILES, || ()) }?;
    let map = format!("{PAYLOAD_ID} {outside} 1");
    let made = fs::write(format!("/proc/{pid}/uid_map"), &map)
        .and_then(|()| fs::write(format!("/proc/{pid}/gid_map"), &map))
        .and_then(|()| fs::File::open(format!("/proc/{pid}/ns/user")));
    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL)?;
    let id = rustix::process::WaitId::PidFd(pidfd.as_fd());
    rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED)?;
    Ok(keep(made?.into()))
}
