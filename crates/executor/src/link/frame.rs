//! The frame, the protocol's unit: a header of 12 bytes and a payload.

use bytes::{BufMut, Bytes, BytesMut};

/// Length of the header.
pub const HEADER_LENGTH: usize = 12;
/// The longest payload.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// The longest JSON head of an INVOKE or RESULT.
pub const MAX_HEAD: usize = 256 << 10;
/// How many bytes of one body a sender may have unacknowledged.
pub const WINDOW: usize = 1 << 20;

const FIN: u8 = 1;

/// A violation of the protocol by the peer. The link is unusable afterwards.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LinkError {
    /// Longer than [`MAX_PAYLOAD`].
    #[error("a frame of {0} bytes is longer than the {MAX_PAYLOAD} allowed")]
    TooLong(usize),
    /// No kind of frame has this number.
    #[error("{0} is not a kind of frame")]
    UnknownKind(u8),
    /// A bit that must be 0 is set.
    #[error("a reserved bit is set")]
    ReservedBit,
    /// The payload does not fit the frame's kind.
    #[error("a {kind} frame is malformed: {detail}")]
    Malformed {
        /// The frame's kind.
        kind: &'static str,
        /// What is wrong with it.
        detail: String,
    },
}

/// The kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the table in docs/link-protocol.md says what each is")]
pub enum FrameKind {
    Hello = 1,
    Init = 2,
    Ready = 3,
    Freeze = 4,
    Clone = 5,
    Restore = 6,
    Ack = 7,
    Invoke = 8,
    Body = 9,
    End = 10,
    Result = 11,
    Log = 12,
    Error = 13,
}

impl FrameKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 13] = [
        Self::Hello,
        Self::Init,
        Self::Ready,
        Self::Freeze,
        Self::Clone,
        Self::Restore,
        Self::Ack,
        Self::Invoke,
        Self::Body,
        Self::End,
        Self::Result,
        Self::Log,
        Self::Error,
    ];

    /// Its name in the documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Init => "INIT",
            Self::Ready => "READY",
            Self::Freeze => "FREEZE",
            Self::Clone => "CLONE",
            Self::Restore => "RESTORE",
            Self::Ack => "ACK",
            Self::Invoke => "INVOKE",
            Self::Body => "BODY",
            Self::End => "END",
            Self::Result => "RESULT",
            Self::Log => "LOG",
            Self::Error => "ERROR",
        }
    }
}

impl TryFrom<u8> for FrameKind {
    type Error = LinkError;

    fn try_from(number: u8) -> Result<Self, LinkError> {
        let index = usize::from(number).wrapping_sub(1);
        Self::ALL.get(index).copied().ok_or(LinkError::UnknownKind(number))
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// Whether it ends the body.
    pub fin: bool,
    /// The call it belongs to; 0 is the instance itself.
    pub call: u32,
    /// What it carries.
    pub payload: Bytes,
}

impl Frame {
    /// A frame without the FIN flag.
    pub fn new(kind: FrameKind, call: u32, payload: impl Into<Bytes>) -> Self {
        Self { kind, fin: false, call, payload: payload.into() }
    }

    /// Appends a frame's header for a payload of `length` bytes, which the caller appends next. `length` must
    /// not exceed [`MAX_PAYLOAD`].
    pub fn put_header(out: &mut BytesMut, kind: FrameKind, fin: bool, call: u32, length: usize) {
        debug_assert!(length <= MAX_PAYLOAD, "a body is split before it is framed");
        out.put_u32(length as u32);
        out.put_u8(kind as u8);
        out.put_u8(if fin { FIN } else { 0 });
        out.put_u16(0);
        out.put_u32(call);
    }

    /// Appends the frame in wire format.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(HEADER_LENGTH + self.payload.len());
        Self::put_header(out, self.kind, self.fin, self.call, self.payload.len());
        out.put_slice(&self.payload);
    }
}

/// Decodes a header: kind, FIN flag, call, and the payload's length.
pub(super) fn parse_header(header: &[u8; HEADER_LENGTH]) -> Result<(FrameKind, bool, u32, usize), LinkError> {
    let [l0, l1, l2, l3, kind, flags, r0, r1, c0, c1, c2, c3] = *header;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    if length > MAX_PAYLOAD {
        return Err(LinkError::TooLong(length));
    }
    let kind = FrameKind::try_from(kind)?;
    if flags & !FIN != 0 || r0 != 0 || r1 != 0 {
        return Err(LinkError::ReservedBit);
    }
    Ok((kind, flags & FIN != 0, u32::from_be_bytes([c0, c1, c2, c3]), length))
}
