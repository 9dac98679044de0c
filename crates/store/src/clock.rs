//! What time it is, for whatever waits for a time.

use std::{fmt::Debug, pin::Pin, time::Duration};

use flint_model::Timestamp;

/// The wall clock, and waiting by it. A test brings its own.
pub trait Clock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns when it is that time.
    fn sleep_until(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let wait = time.as_millis().saturating_sub(self.now().as_millis());
        Box::pin(tokio::time::sleep(Duration::from_millis(wait)))
    }
}
