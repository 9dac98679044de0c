//! What one instance of a function may use.

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{ByteSize, duration::millis};

/// What one instance of a function may use. The time limit holds for initialisation and for each call separately.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FunctionLimits {
    /// How long initialisation, and each call, may take.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// Resident memory of the whole instance, its `/tmp` included.
    pub memory: ByteSize,
    /// How much one activation may log.
    pub logs: ByteSize,
    /// Calls at once in one instance.
    pub concurrency: NonZeroU32,
    /// Instances of this function at once; absent = as many as memory allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<NonZeroU32>,
    /// CPU time per second of wall time, in thousandths of a core.
    pub cpu_millis: u32,
    /// Processes and threads at once.
    pub processes: u32,
    /// Size of `/tmp`.
    pub tmp: ByteSize,
}

impl Default for FunctionLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            memory: ByteSize::mib(256),
            logs: ByteSize::mib(10),
            concurrency: NonZeroU32::MIN,
            instances: None,
            cpu_millis: 1000,
            processes: 1024,
            tmp: ByteSize::mib(64),
        }
    }
}

/// Limits that no instance could run within, whatever the operator allows.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImpossibleLimits {
    /// Less processor time than a process needs to come up, or more cores than any host has.
    #[error("cpu {0} is not within 10 to 64000 thousandths of a core")]
    Cpu(u32),
    /// No process, or more than the kernel's default `pid_max`.
    #[error("processes {0} is not within 1 to 32768")]
    Processes(u32),
    /// `/tmp` would be larger than the memory that it is part of.
    #[error("tmp {tmp} exceeds the memory limit of {memory}: /tmp is part of it")]
    Tmp {
        /// The size of `/tmp` that was asked for.
        tmp: ByteSize,
        /// The memory limit that was asked for.
        memory: ByteSize,
    },
    /// The time limit is shorter than the millisecond that it is counted in.
    #[error("a time limit of less than 1 millisecond")]
    Time,
}

impl FunctionLimits {
    /// Whether anything could run within them.
    pub fn check(&self) -> Result<(), ImpossibleLimits> {
        if !(10..=64_000).contains(&self.cpu_millis) {
            return Err(ImpossibleLimits::Cpu(self.cpu_millis));
        }
        if !(1..=32_768).contains(&self.processes) {
            return Err(ImpossibleLimits::Processes(self.processes));
        }
        if self.tmp > self.memory {
            return Err(ImpossibleLimits::Tmp { tmp: self.tmp, memory: self.memory });
        }
        if self.timeout < Duration::from_millis(1) {
            return Err(ImpossibleLimits::Time);
        }
        Ok(())
    }
}
