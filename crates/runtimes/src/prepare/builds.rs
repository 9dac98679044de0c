//! Limits on builds at deploy. They run compilers on user code for a long time, so few run at once, and a
//! failed one is not repeated at once. Unpacking does not wait for them and has a queue of its own.

use std::time::Instant;

use flint_executor::{PrepareError, Progress};
use flint_model::NamespaceName;

use super::{
    failures::Failures,
    turns::{TooManyWait, Turn, Turns},
};

/// How many builds of one namespace may wait. Each keeps its code in memory.
const BUILDS_WAITING: usize = 32;
/// How many of its archives may wait. After a restart there may be one for each function that is called.
const ARCHIVES_WAITING: usize = 1024;

/// The build and unpacking queues of a server.
#[derive(Debug)]
pub(crate) struct Builds {
    turns: Turns,
    unpacking: Turns,
    failures: Failures,
}

impl Builds {
    pub(crate) fn new(at_once: usize, unpacked_at_once: usize) -> Self {
        Self {
            turns: Turns::new(at_once, BUILDS_WAITING),
            unpacking: Turns::new(unpacked_at_once, ARCHIVES_WAITING),
            failures: Failures::default(),
        }
    }

    /// Waits for the namespace's turn to build.
    pub(crate) async fn turn(
        &self,
        namespace: &NamespaceName,
        progress: Progress<'_>,
    ) -> Result<Turn, PrepareError> {
        if let Some(turn) = self.turns.try_take() {
            return Ok(turn);
        }
        progress("waiting for other builds");
        self.turns.take(namespace).await.map_err(|TooManyWait(count)| {
            PrepareError::Busy(format!(
                "{count} builds of the namespace {namespace} are waiting already (prepare.concurrent_builds run at once): deploy again when they are done"
            ))
        })
    }

    /// Waits for the namespace's turn to unpack an archive.
    pub(crate) async fn unpacking(
        &self,
        namespace: &NamespaceName,
        progress: Progress<'_>,
    ) -> Result<Turn, PrepareError> {
        if let Some(turn) = self.unpacking.try_take() {
            return Ok(turn);
        }
        progress("waiting for other archives");
        self.unpacking.take(namespace).await.map_err(|TooManyWait(count)| {
            PrepareError::Busy(format!(
                "{count} archives of the namespace {namespace} are waiting already to be unpacked: deploy again when they are done"
            ))
        })
    }

    /// Refuses a build that recently failed.
    pub(crate) fn recall(&self, address: &str) -> Result<(), PrepareError> {
        self.failures.recall(address, Instant::now()).map_or(Ok(()), |why| Err(PrepareError::Code(why)))
    }

    /// Records a failure caused by the code.
    pub(crate) fn note(&self, address: &str, error: &PrepareError) {
        if let PrepareError::Code(why) = error {
            self.failures.note(address, why, Instant::now());
        }
    }
}
