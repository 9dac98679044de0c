//! Inspects the processes of a zygote's sandbox from outside: the zygote when it is sealed
//! ([`Zygote::seal`]), and each clone before it gets any work ([`Zygote::check`]).
//!
//! Everything is read from the kernel and nothing is asked of the processes, which are considered hostile.

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

/// A sandbox's zygote, as known to the launcher.
#[derive(Debug)]
pub(crate) struct Zygote {
    /// The device number of the tmpfs that it started with as [`crate::TMP_FD`].
    tmp_device: u64,
    sealed: Option<Baseline>,
}

/// The state of the zygote when it was sealed.
#[derive(Debug)]
struct Baseline {
    main: Process,
    pid_namespace: u64,
    /// Its uid on the host.
    owner: u32,
    task_list: descriptors::Listing,
    threads: Vec<u32>,
    descriptor_list: descriptors::Listing,
    descriptors: Vec<descriptors::Descriptor>,
    /// `None` where the kernel does not hand out or compare descriptors.
    kept: Option<kept::Kept>,
    /// Descriptors and processes that appeared later, and when. An honest zygote has some during a fork.
    passing: HashMap<String, Instant>,
}

impl Zygote {
    pub(crate) fn new(tmp_device: u64) -> Self {
        Self { tmp_device, sealed: None }
    }

    /// The main process, once it has been sealed.
    pub(crate) fn main(&self) -> Option<Process> {
        self.sealed.as_ref().map(|baseline| baseline.main)
    }
}
