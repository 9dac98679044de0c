//! Reads beside the writer.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use flint_store::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::{
    database,
    fault::{closed, locked, off_thread},
};

/// Reads at once. More would wait for the same cores and page cache.
const CONNECTIONS: usize = 4;

/// A few read-only connections, opened when needed and kept.
pub(crate) struct Readers {
    path: PathBuf,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, permits: Arc::new(Semaphore::new(CONNECTIONS)), idle: Arc::default() }
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

    /// Refuses new reads, lets the running ones end and closes the connections.
    pub(crate) async fn close(&self) {
        if let Ok(all) = self.permits.acquire_many(CONNECTIONS as u32).await {
            self.permits.close();
            all.forget();
        }
        locked(&self.idle).clear();
    }
}
