//! A clock that a test moves.

use std::{pin::Pin, time::Duration};

use flint_model::Timestamp;
use tokio::sync::watch;

use crate::Clock;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(watch::Sender<u64>);

impl Default for ManualClock {
    /// Shows the time of its making.
    fn default() -> Self {
        Self(watch::Sender::new(Timestamp::now().as_millis()))
    }
}

impl ManualClock {
    /// Moves it forward, and wakes who waited for that.
    pub fn advance(&self, time: Duration) {
        self.0.send_modify(|now| *now += time.as_millis() as u64);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(*self.0.borrow())
    }

    fn sleep_until(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock.
            let _ = now.wait_for(|now| *now >= time.as_millis()).await;
        })
    }
}
