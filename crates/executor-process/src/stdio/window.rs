//! How much of a program's output is held back before it is streamed: more while it may become a JSON result.

use bytes::{Bytes, BytesMut};
use flint_runtimes::json;

/// The beginning of an output.
pub(super) struct Window {
    kept: BytesMut,
    /// How much may be kept at present.
    bound: usize,
    /// How much may be kept of output that may become JSON; `None` if JSON is not wanted.
    most: Option<usize>,
    size: u64,
    too_long: bool,
}

impl Window {
    /// Keeps `whole` bytes, or where `result` is given the longest result while the output may be JSON.
    pub(super) fn new(whole: usize, result: Option<u64>) -> Self {
        let most = result.map(|result| usize::try_from(result).unwrap_or(usize::MAX).max(whole));
        Self { kept: BytesMut::new(), bound: whole, most, size: 0, too_long: false }
    }

    /// Adds a piece; `false` if it does not fit and the output cannot become JSON.
    pub(super) fn take(&mut self, piece: &[u8]) -> bool {
        while !self.too_long && piece.len() > self.bound - self.kept.len() {
            let Some(most) = self.most.filter(|_| json::may_become_object_or_array(&self.kept)) else {
                return false;
            };
            self.too_long = self.bound == most;
            self.bound = most;
        }
        if !self.too_long {
            self.kept.extend_from_slice(piece);
        }
        self.size += piece.len() as u64;
        true
    }

    /// The length of output that may be JSON and is longer than a result may be.
    pub(super) fn too_long(&self) -> Option<u64> {
        self.too_long.then_some(self.size)
    }

    /// Takes the bytes that were kept.
    pub(super) fn kept(&mut self) -> Bytes {
        self.kept.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_taken_whole_and_the_rest_streams() {
        let taken = |result, pieces: &[&str]| {
            let mut window = Window::new(4, result);
            let taken = pieces.iter().take_while(|piece| window.take(piece.as_bytes())).count();
            (taken, window.too_long(), window.kept())
        };
        let kept = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(taken(None, &["[1,", "2]"]), (1, None, kept("[1,")), "JSON is not wanted");
        assert_eq!(taken(Some(8), &["[1,", "2]"]), (2, None, kept("[1,2]")));
        assert_eq!(taken(Some(2), &["[1]"]), (1, None, kept("[1]")), "whoever takes it looks at its length");
        assert_eq!(taken(Some(2), &["[1,", "2]"]), (2, Some(5), kept("[1,")));
        assert_eq!(taken(Some(8), &["[1,", "2,3", ",4,5", "]"]), (4, Some(11), kept("[1,2,3")));
        assert_eq!(taken(Some(8), &["[a,", "2]"]), (1, None, kept("[a,")), "this is no JSON");
        assert_eq!(taken(Some(8), &["[1,", "2]a", "bcd"]), (2, None, kept("[1,2]a")));
    }
}
