//! Moving averages of durations, with capped outliers.

use std::time::Duration;

/// Weight of the newest value.
const NEWEST: f64 = 0.25;

/// Values after which an outlier among the first ones, such as a call of code that is not compiled yet, has
/// lost its influence.
const SETTLED: u32 = 8;

/// A settled average caps each value at this multiple of itself: a call during which the host was busy with
/// something else says little about the next one.
const OUTLIER: f64 = 8.0;

/// An exponentially weighted moving average with capped outliers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    seconds: f64,
    count: u32,
}

impl Average {
    pub(crate) fn add(&mut self, value: Duration) {
        let value = value.as_secs_f64();
        let value = if self.is_settled() { value.min(OUTLIER * self.seconds) } else { value };
        self.seconds = if self.count == 0 { value } else { self.seconds + NEWEST * (value - self.seconds) };
        self.count = self.count.saturating_add(1);
    }

    /// In seconds; `None` before the first value.
    pub(crate) fn seconds(&self) -> Option<f64> {
        (self.count > 0).then_some(self.seconds)
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        self.seconds().map(Duration::from_secs_f64)
    }

    /// Whether it has enough values to act on without waiting for the tending task.
    pub(crate) fn is_settled(&self) -> bool {
        self.count >= SETTLED
    }
}
