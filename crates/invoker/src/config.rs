//! Configuration of the pool of instances.

use std::time::Duration;

use flint_model::{ByteSize, Kind};
use serde::{Deserialize, Serialize};

use crate::units;

/// The invoker's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InvokerConfig {
    /// Keys `pool.*`.
    pub pool: PoolConfig,
}

/// The pool of instances. Durations are written `500ms`, `10s`, `10min` or `1h`; sizes `512MB` or a number of bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolConfig {
    /// Memory that all instances together, the prewarmed runtimes included, may use; absent = 60 % of the host's memory, or of
    /// the smallest limit of the cgroups that Flint runs in.
    #[serde(with = "units::optional_size", skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Memory beyond that, for calls that other calls wait for; absent = a quarter of `memory`, 0 = none.
    #[serde(with = "units::optional_size", skip_serializing_if = "Option::is_none")]
    pub nested_memory: Option<ByteSize>,
    /// What an instance of a function that was never measured is charged until it is, at most the function's own limit.
    #[serde(with = "units::size")]
    pub start_charge: ByteSize,
    /// How long an instance without calls is kept.
    #[serde(with = "units::duration")]
    pub keep_alive: Duration,
    /// How long a clone of a snapshot without calls is kept: another one comes in a millisecond or two.
    #[serde(with = "units::duration")]
    pub keep_alive_forked: Duration,
    /// How long an instance is without calls before the processor is taken away from it.
    #[serde(with = "units::duration")]
    pub pause_grace: Duration,
    /// How long an idle instance of a namespace within its share of memory is safe from the needs of a namespace beyond its own.
    #[serde(with = "units::duration")]
    pub protected: Duration,
    /// How often memory is measured of the instances that were used since the last time.
    #[serde(with = "units::duration")]
    pub sample_every: Duration,
    /// Maximum number of instances being stopped at once; at the limit, no further instance is started.
    pub stopping: usize,
    /// Runtimes to keep started without a function, of each of `prewarm_kinds`; 0 = none.
    pub prewarm: usize,
    /// Which runtimes to keep started; absent = the default kinds of Node.js and Python, where this host has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prewarm_kinds: Option<Vec<Kind>>,
    /// The memory limit that they are started with: they can serve functions with this limit.
    #[serde(with = "units::size")]
    pub prewarm_memory: ByteSize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            memory: None,
            nested_memory: None,
            start_charge: ByteSize::mib(64),
            keep_alive: Duration::from_secs(600),
            keep_alive_forked: Duration::from_secs(30),
            pause_grace: Duration::from_secs(10),
            protected: Duration::from_secs(60),
            sample_every: Duration::from_secs(1),
            stopping: 64,
            prewarm: 1,
            prewarm_kinds: None,
            prewarm_memory: ByteSize::mib(256),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_written_as_people_write_them() {
        let config: PoolConfig = serde_json::from_str(
            r#"{"memory":"2GB","keep_alive":"5min","pause_grace":1500,"start_charge":1048576}"#,
        )
        .unwrap();
        assert_eq!(config.memory, Some(ByteSize::mib(2048)));
        assert_eq!(config.keep_alive, Duration::from_secs(300));
        assert_eq!(config.pause_grace, Duration::from_millis(1500));
        assert_eq!(config.start_charge, ByteSize::mib(1));
        let shown = serde_json::to_value(&config).unwrap();
        assert_eq!((&shown["memory"], &shown["keep_alive"]), (&"2 GB".into(), &"5min".into()));
        assert_eq!(serde_json::from_value::<PoolConfig>(shown).unwrap(), config);
        let error = serde_json::from_str::<PoolConfig>(r#"{"keep_alive":"soon"}"#).unwrap_err().to_string();
        assert!(error.contains("'soon' is not a duration"), "{error}");
    }
}
