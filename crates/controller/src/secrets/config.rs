//! Configuration of secrets, except the storage of their key.

use flint_invoker::units;
use flint_model::ByteSize;
use serde::{Deserialize, Serialize};

/// Some of the keys `secrets.*`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretsConfig {
    /// How many secrets a namespace may have.
    pub per_namespace: usize,
    /// How long one may be.
    #[serde(with = "units::size")]
    pub max_size: ByteSize,
}

impl Default for SecretsConfig {
    fn default() -> Self {
        Self { per_namespace: 100, max_size: ByteSize::kib(64) }
    }
}
