//! Earlier versions of functions, and names for them.

use async_trait::async_trait;
use flint_model::{Alias, AliasName, Digest, Function, FunctionPath, Version};

use crate::{Expected, StoreError};

/// What becomes of a function that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacing {
    /// What has to be there.
    pub expected: Expected,
    /// How many earlier versions are kept beside those that an alias names; what is older goes.
    pub keep: usize,
    /// The alias [`AliasName::LIVE`], where there is one, names the new version from now on, and no other.
    pub live_follows: bool,
}

/// An earlier version that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub version: Version,
    /// The revision that it was.
    pub revision: u64,
    /// Some alias names it.
    pub named: bool,
}

/// Earlier versions of functions, and aliases, in the catalog that has the functions. Every write is acknowledged when it is committed and
/// fsynced; every read sees all acknowledged writes.
///
/// A version is never changed. A function that is deleted takes its versions and aliases with it; so do its package and namespace when they
/// take the function, and so does a sequence that takes its place.
#[async_trait]
pub trait Versions: Send + Sync {
    /// Writes a function as by [`Catalog::put_function`](crate::Catalog::put_function), and keeps the function that was there. One commit. A
    /// kept version with the number of the new function goes; [`StoreError::Conflict`] when an alias names that number.
    async fn replace(&self, function: &Function, how: Replacing) -> Result<u64, StoreError>;

    /// The function at `path` as it is, or was, in that version.
    async fn version(&self, path: &FunctionPath, version: Version) -> Result<Option<Function>, StoreError>;

    /// The function at `path` and all its versions that are kept, the latest first: a list, without parameters, annotations and warm-up events,
    /// which are not read. What is listed must not be called, or written back; [`Self::version`] gives a whole one.
    async fn versions(&self, path: &FunctionPath) -> Result<Vec<Function>, StoreError>;

    /// What is kept, the latest first. The function as it is is not among that.
    async fn kept(&self, path: &FunctionPath) -> Result<Vec<Kept>, StoreError>;

    /// The versions that an alias names, with their weights, as they are at one moment. `None` when there is no such alias.
    async fn targets(
        &self,
        path: &FunctionPath,
        alias: &AliasName,
    ) -> Result<Option<Vec<(u32, Function)>>, StoreError>;

    /// The aliases of a function in order of name.
    async fn aliases(&self, path: &FunctionPath) -> Result<Vec<Alias>, StoreError>;

    /// Writes an alias. [`StoreError::Conflict`] when a version that it names is not there; [`StoreError::TooMany`] when it would be a
    /// further one and there are `most`.
    async fn put_alias(&self, alias: &Alias, most: usize) -> Result<(), StoreError>;

    /// Deletes an alias; `false` when there was none. The versions that it named stay until further ones push them out.
    async fn delete_alias(&self, path: &FunctionPath, alias: &AliasName) -> Result<bool, StoreError>;

    /// The code that kept versions refer to, of every function of every namespace.
    async fn kept_code(&self) -> Result<Vec<Digest>, StoreError>;

    /// Every kept version that an alias names, of every function of every namespace, without what
    /// [`Catalog::all_functions`](crate::Catalog::all_functions) leaves out.
    async fn named(&self) -> Result<Vec<Function>, StoreError>;
}
