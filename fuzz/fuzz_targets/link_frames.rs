//! What a runtime, which user code may have taken over, sends over its link.
#![no_main]

use flint_executor::link::{
    Decoder, FrameKind, HEADER_LENGTH, LinkFailure, MAX_PAYLOAD, ResultHead, split_headed,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let mut decoder = Decoder::default();
    let mut decoded = 0;
    for chunk in bytes.chunks(usize::from(piece).max(1)) {
        decoder.buffer().extend_from_slice(chunk);
        while let Ok(Some(frame)) = decoder.next_frame() {
            decoded += HEADER_LENGTH + frame.payload.len();
            assert!(frame.payload.len() <= MAX_PAYLOAD);
            match frame.kind {
                FrameKind::Result => {
                    if let Ok((head, body)) = split_headed(frame.kind, frame.payload.clone()) {
                        assert_eq!(head.len() + body.len() + 4, frame.payload.len());
                        let _ = serde_json::from_slice::<ResultHead>(&head);
                    }
                }
                FrameKind::Error => drop(serde_json::from_slice::<LinkFailure>(&frame.payload)),
                _ => {}
            }
        }
    }
    assert!(decoded <= bytes.len());
});
