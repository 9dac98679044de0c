//! Entities: namespaces, keys and functions.

use async_trait::async_trait;
use flint_model::{EntityName, Function, FunctionPath, KeyId, KeyRecord, Namespace, NamespaceName};

use crate::{Page, StoreError};

/// What a conditional write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Absent,
    /// The entity at this revision.
    Revision(u64),
}

/// Entities. Every write is acknowledged when it is committed and fsynced; every read sees all acknowledged writes.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Writes a function if `expected` holds, else [`StoreError::Conflict`]. The stored revision is chosen by the
    /// store (greater than any that this path ever had) and returned; `function.revision` is ignored.
    async fn put_function(&self, function: &Function, expected: Expected) -> Result<u64, StoreError>;

    /// The function at `path`.
    async fn function(&self, path: &FunctionPath) -> Result<Option<Function>, StoreError>;

    /// Deletes the function at `path` if it is at `revision`, else [`StoreError::Conflict`] (also when there is none).
    async fn delete_function(&self, path: &FunctionPath, revision: u64) -> Result<(), StoreError>;

    /// The functions of a namespace, latest `updated` first (ties by path); with `package`, only those in it.
    async fn functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        page: Page,
    ) -> Result<Vec<Function>, StoreError>;

    /// How many [`Self::functions`] would give without a limit.
    async fn count_functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError>;

    /// Every function of every namespace, in order of path: for clean-up and start.
    async fn all_functions(&self) -> Result<Vec<Function>, StoreError>;

    /// Creates or replaces a namespace.
    async fn put_namespace(&self, namespace: &Namespace) -> Result<(), StoreError>;

    /// The namespace of that name.
    async fn namespace(&self, name: &NamespaceName) -> Result<Option<Namespace>, StoreError>;

    /// Every namespace, in order of name.
    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError>;

    /// Deletes a namespace with its keys and functions; `false` when there was none.
    async fn delete_namespace(&self, name: &NamespaceName) -> Result<bool, StoreError>;

    /// Adds a key; its namespace must exist ([`StoreError::Conflict`] otherwise, or when the id is taken).
    async fn put_key(&self, key: &KeyRecord) -> Result<(), StoreError>;

    /// The key of that id.
    async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>, StoreError>;

    /// The keys of a namespace, oldest first.
    async fn keys(&self, namespace: &NamespaceName) -> Result<Vec<KeyRecord>, StoreError>;

    /// Deletes a key; `false` when there was none.
    async fn delete_key(&self, id: KeyId) -> Result<bool, StoreError>;
}
