//! The task that continues a call whose answer is streamed, owned by the call's instance.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::task::JoinHandle;

/// How long a caller may take to read the rest of an answer whose instance is stopped.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// At most one task at a time, since an instance serves one call.
#[derive(Debug, Default)]
pub struct RelayTask(Mutex<Option<JoinHandle<()>>>);

impl RelayTask {
    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the task.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        *self.lock() = Some(tokio::spawn(work));
    }

    /// Call this once the sandbox has ended: the task then ends too, unless its caller does not read.
    pub async fn finish(&self) {
        let task = self.lock().take();
        if let Some(mut task) = task
            && tokio::time::timeout(LAST_WORDS, &mut task).await.is_err()
        {
            task.abort();
            let _ = task.await;
        }
    }
}
