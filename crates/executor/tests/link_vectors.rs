//! The vectors that every codec of the link protocol passes, `runtimes/link-vectors.json`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use flint_executor::link::{
    Decoder, Frame, FrameKind, HEADER_LENGTH, LinkError, MAX_HEAD, MAX_PAYLOAD, split_headed,
};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Vectors {
    header_length: usize,
    max_payload: usize,
    max_head: usize,
    kinds: Map<String, Value>,
    frames: Vec<FrameVector>,
    heads: Vec<HeadVector>,
}

#[derive(Deserialize)]
struct FrameVector {
    name: String,
    feed: Vec<Hex>,
    frames: Vec<FrameText>,
    rest: usize,
    error: Option<String>,
}

#[derive(Deserialize)]
struct FrameText {
    kind: String,
    fin: bool,
    call: u32,
    payload: Hex,
}

#[derive(Deserialize)]
struct HeadVector {
    name: String,
    payload: Hex,
    head: Option<Value>,
    body: Option<Hex>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Hex {
    Text(String),
    Repeated { repeat: String, times: usize },
}

impl Hex {
    fn bytes(&self) -> Vec<u8> {
        let decode = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        match self {
            Self::Text(text) => decode(text),
            Self::Repeated { repeat, times } => decode(repeat).repeat(*times),
        }
    }
}

fn vectors() -> Vectors {
    // From the package's own folder, where tests run: what another clone has built knows only that one's path.
    serde_json::from_slice(&std::fs::read("../../runtimes/link-vectors.json").unwrap()).unwrap()
}

fn class(error: &LinkError) -> &'static str {
    match error {
        LinkError::TooLong(_) => "length",
        LinkError::UnknownKind(_) => "kind",
        LinkError::ReservedBit => "reserved",
        LinkError::Malformed { .. } => "malformed",
    }
}

#[test]
fn the_numbers_agree() {
    let vectors = vectors();
    assert_eq!(
        (vectors.header_length, vectors.max_payload, vectors.max_head),
        (HEADER_LENGTH, MAX_PAYLOAD, MAX_HEAD)
    );
    assert_eq!(vectors.kinds.len(), FrameKind::ALL.len());
    for kind in FrameKind::ALL {
        assert_eq!(vectors.kinds[kind.as_str()], kind as u8, "{}", kind.as_str());
    }
}

#[test]
fn every_feed_gives_its_frames() {
    for vector in vectors().frames {
        let (mut decoder, mut frames, mut error) = (Decoder::default(), Vec::new(), None);
        for piece in &vector.feed {
            decoder.buffer().extend_from_slice(&piece.bytes());
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(refused) => {
                        error = Some(class(&refused).to_owned());
                        break;
                    }
                }
            }
        }
        let wanted: Vec<Frame> = vector
            .frames
            .iter()
            .map(|frame| Frame {
                kind: FrameKind::ALL.into_iter().find(|kind| kind.as_str() == frame.kind).unwrap(),
                fin: frame.fin,
                call: frame.call,
                payload: Bytes::from(frame.payload.bytes()),
            })
            .collect();
        assert!(frames == wanted, "{}", vector.name);
        assert_eq!(error, vector.error, "{}", vector.name);
        if error.is_none() {
            assert_eq!(decoder.buffer().len(), vector.rest, "{}", vector.name);
            let mut bytes = bytes::BytesMut::new();
            wanted.iter().for_each(|frame| frame.encode(&mut bytes));
            let fed: Vec<u8> = vector.feed.iter().flat_map(Hex::bytes).collect();
            assert!(fed.starts_with(&bytes), "{}: encoding", vector.name);
        }
    }
}

#[test]
fn every_headed_payload_splits() {
    for vector in vectors().heads {
        let split = split_headed(FrameKind::Invoke, vector.payload.bytes().into());
        let (head, body) = match (split, vector.error.as_deref()) {
            // This side parses the head where it knows what to expect in it.
            (Ok((head, body)), None | Some("json")) => (head, body),
            (Err(_), Some("truncated" | "length")) => continue,
            (split, error) => panic!("{}: {split:?}, wanted {error:?}", vector.name),
        };
        let parsed =
            (!head.is_empty()).then(|| serde_json::from_slice::<Map<String, Value>>(&head)).transpose();
        match vector.error {
            Some(_) => assert!(parsed.is_err(), "{}", vector.name),
            None => {
                assert_eq!(parsed.unwrap().map(Value::Object), vector.head, "{}", vector.name);
                assert_eq!(Some(body.to_vec()), vector.body.map(|body| body.bytes()), "{}", vector.name);
            }
        }
    }
}
