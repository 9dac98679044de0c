//! Work that runs to its end even if its caller goes away.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Runs within its caller, which costs no task and no thread hop. If the caller drops it early, the rest is
/// spawned as a task. The tracker waits for it either way.
pub(crate) struct Detached<'a, T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: &'a Handle,
}

impl<'a, T: Send + 'static> Detached<'a, T> {
    pub(crate) fn new(
        work: impl Future<Output = T> + Send + 'static,
        tasks: &TaskTracker,
        runtime: &'a Handle,
    ) -> Self {
        Self { work: Some(Box::pin(tasks.track_future(work))), runtime }
    }
}

impl<T: Send + 'static> Future for Detached<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let done = std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for Detached<'_, T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn work_ends_also_when_its_caller_goes_away_and_the_tracker_waits_for_it() {
        let tasks = TaskTracker::new();
        tasks.close();
        let (go, gone) = oneshot::channel::<()>();
        let (done, finished) = oneshot::channel();
        let work = async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        };
        let runtime = Handle::current();
        let mut detached = Detached::new(work, &tasks, &runtime);
        assert!(timeout(Duration::from_millis(1), &mut detached).await.is_err());
        drop(detached);
        assert!(timeout(Duration::from_millis(1), tasks.wait()).await.is_err());
        go.send(()).unwrap();
        assert_eq!(finished.await, Ok(7));
        tasks.wait().await;
    }
}
