//! Bodies of requests and responses, whole or as streams with backpressure.

use bytes::Bytes;
use tokio::sync::mpsc;

/// How many pieces of a streamed body may be in flight before the sender waits.
const PIECES_IN_FLIGHT: usize = 8;
/// One slot more, for [`LastWord`].
const ROOM: usize = PIECES_IN_FLIGHT + 1;

/// A body.
#[derive(Debug)]
pub enum Body {
    /// The whole body.
    Full(Bytes),
    /// A stream of pieces.
    Stream(BodyReceiver),
}

/// The receiving end of a streamed body. The body is complete when the sender is dropped after its last
/// piece.
pub type BodyReceiver = mpsc::Receiver<Result<Bytes, BodyError>>;

/// The sending end of a streamed body.
pub type BodySender = mpsc::Sender<Result<Bytes, BodyError>>;

/// Why a streamed body is incomplete.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// The sender broke off.
    #[error("the body ended early: {0}")]
    Broken(String),
    /// It is larger than allowed.
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    /// The sender took too long.
    #[error("the body came too slowly")]
    Late,
}

/// The two ends of a streamed body.
pub fn body_channel() -> (BodySender, BodyReceiver) {
    mpsc::channel(ROOM)
}

/// A reserved slot for the report that a body broke off. Reserved at the start, so that the report gets
/// through even when the receiver has not taken a piece for long and the channel is full. Dropping it reports
/// that, too: what sends the body may be ended at any moment.
#[derive(Debug)]
pub struct LastWord(Option<mpsc::OwnedPermit<Result<Bytes, BodyError>>>);

impl LastWord {
    /// Reserves the slot. Nothing may have been sent yet.
    pub fn of(sender: &BodySender) -> Self {
        Self(sender.clone().try_reserve_owned().ok())
    }

    /// Reports that the body is incomplete. Without that report the end of the stream would be taken for the
    /// end of the body.
    pub fn broken(mut self, why: &(impl std::fmt::Display + ?Sized)) {
        self.report(why.to_string());
    }

    /// The whole body has been sent.
    pub fn complete(mut self) {
        self.0 = None;
    }

    fn report(&mut self, why: String) {
        if let Some(room) = self.0.take() {
            room.send(Err(BodyError::Broken(why)));
        }
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.report("the call was ended".to_owned());
    }
}

impl Body {
    /// Collects the whole body, if it has at most `limit` bytes.
    pub async fn collect(self, limit: u64) -> Result<Bytes, BodyError> {
        let mut pieces = match self {
            Self::Full(bytes) if bytes.len() as u64 > limit => return Err(BodyError::TooLarge(limit)),
            Self::Full(bytes) => return Ok(bytes),
            Self::Stream(pieces) => pieces,
        };
        let mut whole = Vec::new();
        while let Some(piece) = pieces.recv().await {
            let piece = piece?;
            if (whole.len() + piece.len()) as u64 > limit {
                return Err(BodyError::TooLarge(limit));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.into())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Full(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_ends_when_its_sender_says_so_and_not_when_it_is_ended() {
        for complete in [true, false] {
            let (sender, body) = body_channel();
            let last_word = LastWord::of(&sender);
            let task = tokio::spawn(async move {
                let _held = sender.send(Ok(Bytes::from_static(b"a part"))).await;
                if complete {
                    last_word.complete();
                } else {
                    let _word = last_word;
                    std::future::pending::<()>().await;
                }
            });
            tokio::task::yield_now().await;
            task.abort();
            let collected = Body::Stream(body).collect(100).await;
            assert_eq!(collected.is_ok(), complete, "{collected:?}");
        }
    }
}
