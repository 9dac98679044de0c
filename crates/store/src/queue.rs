//! Accepted asynchronous calls.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::{ActivationId, Attempt, FunctionPath, NamespaceName, RetryPolicy, Timestamp};

use crate::StoreError;

/// A call that was accepted and must be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedCall {
    /// The activation it will become.
    pub activation: ActivationId,
    /// The invoking namespace.
    pub namespace: NamespaceName,
    /// On whose behalf.
    pub subject: String,
    /// What to call; resolved again when it runs.
    pub path: FunctionPath,
    /// The arguments as they came (a JSON object), before defaults are merged.
    pub arguments: Bytes,
    /// The request's transaction id.
    pub transaction: String,
    /// When it was accepted.
    pub accepted: Timestamp,
    /// How often, when and for how long it is attempted.
    pub policy: RetryPolicy,
    /// The activation that had become a dead letter, when this is that call again.
    pub cause: Option<ActivationId>,
}

/// A call that one server may run until its lease ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedCall {
    /// The call.
    pub call: QueuedCall,
    /// The attempt that would begin next, from 1.
    pub attempt: u32,
    /// What became of the attempts that were begun before. One whose server vanished appears as `lease expired` or `server restarted`.
    pub earlier: Vec<Attempt>,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPhase {
    /// It waits for its turn.
    Waiting,
    /// It failed before, and waits for its next attempt until then.
    Delayed(Timestamp),
    /// An attempt is under way, or a step of a composition.
    Running,
    /// It had all its attempts, which is about to be written down.
    Exhausted,
    /// It is a dead letter.
    Dead,
}

/// An accepted call that is not over, or did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallState {
    /// The call, without its arguments.
    pub call: QueuedCall,
    /// Where it is.
    pub phase: CallPhase,
    /// Attempts begun.
    pub begun: u32,
    /// What became of those that ended.
    pub attempts: Vec<Attempt>,
}

/// How many further calls of a namespace may be leased.
pub type Places = Arc<dyn Fn(&NamespaceName) -> usize + Send + Sync>;

/// Whether a server has a call in its hands.
pub type Holds = Arc<dyn Fn(ActivationId) -> bool + Send + Sync>;

/// Calls that have failed before and that nobody holds: waiting for their delay, or for a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Calls.
    pub calls: usize,
    /// What they take: arguments, attempts and names.
    pub bytes: u64,
}

