//! Events of sandboxes: reports of their pid 1, memory limits that are hit, ends.

use std::os::fd::AsFd;

use rustix::event::epoll;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::{Launcher, OOM, PIDFD, REPORTS, Slot};
use crate::error::Fault;
use crate::inside::report::{self, Report};
use crate::outcome::{Exit, ExitStatus};
use crate::wire::Event;

impl Launcher {
    pub(super) fn on_sandbox_event(&mut self, token: u64) {
        let sid = token / 4;
        if self.cells.contains_key(&sid) {
            return self.on_clone_event(sid, token % 4);
        }
        match token % 4 {
            REPORTS => self.on_reports(sid),
            OOM => self.on_oom(sid),
            PIDFD => self.on_end(sid),
            _ => {}
        }
    }

    fn on_reports(&mut self, sid: u64) {
        let Some(live) = self.live.get_mut(&sid) else { return };
        let mut bytes = [0; 4096];
        let length = match rustix::io::read(&live.reports, &mut bytes) {
            Ok(0) => {
                let _ = epoll::delete(&self.epoll, &live.reports);
                self.let_cells_die(sid);
                return;
            }
            Ok(length) => length,
            Err(_) => return,
        };
        // After its first report pid 1 has a descriptor table of its own; at end of file it needs none.
        live.lent = None;
        for report in report::parse(&bytes[..length]) {
            match report {
                Report::Running if live.fault.is_none() && !live.running => {
                    live.running = true;
                    self.background.recede(sid, live);
                    live.setup_us = live.began.elapsed().as_micros() as u64;
                    let event = Event::Started { sid, setup_us: live.setup_us };
                    let listener = live.listener.take();
                    let fds: Vec<_> = [Some(live.pidfd.as_fd()), listener.as_ref().map(AsFd::as_fd)]
                        .into_iter()
                        .flatten()
                        .collect();
                    let _ = crate::wire::send(self.server.as_fd(), &event, &fds);
                }
                Report::Running => {}
                Report::Fault(fault) => {
                    live.fault.get_or_insert(fault);
                    live.kill();
                }
                Report::Ended(status) => live.status = Some(status),
            }
        }
    }

    /// v1: the memory limit was hit. The sandbox is ended as a whole, rather than the OOM killer picking one
    /// process after another.
    fn on_oom(&mut self, sid: u64) {
        let Some(live) = self.live.get_mut(&sid) else { return };
        if let Some(event) = live.slot.leaf.as_ref().and_then(|leaf| leaf.oom_event())
            && rustix::io::read(event, &mut [0u8; 8]).is_ok()
        {
            live.oom = true;
            live.kill();
        }
    }

    /// Pid 1 has ended, and with it every process of its pid namespace.
    fn on_end(&mut self, sid: u64) {
        self.on_reports(sid);
        let Some(mut live) = self.live.remove(&sid) else { return };
        let _ = waitid(WaitId::PidFd(live.pidfd.as_fd()), WaitIdOptions::EXITED);
        // The server has a duplicate of the pidfd, so closing ours would not remove it from epoll, which
        // would report the end for ever.
        let _ = epoll::delete(&self.epoll, &live.pidfd);
        let _ = epoll::delete(&self.epoll, &live.reports);
        let tampered = self.watch.forget(sid);
        let leaf = live.slot.leaf.as_ref();
        if let Some(event) = leaf.and_then(|leaf| leaf.oom_event()) {
            let _ = epoll::delete(&self.epoll, event);
        }
        if live.running {
            let usage = leaf.map(|leaf| leaf.spent()).unwrap_or_default();
            let oom = live.oom || leaf.is_some_and(|leaf| leaf.oom_killed());
            let exit = Exit {
                status: live.status.unwrap_or(ExitStatus::Signal(libc::SIGKILL)),
                oom,
                usage,
                setup_us: live.setup_us,
                tampered,
            };
            self.tell(&Event::Exited { sid, exit }, &[]);
        } else {
            let oom = live.oom || leaf.is_some_and(|leaf| leaf.oom_killed());
            let step = if oom { "set up within the memory limit" } else { "set up: pid 1 was killed" };
            let errno = if oom { libc::ENOMEM } else { libc::EIO };
            let fault = live.fault.unwrap_or(Fault::Step { step: step.into(), errno });
            self.tell(&Event::Failed { sid, fault }, &[]);
        }
        self.end_cells_of(sid);
        if let Some(net) = live.slot.net.take_if(|net| net.is_listened_in) {
            self.networks.release(net);
        }
        let recyclable = live.running && live.slot.leaf.as_ref().is_none_or(|leaf| leaf.recyclable());
        match live.key {
            Some(key) if recyclable => {
                if let Some((leaf, net)) = self.slots.keep(key, live.kind.network, live.slot) {
                    self.dispose(leaf, net);
                }
            }
            _ => self.discard(live.slot),
        }
    }

    /// Gives a slot back without its cgroup and network namespace.
    pub(super) fn discard(&mut self, slot: Slot) {
        let (leaf, net) = self.slots.blank(slot);
        self.dispose(leaf, net);
    }

    fn dispose(&mut self, leaf: Option<crate::cgroup::Leaf>, net: Option<crate::net::SandboxNet>) {
        if let Some(net) = net {
            self.networks.release(net);
        }
        if let Some(leaf) = leaf
            && leaf.remove().is_err()
        {
            self.doomed.push(leaf);
        }
    }
}
