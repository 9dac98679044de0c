//! Configuration of preparing and starting functions.

use std::{num::NonZeroUsize, time::Duration};

use flint_executor_fork::ForkConfig;
use flint_invoker::units;
use flint_model::ByteSize;
use serde::{Deserialize, Serialize};

/// Preparation of functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PrepareConfig {
    pub(crate) max_files: usize,
    #[serde(with = "units::size")]
    pub(crate) max_unpacked: ByteSize,
    #[serde(with = "units::optional_size", skip_serializing_if = "Option::is_none")]
    pub(crate) min_free: Option<ByteSize>,
    #[serde(with = "units::size")]
    pub(crate) per_namespace: ByteSize,
    #[serde(with = "units::duration")]
    pub(crate) build_timeout: Duration,
    #[serde(with = "units::size")]
    pub(crate) build_memory: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) build_size: ByteSize,
    pub(crate) concurrent_builds: Option<NonZeroUsize>,
}

impl Default for PrepareConfig {
    fn default() -> Self {
        Self {
            max_files: 65_536,
            max_unpacked: ByteSize::mib(512),
            min_free: None,
            per_namespace: ByteSize::mib(10 * 1024),
            build_timeout: Duration::from_secs(60),
            build_memory: ByteSize::mib(1024),
            build_size: ByteSize::mib(256),
            concurrent_builds: None,
        }
    }
}

/// Snapshots of functions, and forking from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SnapshotConfig {
    pub(crate) standbys: usize,
    #[serde(with = "units::duration")]
    pub(crate) standby_idle: Duration,
    #[serde(with = "units::duration")]
    pub(crate) idle: Duration,
    pub(crate) warmup_calls: u32,
    #[serde(with = "units::duration")]
    pub(crate) warmup_budget: Duration,
    pub(crate) made_at_once: NonZeroUsize,
    pub(crate) huge_pages: bool,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        let ForkConfig {
            standbys,
            standby_idle,
            idle,
            warmup_calls,
            warmup_budget,
            made_at_once,
            huge_pages,
        } = ForkConfig::default();
        Self { standbys, standby_idle, idle, warmup_calls, warmup_budget, made_at_once, huge_pages }
    }
}

impl SnapshotConfig {
    pub(crate) fn config(&self) -> ForkConfig {
        let Self { standbys, standby_idle, idle, warmup_calls, warmup_budget, made_at_once, huge_pages } =
            *self;
        ForkConfig { standbys, standby_idle, idle, warmup_calls, warmup_budget, made_at_once, huge_pages }
    }
}
