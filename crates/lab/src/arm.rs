//! What is measured.

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
    /// It answered, but not with what was expected.
    #[error("wrong answer: {0}")]
    WrongAnswer(String),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] std::io::Error),
}
