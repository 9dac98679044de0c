//! The interface of what is measured.

use std::time::{Duration, Instant};

use async_trait::async_trait;

/// A measured system that answers calls.
#[async_trait]
pub trait Arm: Send + Sync {
    /// Opens a connection, which makes one call at a time; a load of concurrency n opens n of them.
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError>;

    /// Returns when no work of earlier calls is left, so that the next arm is measured alone.
    async fn settle(&self) -> Result<(), ArmError> {
        Ok(())
    }
}

/// A connection to an arm.
#[async_trait]
pub trait Connection: Send {
    /// Makes one call: returns when the response is complete and verified.
    async fn call(&mut self) -> Result<(), ArmError>;

    /// Makes the call that a schedule selects; an arm with a single call ignores the argument.
    async fn call_which(&mut self, _which: usize) -> Result<(), ArmError> {
        self.call().await
    }

    /// The same with the intended start, from which a connection that records latencies counts.
    async fn call_meant(&mut self, which: usize, _intended: Instant) -> Result<(), ArmError> {
        self.call_which(which).await
    }
}

/// Why a measurement failed.
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
    /// There was no response within this time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The response was not the expected one.
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(std::io::Error),
}

/// The error is in the text, and therefore not also the source.
impl From<std::io::Error> for ArmError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error)
    }
}

impl ArmError {
    /// The kind by which failures are counted.
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
