//! A queue that hears of failed attempts late, answers late, or has no room to count attempts, when it is told so.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use flint_model::{ActivationId, Attempt, NamespaceName, Timestamp};
use flint_store::{CallState, Holds, Lease, LeasedCall, Places, Queue, QueuedCall, StoreError, Waiting};
use tokio::sync::MutexGuard;

/// Stands before a real queue.
#[derive(Default)]
pub struct Gated {
    queue: Mutex<Option<Arc<dyn Queue>>>,
    /// Held while no failed attempt is to be written.
    before: tokio::sync::Mutex<()>,
    /// Held while nobody is to learn that its failed attempt is written.
    gate: tokio::sync::Mutex<()>,
    /// Whether its disk is full.
    full: AtomicBool,
    /// Attempts that were not counted, and failures that were not written, for that reason.
    refused: AtomicUsize,
}

impl Gated {
    /// Lets nobody learn that its failed attempt is written until what is given back is dropped.
    pub async fn hold_retries(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    /// Keeps failed attempts from being written until what is given back is dropped.
    pub async fn hold_failures(&self) -> MutexGuard<'_, ()> {
        self.before.lock().await
    }

    /// Refuses to count attempts, and to write their failures, while `full`.
    pub fn fill(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// How often it has refused that.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    fn has_room(&self) -> Result<(), StoreError> {
        if !self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(StoreError::Full { what: "counting an attempt".to_owned() })
    }

    pub(super) fn stand_before(&self, queue: Arc<dyn Queue>) {
        *self.queue.lock().unwrap() = Some(queue);
    }

    fn queue(&self) -> Arc<dyn Queue> {
        self.queue.lock().unwrap().clone().unwrap()
    }
}

/// The queue, with these methods as the real one has them.
macro_rules! gated {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Queue for Gated {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError> {
                self.queue().$name($($argument),*).await
            })*

            async fn begin(&self, lease: Lease) -> Result<bool, StoreError> {
                self.has_room()?;
                self.queue().begin(lease).await
            }

            async fn retry(
                &self,
                lease: Lease,
                failed: Attempt,
                delay: Duration,
                anew: bool,
            ) -> Result<bool, StoreError> {
                drop(self.before.lock().await);
                self.has_room()?;
                let written = self.queue().retry(lease, failed, delay, anew).await;
                drop(self.gate.lock().await);
                written
            }

            fn keep_while(&self, owner: &str, holds: Holds) {
                self.queue().keep_while(owner, holds);
            }
        }
    };
}

gated! {
    fn enqueue(call: QueuedCall, owner: &str, lease: Duration) -> ();
    fn enqueue_due(call: QueuedCall) -> ();
    fn enqueue_begun(call: QueuedCall, owner: &str, lease: Duration) -> ();
    fn enqueue_all(calls: Vec<QueuedCall>, holder: Option<(&str, Duration)>) -> ();
    fn lease(owner: &str, limit: usize, lease: Duration, places: Places) -> Vec<LeasedCall>;
    fn lease_again(owner: &str, limit: usize, lease: Duration, places: Places) -> Vec<LeasedCall>;
    fn next_due() -> Option<Timestamp>;
    fn extend(leases: &[Lease], time: Duration) -> usize;
    fn complete(lease: Lease) -> bool;
    fn give_back(lease: Lease, delay: Duration) -> bool;
    fn put_off(lease: Lease, delay: Duration, why: &str) -> bool;
    fn release_all_except(owner: &str) -> usize;
    fn take_exhausted(limit: usize) -> Vec<LeasedCall>;
    fn find(namespace: &NamespaceName, activation: ActivationId) -> Option<CallState>;
    fn waiting_again(namespace: Option<&NamespaceName>) -> Waiting;
    fn unreadable() -> usize;
    fn depth(namespace: Option<&NamespaceName>) -> usize;
}
