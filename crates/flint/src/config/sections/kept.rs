//! Configuration of retention and secrets.

use std::{path::PathBuf, time::Duration};

use flint_controller::SecretsConfig;
use flint_invoker::units;
use flint_model::ByteSize;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreSection {
    /// Zero = unbounded.
    #[serde(with = "units::duration")]
    pub(crate) max_age: Duration,
    /// Zero = unbounded.
    #[serde(with = "units::size")]
    pub(crate) max_size: ByteSize,
    pub(crate) sync: SyncWord,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(7 * 24 * 3600),
            max_size: ByteSize::mib(10 * 1024),
            sync: SyncWord::Durable,
        }
    }
}

/// Durability of an acknowledged write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SyncWord {
    #[default]
    Durable,
    ProcessOnly,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SecretsSection {
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) key_env: Option<String>,
    pub(crate) per_namespace: usize,
    #[serde(with = "units::size")]
    pub(crate) max_size: ByteSize,
}

impl Default for SecretsSection {
    fn default() -> Self {
        let SecretsConfig { per_namespace, max_size } = SecretsConfig::default();
        Self { key_file: None, key_env: None, per_namespace, max_size }
    }
}

impl SecretsSection {
    pub(crate) fn config(&self) -> SecretsConfig {
        SecretsConfig { per_namespace: self.per_namespace, max_size: self.max_size }
    }
}
