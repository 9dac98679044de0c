//! A queue that hears of failed attempts late, answers late, hands out retries late, or has no room to write, when it is told so.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
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
    /// Held while no retry that is leased is to be handed out.
    leases: tokio::sync::Mutex<()>,
    /// Whether its disk is full.
    full: AtomicBool,
    /// What was refused for that reason, each time.
    refused: Mutex<Vec<&'static str>>,
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

    /// Keeps retries that are leased from being handed out until what is given back is dropped.
    pub async fn hold_leases(&self) -> MutexGuard<'_, ()> {
        self.leases.lock().await
    }

    /// Refuses to count attempts, to write their failures, to complete calls, to take retries back and to hand out exhausted calls, while `full`.
    pub fn fill(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Whether it has refused the method of that name.
    pub fn has_refused(&self, method: &str) -> bool {
        self.refusals(method) > 0
    }

    /// How often it has.
    pub fn refusals(&self, method: &str) -> usize {
        self.refused.lock().unwrap().iter().filter(|refused| **refused == method).count()
    }

    fn room_to(&self, method: &'static str) -> Result<(), StoreError> {
        if !self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refused.lock().unwrap().push(method);
        Err(StoreError::Full { what: method.to_owned() })
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
                self.room_to("begin")?;
                self.queue().begin(lease).await
            }

            async fn lease_again(
                &self,
                owner: &str,
                limit: usize,
                lease: Duration,
                places: Places,
            ) -> Result<Vec<LeasedCall>, StoreError> {
                let leased = self.queue().lease_again(owner, limit, lease, places).await?;
                if !leased.is_empty() {
                    drop(self.leases.lock().await);
                }
                Ok(leased)
            }

            async fn give_back(&self, lease: Lease, delay: Duration) -> Result<bool, StoreError> {
                self.room_to("give_back")?;
                self.queue().give_back(lease, delay).await
            }

            async fn complete(&self, lease: Lease) -> Result<bool, StoreError> {
                self.room_to("complete")?;
                self.queue().complete(lease).await
            }

            async fn take_exhausted(&self, limit: usize) -> Result<Vec<LeasedCall>, StoreError> {
                self.room_to("take_exhausted")?;
                self.queue().take_exhausted(limit).await
            }

            async fn retry(
                &self,
                lease: Lease,
                failed: Attempt,
                delay: Duration,
                anew: bool,
            ) -> Result<bool, StoreError> {
                drop(self.before.lock().await);
                self.room_to("retry")?;
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
    fn next_due() -> Option<Timestamp>;
    fn extend(leases: &[Lease], time: Duration) -> usize;
    fn put_off(lease: Lease, delay: Duration, why: &str) -> bool;
    fn release_all_except(owner: &str) -> usize;
    fn find(namespace: &NamespaceName, activation: ActivationId) -> Option<CallState>;
    fn waiting_first(namespace: Option<&NamespaceName>) -> usize;
    fn waiting_again(namespace: Option<&NamespaceName>) -> Waiting;
    fn unreadable() -> usize;
    fn depth(namespace: Option<&NamespaceName>) -> usize;
}
