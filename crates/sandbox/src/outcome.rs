//! How a sandbox ended and what it used.

use serde::{Deserialize, Serialize};

/// The end of a sandbox: its main process has ended and the kernel has killed whatever else ran in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// How the main process ended.
    pub status: ExitStatus,
    /// A process of the sandbox was killed because the memory limit was reached.
    pub oom: bool,
    /// Resources used from start to end.
    pub usage: Usage,
    /// From the launcher's receipt of the request to the payload's `execve`, in microseconds.
    pub setup_us: u64,
    /// What the launcher found in a sealed zygote between two forks and ended it for (see
    /// [`crate::Sandbox::seal`]).
    pub tampered: Option<String>,
}

impl Exit {
    /// An end of which nothing else is known.
    pub fn new(status: ExitStatus, usage: Usage) -> Self {
        Self { status, oom: false, usage, setup_us: 0, tampered: None }
    }
}

/// How the main process of a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    /// Exit code, 0..=255.
    Code(i32),
    /// Killed by this signal (9 after [`crate::Sandbox::kill`]).
    Signal(i32),
    /// Unknown: the process was a clone (see [`crate::Cell::admit`]) on a kernel before 6.15, where only a
    /// process's parent learns its exit status.
    Unknown,
    /// The launcher process ended, and every sandbox with it. A later start gets a new launcher.
    Lost,
}

impl ExitStatus {
    /// Exit code 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(out, "exit code {code}"),
            Self::Signal(signal) => write!(out, "signal {signal}"),
            Self::Unknown => write!(out, "unknown end"),
            Self::Lost => write!(out, "sandbox launcher ended"),
        }
    }
}

/// Resources used. A figure that this host cannot give (no cgroup) is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of all processes, in microseconds.
    pub cpu_us: u64,
    /// Memory now (0 after the end), in bytes, with page cache and `/tmp`.
    pub memory_bytes: u64,
    /// Highest memory so far, in bytes.
    pub memory_peak_bytes: u64,
}
