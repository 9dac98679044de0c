//! Data that functions keep from call to call.

use async_trait::async_trait;
use flint_model::{ByteSize, NamespaceName, Timestamp};

use crate::{Page, StoreError};

/// Where values are: a bucket of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPath {
    /// Whose it is.
    pub namespace: NamespaceName,
    /// When the function was written that uses it. A namespace that was created after that is another one of the same name:
    /// [`StoreError::NoNamespace`].
    pub as_of: Timestamp,
    /// Its name; a bucket is there as soon as something is in it.
    pub bucket: String,
}

/// One value that is set, or removed (`None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Its new value.
    pub value: Option<Vec<u8>>,
}

/// How much a namespace may keep, in all its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueQuota {
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: ByteSize,
}

/// How much a namespace keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyValueUsage {
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// Why a value was not written.
#[derive(Debug, thiserror::Error)]
pub enum KeyValueError {
    /// It would be too much. Nothing was written.
    #[error(
        "the namespace would keep {} keys with {} bytes, more than the {} keys and {} it may",
        usage.keys, usage.bytes, quota.keys, quota.bytes
    )]
    Quota {
        /// What the namespace would keep.
        usage: KeyValueUsage,
        /// What it may.
        quota: KeyValueQuota,
    },
    /// The value to count up is not a number in decimal digits, or would exceed 64 bits.
    #[error("the value of '{key}' is not a number that can be counted up by {delta}")]
    NoCounter {
        /// The key.
        key: String,
        /// How much was to be added.
        delta: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Values by key, in buckets of namespaces. Every write is acknowledged when it is committed and fsynced; every read sees all
/// acknowledged writes.
#[async_trait]
pub trait KeyValue: Send + Sync {
    /// The values of `keys`, in the same order.
    async fn read(&self, at: &BucketPath, keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, StoreError>;

    /// Makes all changes, in order, or none. A write that makes things smaller is taken also beyond the quota.
    async fn write(
        &self,
        at: &BucketPath,
        changes: Vec<Change>,
        quota: KeyValueQuota,
    ) -> Result<(), KeyValueError>;

    /// Adds `delta` to the number at `key`, 0 when nothing is there, and gives the sum. Of several at the same time none is lost.
    async fn increment(
        &self,
        at: &BucketPath,
        key: &str,
        delta: u64,
        quota: KeyValueQuota,
    ) -> Result<u64, KeyValueError>;

    /// A page of the bucket's keys, in order of their bytes.
    async fn keys(&self, at: &BucketPath, page: Page) -> Result<Vec<String>, StoreError>;

    /// What a namespace keeps. Deleting the namespace deletes it ([`crate::Catalog::delete_namespace`]).
    async fn usage(&self, namespace: &NamespaceName) -> Result<KeyValueUsage, StoreError>;
}
