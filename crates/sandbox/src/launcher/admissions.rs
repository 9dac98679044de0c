//! Admission of clones to their cells.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::cells::{Cell, Stage};
use super::{Launcher, OOM, PIDFD};
use crate::descriptors::keep;
use crate::error::Fault;
use crate::inspect::{Candidate, Finding, Process, pidfd};
use crate::wire::Event;

/// How long a zygote may take to close its copies of the descriptors that it was sent for a clone.
const PATIENCE: Duration = Duration::from_secs(2);
/// The first pause before an admission is tried again. A later one is a quarter of all before it together.
const FIRST_PAUSE: Duration = Duration::from_micros(200);

impl Launcher {
    pub(super) fn admit(&mut self, sid: u64, pid: u32) {
        let since = Instant::now();
        // So that the turn of its fork is known.
        self.hear();
        let is_free = |cell: &&mut Cell| matches!(cell.stage, Stage::Empty | Stage::Expecting);
        let Some(cell) = self.cells.get_mut(&sid).filter(is_free) else {
            return self.tell(&Event::Failed { sid, fault: Fault::Ended }, &[]);
        };
        if let Some(turn) = cell.turn {
            self.watch.came(cell.zygote, turn);
        }
        // Opened before any inspection: while the pidfd reports it alive, the process id means this process.
        match pidfd::open(pid) {
            Ok(pidfd) => {
                cell.stage = Stage::Waiting { pid, pidfd: keep(pidfd), since };
                self.try_to_admit(sid);
            }
            Err(error) => {
                self.lapse(sid);
                self.give_back(sid);
                let fault = Finding::from(error).into_fault();
                self.tell(&Event::Failed { sid, fault }, &[]);
            }
        }
    }

    /// Tries the admissions again that had to wait and are due: of each zygote until one has to wait again. So
    /// a zygote that keeps many waiting costs one look between two requests of the server.
    pub(super) fn check_waiting(&mut self) {
        let now = Instant::now();
        let mut in_the_way = Vec::new();
        for (sid, due) in std::mem::take(&mut self.waiting) {
            let Some(zygote) = self.cells.get(&sid).map(|cell| cell.zygote) else { continue };
            if due > now || in_the_way.contains(&zygote) {
                self.waiting.push((sid, due));
                continue;
            }
            let waiting = self.waiting.len();
            self.try_to_admit(sid);
            if self.waiting.len() > waiting {
                in_the_way.push(zygote);
            }
        }
    }

