//! How far compositions have come.

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::{ActivationId, Attempt};

use crate::{Lease, StoreError};

/// The step that a composition has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositionStep {
    /// What its runner needs to go on from there.
    pub state: Bytes,
    /// Attempts at this step that did not end it. One whose server vanished appears as `server restarted`, and one whose failure could not be
    /// written down as `unknown`.
    pub earlier: Vec<Attempt>,
}

/// The journal of sequences and compositions that run.
///
/// A composition is an accepted call of the [`Queue`](crate::Queue), blocking or not; the journal has the step that it has reached, so that a
/// restarted server continues there. A step is attempted at least once, and each attempt is counted before it is made.
/// [`Queue::complete`](crate::Queue::complete) removes the journal with the call. Who has the call writes, under its [`Lease`], and says for which
/// step: an attempt that nobody waits for any more may begin or end late, when the composition runs anew or is at another step.
///
/// A step is known by its activation, which no other step of the composition has. For one that was written down before steps were known, what
/// is written for any step counts, until the next one is reached. One attempt at a step is made after the other.
#[async_trait]
pub trait Compositions: Send + Sync {
    /// The composition is at a new step, and no attempt at it has been made. Need not be durable on return, but is when any later
    /// write to the store is acknowledged. [`StoreError::Conflict`] when the lease is over.
    async fn reach(&self, lease: Lease, step: ActivationId, state: Bytes) -> Result<(), StoreError>;

    /// Counts an attempt at the step, to be called right before it is made. Acknowledged when it is committed and fsynced; many at the
    /// same time share a commit. `false`, and nothing is counted, when the lease is over, the composition unknown, or at another step: then
    /// nothing must run. An attempt at the step that is still under way is over, and counts as failed: its failure could not be written down.
    async fn begin(&self, lease: Lease, step: ActivationId) -> Result<bool, StoreError>;

    /// The attempt at the step that was begun last failed, and why. Need not be durable on return. `false`, and nothing is written, when none is
    /// under way, the lease is over, or the composition at another step.
    async fn fail(&self, lease: Lease, step: ActivationId, failed: Attempt) -> Result<bool, StoreError>;

    /// The step that the composition has reached, to resume it after a restart: an attempt that was begun and did not end counts as failed. `None`
    /// when it has not reached any, or the lease is over.
    async fn take_up(&self, lease: Lease) -> Result<Option<CompositionStep>, StoreError>;
}
