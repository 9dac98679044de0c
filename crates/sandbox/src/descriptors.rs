//! Which of the launcher's descriptors a child of it copies.
//!
//! Each sandbox that lives, or whose cgroup waits for another, costs the launcher some fifteen descriptors. A forked child would copy all of them
//! and close all of them again, so that a start would cost more the more sandboxes there are. Therefore the launcher moves what it
//! keeps to numbers from [`KEPT`] on; a sandbox's pid 1 begins in the launcher's own table (`CLONE_FILES`) and leaves it by [`leave`], which copies what
//! is below only.
//!
//! Until then both use one table. The child changes nothing in it, and the launcher closes nothing that this child still needs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::sys;

/// The first number of those that are kept. Below it are the launcher's own few and those of starts under way.
const KEPT: RawFd = 1024;

/// Moves a descriptor that is kept for long to where children do not copy it. Without room there it stays where it is, which costs time only.
pub(crate) fn keep(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&fd, KEPT).unwrap_or(fd)
}

/// Whether a child still has this one after [`leave`].
pub(crate) fn survives_leaving(fd: &impl AsFd) -> bool {
    fd.as_fd().as_raw_fd() < KEPT
}

/// Gives the calling process a table of its own, without what is kept.
pub(crate) fn leave() -> io::Result<()> {
    sys::close_range(KEPT, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(number: RawFd) -> bool {
        std::fs::read_link(format!("/proc/thread-self/fd/{number}")).is_ok()
    }

    /// A thread shares its process' table, as a child does that was made with `CLONE_FILES`.
    #[test]
    fn who_leaves_keeps_what_is_low_and_takes_nothing_from_others() {
        // A login shell's limit may be the very first number of those that are kept.
        crate::raise_open_files();
        let low = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 0).unwrap();
        let kept = keep(rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 0).unwrap());
        assert!(survives_leaving(&low) && !survives_leaving(&kept), "{low:?} {kept:?}");
        let numbers = [low.as_raw_fd(), kept.as_raw_fd()];
        let left = std::thread::spawn(move || {
            let before = numbers.map(is_open);
            leave().unwrap();
            let after = numbers.map(is_open);
            // From here on what is closed in this thread is open in the others.
            sys::close_range(numbers[0], numbers[0], 0).unwrap();
            (before, after, numbers.map(is_open))
        });
        assert_eq!(left.join().unwrap(), ([true; 2], [true, false], [false; 2]));
        assert_eq!(numbers.map(is_open), [true; 2]);
    }
}
