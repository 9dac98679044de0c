//! A zygote that is made in the background.

use tokio::{sync::watch, task::AbortHandle};

/// The task that makes a thorough zygote while another one or none serves.
pub(crate) struct Succession {
    task: AbortHandle,
    /// Closed when the task is over and has dropped what it held.
    over: watch::Receiver<()>,
}

impl Succession {
    pub(crate) fn begin(making: impl Future<Output = ()> + Send + 'static) -> Self {
        let (until_dropped, over) = watch::channel(());
        let task = tokio::spawn(async move {
            let _until_dropped = until_dropped;
            making.await;
        });
        Self { task: task.abort_handle(), over }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Ends the task, which drops its candidate and so ends that.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }

    /// Resolves when the task is over, however it ended.
    pub(crate) fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut over = self.over.clone();
        async move {
            // Nothing is ever sent.
            let _ = over.changed().await;
        }
    }
}