/// Accepted asynchronous calls: each runs at least once, and never more often than its policy says.
///
/// A call is *due* (or will be after a delay), *leased* to a server, *begun* by that server, *exhausted*, or a [dead letter](crate::DeadLetters). To be leased is to wait
/// in a server's hands, and is no attempt however often it happens: an attempt counts from [`Self::begin`].
///
/// Namespaces take turns wherever calls are taken out. Calls that no attempt has been made at stand apart from those that have failed before, so that a
/// namespace whose calls fail does not keep its own others waiting either.
///
/// `owner` names one server's life: a server that restarts takes a new name.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Accepts a call and leases it to `owner` at once. Acknowledged when it is committed and fsynced; many at the same time
    /// share a commit. [`StoreError::Conflict`] when the activation was accepted before, [`StoreError::NoNamespace`] when its namespace is not
    /// there.
    async fn enqueue(&self, call: QueuedCall, owner: &str, lease: Duration) -> Result<(), StoreError>;

    /// The same for a call that nobody holds: it is due at once.
    async fn enqueue_due(&self, call: QueuedCall) -> Result<(), StoreError>;

    /// Accepts a call whose only attempt `owner` has begun already: it counts. When that does not come to an end, the call is exhausted.
    async fn enqueue_begun(&self, call: QueuedCall, owner: &str, lease: Duration) -> Result<(), StoreError>;

    /// Accepts several calls, all of them or none, in one commit; each as by [`Self::enqueue`] for the `holder`, owner and lease, or as by
    /// [`Self::enqueue_due`] where there is none.
    async fn enqueue_all(
        &self,
        calls: Vec<QueuedCall>,
        holder: Option<(&str, Duration)>,
    ) -> Result<(), StoreError>;

    /// From now on the leases of `owner` do not end while `holds` says that it has the call in its hands: it knows better than a clock, which may jump
    /// or have gone on while the server stood still.
    fn keep_while(&self, owner: &str, holds: Holds);

    /// Leases up to `limit` calls that are due and that no attempt has been made at: as many of one namespace as of another where there are enough, within a
    /// namespace in the order in which they were accepted.
    async fn lease(&self, owner: &str, limit: usize, lease: Duration) -> Result<Vec<LeasedCall>, StoreError>;

    /// The same for calls that have failed before, of each namespace at most as many as `places` says. A call with no attempts left is never
    /// given: see [`Self::take_exhausted`].
    async fn lease_again(
        &self,
        owner: &str,
        limit: usize,
        lease: Duration,
        places: Places,
    ) -> Result<Vec<LeasedCall>, StoreError>;

    /// When the next call that failed before is due; a time that has passed where one is.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Counts an attempt, to be called right before it is made. Acknowledged when it is committed and fsynced; many at the same
    /// time share a commit. `false`, and nothing is counted, when `owner` does not hold the call or has begun it already: then it
    /// must not run it.
    async fn begin(&self, owner: &str, activation: ActivationId) -> Result<bool, StoreError>;

    /// The attempt that `owner` has begun was not made after all, and the function has seen nothing of it: it does not count, and the
    /// call is leased as it was before. Need not be durable on return. A call that `owner` has not begun is left as it is.
    async fn unbegin(&self, owner: &str, activation: ActivationId) -> Result<(), StoreError>;

    /// Extends the leases of calls that still wait or run; those that `owner` does not hold are passed over.
    async fn extend(
        &self,
        owner: &str,
        activations: &[ActivationId],
        lease: Duration,
    ) -> Result<(), StoreError>;

    /// The call is done and its record is appended: forget it. Takes effect only when every record appended to the
    /// [`ActivationLog`](crate::ActivationLog) before is durable (or was shed), so that no crash loses both the call and its record. Need not be durable on return (a crash before the commit runs it again),
    /// but later operations on the queue see it. An unknown call is no error.
    async fn complete(&self, activation: ActivationId) -> Result<(), StoreError>;

    /// The attempt failed: record why and make the call due again after `delay`, or exhausted when it was the last. With `anew`, a composition begins
    /// with its first step then. Acknowledged when it is committed and fsynced. `false`, and it is left as it is, when the call is not begun.
    async fn retry(
        &self,
        activation: ActivationId,
        failed: Attempt,
        delay: Duration,
        anew: bool,
    ) -> Result<bool, StoreError>;

    /// Gives back a call that was leased and not begun, to be due again after `delay`. Need not be durable on return. A call that `owner` does not hold is left as it is.
    async fn give_back(
        &self,
        owner: &str,
        activation: ActivationId,
        delay: Duration,
    ) -> Result<(), StoreError>;

    /// At start of a server, when it is known that `owner`s before it are gone: their leases end now, and the attempts that they had
    /// begun. How many leases there were. Exhausted calls that were handed out and not completed will be handed out again.
    async fn release_all_except(&self, owner: &str) -> Result<usize, StoreError>;

    /// Calls that have had all their attempts without an end: given once each so that their failure can be recorded, then
    /// [buried](crate::DeadLetters::bury) or [completed](Self::complete) by the caller. `attempt` is the last one, and `earlier` has them all, that one included.
    async fn take_exhausted(&self, limit: usize) -> Result<Vec<LeasedCall>, StoreError>;

    /// Where a call of a namespace is; `None` when it is over, or there never was one.
    async fn find(
        &self,
        namespace: &NamespaceName,
        activation: ActivationId,
    ) -> Result<Option<CallState>, StoreError>;

    /// Of the calls in [`Self::depth`] those that have failed before and that nobody holds, of one namespace or of all.
    async fn waiting_again(&self, namespace: Option<&NamespaceName>) -> Result<Waiting, StoreError>;

    /// Calls waiting or running, of one namespace or of all. Dead letters are not among them.
    async fn depth(&self, namespace: Option<&NamespaceName>) -> Result<usize, StoreError>;
}
