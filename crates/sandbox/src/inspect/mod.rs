//! Processes of a zygote's sandbox, looked at from outside: at the freeze point ([`Zygote::seal`]), and each fork before it gets anything to work on
//! ([`Zygote::check`]).
//!
//! Everything here is read from the kernel; nothing is asked of the processes, which count as hostile.

mod check;
mod descriptors;
mod kcmp;
mod kept;
mod mappings;
pub(crate) mod pidfd;
mod process;
mod seal;
mod sockets;

use std::collections::HashMap;
use std::time::Instant;

pub(crate) use check::{Candidate, Finding};
pub(crate) use process::Process;

/// What is known of the main process of a sandbox whose main process is forked.
#[derive(Debug)]
pub(crate) struct Zygote {
    /// The file system that it started with as [`crate::TMP_FD`].
    tmp_device: u64,
    sealed: Option<Baseline>,
}

/// What it was when it was sealed.
#[derive(Debug)]
struct Baseline {
    main: Process,
    pid_namespace: u64,
    /// Its user on the host.
    owner: u32,
    task_list: descriptors::Listing,
    threads: Vec<u32>,
    descriptor_list: descriptors::Listing,
    descriptors: Vec<descriptors::Descriptor>,
    /// Where the kernel can do that.
    kept: Option<kept::Kept>,
    /// Descriptors and processes that came later, and since when. An honest zygote has some, for the moment of a fork.
    passing: HashMap<String, Instant>,
}

impl Zygote {
    pub(crate) fn new(tmp_device: u64) -> Self {
        Self { tmp_device, sealed: None }
    }

    /// The main process, when it has been sealed.
    pub(crate) fn main(&self) -> Option<Process> {
        self.sealed.as_ref().map(|baseline| baseline.main)
    }
}
