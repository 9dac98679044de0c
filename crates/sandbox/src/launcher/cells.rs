//! The launcher's cells for clones.

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::Launcher;
use super::start::own_tmp;
use crate::error::Fault;
use crate::seal::{SealSpec, Sealed};
use crate::spec::ResourceLimits;

/// A cell and the clone in it.
pub(super) struct Cell {
    pub(super) zygote: u64,
    pub(super) leaf: crate::cgroup::Leaf,
    /// The device number of its tmpfs, of which the launcher keeps no descriptor.
    pub(super) tmp_device: u64,
    /// The recycle key under which its cgroup is kept afterwards.
    pub(super) key: Option<String>,
    pub(super) oom: bool,
    /// The turn of its fork, once that was announced.
    pub(super) turn: Option<u64>,
    pub(super) stage: Stage,
}

/// The life of a cell.
pub(super) enum Stage {
    Empty,
    /// The zygote is about to be told to fork for it.
    Expecting,
    /// A process waits to be admitted.
    Waiting {
        pid: u32,
        pidfd: OwnedFd,
        since: Instant,
    },
    /// A process lives in it. `streams`: its pipes and sockets.
    Running {
        pidfd: OwnedFd,
        setup_us: u64,
        streams: Vec<String>,
    },
    /// Its main process has ended.
    Ending {
        pidfd: OwnedFd,
        setup_us: u64,
        since: Instant,
    },
}

impl Cell {
    /// Whether a fork for it is under way.
    pub(super) fn expects_a_process(&self) -> bool {
        matches!(self.stage, Stage::Expecting | Stage::Waiting { .. })
    }
}

impl Launcher {
    pub(super) fn seal(&mut self, sid: u64, expect: &SealSpec) -> Result<Sealed, Fault> {
        // Calls wait for the zygote's clones.
        self.come_forward(sid);
        let live = self.live.get_mut(&sid).ok_or(Fault::Ended)?;
        let leaf = live.slot.leaf.as_ref().ok_or_else(no_groups)?;
        let members = leaf.members().map_err(|error| Fault::step("list the processes", &error))?;
        let zygote = live.zygote.as_mut().ok_or_else(no_zygote)?;
        let sealed = zygote.seal(live.pid, &members, expect)?;
        if let Some(leaf) = &mut live.slot.leaf {
            leaf.make_room(1).map_err(no_room)?;
        }
        self.watch(sid);
        Ok(sealed)
    }

    /// Makes a cell; returns its tmpfs.
    pub(super) fn make_cell(
        &mut self,
        zygote: u64,
        sid: u64,
        limits: &ResourceLimits,
        tmp_bytes: u64,
    ) -> Result<OwnedFd, Fault> {
        let siblings = self.cells.values().filter(|cell| cell.zygote == zygote).count() as u64;
        let live = self.live.get_mut(&zygote).ok_or(Fault::Ended)?;
        let is_sealed = live.zygote.as_ref().ok_or_else(no_zygote)?.main().is_some();
        if let Some(leaf) = live.slot.leaf.as_mut().filter(|_| is_sealed) {
            leaf.make_room(siblings + 1).map_err(no_room)?;
        }
        let key = live.key.clone();
        let (tmp, tmp_device) = own_tmp(tmp_bytes)?;
        let mut leaf = match self.groups.take(key.as_deref()) {
            Some(leaf) => leaf,
            None => {
                let tree = self.tree.as_ref().ok_or_else(no_groups)?;
                let name = self.leaves.to_string();
                self.leaves += 1;
                tree.leaf(&name).map_err(|error| Fault::step("create a cgroup", &error))?
            }
        };
        if let Err(error) = leaf.begin(limits, 0) {
            self.remove_group(leaf);
            return Err(Fault::step("set the limits of the cgroup", &error));
        }
        let cell = Cell { zygote, leaf, tmp_device, key, oom: false, turn: None, stage: Stage::Empty };
        self.cells.insert(sid, cell);
        Ok(tmp)
    }

    /// Hears of all forks that were announced.
    pub(super) fn hear(&mut self) {
        while let Some(sid) = self.announcements.next() {
            self.expect(sid);
        }
    }

    /// The zygote is about to be told to fork for this cell.
    fn expect(&mut self, sid: u64) {
        if let Some(cell) = self.cells.get_mut(&sid).filter(|cell| matches!(cell.stage, Stage::Empty)) {
            cell.stage = Stage::Expecting;
            cell.turn = self.watch.wanted(cell.zygote);
        }
    }

    pub(super) fn drop_cell(&mut self, sid: u64) {
        self.hear();
        if self.cells.get(&sid).is_some_and(|cell| matches!(cell.stage, Stage::Empty | Stage::Expecting)) {
            self.lapse(sid);
            self.give_back(sid);
        }
    }

    /// The fork for this cell is given up, if it was announced.
    pub(super) fn lapse(&mut self, sid: u64) {
        if let Some(Cell { zygote, turn: Some(turn), .. }) = self.cells.get(&sid) {
            self.watch.lapsed(*zygote, *turn);
        }
    }

    /// Removes an empty cell.
    pub(super) fn give_back(&mut self, sid: u64) {
        if let Some(cell) = self.cells.remove(&sid)
            && let Some(leaf) = self.groups.keep(cell.key, cell.leaf)
        {
            self.remove_group(leaf);
        }
    }

    pub(super) fn remove_group(&mut self, leaf: crate::cgroup::Leaf) {
        if leaf.remove().is_err() {
            self.doomed.push(leaf);
        }
    }

    /// A zygote's pid 1 is ending and waits for every process of its pid namespace to die. Under the freezer
    /// of v1 they would not, so its cells are thawed.
    pub(super) fn let_cells_die(&self, zygote: u64) {
        for cell in self.cells.values().filter(|cell| cell.zygote == zygote) {
            if cell.leaf.needs_thaw_to_die() {
                let _ = cell.leaf.freeze(false);
            }
        }
    }

    /// A zygote's sandbox has ended with all its processes: no clone will come to its empty cells.
    pub(super) fn end_cells_of(&mut self, zygote: u64) {
        let all = self.cells.iter().filter(|(_, cell)| cell.zygote == zygote);
        let (mut empty, mut waiting) = (Vec::new(), Vec::new());
        for (sid, cell) in all {
            match cell.stage {
                Stage::Empty | Stage::Expecting => empty.push(*sid),
                Stage::Waiting { .. } => waiting.push(*sid),
                // Each of these reports its own end.
                Stage::Running { .. } | Stage::Ending { .. } => {}
            }
        }
        for sid in empty {
            self.give_back(sid);
        }
        for sid in waiting {
            self.refuse(sid, Fault::Ended);
        }
    }
}

fn no_zygote() -> Fault {
    Fault::Invalid { what: "the sandbox was not made to be forked; set `zygote`".into() }
}

fn no_room(error: std::io::Error) -> Fault {
    Fault::step("make room for forked processes", &error)
}

fn no_groups() -> Fault {
    Fault::Unavailable {
        what: "a cgroup for each forked process".into(),
        remedy: "run as root; see `flint doctor`".into(),
    }
}
