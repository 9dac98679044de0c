//! Configuration of the host that functions run on, and of what they can reach.

use std::{net::IpAddr, num::NonZeroU16, path::PathBuf, time::Duration};

use flint_gate::GateConfig;
use flint_invoker::units;
use serde::{Deserialize, Serialize};

use super::ServerConfig;

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

/// Relative paths are refused, since a server's working directory is arbitrary.
fn absolute<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let folders = Vec::<PathBuf>::deserialize(deserializer)?;
    match folders.iter().find(|folder| !folder.is_absolute()) {
        Some(folder) => {
            Err(serde::de::Error::custom(format!("'{}' is not an absolute path", folder.display())))
        }
        None => Ok(folders),
    }
}

/// How functions that receive a key reach the API from their sandboxes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GateSection {
    pub(crate) enabled: bool,
    pub(crate) port: NonZeroU16,
    pub(crate) connections: usize,
    pub(crate) max_connections: usize,
    #[serde(with = "units::some_time")]
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
    /// `None` if there are no gates.
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
