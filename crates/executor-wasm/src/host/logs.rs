//! What a function writes to its stdout and stderr, as the log lines of its activation.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use flint_model::{ByteSize, LogLine, LogStream};
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

/// How much a guest may write at once; it asks again for the rest.
const AT_ONCE: usize = 64 << 10;

/// Collects the lines of one call, in order, up to a limit. Beyond it nothing is kept, so that a flood costs no memory. Clones are
/// handles of the same collection.
#[derive(Clone, Debug)]
pub struct LogSink(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    done: Vec<LogLine>,
    /// The last line of each stream, as far as it has come.
    partial: [Vec<u8>; 2],
    /// Bytes in `done`, each line with its newline.
    kept: usize,
    limit: usize,
    truncated: bool,
}

impl LogSink {
    /// With room for `limit` bytes.
    pub fn new(limit: ByteSize) -> Self {
        let limit = usize::try_from(limit.as_u64()).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(Lines { limit, ..Lines::default() })))
    }

    /// Adds what was written.
    pub fn write(&self, stream: LogStream, bytes: &[u8]) {
        self.lines().write(stream, bytes);
    }

    /// A guest's stdout or stderr that is collected here.
    pub fn stream(&self, stream: LogStream) -> LoggedStream {
        LoggedStream { sink: self.clone(), stream }
    }

    /// What was collected, also last lines without a newline, and whether something is missing because of the limit. What is written
    /// afterwards is lost.
    pub fn finish(&self) -> (Vec<LogLine>, bool) {
        let mut lines = self.lines();
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let partial = std::mem::take(lines.partial(stream));
            if !partial.is_empty() {
                lines.keep(stream, &partial);
            }
        }
        let collected = (std::mem::take(&mut lines.done), lines.truncated);
        lines.limit = 0;
        collected
    }

    /// The last line of stderr with something in it, for an error's text.
    pub fn last_error_line(&self) -> Option<String> {
        let mut lines = self.lines();
        let partial = String::from_utf8_lossy(lines.partial(LogStream::Stderr)).trim().to_owned();
        if !partial.is_empty() {
            return Some(partial);
        }
        let errors = lines.done.iter().rev().filter(|line| line.stream == LogStream::Stderr);
        errors.map(|line| line.text.trim()).find(|text| !text.is_empty()).map(str::to_owned)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn partial(&mut self, stream: LogStream) -> &mut Vec<u8> {
        &mut self.partial[usize::from(stream == LogStream::Stderr)]
    }

    fn write(&mut self, stream: LogStream, mut bytes: &[u8]) {
        while let Some(newline) = bytes.iter().position(|byte| *byte == b'\n') {
            if self.full() {
                self.truncated = true;
                return;
            }
            let mut line = std::mem::take(self.partial(stream));
            self.extend(&mut line, &bytes[..newline]);
            self.keep(stream, &line);
            bytes = &bytes[newline + 1..];
        }
        if !bytes.is_empty() {
            let mut line = std::mem::take(self.partial(stream));
            self.extend(&mut line, bytes);
            *self.partial(stream) = line;
        }
    }

    fn full(&self) -> bool {
        self.kept >= self.limit || self.done.len() >= LogLine::most_within(self.limit)
    }

    /// Adds to an unfinished line as much as there is still room for.
    fn extend(&mut self, line: &mut Vec<u8>, more: &[u8]) {
        let room = (self.limit - self.kept.min(self.limit)).saturating_sub(line.len());
        self.truncated |= more.len() > room;
        line.extend_from_slice(&more[..more.len().min(room)]);
    }

    fn keep(&mut self, stream: LogStream, line: &[u8]) {
        if self.full() {
            self.truncated = true;
            return;
        }
        let room = self.limit - self.kept;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // The newline counts: a flood of empty lines is a flood as well.
        self.truncated |= line.len() + 1 > room;
        self.kept = self.limit.min(self.kept + line.len() + 1);
        let text = String::from_utf8_lossy(&line[..line.len().min(room)]).into_owned();
        self.done.push(LogLine { time_us: now_us(), stream, text });
    }
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// One of the guest's streams.
#[derive(Clone, Debug)]
pub struct LoggedStream {
    sink: LogSink,
    stream: LogStream,
}

impl IsTerminal for LoggedStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LoggedStream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for LoggedStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LoggedStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.sink.write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(AT_ONCE)
    }
}

impl AsyncWrite for LoggedStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.sink.write(self.stream, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(limit: u64, writes: &[(LogStream, &[u8])]) -> (Vec<String>, bool) {
        let sink = LogSink::new(ByteSize::bytes(limit));
        for (stream, bytes) in writes {
            sink.write(*stream, bytes);
        }
        let (lines, truncated) = sink.finish();
        assert!(sink.finish().0.is_empty());
        (lines.into_iter().map(|line| format!("{:?} {}", line.stream, line.text)).collect(), truncated)
    }

    #[test]
    fn lines_are_put_together_stream_by_stream() {
        use LogStream::{Stderr, Stdout};
        let writes: [(_, &[u8]); 5] =
            [(Stdout, b"a"), (Stderr, b"x\r\n"), (Stdout, b"b\n\nc"), (Stderr, b"\xff"), (Stdout, b"")];
        let (lines, truncated) = collected(1000, &writes);
        assert_eq!(lines, ["Stderr x", "Stdout ab", "Stdout ", "Stdout c", "Stderr \u{fffd}"]);
        assert!(!truncated);
    }

    #[test]
    fn nothing_is_kept_beyond_the_limit() {
        use LogStream::Stdout;
        assert_eq!(
            collected(6, &[(Stdout, b"abc\nde\nf\n")]),
            (vec!["Stdout abc".into(), "Stdout de".into()], true)
        );
        assert_eq!(collected(4, &[(Stdout, b"abc\n")]), (vec!["Stdout abc".into()], false));
        assert_eq!(collected(4, &[(Stdout, b"abcdefgh")]), (vec!["Stdout abcd".into()], true));
        assert_eq!(collected(0, &[(Stdout, b"a\n")]), (vec![], true));
        let flood = vec![b'\n'; 1 << 20];
        let (lines, truncated) = collected(100, &[(Stdout, &flood)]);
        assert!(lines.len() == 100 && truncated);
        let sink = LogSink::new(ByteSize::bytes(10));
        (0..1000).for_each(|_| sink.write(Stdout, &[b'x'; 1000]));
        assert!(sink.lines().partial(Stdout).len() <= 10);
    }
}
