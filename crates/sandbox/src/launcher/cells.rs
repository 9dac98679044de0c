//! Cells: places for processes that zygotes fork.

use std::os::fd::OwnedFd;

use super::Launcher;
use crate::error::Fault;
use crate::seal::{SealSpec, Sealed};
use crate::spec::ResourceLimits;
use crate::wire::Event;

impl Launcher {
    pub(super) fn seal(&mut self, _zygote: u64, _expect: &SealSpec) -> Result<Sealed, Fault> {
        Err(not_yet())
    }

    pub(super) fn make_cell(
        &mut self,
        _zygote: u64,
        _cell: u64,
        _limits: &ResourceLimits,
        _tmp_bytes: u64,
    ) -> Result<OwnedFd, Fault> {
        Err(not_yet())
    }

    pub(super) fn admit(&mut self, sid: u64, _pid: u32) {
        self.tell(&Event::Failed { sid, fault: not_yet() }, &[]);
    }

    pub(super) fn drop_cell(&mut self, _sid: u64) {}
}

fn not_yet() -> Fault {
    Fault::Unavailable { what: "forking".into(), remedy: "not built yet".into() }
}
