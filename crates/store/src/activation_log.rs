//! Activation records.

use async_trait::async_trait;
use flint_model::{Activation, ActivationId, NamespaceName, Timestamp};

use crate::{Page, StoreError};

/// Which records of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivationQuery {
    /// Only those whose function was called by this name: `name` for one outside any package, else `package/name`. That is the record's
    /// `name`, in the package of its `path`, or in the binding that its annotation `binding` (`namespace/package`) names.
    pub name: Option<String>,
    /// Only those that started at this time or later.
    pub since: Option<Timestamp>,
    /// Only those that started at this time or earlier.
    pub upto: Option<Timestamp>,
}

/// What the log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivationLogStats {
    /// Records accepted.
    pub appended: u64,
    /// Records kept without their log lines, because the log could not keep up.
    pub shed_logs: u64,
    /// Records not kept at all, because the log could not keep up.
    pub shed_records: u64,
    /// Records accepted and not yet written, or not known to be durable.
    pub pending: u64,
    /// Records removed by retention.
    pub expired: u64,
    /// How often a damaged record was left out of a list.
    pub damaged_reads: u64,
    /// It takes no records any more: it was closed, or it broke.
    pub closed: bool,
}

/// Activation records, newest last.
///
/// Appending never waits and never fails: a record is queued and written within 100 ms, several in one write. A power cut loses at most that
/// window, the death of the process at most what is still pending.
///
/// The queue is bounded in records and in bytes. When it is more than half full, records lose their log lines; when it is full, new records are
/// dropped. Both are counted in [`ActivationLogStats`]. The same holds while nothing can be written (a full disk); what is pending is written
/// as soon as it can be.
///
/// A record whose id its namespace already has is ignored: a call that ran twice, because the server died before
/// [`Queue::complete`](crate::Queue::complete), keeps its first record.
#[async_trait]
pub trait ActivationLog: Send + Sync {
    /// Takes a record. It is visible to reads at once.
    fn append(&self, record: Activation);

    /// Takes a record whose id a client was promised. Where [`Self::append`] would drop it, it is given back, to be offered again after a
    /// [`Self::flush`].
    fn offer(&self, record: Activation) -> Result<(), Box<Activation>>;

    /// One record of a namespace.
    async fn get(
        &self,
        namespace: &NamespaceName,
        id: ActivationId,
    ) -> Result<Option<Activation>, StoreError>;

    /// Records of a namespace, latest start first (ties by id, latest first). Without `with_logs` the records' `logs` are empty. Results and log
    /// lines that would make the page very large are left out, with a text in their place that says so. Damaged records are left out, and
    /// counted in [`ActivationLogStats`].
    async fn list(
        &self,
        namespace: &NamespaceName,
        query: &ActivationQuery,
        page: Page,
        with_logs: bool,
    ) -> Result<Vec<Activation>, StoreError>;

    /// How many records [`Self::list`] would return without a page.
    async fn count(&self, namespace: &NamespaceName, query: &ActivationQuery) -> Result<usize, StoreError>;

    /// Returns when everything appended before is durable.
    async fn flush(&self) -> Result<(), StoreError>;

    /// What the log has done.
    fn stats(&self) -> ActivationLogStats;
}
