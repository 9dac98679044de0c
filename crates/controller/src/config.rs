//! Configuration of the use cases.

use std::{sync::Arc, time::Duration};

use flint_invoker::units;
use flint_model::{ByteSize, FunctionLimits, LimitBounds, RetryPolicy};
use flint_store::{DeadLetterBounds, WhenFull};
use flint_telemetry::MetricsConfig;
use serde::{Deserialize, Serialize, de::Error};
use serde_json::{Map, Value};

use crate::{FeedsConfig, NoSecretKeys, SecretKeys, SecretsConfig, VersionsConfig};

/// The controller's configuration.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// Keys `limits.*`.
    pub limits: LimitsConfig,
    /// What a function gets that asks for nothing.
    pub defaults: FunctionLimits,
    /// Keys `async.*`.
    pub asynchronous: AsyncConfig,
    /// Keys `dead_letters.*`.
    pub dead_letters: DeadLettersConfig,
    /// Keys `versions.*`.
    pub versions: VersionsConfig,
    /// Some of the keys `secrets.*`.
    pub secrets: SecretsConfig,
    /// Where the key of secrets is kept.
    pub secret_keys: Arc<dyn SecretKeys>,
    /// Whether the well-known guest key works: only while Flint listens on loopback.
    pub guest: bool,
    /// Where functions reach Flint, as `http://HOST:PORT`.
    pub api_host: String,
    /// Where functions reach it that have a gate: those in sandboxes that want a key. `None`: there are no gates.
    pub gate: Option<String>,
    /// How long a checked key is remembered.
    pub credential_ttl: Duration,
    /// How often unreferenced code and prepared artefacts are removed.
    pub collect_every: Duration,
    /// How recently a function was called that is made ready again after a start; zero = none is.
    pub rewarm: Duration,
    /// Keys `metrics.*`.
    pub metrics: MetricsConfig,
    /// Keys `feeds.*`.
    pub feeds: FeedsConfig,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            limits: LimitsConfig::default(),
            defaults: FunctionLimits::default(),
            asynchronous: AsyncConfig::default(),
            dead_letters: DeadLettersConfig::default(),
            versions: VersionsConfig::default(),
            secrets: SecretsConfig::default(),
            secret_keys: Arc::new(NoSecretKeys),
            guest: false,
            api_host: "http://127.0.0.1:3233".to_owned(),
            gate: None,
            credential_ttl: Duration::from_secs(30),
            collect_every: Duration::from_secs(600),
            rewarm: Duration::from_secs(3600),
            metrics: MetricsConfig::default(),
            feeds: FeedsConfig::default(),
        }
    }
}

/// Keys `limits.*`: what a namespace may do that has no limits of its own (0 = nothing is admitted), and, beside them, the
/// keys of [`LimitBounds`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitsConfig {
    /// Calls per wall-clock minute.
    pub invocations_per_minute: u32,
    /// Calls queued or running at once.
    pub concurrent_invocations: u32,
    /// Trigger firings per wall-clock minute.
    pub fires_per_minute: u32,
    /// What functions may ask for, and what passes through the API.
    #[serde(flatten)]
    pub bounds: LimitBounds,
}

impl Default for LimitsConfig {
    /// Room for the applications of one machine's owner. OpenWhisk's own 60, 30 and 60 are for a service that strangers share.
    fn default() -> Self {
        Self {
            invocations_per_minute: 60_000,
            concurrent_invocations: 1_000,
            fires_per_minute: 60_000,
            bounds: LimitBounds::default(),
        }
    }
}

impl<'de> Deserialize<'de> for LimitsConfig {
    // Written out because serde's `flatten` cannot name unknown keys.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::<String, Value>::deserialize(deserializer)?;
        let default = Self::default();
        let mut number = |key: &str, default: u32| match keys.remove(key) {
            None => Ok(default),
            Some(value) => serde_json::from_value(value.clone())
                .map_err(|_| D::Error::custom(format!("{key} = {value} is not a number of 0 or more"))),
        };
        Ok(Self {
            invocations_per_minute: number("invocations_per_minute", default.invocations_per_minute)?,
            concurrent_invocations: number("concurrent_invocations", default.concurrent_invocations)?,
            fires_per_minute: number("fires_per_minute", default.fires_per_minute)?,
            bounds: serde_json::from_value(Value::Object(keys)).map_err(D::Error::custom)?,
        })
    }
}

