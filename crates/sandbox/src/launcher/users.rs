//! User namespaces for payloads: one per slot, used by one sandbox at a time.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Uid;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::UnshareFlags;

use crate::descriptors::keep;
use crate::inside::PAYLOAD_ID;
use crate::sys;

/// A user namespace that maps uid and gid [`PAYLOAD_ID`] to `outside` and nothing else.
///
/// The kernel counts what a payload has of some things (inotify instances, pending signals and timers, message
/// queues) a second time for the owner of its user namespace. `owner`: make that uid the owner, and not the
/// launcher's, which is the host's root: one payload could use up what root may have.
pub(super) fn namespace(outside: u32, owner: Option<u32>) -> io::Result<OwnedFd> {
    let (from_helper, to_launcher) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let report = || {
        let message = match make(owner) {
            Ok(namespace) => namespace.into_raw_fd(),
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        let _ = rustix::io::write(&to_launcher, &message.to_ne_bytes());
    };
    // SAFETY: the launcher is single-threaded.
    let (pid, pidfd) = unsafe { sys::helper(libc::CLONE_FILES, report) }?;
    let made = wait(from_helper.as_fd(), pidfd.as_fd()).and_then(|namespace| {
        let map = format!("{PAYLOAD_ID} {outside} 1");
        fs::write(format!("/proc/{pid}/uid_map"), &map)?;
        fs::write(format!("/proc/{pid}/gid_map"), &map)?;
        Ok(namespace)
    });
    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL)?;
    let id = rustix::process::WaitId::PidFd(pidfd.as_fd());
    rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED)?;
    made.map(keep)
}

/// Runs in the helper: enters a new user namespace. The kernel makes the effective uid its owner.
fn make(owner: Option<u32>) -> io::Result<OwnedFd> {
    if let Some(owner) = owner {
        let capabilities = rustix::thread::capabilities(None)?;
        rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(owner), Uid::ROOT)?;
        // They go with the uid, and hosts may forbid user namespaces without them.
        rustix::thread::set_capabilities(None, capabilities)?;
    }
    sys::unshare(UnshareFlags::NEWUSER)?;
    // Opened here, since the launcher, with other ids than this process, would need CAP_SYS_PTRACE for it.
    Ok(fs::File::open("/proc/self/ns/user")?.into())
}

/// Waits for the helper's message or its end; the namespace is open in the descriptor table that both share.
fn wait(message: BorrowedFd<'_>, helper: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut either = [message, helper].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    rustix::io::retry_on_intr(|| poll(&mut either, None))?;
    let mut bytes = [0; size_of::<RawFd>()];
    match rustix::io::read(message, &mut bytes) {
        Ok(length) if length == bytes.len() => {}
        _ => return Err(io::Error::other("the process that makes it has ended")),
    }
    match RawFd::from_ne_bytes(bytes) {
        errno @ ..0 => Err(io::Error::from_raw_os_error(-errno)),
        // SAFETY: the helper opened it for this process, and does not use it.
        number => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn who_uses_a_namespace_owns_it_and_not_root() {
        if !crate::launcher::is_root(0) {
            println!("not checked: it takes root");
            return;
        }
        const NS_GET_OWNER_UID: libc::Ioctl = 0xb704;
        let owner_of = |namespace: OwnedFd| {
            let mut uid: libc::uid_t = libc::uid_t::MAX;
            // SAFETY: the kernel writes a uid there.
            let done = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID, &raw mut uid) };
            assert_eq!(done, 0, "{}", io::Error::last_os_error());
            uid
        };
        let outside = 0x6123_4567;
        assert_eq!(owner_of(namespace(outside, Some(outside)).unwrap()), outside);
        assert_eq!(owner_of(namespace(0, None).unwrap()), 0);
    }
}
