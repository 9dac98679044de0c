//! Secrets, encrypted. What opens them is not in the store.

use async_trait::async_trait;
use flint_model::{NamespaceName, SealedSecret, SecretName};

use crate::StoreError;

/// Encrypted secrets by namespace and name. Every write is acknowledged when it is committed and fsynced; every read sees all acknowledged
/// writes. A namespace that is deleted takes its secrets with it.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// Creates or replaces a secret; [`StoreError::NoNamespace`] when its namespace is not there, [`StoreError::TooMany`] when it would be a
    /// further one and its namespace has `most`. The stored revision is chosen by the store and returned; `secret.revision` is ignored.
    async fn put_secret(&self, secret: &SealedSecret, most: usize) -> Result<u64, StoreError>;

    /// The secret of that name.
    async fn secret(
        &self,
        namespace: &NamespaceName,
        name: &SecretName,
    ) -> Result<Option<SealedSecret>, StoreError>;

    /// The secrets of a namespace in order of name.
    async fn secrets(&self, namespace: &NamespaceName) -> Result<Vec<SealedSecret>, StoreError>;

    /// Deletes a secret; `false` when there was none.
    async fn delete_secret(&self, namespace: &NamespaceName, name: &SecretName) -> Result<bool, StoreError>;

    /// Up to `limit` secrets of all namespaces, in order of namespace and name: the first ones, or those that follow `after`, the last of the page
    /// before. It need not exist any more: paging like this skips none, whatever is written meanwhile.
    async fn all_secrets(
        &self,
        after: Option<&SealedSecret>,
        limit: usize,
    ) -> Result<Vec<SealedSecret>, StoreError>;

    /// Writes the same value encrypted anew, if the secret is still at `secret.revision` and stays at it; `false` when it is not.
    async fn reseal(&self, secret: &SealedSecret) -> Result<bool, StoreError>;
}
