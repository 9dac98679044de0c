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
    /// The subject on whose behalf it runs.
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
    /// The activation of the dead letter that this call was redriven from.
    pub cause: Option<ActivationId>,
    /// Its caller waited for the result and may have been promised the record instead, which is kept even for a namespace that keeps no others.
    pub promised: bool,
}

/// One lease of a call. Whatever is done with a call that somebody has names the lease it is done under, so that who had the call before changes
/// nothing about it any more: not even the same server, to which it may come back as the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The call.
    pub activation: ActivationId,
    /// Counts the leases of that call, from 1.
    pub number: u32,
}

impl Lease {
    /// The one with which a call is accepted.
    pub fn first(activation: ActivationId) -> Self {
        Self { activation, number: 1 }
    }
}

/// A call that one server may run until its lease ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedCall {
    /// The call.
    pub call: QueuedCall,
    /// What it is done under.
    pub lease: Lease,
    /// The attempt that would begin next, from 1.
    pub attempt: u32,
    /// The outcomes of earlier attempts. One whose server died is there as `lease expired` or `server restarted`.
    pub earlier: Vec<Attempt>,
}

/// Where a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPhase {
    /// It waits for its turn.
    Waiting,
    /// It failed before, and waits for its next attempt until then.
    Delayed(Timestamp),
    /// The host could not run it, and it is put off.
    PutOff {
        /// Until when.
        until: Timestamp,
        /// What the host lacks.
        why: String,
    },
    /// An attempt is under way, or a step of a composition.
    Running,
    /// It has used up its attempts; its record is about to be written.
    Exhausted,
    /// It is a dead letter.
    Dead,
}

/// An accepted call that is not over, or did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallState {
    /// The call, without its arguments.
    pub call: QueuedCall,
    /// What it waits for, or does.
    pub phase: CallPhase,
    /// Attempts begun.
    pub begun: u32,
    /// The outcomes of those that ended.
    pub attempts: Vec<Attempt>,
}

/// How many further calls of a namespace may be leased.
pub type Places = Arc<dyn Fn(&NamespaceName) -> usize + Send + Sync>;

/// Whether a server holds a call in memory under this lease: it waits there for its turn, or runs.
pub type Holds = Arc<dyn Fn(Lease) -> bool + Send + Sync>;

/// Calls that have failed before or were given back, and that nobody holds: waiting for their delay, or for a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Calls.
    pub calls: usize,
    /// What they take: arguments, attempts and names.
    pub bytes: u64,
}

