//! What a zygote may have open when it is sealed, and what was found.

use serde::{Deserialize, Serialize};

/// What the runtime itself keeps at the freeze point, and which is therefore no reason against forking.
///
/// Always fine are descriptors 0 to 3, [`crate::TMP_FD`], `/dev/null` and the like, files open for reading only, event polls, eventfds, and pipes with both ends in the process
/// (event loops wake themselves with these).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealSpec {
    /// Most threads besides the main one. A fork does not copy them, so only threads that hold no lock at the freeze point can be tolerated.
    pub extra_threads: u32,
    /// Names (`/proc/PID/task/TID/comm`) that these threads must have; empty: any.
    pub thread_names: Vec<String>,
    /// Further descriptors that may be open, by number, whatever they are.
    pub descriptors: Vec<i32>,
    /// Where the runtime's own native code is, as seen inside, besides `/usr`; code mapped from elsewhere is named in [`Sealed::native_code`].
    pub native_prefixes: Vec<String>,
}

/// A zygote that can be forked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Threads, the main one included.
    pub threads: u32,
    /// Open descriptors.
    pub descriptors: u32,
    /// Memory that is the process' own, in bytes; `None` where the kernel does not say.
    pub private_bytes: Option<u64>,
    /// Its share of all memory it maps.
    pub pss_bytes: Option<u64>,
    /// Files with native code outside of `/usr` and the runtime's prefixes, some of them where there are many. Not in the way of forking, but such code can do what a runtime's own language
    /// cannot.
    pub native_code: Vec<String>,
}
