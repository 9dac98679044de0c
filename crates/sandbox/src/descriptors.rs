//! Keeps the launcher's long-lived descriptors out of the processes that it forks.
//!
//! Each living sandbox, and each cgroup kept for reuse, costs the launcher some fifteen descriptors. A forked
//! child would copy all of them and close them again, so a start would get slower with the number of
//! sandboxes. Therefore the launcher moves long-lived descriptors to numbers from [`KEPT`] on. A sandbox's
//! pid 1 starts with the launcher's own descriptor table (`CLONE_FILES`) and leaves it by [`leave`], which
//! copies the lower numbers only.
//!
//! Until then both share one table: the child must not change it, and the launcher must not close what the
//! child still needs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::sys;

/// The first number for long-lived descriptors. Lower numbers are for the launcher's own few and for starts
/// under way.
const KEPT: RawFd = 1024;

/// Moves a long-lived descriptor to a number that children do not copy. If that fails it stays where it is,
/// which only costs time.
pub(crate) fn keep(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&fd, KEPT).unwrap_or(fd)
}

/// Whether a child still has this descriptor after [`leave`].
pub(crate) fn survives_leaving(fd: &impl AsFd) -> bool {
    fd.as_fd().as_raw_fd() < KEPT
}

/// Gives the calling process its own descriptor table, without the long-lived ones.
pub(crate) fn leave() -> io::Result<()> {
    sys::close_range(KEPT, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(number: RawFd) -> bool {
        std::fs::read_link(format!("/proc/thread-self/fd/{number}")).is_ok()
    }

    /// A thread shares its process's descriptor table, as does a child made with `CLONE_FILES`.
    #[test]
    fn who_leaves_keeps_what_is_low_and_takes_nothing_from_others() {
        // A login shell's soft limit may be exactly [`KEPT`].
        crate::raise_open_files();
        let low = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 0).unwrap();
        let kept = keep(rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 0).unwrap());
        assert!(survives_leaving(&low) && !survives_leaving(&kept), "{low:?} {kept:?}");
        let numbers = [low.as_raw_fd(), kept.as_raw_fd()];
        let left = std::thread::spawn(move || {
            let before = numbers.map(is_open);
            leave().unwrap();
            let after = numbers.map(is_open);
            // The table is no longer shared: what this thread closes stays open in the others.
            sys::close_range(numbers[0], numbers[0], 0).unwrap();
            (before, after, numbers.map(is_open))
        });
        assert_eq!(left.join().unwrap(), ([true; 2], [true, false], [false; 2]));
        assert_eq!(numbers.map(is_open), [true; 2]);
    }
}
