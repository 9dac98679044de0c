//! Timeouts of one connection, for hyper, which sets one for the head of each request and cancels it when the
//! head has arrived.
//!
//! Setting and cancelling a timer of the runtime each takes a lock shared by all threads. A connection
//! therefore has one timer for all its timeouts: a cancelled timeout leaves it running, and it is set again
//! if it fires before the timeout that uses it then.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

type Running = Pin<Box<tokio::time::Sleep>>;

/// Creates the timeouts of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionTimer(Arc<Mutex<Option<Running>>>);

/// A timeout. Concurrent ones have a timer each.
struct Timeout {
    at: Instant,
    timer: Option<Running>,
    /// Where the timer is left for the next timeout.
    left: ConnectionTimer,
}

impl Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Timeout { at: deadline, timer: None, left: self.clone() })
    }
}

impl Sleep for Timeout {}

impl Future for Timeout {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { at, timer, left } = &mut *self;
        let at = tokio::time::Instant::from_std(*at);
        let timer = timer.get_or_insert_with(|| {
            left.place().take().unwrap_or_else(|| Box::pin(tokio::time::sleep_until(at)))
        });
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            if timer.deadline() >= at {
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
    }
}

impl Drop for Timeout {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            *self.left.place() = Some(timer);
        }
    }
}

impl ConnectionTimer {
    fn place(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    const LATE: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_timeout_comes_at_its_own_time_whatever_was_set_before() {
        let timer = ConnectionTimer::default();
        let begun = async |duration: Duration| {
            let (until, mut timeout) = (Instant::now() + duration, timer.sleep(duration));
            // Set, and not elapsed.
            let first = poll_fn(|context| Poll::Ready(timeout.as_mut().poll(context))).await;
            assert!(first.is_pending() || Instant::now() >= until);
            (until, timeout)
        };
        // Cancelled ones leave a timer with an earlier or a later time.
        for before in [Duration::from_millis(1), LATE] {
            drop(begun(before).await);
            let (until, timeout) = begun(SOON).await;
            timeout.await;
            assert!(Instant::now() >= until, "after one of {before:?}");
        }
        // Two at once.
        let ((first, one), (second, other)) = (begun(SOON).await, begun(2 * SOON).await);
        tokio::join!(one, other);
        assert!(Instant::now() >= first && Instant::now() >= second);
    }
}
