//! Wraps the activation log to publish records to clients that follow logs.

use std::sync::Arc;

use async_trait::async_trait;
use flint_api_native::ActivationFeed;
use flint_model::{Activation, ActivationId, NamespaceName};
use flint_store::{ActivationLog, ActivationLogStats, ActivationQuery, Page, StoreError};

/// Publishes every record and passes it on.
pub(super) struct TappedLog {
    pub(super) log: Arc<dyn ActivationLog>,
    pub(super) feed: ActivationFeed,
}

#[async_trait]
impl ActivationLog for TappedLog {
    fn append(&self, record: Activation) {
        self.feed.publish(&record);
        self.log.append(record);
    }

    fn offer(&self, record: Activation) -> Result<(), Box<Activation>> {
        // A record may be offered more than once, but is published once.
        let told = self.feed.is_followed(&record.namespace).then(|| record.clone());
        self.log.offer(record)?;
        told.iter().for_each(|record| self.feed.publish(record));
        Ok(())
    }

    async fn get(
        &self,
        namespace: &NamespaceName,
        id: ActivationId,
    ) -> Result<Option<Activation>, StoreError> {
        self.log.get(namespace, id).await
    }

    async fn list(
        &self,
        namespace: &NamespaceName,
        query: &ActivationQuery,
        page: Page,
        with_logs: bool,
    ) -> Result<Vec<Activation>, StoreError> {
        self.log.list(namespace, query, page, with_logs).await
    }

    async fn count(&self, namespace: &NamespaceName, query: &ActivationQuery) -> Result<usize, StoreError> {
        self.log.count(namespace, query).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.log.flush().await
    }

    fn stats(&self) -> ActivationLogStats {
        self.log.stats()
    }
}
