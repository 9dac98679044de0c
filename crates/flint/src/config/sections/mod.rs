//! The configuration types, by section. [`super::keys`] documents each key.

mod functions;
mod host;
mod kept;
mod seen;
mod server;
mod start;
mod wasm;

use flint_controller::{AsyncConfig, DeadLettersConfig, FeedsConfig, VersionsConfig};
use flint_invoker::PoolConfig;
use flint_scheduler::QueueConfig;
use serde::{Deserialize, Serialize};

use functions::{DefaultsConfig, LimitsConfig};
use host::{GateSection, NetworkConfig, RuntimesSection, SandboxConfig};
pub(crate) use kept::SyncWord;
use kept::{SecretsSection, StoreSection};
pub(crate) use seen::LogWord;
use seen::{LogConfig, MetricsSection};
pub(crate) use server::ServerConfig;
use start::{PrepareConfig, SnapshotConfig};
use wasm::WasmSection;

/// The whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) server: ServerConfig,
    pub(crate) limits: LimitsConfig,
    pub(crate) defaults: DefaultsConfig,
    pub(crate) pool: PoolConfig,
    pub(crate) queue: QueueConfig,
    #[serde(rename = "async")]
    pub(crate) asynchronous: AsyncConfig,
    pub(crate) dead_letters: DeadLettersConfig,
    pub(crate) versions: VersionsConfig,
    pub(crate) secrets: SecretsSection,
    pub(crate) feeds: FeedsConfig,
    pub(crate) store: StoreSection,
    pub(crate) network: NetworkConfig,
    pub(crate) gate: GateSection,
    pub(crate) sandbox: SandboxConfig,
    pub(crate) runtimes: RuntimesSection,
    pub(crate) prepare: PrepareConfig,
    pub(crate) snapshot: SnapshotConfig,
    pub(crate) wasm: WasmSection,
    pub(crate) log: LogConfig,
    pub(crate) metrics: MetricsSection,
}
