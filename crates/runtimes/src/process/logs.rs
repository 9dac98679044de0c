//! Splits a function's stdout and stderr into log lines.

use flint_model::{ByteSize, LogLine, LogStream, now_us};

/// OpenWhisk runtimes end each activation's output with this line.
pub const SENTINEL: &[u8] = b"XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX";

/// How far beyond the limit a line is searched for the sentinel.
const SENTINEL_WITHIN: usize = 4 << 10;

/// Collects lines up to a limit. Nothing is kept beyond it, so an endless flood costs no memory.
#[derive(Debug)]
pub struct Logs {
    lines: Vec<LogLine>,
    /// The unfinished last line of each stream.
    partial: [Vec<u8>; 2],
    kept: usize,
    limit: usize,
    truncated: bool,
    /// Bytes received, including those left out.
    came: u64,
    /// Which streams have shown their sentinel; `None` if sentinels are not looked for.
    sentinels: Option<[bool; 2]>,
}

impl Logs {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: ByteSize) -> Self {
        let limit = usize::try_from(limit.as_u64()).unwrap_or(usize::MAX);
        Self {
            lines: Vec::new(),
            partial: [Vec::new(), Vec::new()],
            kept: 0,
            limit,
            truncated: false,
            came: 0,
            sentinels: None,
        }
    }

    /// For output that ends with sentinel lines, which are left out.
    pub fn with_sentinels(limit: ByteSize) -> Self {
        Self { sentinels: Some([false; 2]), ..Self::new(limit) }
    }

    /// Whether both streams have shown their sentinel.
    pub fn saw_sentinels(&self) -> bool {
        self.sentinels == Some([true; 2])
    }

    /// Whether one of them has.
    pub fn saw_a_sentinel(&self) -> bool {
        self.sentinels.is_some_and(|seen| seen.contains(&true))
    }

    /// Number of bytes received, including those left out.
    pub fn came(&self) -> u64 {
        self.came
    }

    /// Adds output of a stream.
    pub fn push(&mut self, stream: LogStream, bytes: &[u8]) {
        self.came += bytes.len() as u64;
        if bytes.is_empty() || (self.truncated && self.is_full() && self.sentinels.is_none()) {
            return;
        }
        let time_us = now_us();
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        let Some(mut piece) = pieces.next() else { return };
        // Every piece but the last ended with a newline.
        for next in pieces {
            let mut line = std::mem::take(&mut self.partial[index(stream)]);
            if line.is_empty() {
                self.line(stream, piece, time_us);
            } else {
                self.extend(&mut line, piece);
                self.line(stream, &line, time_us);
            }
            piece = next;
        }
        if !piece.is_empty() {
            let mut line = std::mem::take(&mut self.partial[index(stream)]);
            self.extend(&mut line, piece);
            self.partial[index(stream)] = line;
        }
    }

    /// Appends to an unfinished line as much as the limit still allows.
    fn extend(&mut self, line: &mut Vec<u8>, more: &[u8]) {
        // A sentinel after text without a newline, or beyond the limit, must still be recognised.
        let slack = if self.sentinels.is_some() { SENTINEL_WITHIN } else { 0 };
        let room = (self.limit - self.kept + slack).saturating_sub(line.len());
        if more.len() > room {
            self.truncated = true;
        }
        line.extend_from_slice(&more[..more.len().min(room)]);
    }

    fn line(&mut self, stream: LogStream, line: &[u8], time_us: u64) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(seen) = &mut self.sentinels
            && let Some(before) = line.strip_suffix(SENTINEL)
        {
            seen[index(stream)] = true;
            if !before.is_empty() {
                self.keep(stream, before, time_us);
            }
            return;
        }
        self.keep(stream, line, time_us);
    }

    /// Whether no further line is kept. An unfinished line that is too long does not fill the log yet: what the other stream says
    /// meanwhile may be why the function fails.
    fn is_full(&self) -> bool {
        self.kept >= self.limit || self.lines.len() >= LogLine::most_within(self.limit)
    }

    fn keep(&mut self, stream: LogStream, line: &[u8], time_us: u64) {
        if self.is_full() {
            self.truncated = true;
            return;
        }
        // The newline counts, because empty lines can be a flood too.
        let cost = line.len() + 1;
        let room = self.limit - self.kept;
        let line = if cost > room {
            self.truncated = true;
            self.kept = self.limit;
            &line[..line.len().min(room)]
        } else {
            self.kept += cost;
            line
        };
        self.lines.push(LogLine { time_us, stream, text: String::from_utf8_lossy(line).into_owned() });
    }

    /// All lines, including unfinished ones, and whether some are missing because of the limit.
    pub fn finish(mut self) -> (Vec<LogLine>, bool) {
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let partial = std::mem::take(&mut self.partial[index(stream)]);
            if !partial.is_empty() {
                self.line(stream, &partial, now_us());
            }
        }
        (self.lines, self.truncated)
    }

    /// The last line of stderr that is not blank, for an error message.
    pub fn last_error_line(&self) -> Option<String> {
        let partial = String::from_utf8_lossy(&self.partial[1]).trim().to_owned();
        if !partial.is_empty() {
            return Some(partial);
        }
        let lines = self.lines.iter().rev().filter(|line| line.stream == LogStream::Stderr);
        lines.map(|line| line.text.trim()).find(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Whether stderr has such a line.
    pub fn stderr_has(&self, such: impl Fn(&str) -> bool) -> bool {
        self.lines.iter().any(|line| line.stream == LogStream::Stderr && such(&line.text))
    }
}

const fn index(stream: LogStream) -> usize {
    match stream {
        LogStream::Stdout => 0,
        LogStream::Stderr => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(logs: Logs) -> (Vec<String>, bool) {
        let (lines, truncated) = logs.finish();
        (lines.into_iter().map(|line| line.text).collect(), truncated)
    }

    #[test]
    fn lines_come_in_order_whatever_the_pieces() {
        let mut logs = Logs::new(ByteSize::kib(1));
        for piece in ["a", "b\nc\r\n", "\n", "dÃ"] {
            logs.push(LogStream::Stdout, piece.as_bytes());
        }
        logs.push(LogStream::Stderr, b"e\xff");
        assert_eq!(logs.last_error_line().as_deref(), Some("e\u{fffd}"));
        assert_eq!(
            texts(logs),
            (vec!["ab".into(), "c".into(), "".into(), "d\u{c3}".into(), "e\u{fffd}".into()], false)
        );
    }

    #[test]
    fn lines_are_put_together_stream_by_stream() {
        use LogStream::{Stderr, Stdout};
        let mut logs = Logs::new(ByteSize::kib(1));
        let writes: [(_, &[u8]); 4] = [(Stdout, b"a"), (Stderr, b"x\r\n"), (Stdout, b"b\n"), (Stderr, b"y")];
        for (stream, bytes) in writes {
            logs.push(stream, bytes);
        }
        assert_eq!(texts(logs), (vec!["x".into(), "ab".into(), "y".into()], false));
    }

    #[test]
    fn what_exceeds_the_limit_is_left_out_and_said() {
        let mut logs = Logs::new(ByteSize::bytes(8));
        logs.push(LogStream::Stdout, b"12345\n6789\nabc\n");
        assert_eq!(texts(logs), (vec!["12345".into(), "67".into()], true));
        let mut full = Logs::new(ByteSize::bytes(4));
        full.push(LogStream::Stdout, b"abc\n");
        assert_eq!(texts(full), (vec!["abc".into()], false));
        let mut endless = Logs::new(ByteSize::bytes(8));
        for _ in 0..1000 {
            endless.push(LogStream::Stdout, &[b'x'; 1000]);
        }
        assert!(endless.partial[0].len() < 100);
        assert_eq!(texts(endless), (vec!["x".repeat(8)], true));
        let mut empty = Logs::new(ByteSize::mib(1));
        empty.push(LogStream::Stdout, &vec![b'\n'; 1 << 20]);
        let (lines, truncated) = empty.finish();
        assert_eq!((lines.len(), truncated), (LogLine::most_within(1 << 20), true));
        let mut none = Logs::new(ByteSize::bytes(0));
        none.push(LogStream::Stdout, b"a\nb");
        assert_eq!(texts(none), (vec![], true));
        assert_eq!(texts(Logs::new(ByteSize::bytes(0))), (vec![], false));
    }

    #[test]
    fn a_line_without_an_end_does_not_silence_the_other_stream() {
        let mut logs = Logs::new(ByteSize::bytes(20));
        for _ in 0..100 {
            logs.push(LogStream::Stdout, &[b'x'; 1000]);
        }
        logs.push(LogStream::Stderr, b"panicked\n");
        assert_eq!(logs.last_error_line().as_deref(), Some("panicked"));
        assert_eq!(texts(logs), (vec!["panicked".into(), "x".repeat(11)], true));
    }

    #[test]
    fn sentinels_are_seen_and_left_out() {
        let mut logs = Logs::with_sentinels(ByteSize::bytes(6));
        logs.push(LogStream::Stdout, b"one\ntwo\nthree XXX_THE_END_OF_A_");
        logs.push(LogStream::Stdout, b"WHISK_ACTIVATION_XXX\n");
        assert!(logs.saw_a_sentinel() && !logs.saw_sentinels());
        logs.push(LogStream::Stderr, &[SENTINEL, b"\n"].concat());
        assert!(logs.saw_sentinels());
        let (texts, truncated) = texts(logs);
        assert!(texts.iter().all(|text| !text.contains("XXX")) && truncated, "{texts:?}");
    }
}
