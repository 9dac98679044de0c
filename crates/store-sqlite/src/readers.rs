//! A pool of read-only connections, used concurrently with the writer.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use flint_store::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::{
    database,
    fault::{closed, locked},
    off_thread::off_thread,
};

/// Concurrent reads. More would contend for the same cores and page cache.
const CONNECTIONS: usize = 7;
/// Of these, for lists, so that reads of single entities, which calls wait for, always find a connection.
const LISTS: usize = 3;
/// Of these, for the server's own reads of everything, which deploys wait for.
const UPKEEP: usize = 1;
/// Of these, for the values of functions, which read as often as they like.
const VALUES: usize = 2;

/// A few read-only connections, opened when needed and kept.
pub(crate) struct Readers {
    path: PathBuf,
    permits: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    upkeep: Arc<Semaphore>,
    values: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            lists: Arc::new(Semaphore::new(LISTS)),
            upkeep: Arc::new(Semaphore::new(UPKEEP)),
            values: Arc::new(Semaphore::new(VALUES)),
            idle: Arc::default(),
        }
    }

    /// Runs `work` on a connection. It sees every write that was acknowledged before.
    pub(crate) async fn run<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed(operation))?;
        let idle = Arc::clone(&self.idle);
        let path = self.path.clone();
        off_thread(operation, move || {
            let kept = locked(&idle).pop();
            let connection = kept.map_or_else(|| database::open_reader(&path), Ok)?;
            let result = work(&connection);
            locked(&idle).push(connection);
            drop(permit); // only now, so that there are never more connections than permits
            result
        })
        .await
    }

    /// The same for lists, which may take long.
    pub(crate) async fn list<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.among(&self.lists, operation, work).await
    }

    /// The same for the server's own reads of everything, so that no client's list is in their way.
    pub(crate) async fn keep_up<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.among(&self.upkeep, operation, work).await
    }

    /// The same for the values of functions, so that these are in nobody else's way.
    pub(crate) async fn values<T, F>(&self, operation: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.among(&self.values, operation, work).await
    }

    async fn among<T, F>(
        &self,
        few: &Arc<Semaphore>,
        operation: &'static str,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = Arc::clone(few).acquire_owned().await.map_err(|_| closed(operation))?;
        self.run(operation, move |connection| {
            // Held until the read is done, even if nobody waits for it any more.
            let _permit = permit;
            work(connection)
        })
        .await
    }

    /// Refuses new reads, lets the running ones end and closes the connections.
    pub(crate) async fn close(&self) {
        if let Ok(all) = self.permits.acquire_many(CONNECTIONS as u32).await {
            self.permits.close();
            self.lists.close();
            self.upkeep.close();
            self.values.close();
            all.forget();
        }
        locked(&self.idle).clear();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::{sync::mpsc::unbounded_channel, time::timeout};

    use super::*;
    use crate::SyncMode;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lists_and_values_leave_connections_to_other_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flint.db");
        let _writer = database::open_writer(&path, SyncMode::ProcessOnly).unwrap();
        let readers = Arc::new(Readers::new(path));
        let (begun, mut under_way) = unbounded_channel();
        let (mut ends, mut lists) = (Vec::new(), Vec::new());
        for number in 0..4 * CONNECTIONS {
            let (end, ended) = mpsc::channel::<()>();
            let (readers, begun) = (Arc::clone(&readers), begun.clone());
            lists.push(tokio::spawn(async move {
                let work = move |_: &Connection| {
                    begun.send(()).unwrap();
                    let _ = ended.recv(); // until its other end is dropped
                    Ok(())
                };
                match number % 2 {
                    0 => readers.list("listing", work).await,
                    _ => readers.values("reading values", work).await,
                }
            }));
            ends.push(end);
        }
        for _ in 0..LISTS + VALUES {
            under_way.recv().await.unwrap();
        }
        let upkeep = readers.keep_up("looking", |_| Ok(()));
        timeout(Duration::from_secs(60), upkeep).await.unwrap().unwrap();
        for _ in 0..10 {
            let read = readers.run("reading", |connection| Ok(connection.is_autocommit()));
            assert!(timeout(Duration::from_secs(60), read).await.unwrap().unwrap());
        }
        assert!(under_way.try_recv().is_err(), "no further one has begun");
        drop(ends);
        for list in lists {
            list.await.unwrap().unwrap();
        }
        readers.close().await;
        assert!(readers.list("listing", |_| Ok(())).await.is_err());
    }
}
