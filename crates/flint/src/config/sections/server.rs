//! Configuration of the server itself.

use std::{path::PathBuf, time::Duration};

use flint_invoker::units;
use flint_model::ByteSize;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerConfig {
    pub(crate) listen: String,
    #[serde(deserialize_with = "named")]
    pub(crate) data_dir: PathBuf,
    pub(crate) threads: usize,
    pub(crate) max_connections: usize,
    #[serde(with = "units::size")]
    pub(crate) max_header: ByteSize,
    #[serde(with = "units::some_time")]
    pub(crate) header_timeout: Duration,
    #[serde(with = "units::duration")]
    pub(crate) drain_timeout: Duration,
    #[serde(with = "units::duration")]
    pub(crate) credential_ttl: Duration,
    #[serde(with = "units::some_time")]
    pub(crate) collect_every: Duration,
    #[serde(with = "units::duration")]
    pub(crate) rewarm: Duration,
    #[serde(deserialize_with = "hosts")]
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
            rewarm: Duration::from_secs(3600),
            web_hosts: Vec::new(),
        }
    }
}

/// Validated host names: any other text would match no request, without anybody being told.
fn hosts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_host = |text: &str| text.split('.').all(|label| !label.is_empty()) && text.bytes().all(legal);
    let hosts = Vec::<String>::deserialize(deserializer)?;
    match hosts.iter().find(|host| !is_host(host)) {
        Some(other) => Err(serde::de::Error::custom(format!(
            "'{other}' is not the name of a host: write it without a scheme, a port or a dot at its end, for example 'faas.example.com'"
        ))),
        None => Ok(hosts),
    }
}

/// Half of the cores: functions run on the others, and a further thread would gain no more than waking it
/// costs.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// `/var/lib/flint` for root, otherwise by the XDG base directory specification.
/// An empty path would be the current directory in some places, and no directory in others.
fn named<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    match path.as_os_str().is_empty() {
        true => Err(serde::de::Error::custom("'' is not a directory; write . for the current one")),
        false => Ok(path),
    }
}

fn default_data_dir() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/flint");
    }
    set("XDG_DATA_HOME")
        // Without HOME, as in a service, from the user database.
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/share")))
        .unwrap_or_default()
        .join("flint")
}
