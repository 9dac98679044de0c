//! What frames carry.

use std::borrow::Cow;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::frame::{Frame, FrameKind, LinkError, MAX_HEAD};

/// HELLO: what the shim is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol's version, 1.
    pub protocol: u32,
    /// `nodejs`, `python`, `java`.
    pub runtime: String,
    /// The runtime's own version.
    pub version: String,
    /// From a runtime that is to become a snapshot: `true`, or why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<serde_json::Value>,
}

/// INIT: what to load.
#[derive(Clone, Debug, Serialize)]
pub struct Init<'a> {
    /// Absolute path of the code inside the sandbox.
    pub code: &'a str,
    /// The entry point; absent = the language's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main: Option<&'a str>,
    /// Set before user code is loaded.
    pub env: serde_json::Map<String, serde_json::Value>,
    /// The function's namespace.
    pub namespace: &'a str,
    /// The function's name, with its package.
    pub name: &'a str,
    /// The function's version.
    pub version: &'a str,
    /// Calls that may run at once; absent = one. With more, what a call prints comes as LOG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// INVOKE's head.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvokeHead<'a> {
    /// The activation, 32 hex digits.
    pub activation: &'a str,
    /// When the call must have ended, in ms since the epoch.
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
    /// A key to call Flint with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<&'a str>,
    /// Where Flint is to be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_host: Option<&'a str>,
    /// The shim keeps the request, to repeat it when it is frozen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warmup: bool,
}

/// FREEZE: how far a function is warmed up before it is frozen. Answered by ACK with a [`flint_model::SnapshotReport`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Freeze {
    /// The most calls that the kept requests are repeated in.
    pub calls: u32,
    /// How long that may take.
    pub budget_ms: u64,
    /// Drive what they reach to optimised code.
    pub annotate: bool,
    /// A further compiler.
    pub jit: Option<flint_model::Jit>,
    /// Move the heap to huge pages.
    pub huge_pages: bool,
}

/// RESTORE: what makes a clone unlike its siblings.
#[derive(Clone, Debug, Serialize)]
pub struct Restore<'a> {
    /// 32 random bytes in hex.
    pub entropy: &'a str,
    /// The time, in µs since the epoch.
    pub time: u64,
    /// The instance's id.
    pub instance: &'a str,
    /// The clone ends of itself when it has answered its first call.
    pub once: bool,
    /// Variables that the snapshot was loaded without: what belongs to one call.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub env: serde_json::Map<String, serde_json::Value>,
}

/// RESULT's head; an absent one means a JSON result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultHead {
    /// The HTTP status.
    pub status: u16,
    /// The HTTP headers.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
}

/// ERROR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFailure {
    /// Whose fault.
    pub kind: ErrorKind,
    /// What happened.
    #[serde(deserialize_with = "flint_model::lenient_text")]
    pub message: String,
}

/// Whose fault an ERROR is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The user's code.
    Developer,
    /// The peer broke the protocol.
    Protocol,
    /// The caller has gone away.
    Cancelled,
    /// A snapshot cannot be made, or not be forked.
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
    // The header needs the length of the head's JSON, which is written in place and measured afterwards.
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
