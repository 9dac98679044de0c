//! Decodes a byte stream into frames.

use bytes::{Buf, BytesMut};

use super::frame::{Frame, HEADER_LENGTH, LinkError, parse_header};

/// Decodes frames from bytes that arrive in pieces of any size. After an error it yields no more frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    broken: bool,
}

impl Decoder {
    /// The buffer for bytes read from the link.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next complete frame; `None` until more bytes arrive.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, LinkError> {
        if self.broken {
            return Ok(None);
        }
        let Some(header) = self.buffer.first_chunk::<HEADER_LENGTH>() else { return Ok(None) };
        let (kind, fin, call, length) = parse_header(header).inspect_err(|_| self.broken = true)?;
        if self.buffer.len() < HEADER_LENGTH + length {
            self.buffer.reserve(HEADER_LENGTH + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER_LENGTH);
        let payload = self.buffer.split_to(length).freeze();
        Ok(Some(Frame { kind, fin, call, payload }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::link::{FrameKind, MAX_PAYLOAD};

    fn any_frame() -> impl Strategy<Value = Frame> {
        let kind = prop::sample::select(FrameKind::ALL.to_vec());
        (kind, any::<bool>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(kind, fin, call, payload)| Frame { kind, fin, call, payload: payload.into() })
    }

    proptest! {
        #[test]
        fn frames_survive_any_split(frames in prop::collection::vec(any_frame(), 0..8), piece in 1..50_usize) {
            let mut bytes = BytesMut::new();
            frames.iter().for_each(|frame| frame.encode(&mut bytes));
            let (mut decoder, mut decoded) = (Decoder::default(), Vec::new());
            for chunk in bytes.chunks(piece) {
                decoder.buffer().extend_from_slice(chunk);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    decoded.push(frame);
                }
            }
            prop_assert_eq!(decoded, frames);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut decoder = Decoder::default();
            decoder.buffer().extend_from_slice(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }

    #[test]
    fn after_an_error_there_are_no_more_frames() {
        let mut decoder = Decoder::default();
        let mut bytes = BytesMut::new();
        Frame::new(FrameKind::Ready, 0, Bytes::new()).encode(&mut bytes);
        let good = bytes.clone();
        bytes[4] = 99;
        decoder.buffer().extend_from_slice(&bytes);
        assert_eq!(decoder.next_frame(), Err(LinkError::UnknownKind(99)));
        decoder.buffer().extend_from_slice(&good);
        assert_eq!(decoder.next_frame(), Ok(None));
    }

    #[test]
    fn a_length_above_the_maximum_is_refused_before_it_is_read() {
        let mut decoder = Decoder::default();
        decoder.buffer().extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decoder.next_frame(), Err(LinkError::TooLong(u32::MAX as usize)));
        assert!(decoder.buffer().capacity() < MAX_PAYLOAD);
    }
}
