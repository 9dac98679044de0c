//! From a function's bytes to an answer.

use bytes::Bytes;
use flint_executor::{Fault, Reply, ReplyHead};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::de::IgnoredAny;

/// What a call asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// It came as JSON, not as an HTTP request.
    pub(crate) json: bool,
    /// The longest JSON result.
    pub(crate) max_result: u64,
}

/// Headers that concern one connection only (RFC 9110 §7.6.1).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// How much of a wrong answer is shown.
const SHOWN: usize = 1024;

/// A JSON answer, checked; or why it is none.
pub(crate) fn json(body: Bytes, allowed: u64) -> Result<Reply, Fault> {
    if body.len() as u64 > allowed {
        return Err(too_large(body.len() as u64, allowed, &body));
    }
    if !is_object_or_array(&body) {
        return Err(Fault::InvalidAnswer { text: beginning(&body) });
    }
    Ok(Reply { head: ReplyHead::Json, body })
}

/// The answer that bytes without a head are: JSON for a call that wants it, an HTTP response otherwise.
pub(crate) fn of_bytes(body: Bytes, wanted: Wanted) -> Result<Reply, Fault> {
    if is_object_or_array(&body) {
        if wanted.json {
            return json(body, wanted.max_result);
        }
        return Ok(Reply { head: ok("application/json"), body });
    }
    let media_type = if is_text(&body) { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    Ok(Reply { head: ok(media_type), body })
}

/// A response without anything particular about it.
pub(crate) fn ok(media_type: &'static str) -> ReplyHead {
    let mut headers = HeaderMap::with_capacity(1);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    ReplyHead::Http { status: StatusCode::OK, headers }
}

/// The fault of a result that is longer than allowed.
pub(crate) fn too_large(size: u64, allowed: u64, body: &[u8]) -> Fault {
    let shown = body.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
    Fault::ResultTooLarge { size, allowed, beginning: Bytes::copy_from_slice(&body[..shown]) }
}

/// The beginning of an answer, for an error's text.
pub(crate) fn beginning(text: &[u8]) -> String {
    let mut shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]).into_owned();
    if text.len() > SHOWN {
        shown.push('…');
    }
    shown
}

/// Whether `text` is exactly one JSON object or array.
pub(crate) fn is_object_or_array(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
        && std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Takes out headers that concern one connection only, also those that `Connection` names.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

fn is_text(body: &[u8]) -> bool {
    let printable =
        |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t' | '\u{1b}' | '\u{c}');
    std::str::from_utf8(body).is_ok_and(|text| text.chars().all(printable))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Wanted = Wanted { json: true, max_result: 20 };

    #[test]
    fn bytes_are_json_text_or_octets() {
        let head = |body: &'static [u8], wanted| match of_bytes(Bytes::from_static(body), wanted) {
            Ok(Reply { head: ReplyHead::Json, .. }) => "json".to_owned(),
            Ok(Reply { head: ReplyHead::Http { headers, .. }, .. }) => {
                headers[header::CONTENT_TYPE].to_str().unwrap().to_owned()
            }
            Err(fault) => fault.to_string(),
        };
        let raw = Wanted { json: false, ..JSON };
        assert_eq!(head(b"{\"a\":1}\n", JSON), "json");
        assert_eq!(head(b"{\"a\":1}", raw), "application/json");
        assert_eq!(head(b"hello", JSON), "text/plain; charset=utf-8");
        assert_eq!(head(b"\0\x01", raw), "application/octet-stream");
        assert!(head(b"[1111111111111111111111111]", JSON).contains("more than the 20"));
        assert!(matches!(json(Bytes::from_static(b"1"), 20), Err(Fault::InvalidAnswer { .. })));
    }

    #[test]
    fn connection_headers_go() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("connection", "x-own, close"), ("x-own", "1"), ("x-kept", "1"), ("te", "gzip")]
        {
            headers.insert(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
    }
}
