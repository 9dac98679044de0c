//! Entities: namespaces, keys, and what namespaces hold.

use async_trait::async_trait;
use flint_model::{
    ByteSize, Collection, Entity, EntityName, EntityPath, Function, FunctionPath, KeyId, KeyRecord,
    Namespace, NamespaceName, Package, Rule, Sequence,
};

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
///
/// Functions, sequences, packages, triggers and rules share one space of names: at `(namespace, package, name)` is one entity of one
/// [`Collection`]. The methods on functions are over the same entities, and see only those that are functions.
///
/// Lists return entities without their parameters, which are not read: what is listed must not be called, or written back. A list that takes
/// `most` is refused with [`StoreError::ListTooLarge`] as soon as the JSON of its page, without parameters, exceeds it; a page with a single
/// entity is always returned. Lists never block reads of single entities.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Writes an entity. [`StoreError::NoNamespace`] when its namespace does not exist, [`StoreError::Conflict`] when `expected` does not hold or
    /// the name belongs to another collection. The revision is chosen by the store (greater than any that this name ever had) and returned;
    /// that of `entity` is ignored.
    async fn put_entity(&self, entity: &Entity, expected: Expected) -> Result<u64, StoreError>;

    /// The entity of that name, in whichever collection.
    async fn entity(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        name: &EntityName,
    ) -> Result<Option<Entity>, StoreError>;

    /// Deletes the entity of that name if it is at `revision`, else [`StoreError::Conflict`] (also when there is none). What a package
    /// holds stays: see [`Self::delete_package`].
    async fn delete_entity(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
        name: &EntityName,
        revision: u64,
    ) -> Result<(), StoreError>;

    /// Deletes a package at `revision` if it holds nothing; `with_contents`, whatever it holds goes with it. Else
    /// [`StoreError::Conflict`], and nothing is deleted.
    async fn delete_package(
        &self,
        path: &EntityPath,
        revision: u64,
        with_contents: bool,
    ) -> Result<(), StoreError>;

    /// The entities of a collection, latest `updated` first (ties by package, then name); with `package`, only those in it.
    async fn entities(
        &self,
        namespace: &NamespaceName,
        collection: Collection,
        package: Option<&EntityName>,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Entity>, StoreError>;

    /// How many [`Self::entities`] would give without a limit.
    async fn count_entities(
        &self,
        namespace: &NamespaceName,
        collection: Collection,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError>;

    /// The rules that say this trigger, whether it is there or not, in order of path.
    async fn rules_of(&self, trigger: &EntityPath) -> Result<Vec<Rule>, StoreError>;

    /// Writes a function. [`StoreError::NoNamespace`] when its namespace does not exist, [`StoreError::Conflict`] when `expected` does not hold.
    /// The revision is chosen by the store (greater than any that this path ever had) and returned; `function.revision` is ignored.
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
        most: ByteSize,
    ) -> Result<Vec<Function>, StoreError>;

    /// How many [`Self::functions`] would give without a limit.
    async fn count_functions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<usize, StoreError>;

    /// The sequences of a namespace, latest `updated` first (ties by path).
    async fn sequences(
        &self,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Sequence>, StoreError>;

    /// The packages of a namespace that everybody may use ([`Package::is_shared`]), latest `updated` first (ties by name). Packages that are not
    /// shared count neither for the page nor for `most`.
    async fn shared_packages(
        &self,
        namespace: &NamespaceName,
        page: Page,
        most: ByteSize,
    ) -> Result<Vec<Package>, StoreError>;

    /// How many [`Self::shared_packages`] would give without a limit.
    async fn count_shared_packages(&self, namespace: &NamespaceName) -> Result<usize, StoreError>;

    /// Where the functions of a namespace are, and their revisions, in order of path; with `package`, only those in it.
    async fn function_revisions(
        &self,
        namespace: &NamespaceName,
        package: Option<&EntityName>,
    ) -> Result<Vec<(FunctionPath, u64)>, StoreError>;

    /// Every function of every namespace, in order of path, for clean-up: without parameters, annotations, and options of snapshots and
    /// WebAssembly, which together may take more memory than there is.
    async fn all_functions(&self) -> Result<Vec<Function>, StoreError>;

    /// Creates or replaces a namespace.
    async fn put_namespace(&self, namespace: &Namespace) -> Result<(), StoreError>;

    /// The namespace of that name.
    async fn namespace(&self, name: &NamespaceName) -> Result<Option<Namespace>, StoreError>;

    /// Every namespace, in order of name.
    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError>;

    /// Deletes a namespace with its keys and everything that it holds, accepted calls that wait or run included: none of them begins or continues
    /// after this returns. `false` when there was none.
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
