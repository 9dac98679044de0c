//! Everything that an operator can set, by section. What each key means is said in [`super::keys`].

use std::{
    net::IpAddr,
    num::{NonZeroU16, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use flint_controller::{AsyncConfig, DeadLettersConfig, FeedsConfig, SecretsConfig, VersionsConfig};
use flint_executor_fork::ForkConfig;
use flint_executor_wasm::{WasmConfig, host::Services};
use flint_gate::GateConfig;
use flint_invoker::{PoolConfig, units};
use flint_model::{ByteSize, FunctionLimits, LimitBounds};
use flint_scheduler::QueueConfig;
use flint_store::KeyValueQuota;
use serde::{Deserialize, Serialize};

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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerConfig {
    pub(crate) listen: String,
    pub(crate) data_dir: PathBuf,
    pub(crate) threads: usize,
    pub(crate) max_connections: usize,
    #[serde(with = "units::size")]
    pub(crate) max_header: ByteSize,
    #[serde(with = "units::duration")]
    pub(crate) header_timeout: Duration,
    #[serde(with = "units::duration")]
    pub(crate) drain_timeout: Duration,
    #[serde(with = "units::duration")]
    pub(crate) credential_ttl: Duration,
    #[serde(with = "units::duration")]
    pub(crate) collect_every: Duration,
    pub(crate) web_hosts: Vec<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:3233".to_owned(),
            data_dir: default_data_dir(),
            threads: default_threads(),
            max_connections: 8192,
            max_header: ByteSize::kib(64),
            header_timeout: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(15),
            credential_ttl: Duration::from_secs(30),
            collect_every: Duration::from_secs(600),
            web_hosts: Vec::new(),
        }
    }
}

/// Half of the cores: functions run on the others, and what a thread more would add it would cost in waking it.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// `/var/lib/flint` for root, for anybody else what the XDG base directories say.
fn default_data_dir() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/flint");
    }
    set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_default()
        .join("flint")
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsConfig {
    pub(crate) invocations_per_minute: u32,
    pub(crate) concurrent_invocations: u32,
    pub(crate) fires_per_minute: u32,
    #[serde(with = "units::duration")]
    pub(crate) min_timeout: Duration,
    #[serde(with = "units::duration")]
    pub(crate) max_timeout: Duration,
    #[serde(with = "units::size")]
    pub(crate) min_memory: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_memory: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) min_logs: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_logs: ByteSize,
    pub(crate) max_concurrency: u32,
    pub(crate) max_sequence: u32,
    #[serde(with = "units::size")]
    pub(crate) max_code: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_parameters: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_payload: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_result: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) truncation: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) max_body: ByteSize,
    #[serde(with = "units::duration")]
    pub(crate) max_blocking_wait: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let flint_controller::LimitsConfig {
            invocations_per_minute,
            concurrent_invocations,
            fires_per_minute,
            bounds,
        } = flint_controller::LimitsConfig::default();
        Self {
            invocations_per_minute,
            concurrent_invocations,
            fires_per_minute,
            min_timeout: bounds.min_timeout,
            max_timeout: bounds.max_timeout,
            min_memory: bounds.min_memory,
            max_memory: bounds.max_memory,
            min_logs: bounds.min_logs,
            max_logs: bounds.max_logs,
            max_concurrency: bounds.max_concurrency,
            max_sequence: bounds.max_sequence,
            max_code: bounds.max_code,
            max_parameters: bounds.max_parameters,
            max_payload: bounds.max_payload,
            max_result: bounds.max_result,
            truncation: bounds.truncation,
            max_body: bounds.max_body,
            max_blocking_wait: bounds.max_blocking_wait,
        }
    }
}

impl LimitsConfig {
    pub(crate) fn config(&self) -> flint_controller::LimitsConfig {
        flint_controller::LimitsConfig {
            invocations_per_minute: self.invocations_per_minute,
            concurrent_invocations: self.concurrent_invocations,
            fires_per_minute: self.fires_per_minute,
            bounds: self.bounds(),
        }
    }

