//! A queue whose answers about failed attempts come late, when it is told so.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use flint_model::{ActivationId, Attempt, NamespaceName, Timestamp};
use flint_store::{CallState, Holds, LeasedCall, Places, Queue, QueuedCall, StoreError, Waiting};
use tokio::sync::MutexGuard;

/// Stands before a real queue.
#[derive(Default)]
pub struct Gated {
    queue: Mutex<Option<Arc<dyn Queue>>>,
    /// Held while nobody is to learn that its failed attempt is written.
    gate: tokio::sync::Mutex<()>,
}

impl Gated {
    /// Lets nobody learn that its failed attempt is written until what is given back is dropped.
    pub async fn hold_retries(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().await
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

            async fn retry(
                &self,
                activation: ActivationId,
                failed: Attempt,
                delay: Duration,
                anew: bool,
            ) -> Result<bool, StoreError> {
                let written = self.queue().retry(activation, failed, delay, anew).await;
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
    fn begin(owner: &str, activation: ActivationId) -> bool;
    fn extend(owner: &str, activations: &[ActivationId], lease: Duration) -> ();
    fn complete(activation: ActivationId) -> ();
    fn give_back(owner: &str, activation: ActivationId, delay: Duration) -> ();
    fn put_off(owner: &str, activation: ActivationId, delay: Duration, why: &str) -> ();
    fn release_all_except(owner: &str) -> usize;
    fn take_exhausted(limit: usize) -> Vec<LeasedCall>;
    fn find(namespace: &NamespaceName, activation: ActivationId) -> Option<CallState>;
    fn waiting_again(namespace: Option<&NamespaceName>) -> Waiting;
    fn unreadable() -> usize;
    fn depth(namespace: Option<&NamespaceName>) -> usize;
}
