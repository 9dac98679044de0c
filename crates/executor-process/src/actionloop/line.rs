//! Puts a line of the program together from the pieces that are read.

use bytes::{Buf, Bytes, BytesMut};

/// A line until it ends.
pub(super) struct Unfinished {
    /// Its beginning.
    kept: BytesMut,
    /// Its length so far, of which not all may be kept.
    size: u64,
    most: usize,
}

impl Unfinished {
    /// Keeps at most `most` bytes of the line.
    pub(super) fn new(most: u64) -> Self {
        Self { kept: BytesMut::new(), size: 0, most: usize::try_from(most).unwrap_or(usize::MAX) }
    }

    /// Takes what belongs to the line from the front of `read`. Whether the line has ended; only then is anything
    /// left there.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> bool {
        let end = read.iter().position(|byte| *byte == b'\n');
        let piece = &read[..end.unwrap_or(read.len())];
        let room = self.most - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        self.size += piece.len() as u64;
        match end {
            Some(end) => read.advance(end + 1),
            None => read.clear(),
        }
        end.is_some()
    }

    /// What was kept of the line, without its end, and its whole length.
    pub(super) fn finish(self) -> (Bytes, u64) {
        (self.kept.freeze(), self.size)
    }
}

/// Reads any output, of which so many bytes come at a time, as lines, each as a report and as an answer; for fuzz
/// targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_lines(at_a_time: u8, output: &[u8]) {
    const MOST: u64 = 64;
    let mut lines = output.split(|byte| *byte == b'\n');
    let (mut read, mut line) = (BytesMut::new(), Unfinished::new(MOST));
    for piece in output.chunks(usize::from(at_a_time).max(1)) {
        read.extend_from_slice(piece);
        while line.take(&mut read) {
            let (text, size) = std::mem::replace(&mut line, Unfinished::new(MOST)).finish();
            let whole = lines.next().unwrap_or_default();
            assert_eq!(size, whole.len() as u64);
            assert_eq!(&text[..], &whole[..whole.len().min(MOST as usize)]);
            let _ = super::instance::acknowledged(&text);
            let _ = flint_runtimes::outcome::json(text, MOST);
        }
        assert!(read.is_empty(), "something was read and not taken");
    }
    assert_eq!(lines.count(), 1, "only the last line has no end");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of the lines in these pieces, and the 4 bytes that are kept of each.
    fn of(pieces: &[&str]) -> Vec<String> {
        let (mut read, mut line, mut lines) = (BytesMut::new(), Unfinished::new(4), Vec::new());
        for piece in pieces {
            read.extend_from_slice(piece.as_bytes());
            while line.take(&mut read) {
                let (text, size) = std::mem::replace(&mut line, Unfinished::new(4)).finish();
                lines.push(format!("{size}: {}", String::from_utf8_lossy(&text)));
            }
        }
        lines
    }

    #[test]
    fn a_line_is_the_same_whatever_the_pieces() {
        for pieces in [&["{}\n\n[1]\nrest"][..], &["{", "}", "\n", "\n[", "1]\n", "re", "st"]] {
            assert_eq!(of(pieces), ["2: {}", "0: ", "3: [1]"]);
        }
        assert!(of(&["no end"]).is_empty());
    }

    #[test]
    fn of_a_long_line_the_beginning_is_kept() {
        assert_eq!(of(&["1234\n", "12", "345", "6\n1\n"]), ["4: 1234", "6: 1234", "1: 1"]);
    }
}