    fn bounds(&self) -> LimitBounds {
        LimitBounds {
            min_timeout: self.min_timeout,
            max_timeout: self.max_timeout,
            min_memory: self.min_memory,
            max_memory: self.max_memory,
            min_logs: self.min_logs,
            max_logs: self.max_logs,
            min_concurrency: LimitBounds::default().min_concurrency,
            max_concurrency: self.max_concurrency,
            max_sequence: self.max_sequence,
            max_code: self.max_code,
            max_parameters: self.max_parameters,
            max_payload: self.max_payload,
            max_result: self.max_result,
            truncation: self.truncation,
            max_body: self.max_body,
            max_blocking_wait: self.max_blocking_wait,
        }
    }
}

/// What a function gets that asks for nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DefaultsConfig {
    #[serde(with = "units::duration")]
    pub(crate) timeout: Duration,
    #[serde(with = "units::size")]
    pub(crate) memory: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) logs: ByteSize,
    pub(crate) cpu_millis: u32,
    pub(crate) processes: u32,
    #[serde(with = "units::size")]
    pub(crate) tmp: ByteSize,
}

impl Default for DefaultsConfig {
    fn default() -> Self {
        let limits = FunctionLimits::default();
        Self {
            timeout: limits.timeout,
            memory: limits.memory,
            logs: limits.logs,
            cpu_millis: limits.cpu_millis,
            processes: limits.processes,
            tmp: limits.tmp,
        }
    }
}

impl DefaultsConfig {
    pub(crate) fn limits(&self) -> FunctionLimits {
        FunctionLimits {
            timeout: self.timeout,
            memory: self.memory,
            logs: self.logs,
            cpu_millis: self.cpu_millis,
            processes: self.processes,
            tmp: self.tmp,
            ..FunctionLimits::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreSection {
    /// Zero: at any age.
    #[serde(with = "units::duration")]
    pub(crate) max_age: Duration,
    /// Zero: no bound.
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

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SyncWord {
    #[default]
    Durable,
    ProcessOnly,
}

/// What functions with network `egress` may reach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NetworkConfig {
    pub(crate) dns: Vec<IpAddr>,
    pub(crate) allow_private: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SandboxConfig {
    pub(crate) uid_base: u32,
    pub(crate) spare_networks: usize,
    pub(crate) recycle: usize,
    pub(crate) favor_cgroup_moves: bool,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { uid_base: 1_600_000, spare_networks: 8, recycle: 256, favor_cgroup_moves: true }
    }
}

/// Where language runtimes are looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RuntimesSection {
    #[serde(deserialize_with = "absolute")]
    pub(crate) search: Vec<PathBuf>,
}

/// A server's working directory is nobody's to rely on.
fn absolute<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let folders = Vec::<PathBuf>::deserialize(deserializer)?;
    match folders.iter().find(|folder| !folder.is_absolute()) {
        Some(folder) => {
            Err(serde::de::Error::custom(format!("'{}' is not an absolute path", folder.display())))
        }
        None => Ok(folders),
    }
}

/// How functions that are given a key reach the API from their sandboxes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GateSection {
    pub(crate) enabled: bool,
    pub(crate) port: NonZeroU16,
    pub(crate) connections: usize,
    pub(crate) max_connections: usize,
    #[serde(with = "units::duration")]
    pub(crate) idle_timeout: Duration,
}

impl Default for GateSection {
    fn default() -> Self {
        let GateConfig { port, connections, max_connections, idle, .. } = GateConfig::default();
        let port = NonZeroU16::new(port).unwrap_or(NonZeroU16::MIN);
        Self { enabled: true, port, connections, max_connections, idle_timeout: idle }
    }
}

