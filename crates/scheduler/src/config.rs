//! Configuration of the queues of waiting calls.

use std::time::Duration;

use flint_invoker::units;
use serde::{Deserialize, Serialize};

/// The scheduler's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// Keys `queue.*`.
    pub queue: QueueConfig,
}

/// Calls that wait for an instance. Durations are written `500ms`, `10s` or `1min`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// Calls of one function, on one namespace's account, that may wait at once.
    pub per_function: usize,
    /// Calls that may wait at once, all functions together; those of one namespace take at most as many places as they leave free.
    pub total: usize,
    /// How long a call may wait.
    #[serde(with = "units::duration")]
    pub max_wait: Duration,
    /// Instances being started at once, all functions together; absent = two for each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<usize>,
    /// Instances of one function being started at once; absent = two for each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_per_function: Option<usize>,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            per_function: 1000,
            total: 10_000,
            max_wait: Duration::from_secs(60),
            starts: None,
            starts_per_function: None,
        }
    }
}
