//! Frames of a call that have arrived and are not consumed yet.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use flint_executor::link::{Frame, FrameKind, MAX_HEAD, WINDOW};

/// Pieces of a body below this length are merged while they wait, because each frame has a fixed cost.
const SMALL: usize = 4 << 10;
/// Largest merged piece.
const TOGETHER: usize = 64 << 10;
/// A window of the answer's body, plus the head in the first frame.
const BYTES_MAX: usize = WINDOW + MAX_HEAD + 4;
/// The first and the last frame of an answer.
const MARKS_MAX: usize = 2;

/// The frames of one call in order. Their total memory is bounded, however small they are.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    items: VecDeque<Item>,
    bytes: usize,
    marks: usize,
}

#[derive(Debug)]
enum Item {
    Frame(Frame),
    /// Merged small pieces of a body.
    Pieces {
        call: u32,
        bytes: BytesMut,
    },
}

/// More arrived than a call may have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Inbox {
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), TooMuch> {
        let length = frame.payload.len();
        if is_mark(&frame) {
            self.marks += 1;
        }
        self.bytes += length;
        if self.bytes > BYTES_MAX || self.marks > MARKS_MAX {
            return Err(TooMuch);
        }
        if is_mark(&frame) || length >= SMALL {
            self.items.push_back(Item::Frame(frame));
            return Ok(());
        }
        match self.items.back_mut() {
            Some(Item::Pieces { bytes, .. }) if bytes.len() + length <= TOGETHER => {
                bytes.extend_from_slice(&frame.payload);
            }
            _ if length > 0 => {
                let bytes = BytesMut::from(&frame.payload[..]);
                self.items.push_back(Item::Pieces { call: frame.call, bytes });
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = match self.items.pop_front()? {
            Item::Frame(frame) => frame,
            Item::Pieces { call, bytes } => Frame::new(FrameKind::Body, call, Bytes::from(bytes)),
        };
        self.bytes -= frame.payload.len();
        if is_mark(&frame) {
            self.marks -= 1;
        }
        Some(frame)
    }
}

/// Whether a frame is more than a piece of a body.
fn is_mark(frame: &Frame) -> bool {
    frame.kind != FrameKind::Body || frame.fin
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(payload: Vec<u8>) -> Frame {
        Frame::new(FrameKind::Body, 7, payload)
    }

    proptest! {
        /// However pieces arrive and are consumed, the body is the same.
        #[test]
        fn nothing_is_lost_or_moved(
            pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9000), any::<bool>()), 0..60),
        ) {
            let (mut inbox, mut sent, mut taken) = (Inbox::default(), Vec::new(), Vec::new());
            inbox.push(Frame::new(FrameKind::Result, 7, Bytes::new())).unwrap();
            prop_assert_eq!(inbox.pop().unwrap().kind, FrameKind::Result);
            for (piece, take) in pieces {
                sent.extend_from_slice(&piece);
                inbox.push(body(piece)).unwrap();
                if take && let Some(frame) = inbox.pop() {
                    taken.extend_from_slice(&frame.payload);
                }
            }
            inbox.push(Frame { fin: true, ..body(vec![1]) }).unwrap();
            sent.push(1);
            let mut complete = false;
            while let Some(frame) = inbox.pop() {
                prop_assert!(!complete && frame.kind == FrameKind::Body && frame.call == 7);
                complete = frame.fin;
                taken.extend_from_slice(&frame.payload);
            }
            prop_assert!(complete && taken == sent);
            prop_assert_eq!((inbox.bytes, inbox.marks), (0, 0));
        }
    }

    #[test]
    fn a_window_of_single_bytes_takes_no_more_than_its_bytes() {
        let mut inbox = Inbox::default();
        for n in 0..WINDOW {
            inbox.push(body(vec![n as u8])).unwrap();
            inbox.push(body(Vec::new())).unwrap();
        }
        assert!(inbox.items.len() <= WINDOW / TOGETHER);
    }

    #[test]
    fn more_than_a_window_or_an_answer_is_too_much() {
        let mut inbox = Inbox::default();
        let pushed = (0..).map(|_| inbox.push(body(vec![0; 10_000]))).position(|pushed| pushed.is_err());
        assert_eq!(pushed, Some(BYTES_MAX / 10_000));
        for mark in [Frame::new(FrameKind::End, 7, Bytes::new()), Frame { fin: true, ..body(Vec::new()) }] {
            let mut inbox = Inbox::default();
            inbox.push(mark.clone()).unwrap();
            inbox.push(mark.clone()).unwrap();
            assert_eq!(inbox.push(mark), Err(TooMuch));
        }
    }
}
