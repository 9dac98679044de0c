//! What has come of an answer to a call that came as JSON: it is waited for as long as it may be JSON, which makes it a result.

use bytes::{Bytes, BytesMut};
use flint_runtimes::json;
use http::{HeaderMap, header::CONTENT_TYPE};

/// The beginning of an answer.
pub(super) struct Opening {
    kept: BytesMut,
    size: u64,
    /// As much as a result may have.
    most: u64,
    may_be_json: bool,
    /// As much as was looked at.
    looked: usize,
}

impl Opening {
    pub(super) fn new(headers: &HeaderMap, most: u64) -> Self {
        let may_be_json = headers.get(CONTENT_TYPE).is_none_or(|value| is_text(value.as_bytes()));
        Self { kept: BytesMut::new(), size: 0, most, may_be_json, looked: 0 }
    }

    /// Whether it may be JSON, for all that can be told.
    pub(super) fn may_be_json(&self) -> bool {
        self.may_be_json
    }

    /// How long it is so far.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether it is JSON, for all that can be told, and longer than a result may be.
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
        // Each time that it is twice as long: to look at every piece would take the square of its length.
        if self.may_be_json && (self.kept.len() >= self.looked * 2 || self.is_too_long()) {
            self.may_be_json = json::may_become_object_or_array(&self.kept);
            self.looked = self.kept.len();
        }
    }

    /// What was kept, which is not kept any longer.
    pub(super) fn kept(&mut self) -> Bytes {
        self.kept.split().freeze()
    }
}

/// Whether this is JSON, or text as servers say of JSON where nobody tells them what it is.
fn is_text(media_type: &[u8]) -> bool {
    let essence = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is = |other: &[u8]| essence.eq_ignore_ascii_case(other);
    let (text, json) = (essence.first_chunk::<5>(), essence.last_chunk::<5>());
    is(b"application/json")
        || json.is_some_and(|end| end.eq_ignore_ascii_case(b"+json"))
        || (text.is_some_and(|start| start.eq_ignore_ascii_case(b"text/")) && !is(b"text/event-stream"))
}

#[cfg(test)]
mod tests {
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
