//! What fires triggers.

use std::time::Duration;

use async_trait::async_trait;
use flint_model::{ByteSize, EntityPath, Feed, Timestamp};

use crate::{Expected, QueuedCall, StoreError};

/// Feeds by trigger. Every write is acknowledged when it is committed and fsynced; every read sees all acknowledged writes. A
/// trigger that is deleted takes its feed with it, and so does a namespace. One that is stored and cannot be read is named in the log and left out
/// of lists, so that it holds up no others, until it is deleted.
#[async_trait]
pub trait Feeds: Send + Sync {
    /// Writes a feed if `expected` holds and its trigger is there, else [`StoreError::Conflict`]; a further one only while its namespace
    /// has fewer than `most`, else [`StoreError::TooMany`]. The stored revision is chosen by the store and returned; `feed.revision`
    /// is ignored.
    async fn put_feed(&self, feed: &Feed, expected: Expected, most: usize) -> Result<u64, StoreError>;

    /// The feed of a trigger.
    async fn feed(&self, trigger: &EntityPath) -> Result<Option<Feed>, StoreError>;

    /// Up to `limit` feeds of all namespaces, in order of path: the first ones, or those that follow the trigger `after`, the last of the page before.
    /// It need not exist any more: paging like this skips none, whatever is written meanwhile. Fewer than `limit` where they take more than `most`
    /// as stored, but at least one: an empty page is the end.
    async fn feeds(
        &self,
        after: Option<&EntityPath>,
        limit: usize,
        most: ByteSize,
    ) -> Result<Vec<Feed>, StoreError>;

    /// Deletes the feed of a trigger; `false` when there was none.
    async fn delete_feed(&self, trigger: &EntityPath) -> Result<bool, StoreError>;

    /// Identifies this store to systems outside that keep state for it: 32 hexadecimal digits, made with the store. A backup has it too, so that a
    /// restored store takes the place of the original.
    async fn identity(&self) -> Result<String, StoreError>;

    /// Feeds that are [due](Feed::due) at `now`, those that have been for longest first; as many as of [`Feeds::feeds`].
    async fn due_feeds(&self, now: Timestamp, limit: usize, most: ByteSize) -> Result<Vec<Feed>, StoreError>;

    /// When the first one is due.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Records that a feed has fired: replaces it with `feed` and accepts `calls` as [`Queue::enqueue_all`](crate::Queue::enqueue_all) does, in one
    /// commit. [`StoreError::Conflict`], and nothing is written, when the feed is not at `feed.revision` any more. Returns its new revision.
    async fn go_on(
        &self,
        feed: &Feed,
        calls: Vec<QueuedCall>,
        holder: Option<(&str, Duration)>,
    ) -> Result<u64, StoreError>;
}