/// Accepted asynchronous calls: each runs at least once, and never more often than its policy says.
///
/// A call is in one of these states:
///
/// - *due*, or due after a delay;
/// - *leased*: a server holds it until its turn. This is not an attempt, however often it happens;
/// - *begun*: that server runs it. An attempt counts from [`Self::begin`];
/// - *exhausted*: it has used up its attempts;
/// - a [dead letter](crate::DeadLetters).
///
/// Calls are leased to namespaces in turn. New calls and calls that failed before are queued apart, so that a namespace whose calls fail does
/// not delay its own new ones either.
///
/// `owner` names one run of a server: after a restart it has another name.
///
/// A [`Lease`] is over when calls are asked for after its time, with its server ([`Self::release_all_except`]), or with what ends it:
/// [`Self::complete`], [`Self::retry`], [`Self::give_back`], [`DeadLetters::bury`](crate::DeadLetters::bury). What is done under one that is over does
/// nothing, and says so.
///
/// A write is durable (committed and fsynced) when its method returns, unless the method says otherwise; concurrent writes share a commit.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Accepts a call and leases it to `owner` at once, with its [first lease](Lease::first). [`StoreError::Conflict`] when the activation was accepted before,
    /// [`StoreError::NoNamespace`] when its namespace does not exist.
    async fn enqueue(&self, call: QueuedCall, owner: &str, lease: Duration) -> Result<(), StoreError>;

    /// Accepts a call that is due at once, without a lease.
    async fn enqueue_due(&self, call: QueuedCall) -> Result<(), StoreError>;

    /// Accepts a call whose only attempt `owner` has begun already, under its [first lease](Lease::first). That attempt counts: if it does not end, the call is exhausted.
    async fn enqueue_begun(&self, call: QueuedCall, owner: &str, lease: Duration) -> Result<(), StoreError>;

    /// Accepts several calls in one commit, all of them or none: as [`Self::enqueue`] does for the owner and lease of `holder`, or as
    /// [`Self::enqueue_due`] does without a holder.
    async fn enqueue_all(
        &self,
        calls: Vec<QueuedCall>,
        holder: Option<(&str, Duration)>,
    ) -> Result<(), StoreError>;

    /// From now on leases of `owner` do not expire while `holds` says that it holds the call. The server knows this better than a clock, which
    /// may jump, or go on while the process is stopped.
    fn keep_while(&self, owner: &str, holds: Holds);

    /// Leases up to `limit` new calls (without an attempt so far) that are due: equally many of each namespace as far as there are enough, of each
    /// at most as many as `places` says, within a namespace in the order in which they were accepted.
    async fn lease(
        &self,
        owner: &str,
        limit: usize,
        lease: Duration,
        places: Places,
    ) -> Result<Vec<LeasedCall>, StoreError>;

    /// The same for calls that failed before. A call without attempts left is not among them: see [`Self::take_exhausted`].
    async fn lease_again(
        &self,
        owner: &str,
        limit: usize,
        lease: Duration,
        places: Places,
    ) -> Result<Vec<LeasedCall>, StoreError>;

    /// When the next call that failed before becomes due; a time in the past if one is due already.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Counts an attempt; to be called right before it is made. `false`, and nothing is counted, when the lease is over or has begun the call
    /// already: then the call must not be run.
    async fn begin(&self, lease: Lease) -> Result<bool, StoreError>;

    /// Extends leases of calls that still wait or run to `time` from now. Those that are over are skipped; returns how many are not.
    async fn extend(&self, leases: &[Lease], time: Duration) -> Result<usize, StoreError>;

    /// Removes a call that is over and whose record was appended. Takes effect only when every record appended to the
    /// [`ActivationLog`](crate::ActivationLog) before is durable (or was shed), so that no crash loses both the call and its record; where they
    /// cannot be made durable, it is an error and nothing has changed. Need not be durable on return (after a crash before the commit the call runs again), but later operations on the queue see it. `false`, and the call is
    /// left as it is, when the lease is over.
    async fn complete(&self, lease: Lease) -> Result<bool, StoreError>;

    /// Records the failure of the attempt begun under this lease, and makes the call due again after `delay`, or exhausted when this was the last
    /// one. With `anew`, a composition then starts over from its first step. `false`, and the call is left as it is, when the lease is over or has
    /// not begun it.
    async fn retry(
        &self,
        lease: Lease,
        failed: Attempt,
        delay: Duration,
        anew: bool,
    ) -> Result<bool, StoreError>;

    /// Gives up the lease of a call that was not begun; it is due again after `delay`. Need not be durable on return. `false`, and the call is left
    /// as it is, when the lease is over or has begun it.
    async fn give_back(&self, lease: Lease, delay: Duration) -> Result<bool, StoreError>;

    /// The same for a call that the host of the lease's owner cannot run: until it is due, [`Self::find`] tells `why`.
    async fn put_off(&self, lease: Lease, delay: Duration, why: &str) -> Result<bool, StoreError>;

    /// Ends the leases, and the attempts begun, of all owners but this one; to be called at the start of a server, when earlier owners are known to
    /// be gone. Returns how many leases there were. Exhausted calls that were handed out and not completed will be handed out again.
    async fn release_all_except(&self, owner: &str) -> Result<usize, StoreError>;

    /// Exhausted calls, each handed out once and under a lease that does not expire: the caller records their failure, then [buries](crate::DeadLetters::bury) or
    /// [completes](Self::complete) them. `attempt` is the last one, and `earlier` has all of them, the last included.
    async fn take_exhausted(&self, limit: usize) -> Result<Vec<LeasedCall>, StoreError>;

    /// The state of a call of a namespace; `None` when it is over, or there never was one.
    async fn find(
        &self,
        namespace: &NamespaceName,
        activation: ActivationId,
    ) -> Result<Option<CallState>, StoreError>;

    /// Those of the calls in [`Self::depth`] that [`Self::lease`] would hand out, of one namespace or of all.
    async fn waiting_first(&self, namespace: Option<&NamespaceName>) -> Result<usize, StoreError>;

    /// Those of the calls in [`Self::depth`] that failed before or were given back, and that nobody holds, of one namespace or of all.
    async fn waiting_again(&self, namespace: Option<&NamespaceName>) -> Result<Waiting, StoreError>;

    /// Calls that are stored and cannot be read: they are put aside, so that they hold up no others, until their namespace goes. They are in no
    /// line, and not in [`Self::depth`].
    async fn unreadable(&self) -> Result<usize, StoreError>;

    /// Calls waiting or running, of one namespace or of all. Dead letters are not among them.
    async fn depth(&self, namespace: Option<&NamespaceName>) -> Result<usize, StoreError>;
}
