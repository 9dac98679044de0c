//! Turns a function's bytes into an answer.

use bytes::Bytes;
use flint_executor::{Fault, Reply, ReplyHead};
use flint_runtimes::{json, outcome};
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// The form of answer that a call wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Whether it came as JSON rather than as an HTTP request.
    pub(crate) json: bool,
    /// The longest JSON result.
    pub(crate) max_result: u64,
}

/// The answer for bytes without a head: a JSON result for a call that wants one, an HTTP response otherwise.
pub(crate) fn of_bytes(body: Bytes, wanted: Wanted) -> Result<Reply, Fault> {
    if json::is_object_or_array(&body) {
        if wanted.json {
            return outcome::json(body, wanted.max_result);
        }
        return Ok(Reply { head: ok("application/json"), body });
    }
    let media_type = if is_text(&body) { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    Ok(Reply { head: ok(media_type), body })
}

/// A successful response with this media type.
pub(crate) fn ok(media_type: &'static str) -> ReplyHead {
    let mut headers = HeaderMap::with_capacity(1);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    ReplyHead::Http { status: StatusCode::OK, headers }
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
        assert!(matches!(outcome::json(Bytes::from_static(b"1"), 20), Err(Fault::InvalidAnswer { .. })));
    }
}