impl GateSection {
    /// `None`: there are to be no gates.
    pub(crate) fn config(&self, server: &ServerConfig) -> Option<GateConfig> {
        self.enabled.then(|| GateConfig {
            port: self.port.get(),
            connections: self.connections.max(1),
            max_connections: self.max_connections,
            idle: self.idle_timeout,
            max_header: usize::try_from(server.max_header.as_u64()).unwrap_or(usize::MAX),
        })
    }
}

/// Making functions ready to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PrepareConfig {
    pub(crate) max_files: usize,
    #[serde(with = "units::size")]
    pub(crate) max_unpacked: ByteSize,
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
            build_timeout: Duration::from_secs(60),
            build_memory: ByteSize::mib(1024),
            build_size: ByteSize::mib(256),
            concurrent_builds: None,
        }
    }
}

/// Freezing functions, and forking them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SnapshotConfig {
    pub(crate) standbys: usize,
    #[serde(with = "units::duration")]
    pub(crate) idle: Duration,
    pub(crate) warmup_calls: u32,
    #[serde(with = "units::duration")]
    pub(crate) warmup_budget: Duration,
    pub(crate) huge_pages: bool,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        let ForkConfig { standbys, idle, warmup_calls, warmup_budget, huge_pages } = ForkConfig::default();
        Self { standbys, idle, warmup_calls, warmup_budget, huge_pages }
    }
}

impl SnapshotConfig {
    pub(crate) fn config(&self) -> ForkConfig {
        let Self { standbys, idle, warmup_calls, warmup_budget, huge_pages } = *self;
        ForkConfig { standbys, idle, warmup_calls, warmup_budget, huge_pages }
    }
}

/// Functions as WebAssembly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WasmSection {
    /// Absent: what the pool's memory and the host's limit of mappings allow.
    pub(crate) instances: Option<u32>,
    #[serde(with = "units::size")]
    pub(crate) keep_resident: ByteSize,
    #[serde(with = "units::size")]
    pub(crate) table_keep_resident: ByteSize,
    pub(crate) table_elements: u32,
    #[serde(with = "units::size")]
    pub(crate) stack: ByteSize,
    /// Zero: not counted.
    pub(crate) fuel: u64,
    #[serde(with = "units::size")]
    pub(crate) max_module: ByteSize,
    #[serde(with = "units::duration")]
    pub(crate) compile_timeout: Duration,
    #[serde(with = "units::size")]
    pub(crate) compile_memory: ByteSize,
    pub(crate) http_0_3: bool,
    pub(crate) threads: usize,
    pub(crate) keyvalue_keys: u64,
    #[serde(with = "units::size")]
    pub(crate) keyvalue_size: ByteSize,
}

impl Default for WasmSection {
    fn default() -> Self {
        let WasmConfig {
            instances,
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
            ..
        } = WasmConfig::default();
        Self {
            instances,
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
            keyvalue_keys: Services::QUOTA.keys,
            keyvalue_size: Services::QUOTA.bytes,
        }
    }
}

impl WasmSection {
    /// How much a namespace may keep in its buckets.
    pub(crate) fn quota(&self) -> KeyValueQuota {
        KeyValueQuota { keys: self.keyvalue_keys, bytes: self.keyvalue_size }
    }

    /// With `memory` for all instances together, where that is said.
    pub(crate) fn config(&self, memory: Option<ByteSize>) -> WasmConfig {
        let Self {
            instances,
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
            ..
        } = *self;
        WasmConfig {
            instances,
            memory,
            keep_resident,
            table_keep_resident,
            table_elements,
            stack,
            fuel,
            max_module,
            compile_timeout,
            compile_memory,
            http_0_3,
            threads,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogConfig {
    pub(crate) filter: String,
    pub(crate) format: LogWord,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogWord::Text }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogWord {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetricsSection {
    pub(crate) functions: usize,
}

impl Default for MetricsSection {
    fn default() -> Self {
        Self { functions: 500 }
    }
}
