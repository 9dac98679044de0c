//! Retry policies, in units that people write.

use std::time::Duration;

use flint_model::{Annotations, FailureKind, RetryOptions};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// When and how often a failed call is attempted again. Applies to non-blocking calls and calls made by a trigger. Absent = the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryResource {
    /// Number of further attempts after the first, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 4, maximum = 100)]
    pub retries: Option<u32>,
    /// Delay between the first failed attempt and the second, in milliseconds; doubled after each further failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 1000)]
    pub backoff_ms: Option<u64>,
    /// Maximum delay between attempts, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 300_000)]
    pub max_backoff_ms: Option<u64>,
    /// Maximum age of a call, counted from its acceptance, at which an attempt may still begin, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 21_600_000)]
    pub max_age_ms: Option<u64>,
    /// Failures that are retried: `timeout`, `developer` (the function does not load, crashed, or exceeded its memory) and `application` (it answered with an
    /// error). `platform` (Flint or the host failed) is always retried. Absent = all but `application`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, example = json!(["timeout", "developer"]))]
    pub on: Option<Vec<FailureKind>>,
}

impl RetryResource {
    /// The policy in annotations.
    pub(crate) fn of(annotations: &Annotations) -> Option<Self> {
        let options = RetryOptions::of_annotation(annotations.get(RetryOptions::ANNOTATION)?).ok()??;
        let millis = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
        Some(Self {
            retries: options.retries,
            backoff_ms: millis(options.backoff),
            max_backoff_ms: millis(options.max_backoff),
            max_age_ms: millis(options.max_age),
            on: options.on.map(|on| on.iter().collect()),
        })
    }

    /// Writes the policy to annotations, with which it is validated.
    pub(crate) fn note(&self, annotations: &mut Annotations) {
        let time = |millis: Option<u64>| millis.map(Duration::from_millis);
        let options = RetryOptions {
            retries: self.retries,
            backoff: time(self.backoff_ms),
            max_backoff: time(self.max_backoff_ms),
            max_age: time(self.max_age_ms),
            on: self.on.as_ref().map(|on| on.iter().copied().collect()),
        };
        annotations.set(RetryOptions::ANNOTATION, options.to_annotation());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_back_from_the_annotation() {
        let said = RetryResource {
            retries: Some(4),
            backoff_ms: Some(1500),
            max_backoff_ms: Some(60_000),
            max_age_ms: Some(3_600_000),
            on: Some(vec![FailureKind::Timeout, FailureKind::Application]),
        };
        let mut annotations = Annotations::default();
        assert_eq!(RetryResource::of(&annotations), None);
        said.note(&mut annotations);
        assert_eq!(RetryResource::of(&annotations), Some(said));
    }
}
