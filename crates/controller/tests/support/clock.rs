//! A clock that a test sets.

use std::{pin::Pin, sync::Arc};

use flint_model::Timestamp;
use flint_store::Clock;
use tokio::sync::watch;

/// Shows what it was set to, and nothing else goes on.
#[derive(Debug)]
pub struct ManualClock(watch::Sender<u64>);

impl ManualClock {
    /// Shows this many ms since 1970.
    pub fn at(millis: u64) -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(millis)))
    }

    pub fn set(&self, millis: u64) {
        self.0.send_replace(millis);
    }

    pub fn advance(&self, millis: u64) {
        self.0.send_modify(|now| *now += millis);
    }

    pub fn millis(&self) -> u64 {
        *self.0.borrow()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis())
    }

    fn until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut shown = self.0.subscribe();
        Box::pin(async move {
            let _ = shown.wait_for(|now| *now >= moment.as_millis()).await;
        })
    }
}
