//! Moving averages of durations.

use std::time::Duration;

/// How much the newest value counts.
const NEWEST: f64 = 0.25;

/// How many values it takes until one outlier among the first, such as a call that is not compiled yet, no longer decides.
const SETTLED: u32 = 8;

/// How many times the average one value may count at most, once the average is settled: a call during which the host was busy with
/// something else says little about the next one.
const OUTLIER: f64 = 8.0;

/// An exponentially weighted moving average that outliers do not carry away.
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

    /// Whether it is made of enough values to act on at once.
    pub(crate) fn is_settled(&self) -> bool {
        self.count >= SETTLED
    }
}
