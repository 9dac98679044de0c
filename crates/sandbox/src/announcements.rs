//! The socket on which the server announces each fork before it asks a zygote for it. It is apart from the
//! requests, so that the launcher can hear of every fork whose process it sees, whatever waits before it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::wire;

/// The server's end.
#[derive(Debug)]
pub(crate) struct Announcer(AsyncFd<OwnedFd>);

/// The launcher's end.
pub(crate) struct Announcements(OwnedFd);

/// The server's end, and the launcher's as it is sent to it.
pub(crate) fn pair() -> io::Result<(Announcer, OwnedFd)> {
    let (ours, theirs) = wire::pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    // SAFETY: the `AsyncFd` owns the descriptor from here on and never replaces it.
    let ours = unsafe { AsyncFd::register_with_interest(ours, Interest::WRITABLE) }?;
    Ok((Announcer(ours), theirs))
}

impl Announcer {
    /// Says that a zygote is about to be told to fork for the cell `sid`. If the future is dropped before it
    /// is done, nothing was said.
    pub(crate) async fn announce(&self, sid: u64) -> io::Result<()> {
        self.0
            .async_io(Interest::WRITABLE, |socket| Ok(send(socket, &sid.to_ne_bytes(), SendFlags::NOSIGNAL)?))
            .await
            .map(drop)
    }
}

impl Announcements {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// The cell of the next announcement; `None` if everything was heard that has been said.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut sid = [0; size_of::<u64>()];
        loop {
            match recv(&self.0, &mut sid, RecvFlags::DONTWAIT) {
                Ok((_, length)) if length == sid.len() => return Some(u64::from_ne_bytes(sid)),
                Err(rustix::io::Errno::INTR) => {}
                // The end of the server is noticed on the socket of the requests.
                _ => return None,
            }
        }
    }
}

impl AsFd for Announcements {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_that_was_said_is_heard_at_once() {
        let (ours, theirs) = pair().unwrap();
        let theirs = Announcements::new(theirs);
        assert_eq!(theirs.next(), None);
        for sid in [7, u64::MAX, 8] {
            ours.announce(sid).await.unwrap();
        }
        assert_eq!(
            [theirs.next(), theirs.next(), theirs.next(), theirs.next()],
            [Some(7), Some(u64::MAX), Some(8), None]
        );
        drop(theirs);
        assert!(ours.announce(9).await.is_err());
    }
}
