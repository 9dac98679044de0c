//! Events of clones in their cells: memory limits that are hit, ends.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::cells::Stage;
use super::{Launcher, OOM, PIDFD};
use crate::inspect::pidfd;
use crate::outcome::{Exit, ExitStatus};
use crate::wire::Event;

/// How long to wait for the exit status. The kernel has it once the zygote, or pid 1, has reaped the clone.
const STATUS_PATIENCE: Duration = Duration::from_millis(500);

impl Launcher {
    pub(super) fn on_clone_event(&mut self, sid: u64, kind: u64) {
        match kind {
            OOM => self.on_clone_oom(sid),
            PIDFD => self.on_clone_end(sid),
            _ => {}
        }
    }

    /// v1: ends the clone with its whole cell, as a sandbox is ended as a whole.
    fn on_clone_oom(&mut self, sid: u64) {
        let Some(cell) = self.cells.get_mut(&sid) else { return };
        if let Some(event) = cell.leaf.oom_event()
            && rustix::io::read(event, &mut [0u8; 8]).is_ok()
        {
            cell.oom = true;
            cell.leaf.kill();
        }
    }

    /// The clone's main process has ended, so its descendants are ended too.
    fn on_clone_end(&mut self, sid: u64) {
        let Some(cell) = self.cells.get_mut(&sid) else { return };
        match std::mem::replace(&mut cell.stage, Stage::Empty) {
            Stage::Running { pidfd, setup_us, .. } => {
                let _ = epoll::delete(&self.epoll, &pidfd);
                if let Some(event) = cell.leaf.oom_event() {
                    let _ = epoll::delete(&self.epoll, event);
                }
                cell.stage = Stage::Ending { pidfd, setup_us, since: Instant::now() };
                self.finish(sid);
            }
            other => cell.stage = other,
        }
    }

    /// Tries again to finish cells whose processes were still dying.
    pub(super) fn check_ending(&mut self) {
        for sid in std::mem::take(&mut self.ending) {
            self.finish(sid);
        }
    }

    /// Reports the end of a cell once no process is left in it.
    pub(super) fn finish(&mut self, sid: u64) {
        let Some(cell) = self.cells.get(&sid) else { return };
        let Stage::Ending { pidfd, setup_us, since } = &cell.stage else { return };
        let mut vacant = cell.leaf.is_vacant();
        if !vacant {
            cell.leaf.kill();
            vacant = cell.leaf.is_vacant();
        }
        let status = match pidfd::exit_status(pidfd.as_fd()) {
            Ok(Some(status)) => Some(status),
            Ok(None) if since.elapsed() < STATUS_PATIENCE => None,
            Ok(None) | Err(_) => Some(ExitStatus::Unknown),
        };
        let (Some(status), true) = (status, vacant) else {
            self.ending.push(sid);
            return;
        };
        let oom = cell.oom || cell.leaf.oom_killed();
        let exit = Exit { oom, setup_us: *setup_us, ..Exit::new(status, cell.leaf.spent()) };
        self.tell(&Event::Exited { sid, exit }, &[]);
        self.give_back(sid);
    }
}
