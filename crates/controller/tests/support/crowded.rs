//! An activation log that cannot keep up, or cannot be written, when it is told so.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use async_trait::async_trait;
use flint_model::{Activation, ActivationId, NamespaceName};
use flint_store::{ActivationLog, ActivationLogStats, ActivationQuery, Page, StoreError};
use tokio::sync::MutexGuard;

/// Stands before a real log.
#[derive(Default)]
pub struct Crowded {
    log: Mutex<Option<Arc<dyn ActivationLog>>>,
    refusing: AtomicUsize,
    /// Held while no flush is to come to an end.
    gate: tokio::sync::Mutex<()>,
    unwritable: AtomicBool,
}

impl Crowded {
    /// Sheds what is appended, and gives back what is offered, all but the last of so many times; 0 = it keeps up.
    pub fn refuse(&self, records: usize) {
        self.refusing.store(records, SeqCst);
    }

    /// Lets nobody's flush come to an end until what is given back is dropped.
    pub async fn hold_flushes(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    /// Whether every flush fails from now on.
    pub fn fail(&self, fails: bool) {
        self.unwritable.store(fails, SeqCst);
    }

    pub(super) fn stand_before(&self, log: Arc<dyn ActivationLog>) {
        *self.log.lock().unwrap() = Some(log);
    }

    fn log(&self) -> Arc<dyn ActivationLog> {
        self.log.lock().unwrap().clone().unwrap()
    }
}

#[async_trait]
impl ActivationLog for Crowded {
    fn append(&self, record: Activation) {
        if self.refusing.load(SeqCst) == 0 {
            self.log().append(record);
        }
    }

    fn offer(&self, record: Activation) -> Result<(), Box<Activation>> {
        // It stays crowded for what is appended until the test says otherwise.
        match self.refusing.load(SeqCst) {
            0 | 1 => self.log().offer(record),
            _ => {
                self.refusing.fetch_sub(1, SeqCst);
                Err(Box::new(record))
            }
        }
    }

    async fn get(
        &self,
        namespace: &NamespaceName,
        id: ActivationId,
    ) -> Result<Option<Activation>, StoreError> {
        self.log().get(namespace, id).await
    }

    async fn list(
        &self,
        namespace: &NamespaceName,
        query: &ActivationQuery,
        page: Page,
        with_logs: bool,
    ) -> Result<Vec<Activation>, StoreError> {
        self.log().list(namespace, query, page, with_logs).await
    }

    async fn count(&self, namespace: &NamespaceName, query: &ActivationQuery) -> Result<usize, StoreError> {
        self.log().count(namespace, query).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        drop(self.gate.lock().await);
        if self.unwritable.load(SeqCst) {
            let detail = "the test has it so".to_owned();
            return Err(StoreError::Failed { operation: "writing activations", detail });
        }
        self.log().flush().await
    }

    fn stats(&self) -> ActivationLogStats {
        self.log().stats()
    }
}
