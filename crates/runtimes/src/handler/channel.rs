//! Flint's end of one instance: its link and its output, driven by the task that waits for the instance.
//!
//! There is no task in between: the call's own task writes the request and is woken by the answer.

use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Instant,
};

use bytes::{Buf, BytesMut};
use flint_executor::{
    BodyError,
    link::{Decoder, Frame, FrameKind, Hello, LinkError},
};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use tokio::{
    io::{AsyncReadExt, AsyncWrite, Interest},
    net::UnixStream,
};

use super::{launch::hello_of, upload::Upload};
use crate::process::{logs::Logs, meter::Meter, output::Output, timer::Timer};

/// Free space for an answer of the usual size before each read; a longer frame reserves its length.
const READ_AT_LEAST: usize = 4 << 10;
const READ_ROOM: usize = 16 << 10;

/// The link, output and time limit of one instance.
#[derive(Debug)]
pub(super) struct Channel {
    link: UnixStream,
    decoder: Decoder,
    out: BytesMut,
    /// Bytes consumed of answers, by call. They are acknowledged once the link takes more output, so a shim
    /// that sends without reading causes one sum per call rather than a growing queue.
    taken: Vec<(u32, usize)>,
    pub(super) output: Output,
    pub(super) timer: Timer,
    pub(super) meter: Meter,
    last_call: u32,
    /// Whether writing has failed.
    deaf: bool,
}

/// Reads a piece and the process id of its sender.
fn receive_with_sender(link: &UnixStream, buffer: &mut BytesMut) -> io::Result<Option<u32>> {
    let mut bytes = [0; 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(link, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    buffer.extend_from_slice(&bytes[..received.bytes]);
    let sender = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => sender.pid.as_raw_nonzero().get().try_into().ok(),
        _ => None,
    });
    Ok(sender)
}

/// An event on a channel.
#[derive(Debug)]
pub(super) enum Event {
    Frame(Frame),
    /// The peer has closed the link.
    Closed,
    /// The peer violated the protocol.
    Broken(LinkError),
    /// The time limit has passed.
    Deadline,
    /// The request's body broke off.
    Abandoned(BodyError),
}

impl Channel {
    /// Also returns the ends for the sandbox: stdout, stderr, link.
    pub(super) fn open(deadline: Instant) -> io::Result<(Self, [OwnedFd; 3])> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (output, [stdout, stderr]) = Output::both()?;
        let channel = Self {
            link: UnixStream::from_std(ours)?,
            decoder: Decoder::default(),
            out: BytesMut::new(),
            taken: Vec::new(),
            output,
            timer: Timer::new(deadline),
            meter: Meter::default(),
            last_call: 0,
            deaf: false,
        };
        Ok((channel, [stdout, stderr, theirs.into()]))
    }

    /// Takes out the link and the output, for an instance that serves no more calls.
    pub(super) fn into_parts(self) -> (UnixStream, Output) {
        (self.link, self.output)
    }

    /// Makes the kernel attach the sender's credentials to messages. Must be called before the other end is
    /// handed out.
    pub(super) fn ask_for_credentials(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_passcred(&self.link, true)?)
    }

    /// The first message, which must be HELLO, and its sender's process id as the kernel reports it.
    pub(super) async fn first_message(&mut self) -> io::Result<(Hello, u32)> {
        let mut sender = None;
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => {
                    sockopt::set_socket_passcred(&self.link, false)?;
                    let hello = hello_of(&frame).ok_or(io::ErrorKind::InvalidData)?;
                    return Ok((hello, sender.ok_or(io::ErrorKind::InvalidData)?));
                }
                Ok(None) => {}
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
            let Self { link, decoder, .. } = self;
            let pid =
                link.async_io(Interest::READABLE, || receive_with_sender(link, decoder.buffer())).await?;
            // Only the first piece counts; later ones may come from another process with a copy of the
            // socket.
            sender = sender.or(pid);
        }
    }

    /// The id for a new call.
    pub(super) fn next_call(&mut self) -> u32 {
        self.last_call = self.last_call.checked_add(1).unwrap_or(1);
        self.last_call
    }

    /// The buffer for frames to send; [`Self::poll`] sends them.
    pub(super) fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    pub(super) fn send(&mut self, kind: FrameKind, call: u32, payload: &[u8]) {
        Frame::put_header(&mut self.out, kind, false, call, payload.len());
        self.out.extend_from_slice(payload);
    }

    /// Records that `bytes` more of a call's answer have been consumed.
    pub(super) fn acknowledge(&mut self, call: u32, bytes: usize) {
        match self.taken.iter_mut().find(|(other, _)| *other == call) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => self.taken.push((call, bytes)),
        }
    }

    /// Queues the acknowledgements; returns whether there were any.
    fn put_acknowledgements(&mut self) -> bool {
        let mut any = false;
        while let Some((call, bytes)) = self.taken.pop() {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.send(FrameKind::Ack, call, &bytes.to_be_bytes());
            any = true;
        }
        any
    }

    /// Discards output written since the last call.
    pub(super) fn forget_idle_output(&mut self, cx: &mut Context<'_>) {
        self.output.poll(cx, &mut Logs::new(flint_model::ByteSize::bytes(0)));
    }

    /// Sends what is queued and the request's body, collects logs, and returns the next event.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, logs: &mut Logs, upload: &mut Upload) -> Poll<Event> {
        if self.timer.poll(cx).is_ready() {
            return Poll::Ready(Event::Deadline);
        }
        self.poll_send(cx, upload);
        if let Some(error) = upload.take_error() {
            return Poll::Ready(Event::Abandoned(error));
        }
        let event = self.poll_receive(cx);
        if event.is_pending() {
            self.output.poll(cx, logs);
        }
        event
    }

    /// Sends as much as the link takes at once, to an instance that nobody waits for.
    pub(super) async fn send_now(&mut self) {
        std::future::poll_fn(|cx| {
            self.poll_send(cx, &mut Upload::none());
            Poll::Ready(())
        })
        .await;
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, upload: &mut Upload) {
        loop {
            while !self.out.is_empty() && !self.deaf {
                match Pin::new(&mut self.link).poll_write(cx, &self.out) {
                    Poll::Ready(Ok(written)) => self.out.advance(written),
                    // Reading will report how the peer ended.
                    Poll::Ready(Err(_)) => self.deaf = true,
                    Poll::Pending => return,
                }
            }
            if self.deaf {
                self.out.clear();
            }
            if self.put_acknowledgements() {
                continue;
            }
            if !upload.poll_frame(cx, &mut self.out) {
                return;
            }
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => return Poll::Ready(Event::Frame(frame)),
                Err(error) => return Poll::Ready(Event::Broken(error)),
                Ok(None) => {}
            }
            let buffer = self.decoder.buffer();
            if buffer.capacity() - buffer.len() < READ_AT_LEAST {
                buffer.reserve(READ_ROOM);
            }
            // The read future has no state while it is pending, so it can be recreated for each poll.
            match pin!(self.link.read_buf(buffer)).poll(cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Event::Closed),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
