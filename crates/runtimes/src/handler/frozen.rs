//! A snapshot: a frozen runtime that forks a clone on request.

use std::{
    collections::HashMap,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use bytes::BytesMut;
use flint_executor::link::{Decoder, Frame, FrameKind, LinkFailure};
use flint_gate::Gate;
use flint_model::ByteSize;
use flint_sandbox::{CodeImage, Sandbox};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::{io::Interest, net::UnixStream, sync::oneshot, task::JoinHandle};

use super::{Cell, channel::Channel};
use crate::process::{logs::Logs, output::Output};

/// Tells the clone to run the shim's code path once with a dummy call before the first real call.
const PRIME: u8 = 1;
/// How often a snapshot may report a failed fork that nobody waits for any more.
const UNASKED_MAX: u32 = 100;

/// Why there is no clone.
#[derive(Debug, thiserror::Error)]
pub enum NotForked {
    /// The snapshot has ended or does not answer.
    #[error("the snapshot has ended")]
    Ended,
    /// The fork failed because the host or the sandbox lacks a resource.
    #[error("the snapshot could not be forked: {0}")]
    Refused(String),
    /// The clone or the snapshot failed the inspection; it must not serve further calls.
    #[error("the snapshot has been tampered with: {0}")]
    Tampered(String),
    /// The deadline passed.
    #[error("the snapshot was not forked in time")]
    Deadline,
    /// Flint, or the host, failed.
    #[error("{0}")]
    Platform(String),
}

/// A snapshot. Dropping it ends it and all its clones.
#[derive(Debug)]
pub struct Frozen {
    sandbox: Arc<Sandbox>,
    gate: Option<Gate>,
    link: Arc<UnixStream>,
    waiting: Arc<Waiting>,
    last: AtomicU32,
    /// Held while a frame is written, so that frames do not interleave.
    writing: tokio::sync::Mutex<()>,
    listener: JoinHandle<()>,
    /// Held so that other snapshots of the same runtime can share it.
    _image: Option<Arc<CodeImage>>,
}

/// The callers that wait for a clone, by its number; each is told if the fork fails.
#[derive(Debug, Default)]
struct Waiting(Mutex<HashMap<u32, oneshot::Sender<String>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, oneshot::Sender<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frozen {
    pub(super) fn new(
        sandbox: Arc<Sandbox>,
        gate: Option<Gate>,
        channel: Channel,
        image: Option<Arc<CodeImage>>,
    ) -> Self {
        let (link, output) = channel.into_parts();
        let (link, waiting) = (Arc::new(link), Arc::<Waiting>::default());
        let listener =
            tokio::spawn(listen(Arc::clone(&link), output, Arc::clone(&waiting), Arc::clone(&sandbox)));
        Self {
            sandbox,
            gate,
            link,
            waiting,
            last: AtomicU32::new(0),
            writing: tokio::sync::Mutex::default(),
            listener,
            _image: image,
        }
    }

    /// Its sandbox.
    pub fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }

    /// Forks a clone into the cell `place`. It has sent its HELLO and passed the inspection, but has not been
    /// made unique yet.
    ///
    /// # Errors
    /// Why there is no clone; nothing is left of it then.
    pub async fn fork(
        &self,
        place: flint_sandbox::Cell,
        prime: bool,
        deadline: Instant,
    ) -> Result<Cell, NotForked> {
        let forked = tokio::time::timeout_at(deadline.into(), self.fork_in_time(place, prime, deadline));
        forked.await.unwrap_or(Err(NotForked::Deadline))
    }

    async fn fork_in_time(
        &self,
        place: flint_sandbox::Cell,
        prime: bool,
        deadline: Instant,
    ) -> Result<Cell, NotForked> {
        let platform = |error: io::Error| {
            NotForked::Platform(format!(
                "the pipes of {} could not be made: {error}; raise the limit of open files (ulimit -n)",
                place.id()
            ))
        };
        let (mut channel, [stdout, stderr, link]) = Channel::open(deadline).map_err(platform)?;
        channel.ask_for_credentials().map_err(platform)?;
        let mut ticket = Ticket::draw(self);
        {
            let _whole = self.writing.lock().await;
            // The launcher takes its sandboxes with it.
            place.expect().await.map_err(|_| NotForked::Ended)?;
            self.send(ticket.number, prime, &[link.as_fd(), stdout.as_fd(), stderr.as_fd(), place.tmp()])
                .await
                .map_err(|_| NotForked::Ended)?;
        }
        drop((stdout, stderr, link));
        let hello = tokio::select! {
            hello = channel.first_message() => hello,
            Ok(why) = &mut ticket.failed => return Err(NotForked::Refused(why)),
            _ = self.sandbox.wait() => return Err(NotForked::Ended),
        };
        let Ok((hello, pid)) = hello else { return Err(NotForked::Ended) };
        let sandbox = place.admit(pid).await.map_err(|error| match error {
            flint_sandbox::Error::Tampered { what, .. } => NotForked::Tampered(what),
            flint_sandbox::Error::Ended { .. } => NotForked::Ended,
            other => NotForked::Platform(other.to_string()),
        })?;
        Ok(Cell { sandbox: Arc::new(sandbox), gate: self.gate.clone(), channel, hello, image: None })
    }

    async fn send(&self, number: u32, prime: bool, fds: &[BorrowedFd<'_>; 4]) -> io::Result<()> {
        let mut frame = BytesMut::new();
        Frame::put_header(&mut frame, FrameKind::Clone, false, number, 1);
        frame.extend_from_slice(&[if prime { PRIME } else { 0 }]);
        self.link
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                control.push(SendAncillaryMessage::ScmRights(fds));
                // The kernel takes so short a message whole or not at all.
                sendmsg(&*self.link, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL)?;
                Ok(())
            })
            .await
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.listener.abort();
        self.sandbox.kill();
    }
}