    /// How long until an admission is tried again.
    pub(super) fn waiting_patience(&self) -> Option<Duration> {
        let due = self.waiting.iter().map(|(_, due)| *due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn try_to_admit(&mut self, sid: u64) {
        let Some(Cell { stage: Stage::Waiting { since, .. }, .. }) = self.cells.get(&sid) else { return };
        let waited = since.elapsed();
        match self.look(sid) {
            Ok(streams) => self.let_in(sid, streams),
            // What was found then says nothing of what it was.
            Err(Finding::Passing(_) | Finding::Tampered(_)) if self.has_ended(sid) => {
                self.refuse(sid, Finding::Ended.into_fault());
            }
            Err(Finding::Passing(_)) if waited < PATIENCE => {
                self.waiting.push((sid, Instant::now() + pause(waited)));
            }
            Err(finding) => self.refuse(sid, finding.into_fault()),
        }
    }

    /// Inspects the process, moves it into its cell's cgroup, and checks again what may have changed
    /// meanwhile.
    fn look(&mut self, sid: u64) -> Result<Vec<String>, Finding> {
        let zygote = self.cells.get(&sid).ok_or(Finding::Ended)?.zygote;
        let members = self.members_of(zygote)?;
        // After the processes, so that each of them was announced that was asked for.
        self.hear();
        let cell = self.cells.get(&sid).ok_or(Finding::Ended)?;
        let Stage::Waiting { pid, pidfd, .. } = &cell.stage else { return Err(Finding::Ended) };
        let late = self.watch.late(cell.zygote);
        let live = self.live.get_mut(&cell.zygote).ok_or(Finding::Ended)?;
        let group = live.slot.leaf.as_ref().ok_or(Finding::Ended)?;
        let siblings = || self.cells.values().filter(|other| other.zygote == cell.zygote);
        // Searched on demand rather than collected: there may be a thousand clones, and each inspection asks
        // for a few streams only.
        let has = |other: &Cell, stream: &str| match &other.stage {
            Stage::Running { streams, .. } => streams.iter().any(|its| its == stream),
            _ => false,
        };
        let candidate = Candidate {
            process: Process(*pid),
            pidfd: pidfd.as_fd(),
            tmp_device: cell.tmp_device,
            tmp_devices: &|device| self.cells.values().any(|other| other.tmp_device == device),
            taken: &|stream| siblings().any(|other| has(other, stream)),
            members: &members,
            init: live.pid,
            forks: siblings().filter(|other| other.expects_a_process()).count() - 1 + late,
        };
        let zygote = live.zygote.as_mut().ok_or(Finding::Ended)?;
        let streams = zygote.check(&candidate)?;
        cell.leaf.take_in(*pid)?;
        zygote.check_again(candidate.process, live.pid, &group.members()?)?;
        // Alive to the end, so everything was read from one and the same process.
        if pidfd::is_alive(pidfd.as_fd()) { Ok(streams) } else { Err(Finding::Ended) }
    }

    /// The processes in the cgroup of a zygote.
    pub(super) fn members_of(&self, zygote: u64) -> Result<Vec<u32>, Finding> {
        let group = self.live.get(&zygote).and_then(|live| live.slot.leaf.as_ref()).ok_or(Finding::Ended)?;
        Ok(group.members()?)
    }

    fn has_ended(&self, sid: u64) -> bool {
        let Some(Cell { stage: Stage::Waiting { pid, pidfd, .. }, .. }) = self.cells.get(&sid) else {
            return true;
        };
        !pidfd::is_alive(pidfd.as_fd()) || Process(*pid).is_leaving()
    }

    fn let_in(&mut self, sid: u64, streams: Vec<String>) {
        let Some(cell) = self.cells.get_mut(&sid) else { return };
        let Stage::Waiting { pidfd, since, .. } = std::mem::replace(&mut cell.stage, Stage::Empty) else {
            return;
        };
        let watched = [(Some(pidfd.as_fd()), PIDFD), (cell.leaf.oom_event(), OOM)];
        for (fd, kind) in watched {
            if let Some(fd) = fd {
                let _ = epoll::add(&self.epoll, fd, EventData::new_u64(sid * 4 + kind), EventFlags::IN);
            }
        }
        let setup_us = since.elapsed().as_micros() as u64;
        let started = Event::Started { sid, setup_us };
        let _ = crate::wire::send(self.server.as_fd(), &started, &[pidfd.as_fd()]);
        cell.stage = Stage::Running { pidfd, setup_us, streams };
    }

    /// Refuses a process, and kills it only if it belongs to the sandbox: the process id came from a hostile
    /// zygote and may be any.
    pub(super) fn refuse(&mut self, sid: u64, fault: Fault) {
        let Some(cell) = self.cells.get_mut(&sid) else { return };
        if let Stage::Waiting { pid, pidfd, since } = std::mem::replace(&mut cell.stage, Stage::Empty) {
            let zygote = self.live.get(&cell.zygote);
            let namespace = |pid: u32| Process(pid).pid_namespace().ok();
            let ours = zygote.is_some_and(|live| {
                let main = live.zygote.as_ref().and_then(|zygote| zygote.main());
                let inside = namespace(pid).is_some() && namespace(pid) == namespace(live.pid);
                inside && pid != live.pid && main.is_some_and(|main| main.0 != pid)
            });
            if ours {
                pidfd::kill(pidfd.as_fd());
            }
            cell.stage = Stage::Ending { pidfd, setup_us: 0, since };
            self.lapse(sid);
        }
        self.tell(&Event::Failed { sid, fault }, &[]);
        self.finish(sid);
    }
}

/// The pause before an admission is tried again that has waited for so long: ever longer, and once more when
/// it may not wait any longer.
fn pause(waited: Duration) -> Duration {
    (waited / 4).max(FIRST_PAUSE).min(PATIENCE.saturating_sub(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admission_is_tried_a_few_times_and_last_at_the_end() {
        let (mut waited, mut tries) = (Duration::ZERO, 1);
        while waited < PATIENCE {
            waited += pause(waited);
            tries += 1;
        }
        assert_eq!((waited, tries < 50), (PATIENCE, true), "{tries}");
    }
}
