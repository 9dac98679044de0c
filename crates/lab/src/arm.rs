//! What is measured.

use std::time::{Duration, Instant};

use async_trait::async_trait;

/// Something that answers calls.
#[async_trait]
pub trait Arm: Send + Sync {
    /// A way to call it, one call at a time; a load of concurrency n opens n of them.
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError>;

    /// Returns when nothing of the calls made is going on any more, so that the next arm is alone.
    async fn settle(&self) -> Result<(), ArmError> {
        Ok(())
    }
}

/// A way to call an arm.
#[async_trait]
pub trait Connection: Send {
    /// One call: returns when its answer is complete and was found right.
    async fn call(&mut self) -> Result<(), ArmError>;

    /// A call of what a schedule says; an arm that has only one thing to call takes no notice.
    async fn call_which(&mut self, _which: usize) -> Result<(), ArmError> {
        self.call().await
    }

    /// The same of a call that was meant to start at `_intended`; a connection that notes what its calls take counts from then.
    async fn call_meant(&mut self, which: usize, _intended: Instant) -> Result<(), ArmError> {
        self.call_which(which).await
    }
}

/// Why a measurement is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum ArmError {
    /// The arm cannot be reached.
    #[error("cannot connect to {to}: {detail}")]
    Connect {
        /// Where.
        to: String,
        /// Why.
        detail: String,
    },
    /// It answered with another status.
    #[error("status {status} instead of {expected}: {body}")]
    Status {
        /// What it said.
        status: u16,
        /// What it should have said.
        expected: u16,
        /// The beginning of the body.
        body: String,
    },
    /// There was no answer within this time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// It answered, but not with what was expected.
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(std::io::Error),
}

/// The error is in the text, and so is not the source too.
impl From<std::io::Error> for ArmError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error)
    }
}

impl ArmError {
    /// What failures are counted by.
    pub fn kind(&self) -> String {
        match self {
            Self::Connect { .. } => "connect".into(),
            Self::Status { status, .. } => format!("status {status}"),
            Self::Timeout(_) => "timeout".into(),
            Self::WrongAnswer(_) => "wrong answer".into(),
            Self::Broken(_) => "broken".into(),
        }
    }
}