/// A clone's number, and the receiver for the report that its fork failed.
struct Ticket<'a> {
    number: u32,
    failed: oneshot::Receiver<String>,
    waiting: &'a Waiting,
}

impl<'a> Ticket<'a> {
    fn draw(frozen: &'a Frozen) -> Self {
        // 0 is the snapshot itself; the numbers wrap around after 2^32 clones.
        let number = frozen.last.fetch_add(1, Ordering::Relaxed).checked_add(1).unwrap_or(1);
        let (told, failed) = oneshot::channel();
        frozen.waiting.lock().insert(number, told);
        Self { number, failed, waiting: &frozen.waiting }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.number);
    }
}

/// Reads the snapshot's frames and kills a snapshot that sends anything unexpected. Discards its output,
/// which belongs to no call.
async fn listen(link: Arc<UnixStream>, mut output: Output, waiting: Arc<Waiting>, sandbox: Arc<Sandbox>) {
    let talk = async {
        if hear(&link, &waiting).await == Said::Nonsense {
            sandbox.kill();
        }
    };
    let mut nothing = Logs::new(ByteSize::bytes(0));
    tokio::join!(talk, output.read_to_end(&mut nothing));
}

/// The kind of frames that a snapshot sent before it closed the link.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// None, or reports of failed forks.
    Sense,
    Nonsense,
}

/// Passes reports of failed forks on to the callers that wait.
async fn hear(link: &UnixStream, waiting: &Waiting) -> Said {
    let mut decoder = Decoder::default();
    let mut unasked = 0;
    loop {
        // A snapshot is hostile, and may send without end: yield regularly so that it does not occupy a
        // worker thread.
        tokio::task::consume_budget().await;
        match decoder.next_frame() {
            Ok(Some(frame)) if frame.kind == FrameKind::Error => {
                let why = serde_json::from_slice::<LinkFailure>(&frame.payload)
                    .map_or_else(|_| "it does not say why".to_owned(), |failure| failure.message);
                match waiting.lock().remove(&frame.call) {
                    Some(told) => {
                        let _ = told.send(why);
                    }
                    None => unasked += 1,
                }
                if unasked > UNASKED_MAX {
                    return Said::Nonsense;
                }
            }
            Ok(Some(_)) | Err(_) => return Said::Nonsense,
            Ok(None) => {
                if link.readable().await.is_err() {
                    return Said::Sense;
                }
                match link.try_read_buf(decoder.buffer()) {
                    Ok(0) => return Said::Sense,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return Said::Sense,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream as StdUnixStream};

    use super::*;

    /// Flint's end of a link and the snapshot's.
    fn link() -> (UnixStream, StdUnixStream) {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (UnixStream::from_std(ours).unwrap(), theirs)
    }

    fn failed(call: u32) -> BytesMut {
        let mut frame = BytesMut::new();
        let why = &br#"{"kind":"snapshot","message":"no room"}"#[..];
        Frame::new(FrameKind::Error, call, why).encode(&mut frame);
        frame
    }

    #[tokio::test]
    async fn who_waits_for_a_clone_hears_that_there_is_none() {
        let ((ours, mut theirs), waiting) = (link(), Waiting::default());
        let (told, why) = oneshot::channel();
        waiting.lock().insert(7, told);
        theirs.write_all(&failed(7)).unwrap();
        // A report that nobody waits for any more.
        theirs.write_all(&failed(6)).unwrap();
        drop(theirs);
        assert_eq!(hear(&ours, &waiting).await, Said::Sense);
        assert_eq!(why.await.unwrap(), "no room");
    }

    #[tokio::test]
    async fn a_snapshot_that_says_what_nobody_has_asked_for_is_heard_no_longer() {
        for frame in [Frame::new(FrameKind::Error, 9, &b"x"[..]), Frame::new(FrameKind::Ready, 0, &b""[..])] {
            let (ours, mut theirs) = link();
            let mut frames = BytesMut::new();
            (0..=UNASKED_MAX).for_each(|_| frame.encode(&mut frames));
            theirs.write_all(&frames).unwrap();
            assert_eq!(hear(&ours, &Waiting::default()).await, Said::Nonsense);
        }
    }
}
