//! A timeout that is cheap for work that is done at once.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use tokio::{
    task::unconstrained,
    time::{Instant, sleep_until},
};

/// The deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

/// Like Tokio's `timeout_at`, but makes a timer only if `work` is not done at the first poll: a timer clones
/// a runtime handle, whose reference count all threads contend for.
pub async fn until<F: Future>(deadline: Instant, work: F) -> Result<F::Output, Late> {
    let mut work = pin!(work);
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        // Outside Tokio's cooperative budget, so that the deadline is noticed even if `work` uses the budget
        // up at every poll.
        let timer = timer.get_or_insert_with(|| Box::pin(unconstrained(sleep_until(deadline))));
        timer.as_mut().poll(context).map(|()| Err(Late))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use tokio::{task::consume_budget, time::sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_done_in_time_counts_and_nothing_is_waited_for_longer() {
        let began = Instant::now();
        let soon = began + Duration::from_secs(5);
        assert_eq!(until(began, async { 1 }).await, Ok(1), "what is done at once is never late");
        assert_eq!(until(soon, sleep(Duration::from_secs(4))).await, Ok(()));
        assert_eq!(until(soon, pending::<()>()).await, Err(Late));
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn what_uses_up_its_turn_each_time_is_late_all_the_same() {
        let busy = async {
            loop {
                consume_budget().await;
            }
        };
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(
            until::<std::pin::Pin<Box<dyn Future<Output = ()>>>>(soon, Box::pin(busy)).await,
            Err(Late)
        );
    }
}
