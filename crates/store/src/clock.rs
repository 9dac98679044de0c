//! What time it is, for whatever waits for a time.

use std::{fmt::Debug, pin::Pin, time::Duration};

use flint_model::Timestamp;

/// A wall clock. It may be set, forwards or back, at any time. Tests have one that they set.
pub trait Clock: Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns once it is `moment`. If the clock is set meanwhile that may be too early or too late, so long waits check the time again.
    fn until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let wait = moment.as_millis().saturating_sub(self.now().as_millis());
        Box::pin(tokio::time::sleep(Duration::from_millis(wait)))
    }
}
