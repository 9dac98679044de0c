//! Blocking work of the store, off the async threads.

use std::sync::LazyLock;

use flint_store::StoreError;
use tokio::runtime::{Builder, Runtime};

/// Most threads; they end when there is nothing to do.
const THREADS: usize = 32;

/// Threads of the store alone. Those of the server's runtime also do what users' code asks for, such as reading
/// its files, and calls wait for the store.
static OWN: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime =
        Builder::new_current_thread().thread_name("flint-store").max_blocking_threads(THREADS).build();
    runtime.expect("without timers and sockets it needs nothing of the host")
});

/// Runs blocking work off the async threads.
pub(crate) async fn off_thread<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    OWN.spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(StoreError::Failed { operation, detail: error.to_string() }))
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn the_store_does_not_wait_for_others_blocking_work() {
        let others = Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        let blocked = others.spawn_blocking(move || ended.recv().is_err());
        let read =
            async { tokio::time::timeout(Duration::from_secs(60), off_thread("reading", || Ok(1))).await };
        assert_eq!(others.block_on(read).unwrap().unwrap(), 1);
        drop(end);
        assert!(others.block_on(blocked).unwrap());
    }
}
