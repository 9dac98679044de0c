//! What is counted for each call, looked up once a function and not once a call.

use std::time::Duration;

use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

/// How a call met its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StartKind {
    /// An instance was started for it.
    Cold,
    /// A runtime without a function was waiting and loaded the code for it, or a clone that was forked ahead.
    Prewarmed,
    /// An instance of its function was waiting.
    Warm,
}

impl StartKind {
    pub(crate) const ALL: [Self; 3] = [Self::Cold, Self::Prewarmed, Self::Warm];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Prewarmed => "prewarmed",
            Self::Warm => "warm",
        }
    }
}

/// One call that is over.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Its status' number, 0 to 3: success, application error, developer error, internal error.
    pub status: u8,
    /// From its arrival to the beginning of initialisation or run; means nothing where it came to neither.
    pub wait: Duration,
    /// Initialisation, when its instance was cold.
    pub init: Option<Duration>,
    /// Run, initialisation left out; `None` when it did not come to that.
    pub run: Option<Duration>,
    /// How it met its instance; `None` when it never did.
    pub start: Option<StartKind>,
}

/// The words of the statuses, by number.
pub(crate) const STATUSES: [&str; 4] = ["success", "application_error", "developer_error", "internal_error"];

/// The counters of one function, ready for use.
#[derive(Clone, Debug)]
pub struct FunctionMetrics {
    pub(crate) by_status: [Counter; 4],
    pub(crate) by_start: [Counter; 3],
    pub(crate) wait: Histogram,
    pub(crate) init: Histogram,
    pub(crate) run: Histogram,
}

impl FunctionMetrics {
    /// Counts one call.
    pub fn finished(&self, call: &Finished) {
        if let Some(counter) = self.by_status.get(usize::from(call.status)) {
            counter.inc();
        }
        if call.init.is_some() || call.run.is_some() {
            self.wait.observe(call.wait.as_secs_f64());
        }
        if let Some(init) = call.init {
            self.init.observe(init.as_secs_f64());
        }
        if let Some(run) = call.run {
            self.run.observe(run.as_secs_f64());
        }
        if let Some(start) = call.start {
            self.by_start[start as usize].inc();
        }
    }
}
