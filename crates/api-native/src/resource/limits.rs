//! A function's limits, in units that people write.

use std::{num::NonZeroU32, time::Duration};

use flint_model::{ByteSize, FunctionLimits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Resource limits of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitsResource {
    /// Time limit for loading the code, and for each call, in milliseconds; at least 1.
    #[schema(example = 60_000)]
    pub timeout_ms: u64,
    /// Memory of one instance, including `/tmp`, in MiB.
    #[schema(example = 256)]
    pub memory_mb: u64,
    /// Maximum log output of one activation, in MiB.
    #[schema(example = 10)]
    pub logs_mb: u64,
    /// Maximum number of concurrent calls in one instance.
    #[schema(example = 1)]
    pub concurrency: u32,
    /// Maximum number of concurrent instances; absent = as many as memory allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// CPU time per second, in thousandths of a core, 10 to 64000.
    #[schema(example = 1000)]
    pub cpu_millis: u32,
    /// Maximum number of concurrent processes and threads, 1 to 32768.
    #[schema(example = 1024)]
    pub processes: u32,
    /// Size of `/tmp`, in MiB; at most `memory_mb`, which it is part of.
    #[schema(example = 64)]
    pub tmp_mb: u64,
}

/// Resource limits to set; absent = the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsPatch {
    /// Time limit for loading the code, and for each call, in milliseconds; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Memory of one instance, including `/tmp`, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Maximum log output of one activation, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs_mb: Option<u64>,
    /// Maximum number of concurrent calls in one instance, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub concurrency: Option<NonZeroU32>,
    /// Maximum number of concurrent instances, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub instances: Option<NonZeroU32>,
    /// CPU time per second, in thousandths of a core, 10 to 64000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 64_000)]
    pub cpu_millis: Option<u32>,
    /// Maximum number of concurrent processes and threads, 1 to 32768.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 32_768)]
    pub processes: Option<u32>,
    /// Size of `/tmp`, in MiB; at most `memory_mb`, which it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmp_mb: Option<u64>,
}

impl From<&FunctionLimits> for LimitsResource {
    fn from(limits: &FunctionLimits) -> Self {
        Self {
            timeout_ms: limits.timeout.as_millis() as u64,
            memory_mb: limits.memory.as_mib(),
            logs_mb: limits.logs.as_mib(),
            concurrency: limits.concurrency.get(),
            instances: limits.instances.map(NonZeroU32::get),
            cpu_millis: limits.cpu_millis,
            processes: limits.processes,
            tmp_mb: limits.tmp.as_mib(),
        }
    }
}

impl LimitsPatch {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `base` overridden by what is set here.
    pub fn apply(&self, base: FunctionLimits) -> FunctionLimits {
        let mib = |asked: Option<u64>, or: ByteSize| asked.map_or(or, mebibytes);
        FunctionLimits {
            timeout: self.timeout_ms.map_or(base.timeout, Duration::from_millis),
            memory: mib(self.memory_mb, base.memory),
            logs: mib(self.logs_mb, base.logs),
            concurrency: self.concurrency.unwrap_or(base.concurrency),
            instances: self.instances.or(base.instances),
            cpu_millis: self.cpu_millis.unwrap_or(base.cpu_millis),
            processes: self.processes.unwrap_or(base.processes),
            tmp: mib(self.tmp_mb, base.tmp),
        }
    }
}

/// From outside, the number may be anything.
fn mebibytes(mib: u64) -> ByteSize {
    ByteSize::bytes(mib.saturating_mul(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_what_it_names() {
        let patch: LimitsPatch = serde_json::from_str(r#"{"memory_mb":512,"timeout_ms":1500}"#).unwrap();
        let limits = patch.apply(FunctionLimits::default());
        assert_eq!((limits.memory, limits.timeout), (ByteSize::mib(512), Duration::from_millis(1500)));
        assert_eq!(limits.logs, FunctionLimits::default().logs);
        assert!(
            serde_json::from_str::<LimitsPatch>(r#"{"memory":512}"#).is_err(),
            "a typing error is not silently ignored"
        );
        let huge: LimitsPatch = serde_json::from_str(r#"{"memory_mb":18446744073709551615}"#).unwrap();
        assert_eq!(huge.apply(FunctionLimits::default()).memory, ByteSize::bytes(u64::MAX));
    }
}
