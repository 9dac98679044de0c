//! Calls that failed for good.

use async_trait::async_trait;
use flint_model::{
    ActivationId, Attempt, ByteSize, DeadLetterReason, FunctionPath, NamespaceName, RetryPolicy, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::{Lease, Page, QueuedCall, StoreError};

/// An accepted call that failed for good, kept for its owner to look at and to run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The call. Without its arguments in lists.
    pub call: QueuedCall,
    /// How large those are.
    pub arguments: ByteSize,
    /// Why there is no further attempt.
    pub reason: DeadLetterReason,
    /// When that was.
    pub died: Timestamp,
    /// All its attempts.
    pub attempts: Vec<Attempt>,
}

/// How much is kept of each namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterBounds {
    /// Letters.
    pub letters: usize,
    /// What they take: arguments, attempts and names.
    pub bytes: ByteSize,
    /// Which letter goes where there is no room for all.
    pub when_full: WhenFull,
}

/// Which letter goes where there is no room for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// The one that died first.
    #[default]
    DropOldest,
    /// The one that comes.
    DropNewest,
}

/// What became of a call that was to become a letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buried {
    /// It is kept.
    pub kept: bool,
    /// Letters that are gone because there was no room, the call itself among them where it was dropped.
    pub dropped: usize,
}

/// What a redriven call is from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// Its new activation; the old one becomes its cause.
    pub activation: ActivationId,
    /// Its new policy.
    pub policy: RetryPolicy,
    /// The transaction of the request that redrives it.
    pub transaction: String,
    /// When that was.
    pub at: Timestamp,
}

/// Which letters of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetterQuery {
    /// Only calls of this path.
    pub function: Option<FunctionPath>,
    /// The one that died first comes first.
    pub oldest_first: bool,
}

/// What there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterUsage {
    /// Letters.
    pub letters: usize,
    /// What they take.
    pub bytes: u64,
}

/// Dead letters. A call of the [`Queue`](crate::Queue) becomes one in the same transaction that ends it there, and back.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Keeps a call that failed for good as a letter, within `bounds`, and ends its lease. `failed` is its last attempt, where the queue does not have that yet. Takes
    /// effect only when every record appended to the [`ActivationLog`](crate::ActivationLog) before is durable (or was shed), and is an error
    /// where they cannot be made durable; committed and fsynced on return. Nothing happens, and it is neither kept nor dropped, when the lease is over.
    async fn bury(
        &self,
        lease: Lease,
        reason: DeadLetterReason,
        failed: Option<Attempt>,
        bounds: DeadLetterBounds,
    ) -> Result<Buried, StoreError>;

    /// Letters of a namespace, the one that died last first (ties by id, latest first), without their arguments.
    async fn list(
        &self,
        namespace: &NamespaceName,
        query: &LetterQuery,
        page: Page,
    ) -> Result<Vec<DeadLetter>, StoreError>;

    /// One letter of a namespace.
    async fn get(
        &self,
        namespace: &NamespaceName,
        activation: ActivationId,
    ) -> Result<Option<DeadLetter>, StoreError>;

    /// Turns a letter into an accepted call again, due at once and with all attempts of its policy. Committed and fsynced on return; the letter is
    /// removed by the same commit, so that it is redriven only once. `false` when there is no such letter.
    async fn redrive(
        &self,
        namespace: &NamespaceName,
        letter: ActivationId,
        redrive: Redrive,
    ) -> Result<bool, StoreError>;

    /// Removes a letter; `false` when there is no such one.
    async fn remove(&self, namespace: &NamespaceName, letter: ActivationId) -> Result<bool, StoreError>;

    /// Removes up to `limit` letters of a namespace, the oldest first, all of them or none; with `function`, only calls of that path. Returns how many.
    async fn remove_some(
        &self,
        namespace: &NamespaceName,
        function: Option<&FunctionPath>,
        limit: usize,
    ) -> Result<usize, StoreError>;

    /// Removes up to `limit` letters that died before a time, of all namespaces, the oldest first; returns how many.
    async fn expire(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// What a namespace has, or all namespaces together.
    async fn usage(&self, namespace: Option<&NamespaceName>) -> Result<DeadLetterUsage, StoreError>;
}
