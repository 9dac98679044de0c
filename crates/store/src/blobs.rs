//! Content-addressed bytes: function code.

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::Digest;

use crate::StoreError;

/// Bytes under their own BLAKE3 hash.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Keeps `content` and gives its address. Acknowledged when it is durable (fsynced). Storing the same bytes
    /// twice is a no-op.
    async fn put(&self, content: Bytes) -> Result<Digest, StoreError>;

    /// The content, checked against its address; `None` when there is none.
    async fn get(&self, digest: Digest) -> Result<Option<Bytes>, StoreError>;

    /// Removes every blob that is neither in `keep` nor younger than `grace`, and says how many. The grace protects a blob whose
    /// entity is not yet written.
    async fn collect(&self, keep: &[Digest], grace: std::time::Duration) -> Result<usize, StoreError>;
}
