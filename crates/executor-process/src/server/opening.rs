//! The beginning of an answer to a call that came as JSON. As long as the answer may be JSON, and thus a
//! result, it is not passed on.

use bytes::{Bytes, BytesMut};
use flint_executor::media_type;
use flint_runtimes::json;
use http::HeaderMap;

/// The beginning of an answer.
pub(super) struct Opening {
    kept: BytesMut,
    size: u64,
    /// The longest result.
    most: u64,
    may_be_json: bool,
    /// How much of it has been checked.
    looked: usize,
}

impl Opening {
    pub(super) fn new(headers: &HeaderMap, most: u64) -> Self {
        let may_be_json = media_type(headers).is_none_or(is_text);
        Self { kept: BytesMut::new(), size: 0, most, may_be_json, looked: 0 }
    }

    /// Whether it may be JSON, as far as can be told.
    pub(super) fn may_be_json(&self) -> bool {
        self.may_be_json
    }

    /// Its length so far.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether it may be JSON and is longer than a result may be.
    pub(super) fn is_too_long(&self) -> bool {
        self.may_be_json && self.size > self.most
    }

    pub(super) fn take(&mut self, piece: &[u8]) {
        let only_counted = self.is_too_long();
        self.size += piece.len() as u64;
        if only_counted {
            return;
        }
        self.kept.extend_from_slice(piece);
        // Checked each time its length has doubled: checking after every piece would take quadratic time.
        if self.may_be_json && (self.kept.len() >= self.looked * 2 || self.is_too_long()) {
            self.may_be_json = json::may_become_object_or_array(&self.kept);
            self.looked = self.kept.len();
        }
    }

    /// Takes the bytes that were kept.
    pub(super) fn kept(&mut self) -> Bytes {
        self.kept.split().freeze()
    }
}

/// Whether this is a media type of JSON, or one of text, which servers use for JSON by default.
fn is_text(media_type: &[u8]) -> bool {
    let is = |other: &[u8]| media_type.eq_ignore_ascii_case(other);
    let (text, json) = (media_type.first_chunk::<5>(), media_type.last_chunk::<5>());
    is(b"application/json")
        || json.is_some_and(|end| end.eq_ignore_ascii_case(b"+json"))
        || (text.is_some_and(|start| start.eq_ignore_ascii_case(b"text/")) && !is(b"text/event-stream"))
}

#[cfg(test)]
mod tests {
    use http::header::CONTENT_TYPE;

    use super::*;

    fn taken(media_type: Option<&'static str>, pieces: &[&str]) -> (bool, bool, u64, Bytes) {
        let headers = media_type.map(|value| (CONTENT_TYPE, value.parse().unwrap()));
        let mut opening = Opening::new(&headers.into_iter().collect(), 8);
        for piece in pieces {
            opening.take(piece.as_bytes());
        }
        (opening.may_be_json(), opening.is_too_long(), opening.size(), opening.kept())
    }

    #[test]
    fn what_may_be_json_is_told_by_its_type_and_its_beginning() {
        for json in [None, Some("application/json"), Some("Text/HTML; charset=utf-8"), Some("a/b+json")] {
            assert!(taken(json, &[]).0 && taken(json, &[" ", "[1,"]).0, "{json:?}");
            assert!(!taken(json, &["[INFO"]).0 && !taken(json, &["{}", "\n{}"]).0, "{json:?}");
        }
        for other in ["text/event-stream", "image/png", "application/x-ndjson", "application/json-seq"] {
            assert!(!taken(Some(other), &["{"]).0, "{other}");
        }
    }

    #[test]
    fn a_result_is_counted_to_its_end_and_anything_else_kept() {
        let kept = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(taken(None, &["[1,2", ",3]"]), (true, false, 7, kept("[1,2,3]")));
        assert_eq!(taken(None, &["[1,2", ",3,4,", "5]"]), (true, true, 11, kept("[1,2,3,4,")));
        assert_eq!(taken(None, &["[1,2", "]", "and more"]), (false, false, 13, kept("[1,2]and more")));
    }
}
