//! Reads a response line by line, such as progress or logs.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::cut_short;
use crate::failure::Failure;

/// The lines of a body, as they come.
pub(crate) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    ended: bool,
}

impl Lines {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, buffer: BytesMut::new(), ended: false }
    }

    /// The next line without its end; `None` after the last. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(end + 1);
                line.truncate(end);
                if line.last() == Some(&b'\r') {
                    line.truncate(end - 1);
                }
                return Ok(Some(line.freeze()));
            }
            if self.ended {
                let rest = self.buffer.split();
                return Ok((!rest.is_empty()).then(|| rest.freeze()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(cut_short(error)),
                None => self.ended = true,
            }
        }
    }
}
