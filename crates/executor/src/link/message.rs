//! The messages that frames carry.

use std::borrow::Cow;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::frame::{Frame, FrameKind, LinkError, MAX_HEAD};

/// HELLO: the shim introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol, 1.
    pub protocol: u32,
    /// `nodejs`, `python`, `java`.
    pub runtime: String,
    /// The runtime's version.
    pub version: String,
    /// Sent by a runtime that is to become a snapshot: `true`, or why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<serde_json::Value>,
}

/// INIT: the code to load.
#[derive(Clone, Debug, Serialize)]
pub struct Init<'a> {
    /// Absolute path of the code inside the sandbox.
    pub code: &'a str,
    /// The entry point; absent = the language's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main: Option<&'a str>,
    /// Variables set before user code is loaded.
    pub env: serde_json::Map<String, serde_json::Value>,
    /// The function's namespace.
    pub namespace: &'a str,
    /// The function's name, with its package.
    pub name: &'a str,
    /// The function's version.
    pub version: &'a str,
    /// How many calls may run at once; absent means one. With more, output of a call comes as LOG frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// INVOKE's head.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvokeHead<'a> {
    /// The activation, 32 hex digits.
    pub activation: &'a str,
    /// When the call must be over, in ms since the epoch.
    pub deadline: u64,
    /// The request's method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'a str>,
    /// The request's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'a str>,
    /// The request's query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<&'a str>,
    /// The request's headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(&'a str, Cow<'a, str>)>,
    /// The request's transaction id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<&'a str>,
    /// A key with which the function may call Flint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<&'a str>,
    /// Where Flint can be reached from the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_host: Option<&'a str>,
    /// Whether the shim keeps the request, to repeat it when it is frozen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warmup: bool,
}

/// FREEZE: how to warm the function up before it is frozen. Answered by ACK with a
/// [`flint_model::SnapshotReport`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Freeze {
    /// How many calls the kept requests may be repeated in at most.
    pub calls: u32,
    /// How long that may take.
    pub budget_ms: u64,
    /// Whether the code reached is driven to optimised machine code.
    pub annotate: bool,
    /// A further compiler to use.
    pub jit: Option<flint_model::Jit>,
    /// Whether to move the heap to huge pages.
    pub huge_pages: bool,
}

/// RESTORE: what distinguishes a clone from its siblings.
#[derive(Clone, Debug, Serialize)]
pub struct Restore<'a> {
    /// 32 random bytes in hex.
    pub entropy: &'a str,
    /// The time, in µs since the epoch.
    pub time: u64,
    /// The instance's id.
    pub instance: &'a str,
    /// Whether the clone ends by itself after its first answer.
    pub once: bool,
    /// Variables that the snapshot was loaded without, because they belong to one call.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub env: serde_json::Map<String, serde_json::Value>,
}

/// RESULT's head; without one the result is JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultHead {
    /// The HTTP status.
    pub status: u16,
    /// The HTTP headers.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// ERROR: a failure and who caused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFailure {
    /// Who caused it.
    pub kind: ErrorKind,
    /// What happened.
    #[serde(deserialize_with = "flint_model::lenient_text")]
    pub message: String,
}

/// Who or what caused an ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The user's code.
    Developer,
    /// The peer broke the protocol.
    Protocol,
    /// The caller has gone away.
    Cancelled,
    /// A snapshot cannot be made or cannot be forked.
    Snapshot,
}

/// Appends an INVOKE or RESULT frame: `head` as JSON (nothing when `None`), then the first part of the body.
pub fn encode_headed<H: Serialize>(
    out: &mut BytesMut,
    kind: FrameKind,
    fin: bool,
    call: u32,
    head: Option<&H>,
    body: &[u8],
) -> Result<(), LinkError> {
    // The header needs the length of the head's JSON, which is written in place first and measured.
    let start = out.len();
    Frame::put_header(out, kind, fin, call, 0);
    out.put_u32(0);
    let head_start = out.len();
    if let Some(head) = head {
        serde_json::to_writer((&mut *out).writer(), head)
            .map_err(|error| LinkError::Malformed { kind: kind.as_str(), detail: error.to_string() })?;
    }
    let head_length = out.len() - head_start;
    if head_length > MAX_HEAD {
        out.truncate(start);
        return Err(LinkError::Malformed {
            kind: kind.as_str(),
            detail: format!("a head of {head_length} bytes"),
        });
    }
    out[head_start - 4..head_start].copy_from_slice(&(head_length as u32).to_be_bytes());
    let payload_length = 4 + head_length + body.len();
    out[start..start + 4].copy_from_slice(&(payload_length as u32).to_be_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Splits an INVOKE or RESULT payload into its head's JSON and the first part of the body.
pub fn split_headed(kind: FrameKind, mut payload: Bytes) -> Result<(Bytes, Bytes), LinkError> {
    let malformed = |detail: &str| LinkError::Malformed { kind: kind.as_str(), detail: detail.to_owned() };
    if payload.len() < 4 {
        return Err(malformed("shorter than its head's length"));
    }
    let head_length = payload.get_u32() as usize;
    if head_length > MAX_HEAD || head_length > payload.len() {
        return Err(malformed("its head is longer than allowed or than the frame"));
    }
    let head = payload.split_to(head_length);
    Ok((head, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_and_a_body_come_back_as_they_went() {
        let head = ResultHead { status: 201, headers: vec![("content-type".into(), "image/jpeg".into())] };
        let mut out = BytesMut::from(&b"before"[..]);
        encode_headed(&mut out, FrameKind::Result, true, 7, Some(&head), b"body").unwrap();
        let mut decoder = crate::link::Decoder::default();
        decoder.buffer().extend_from_slice(&out[6..]);
        let frame = decoder.next_frame().unwrap().unwrap();
        assert_eq!((frame.kind, frame.fin, frame.call), (FrameKind::Result, true, 7));
        let (json, body) = split_headed(frame.kind, frame.payload).unwrap();
        assert_eq!(serde_json::from_slice::<ResultHead>(&json).unwrap(), head);
        assert_eq!(&body[..], b"body");
    }

    #[test]
    fn a_head_longer_than_its_frame_is_refused() {
        for payload in [&b""[..], b"\0\0\0", b"\0\0\0\x05abcd", b"\xff\xff\xff\xffabcd"] {
            assert!(split_headed(FrameKind::Result, Bytes::copy_from_slice(payload)).is_err());
        }
    }
}
