//! What a zygote may keep at its freeze point, and what the inspection reports.

use serde::{Deserialize, Serialize};

/// The threads, descriptors and native code that the runtime itself keeps at the freeze point, and which do
/// not prevent forking.
///
/// Always allowed are descriptors 0 to 3, [`crate::TMP_FD`], `/dev/null` and the like, files open for reading
/// only, epoll instances, eventfds, signalfds, and pipes with both ends in the process, by which event loops
/// wake themselves up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealSpec {
    /// Most threads besides the main one. `fork` does not copy them, so they must not hold any lock at the
    /// freeze point.
    pub extra_threads: u32,
    /// Names (`/proc/PID/task/TID/comm`) that these threads must have; empty means any.
    pub thread_names: Vec<String>,
    /// Numbers of further descriptors that may be open, whatever they refer to.
    pub descriptors: Vec<i32>,
    /// Path prefixes, as seen inside, of the runtime's own native code besides `/usr`. Other native code is
    /// reported in [`Sealed::native_code`].
    pub native_prefixes: Vec<String>,
}

/// The report on a zygote that can be forked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Threads, including the main one.
    pub threads: u32,
    /// Open descriptors.
    pub descriptors: u32,
    /// The process's private memory in bytes; `None` where the kernel does not report it.
    pub private_bytes: Option<u64>,
    /// Its proportional share (PSS) of all memory that it maps.
    pub pss_bytes: Option<u64>,
    /// Files with native code outside `/usr` and the runtime's prefixes, at most a fixed number of them. They
    /// do not prevent forking, but native code can do what the runtime's language cannot.
    pub native_code: Vec<String>,
}