/// Keys `async.*`: how accepted calls are run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AsyncConfig {
    /// How often a call is attempted in all whose function says nothing about retries, when Flint or the host fails. What the function
    /// answers, and that it does not, is an answer then and is not repeated.
    pub max_attempts: u32,
    /// How many accepted calls run at once, beside sequences and compositions. One namespace leaves others a quarter.
    pub running: usize,
    /// How many accepted calls wait in memory; the rest wait in the durable queue.
    pub waiting: usize,
    /// How long a server that stops answering keeps its calls from others.
    #[serde(with = "units::some_time")]
    pub lease: Duration,
    /// How long after a failed attempt the next one comes; doubled for each further one.
    #[serde(with = "units::duration")]
    pub retry_delay: Duration,
    /// The longest such time.
    #[serde(with = "units::duration")]
    pub retry_max_delay: Duration,
    /// How many calls of one namespace that failed before are run at once.
    pub retries_running: u32,
    /// How many of them may wait, those that are put off included; what fails beyond that becomes a dead letter.
    pub retries_waiting: usize,
    /// How much those may take.
    #[serde(with = "units::size")]
    pub retries_waiting_size: ByteSize,
    /// How long after its acceptance a call is put off that this host cannot run; then it is attempted like any other. Zero = not at all.
    #[serde(with = "units::duration")]
    pub put_off_for: Duration,
}

impl AsyncConfig {
    /// What holds for calls of functions that say nothing.
    pub fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: self.max_attempts.max(1),
            backoff: self.retry_delay,
            max_backoff: self.retry_max_delay.max(self.retry_delay),
            ..RetryPolicy::default()
        }
    }
}

impl Default for AsyncConfig {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            running: 256,
            waiting: 4096,
            lease: Duration::from_secs(60),
            retry_delay: Duration::from_secs(1),
            retry_max_delay: Duration::from_secs(300),
            retries_running: 64,
            retries_waiting: 10_000,
            retries_waiting_size: ByteSize::mib(64),
            put_off_for: Duration::from_secs(24 * 3600),
        }
    }
}

/// Keys `dead_letters.*`: what is kept of each namespace's calls that failed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeadLettersConfig {
    /// How many letters; 0 = none.
    pub max_count: usize,
    /// How much they may take.
    #[serde(with = "units::size")]
    pub max_size: ByteSize,
    /// How long they are kept; zero = at any age.
    #[serde(with = "units::duration")]
    pub max_age: Duration,
    /// Which one goes where there is no room for all.
    pub when_full: WhenFull,
}

impl Default for DeadLettersConfig {
    fn default() -> Self {
        Self {
            max_count: 10_000,
            max_size: ByteSize::mib(64),
            max_age: Duration::from_secs(14 * 24 * 3600),
            when_full: WhenFull::DropOldest,
        }
    }
}

impl DeadLettersConfig {
    pub(crate) fn bounds(&self) -> DeadLetterBounds {
        DeadLetterBounds { letters: self.max_count, bytes: self.max_size, when_full: self.when_full }
    }
}

#[cfg(test)]
mod tests {
    use flint_model::ByteSize;

    use super::*;

    #[test]
    fn limits_are_one_flat_section_and_unknown_keys_are_named() {
        let text = r#"{"invocations_per_minute":7,"max_payload":2048}"#;
        let limits: LimitsConfig = serde_json::from_str(text).unwrap();
        assert_eq!((limits.invocations_per_minute, limits.fires_per_minute), (7, 60_000));
        assert_eq!(limits.bounds.max_payload, ByteSize::kib(2));
        let shown = serde_json::to_value(&limits).unwrap();
        assert_eq!(shown["concurrent_invocations"], 1_000);
        assert_eq!(serde_json::from_value::<LimitsConfig>(shown).unwrap(), limits);
        let error = serde_json::from_str::<LimitsConfig>(r#"{"calls":7}"#).unwrap_err().to_string();
        assert!(error.contains("`calls`"), "{error}");
        let error =
            serde_json::from_str::<LimitsConfig>(r#"{"fires_per_minute":-1}"#).unwrap_err().to_string();
        assert!(error.contains("fires_per_minute = -1 is not a number"), "{error}");
    }
}
