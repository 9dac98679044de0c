//! Bodies of requests and responses: whole, or as a stream with backpressure.

use bytes::Bytes;
use tokio::sync::mpsc;

/// Pieces in flight between the two ends of a streamed body; the sender waits beyond that.
const PIECES_IN_FLIGHT: usize = 8;
/// And the last word.
const ROOM: usize = PIECES_IN_FLIGHT + 1;

/// A body.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Full(Bytes),
    /// Piece by piece.
    Stream(BodyReceiver),
}

/// The receiving end of a streamed body. The stream ends well when the sender is dropped after its last piece.
pub type BodyReceiver = mpsc::Receiver<Result<Bytes, BodyError>>;

/// The sending end of a streamed body.
pub type BodySender = mpsc::Sender<Result<Bytes, BodyError>>;

/// Why a streamed body ended before its end.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// The sender went away.
    #[error("the body ended early: {0}")]
    Broken(String),
    /// More than is allowed.
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    /// Its sender kept its taker waiting for too long.
    #[error("the body came too slowly")]
    Late,
}

/// The two ends of a streamed body.
pub fn body_channel() -> (BodySender, BodyReceiver) {
    mpsc::channel(ROOM)
}

/// Room for the word that a body broke off, kept from the beginning: a receiver that has not taken a piece for long gets it too.
#[derive(Debug)]
pub struct LastWord(Option<mpsc::OwnedPermit<Result<Bytes, BodyError>>>);

impl LastWord {
    /// For a body of which nothing has been sent.
    pub fn of(sender: &BodySender) -> Self {
        Self(sender.clone().try_reserve_owned().ok())
    }

    /// The body is not complete. Without this word, the stream's end would look like the body's end.
    pub fn broken(self, why: &(impl std::fmt::Display + ?Sized)) {
        if let Some(room) = self.0 {
            room.send(Err(BodyError::Broken(why.to_string())));
        }
    }
}

impl Body {
    /// The whole body, if it has at most `limit` bytes.
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
