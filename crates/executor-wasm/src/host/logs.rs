//! Turns a function's stdout and stderr into log lines of its activation.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use flint_model::{ByteSize, LogLine, LogStream};
use flint_runtimes::process::logs::Logs;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

/// How much a guest may write at a time; it asks again for the rest.
const AT_ONCE: usize = 64 << 10;

/// Collects the log lines of one call. Clones share the collection.
#[derive(Clone, Debug)]
pub struct LogSink(Arc<Mutex<Logs>>);

impl LogSink {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: ByteSize) -> Self {
        Self(Arc::new(Mutex::new(Logs::new(limit))))
    }

    /// Adds output.
    pub fn write(&self, stream: LogStream, bytes: &[u8]) {
        self.logs().push(stream, bytes);
    }

    /// A guest's stdout or stderr that is collected here.
    pub fn stream(&self, stream: LogStream) -> LoggedStream {
        LoggedStream { sink: self.clone(), stream }
    }

    /// The log lines, including unfinished ones, and whether some are missing because of the limit. Later
    /// output is lost.
    pub fn finish(&self) -> (Vec<LogLine>, bool) {
        std::mem::replace(&mut *self.logs(), Logs::new(ByteSize::bytes(0))).finish()
    }

    /// The last line of stderr that is not blank, for an error message.
    pub fn last_error_line(&self) -> Option<String> {
        self.logs().last_error_line()
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

    #[test]
    fn what_is_written_after_the_end_is_lost() {
        let sink = LogSink::new(ByteSize::bytes(100));
        sink.write(LogStream::Stderr, b"said");
        assert_eq!(sink.last_error_line().as_deref(), Some("said"));
        let (lines, truncated) = sink.finish();
        assert_eq!((lines.len(), &*lines[0].text, truncated), (1, "said", false));
        sink.write(LogStream::Stdout, b"late\n");
        sink.write(LogStream::Stderr, b"late");
        assert!(sink.finish().0.is_empty() && sink.last_error_line().is_none());
    }
}
