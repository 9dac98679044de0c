//! APIs of the gateway.

use async_trait::async_trait;
use flint_model::{Api, NamespaceName};

use crate::{Expected, StoreError};

/// APIs by namespace and base path. Every write is acknowledged when it is committed and fsynced; every read sees all
/// acknowledged writes. A namespace that is deleted takes its APIs with it.
#[async_trait]
pub trait Apis: Send + Sync {
    /// Writes an API if its namespace is there, else [`StoreError::NoNamespace`], and if `expected` holds, else [`StoreError::Conflict`]. The stored revision is chosen by
    /// the store and returned; `api.revision` is ignored.
    async fn put_api(&self, api: &Api, expected: Expected) -> Result<u64, StoreError>;

    /// The API at a base path.
    async fn api(&self, namespace: &NamespaceName, base_path: &str) -> Result<Option<Api>, StoreError>;

    /// Every API of a namespace, in order of base path.
    async fn apis(&self, namespace: &NamespaceName) -> Result<Vec<Api>, StoreError>;

    /// Deletes an API if it is at `revision`, else [`StoreError::Conflict`] (also when there is none).
    async fn delete_api(
        &self,
        namespace: &NamespaceName,
        base_path: &str,
        revision: u64,
    ) -> Result<(), StoreError>;
}
