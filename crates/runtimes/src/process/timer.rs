//! A timer for deadlines that usually do not pass.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use tokio::time::Sleep;

/// A deadline that moves with every call. Moving it later costs nothing: the Tokio timer stays set to the
/// earlier time and is set again when it fires. So a busy instance sets a timer once per time limit rather
/// than once per call.
#[derive(Debug)]
pub struct Timer {
    sleep: Pin<Box<Sleep>>,
    deadline: Instant,
}

impl Timer {
    /// A timer for `deadline`.
    pub fn new(deadline: Instant) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(deadline.into())), deadline }
    }

    /// Moves the deadline.
    pub fn set(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self.sleep.is_elapsed() || self.sleep.deadline().into_std() > deadline {
            self.sleep.as_mut().reset(deadline.into());
        }
    }

    /// The deadline.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Ready once the deadline has passed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(self.deadline.into());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn it_goes_off_at_the_deadline_set_last() {
        let start = Instant::now();
        let mut timer = Timer::new(start);
        timer.set(start + Duration::from_millis(20));
        timer.set(start + Duration::from_millis(5));
        poll_fn(|cx| timer.poll(cx)).await;
        assert!(timer.deadline() == start + Duration::from_millis(5));
    }
}
