//! Describes the host of a measurement.

use serde::{Deserialize, Serialize};

/// The host's properties, as far as it reveals them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution's name.
    pub os: String,
    /// Load average of the last minute when the run began, which shows other activity.
    pub load_1m: f64,
}

impl Host {
    /// Reads /proc and /etc/os-release.
    pub fn describe() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str, separator: char| {
            text.lines()
                .find_map(|line| line.split_once(separator).filter(|(key, _)| key.trim() == name))
                .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().trim_matches('"').to_owned())
        };
        let total = field(&read("/proc/meminfo"), "MemTotal", ':');
        let kib: u64 = total.trim_end_matches(" kB").parse().unwrap_or(0);
        let load = read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name", ':'),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kib * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            os: field(&read("/etc/os-release"), "PRETTY_NAME", '='),
            load_1m: load,
        }
    }

    /// The properties that do not change from minute to minute.
    pub fn lasting(&self) -> serde_json::Value {
        serde_json::json!({
            "cpu": self.cpu, "cores": self.cores, "memory_bytes": self.memory_bytes, "kernel": self.kernel, "os": self.os,
        })
    }
}
