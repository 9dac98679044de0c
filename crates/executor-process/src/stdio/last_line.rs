//! Finds the answer in a program's stdout: its last line. What precedes it is log.

use bytes::{Bytes, BytesMut};
use flint_executor::Fault;
use flint_model::LogStream;
use flint_runtimes::{json, outcome, process::logs::Logs};

/// The line that is the last so far.
pub(super) struct LastLine {
    /// The output from the beginning of the last line that is not blank.
    kept: BytesMut,
    /// The length of that line, of which not all may be kept.
    size: u64,
    allowed: u64,
}

impl LastLine {
    /// `allowed` is the longest answer in bytes.
    pub(super) fn new(allowed: u64) -> Self {
        Self { kept: BytesMut::new(), size: 0, allowed }
    }

    /// Adds a piece of output; logs lines that turn out not to be the last.
    pub(super) fn push(&mut self, piece: &[u8], logs: &mut Logs) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if !part.trim_ascii().is_empty() && self.kept.contains(&b'\n') {
                logs.push(LogStream::Stdout, &self.kept.split());
                self.size = 0;
            }
            self.size += part.len() as u64;
            let most = usize::try_from(self.allowed).unwrap_or(usize::MAX).saturating_add(1);
            let room = most.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") && !self.kept.ends_with(b"\n") {
                self.kept.extend_from_slice(b"\n");
            }
        }
    }

    /// The answer, if the last line is a valid one.
    pub(super) fn finish(self) -> Result<Bytes, Fault> {
        if self.size > self.allowed.saturating_add(1) {
            return Err(outcome::too_large(self.size, self.allowed, &self.kept));
        }
        let line = self.kept.freeze();
        let line = line.slice_ref(line.trim_ascii());
        if json::is_object_or_array(&line) {
            return Ok(line);
        }
        Err(Fault::InvalidAnswer { text: json::beginning(&line) })
    }
}

/// Reads any output, of which so many bytes come at a time; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_last_line(at_a_time: u8, output: &[u8]) {
    const ALLOWED: u64 = 64;
    let (mut last, mut logs) = (LastLine::new(ALLOWED), Logs::new(flint_model::ByteSize::kib(64)));
    for piece in output.chunks(usize::from(at_a_time).max(1)) {
        last.push(piece, &mut logs);
    }
    match last.finish() {
        // The limit, and the line's end.
        Ok(answer) => {
            assert!(answer.len() as u64 <= ALLOWED + 1 && json::is_object_or_array(&answer), "{answer:?}")
        }
        Err(Fault::ResultTooLarge { size, allowed, .. }) => {
            assert!(size > allowed && size <= output.len() as u64, "{size} of {}", output.len())
        }
        Err(_) => {}
    }
    drop(logs.finish());
}

#[cfg(test)]
mod tests {
    use flint_model::ByteSize;

    use super::*;

    fn of(pieces: &[&str]) -> (Result<Bytes, Fault>, Vec<String>) {
        let (mut last, mut logs) = (LastLine::new(32), Logs::new(ByteSize::kib(1)));
        for piece in pieces {
            last.push(piece.as_bytes(), &mut logs);
        }
        (last.finish(), logs.finish().0.into_iter().map(|line| line.text).collect())
    }

    #[test]
    fn what_comes_before_the_last_line_is_log() {
        for pieces in [
            &["one\ntwo\n{\"a\":1}\n"][..],
            &["one\nt", "wo\n", "{\"a\"", ":1}"],
            &["one\ntwo\n{\"a\":1}\n", "\n \n"],
        ] {
            let (answer, logs) = of(pieces);
            assert_eq!(
                (&answer.unwrap()[..], logs),
                (&b"{\"a\":1}"[..], vec!["one".to_owned(), "two".to_owned()])
            );
        }
    }

    #[test]
    fn an_answer_that_is_none_or_too_long_is_a_fault() {
        assert_eq!(of(&[]).0.unwrap_err(), Fault::InvalidAnswer { text: String::new() });
        assert_eq!(of(&["{}\nhello\n"]).0.unwrap_err(), Fault::InvalidAnswer { text: "hello".into() });
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(50));
        assert!(matches!(of(&[&long]).0, Err(Fault::ResultTooLarge { size: 58, allowed: 32, .. })));
        // A long line that is not the last one is log.
        assert_eq!(of(&[&long, "\n{}\n"]).0.unwrap(), "{}");
    }
}
