//! The options of retries.

use std::time::Duration;

use clap::Args;
use flint_api_native::resource::RetryResource;
use flint_model::FailureKind;

use super::values;

/// What becomes of non-blocking calls, and of those that triggers make, when they fail.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct RetryArgs {
    /// Maximum retries of a failed asynchronous call [default: retry only if Flint or the host fails]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Delay before the first retry, doubled for each further one: 500ms, 10s, 5m, 1h [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) retry_backoff: Option<Duration>,
    /// Maximum delay before a retry [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) retry_max_backoff: Option<Duration>,
    /// No attempt, not even the first, begins later than this after acceptance [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) retry_max_age: Option<Duration>,
    /// Failures to retry, separated by commas: platform (always), timeout, developer, application [default: all but application]
    #[arg(long, value_name = "FAILURE", value_delimiter = ',')]
    pub(crate) retry_on: Vec<FailureKind>,
}

impl RetryArgs {
    /// What they say; `None` = nothing.
    pub(crate) fn resource(&self) -> Option<RetryResource> {
        let millis = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
        let said = *self != Self::default();
        said.then(|| RetryResource {
            retries: self.retries,
            backoff_ms: millis(self.retry_backoff),
            max_backoff_ms: millis(self.retry_max_backoff),
            max_age_ms: millis(self.retry_max_age),
            on: (!self.retry_on.is_empty()).then(|| self.retry_on.clone()),
        })
    }
}
