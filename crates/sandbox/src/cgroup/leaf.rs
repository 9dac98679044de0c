//! The cgroup of one sandbox: limits while it runs, accounting, and its reuse by the next sandbox.

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::counters::Counters;
use super::{Controller, Tree, Version, field, put, sockets};
use crate::descriptors::keep;
use crate::outcome::Usage;
use crate::spec::ResourceLimits;

/// The CFS bandwidth period, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;

/// Room in the zygote's memory limit for each living clone. The clone's own cgroup is charged only from its
/// admission on; what the kernel copies during `fork`, page tables above all, stays charged to the zygote.
/// That is some 0.4 to 0.7 MiB, and without room for it the OOM killer ends the zygote and all its clones.
const FORK: u64 = 8 << 20;
const FORK_PART: u64 = 64;
/// Room is made for at least so many clones at a time.
const FORKS_AT_LEAST: u64 = 16;

/// The cgroup of one sandbox in every hierarchy in use.
#[derive(Debug)]
pub(crate) struct Leaf {
    memory: Option<(Version, PathBuf)>,
    pids: Option<PathBuf>,
    cpu: Option<(Version, PathBuf)>,
    cpuacct: Option<PathBuf>,
    freezer: Option<PathBuf>,
    unified: Option<PathBuf>,
    /// `cgroup.procs` of each v1 hierarchy, into which a sandbox's pid 1 writes itself.
    entrances: Vec<OwnedFd>,
    /// The v2 directory, for `CLONE_INTO_CGROUP`.
    clone_into: Option<OwnedFd>,
    /// `cgroup.events` of v2.
    events: Option<OwnedFd>,
    /// `cgroup.procs` of v2.
    unified_entrance: Option<OwnedFd>,
    /// v1: becomes readable when the memory limit is hit.
    oom_event: Option<OwnedFd>,
    counters: Counters,
    limits: Option<(ResourceLimits, u32)>,
    /// How many clones the present memory limit has room for.
    forks: u64,
    /// Whether the cgroup was told to freeze. On v2 a frozen process dies of SIGKILL, and the empty cgroup
    /// stays frozen.
    frozen: Cell<bool>,
    /// Whether `cpu.idle` is set.
    idle: Cell<bool>,
}

impl Leaf {
    pub(super) fn create(tree: &Tree, name: &str) -> io::Result<Self> {
        let at = |controller| tree.place(controller).map(|(version, path)| (version, path.join(name)));
        let unified = tree.unified().map(|path| path.join(name));
        let v1 =
            |controller| at(controller).filter(|(version, _)| *version == Version::V1).map(|(_, path)| path);
        let mut leaf = Self {
            memory: at(Controller::Memory),
            pids: at(Controller::Pids).map(|(_, path)| path),
            cpu: at(Controller::Cpu),
            cpuacct: if unified.is_some() { None } else { v1(Controller::Cpuacct) },
            freezer: if unified.is_some() { None } else { v1(Controller::Freezer) },
            unified,
            entrances: Vec::new(),
            clone_into: None,
            events: None,
            unified_entrance: None,
            oom_event: None,
            counters: Counters::default(),
            limits: None,
            forks: 0,
            frozen: Cell::new(false),
            idle: Cell::new(false),
        };
        leaf.build().inspect_err(|_| {
            let _ = leaf.remove();
        })?;
        Ok(leaf)
    }

    fn build(&mut self) -> io::Result<()> {
        for directory in self.directories() {
            match fs::create_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let procs = fs::OpenOptions::new().read(true).write(true).open(directory.join("cgroup.procs"))?;
            if Some(&directory) == self.unified.as_ref() {
                self.clone_into = Some(keep(fs::File::open(&directory)?.into()));
                self.events = Some(keep(fs::File::open(directory.join("cgroup.events"))?.into()));
                self.unified_entrance = Some(keep(procs.into()));
            } else {
                self.entrances.push(keep(procs.into()));
            }
        }
        match &self.memory {
            Some((Version::V1, path)) => self.oom_event = watch_oom_v1(path).ok().map(keep),
            Some((Version::V2, path)) => {
                let _ = put(path, "memory.oom.group", 1);
                let _ = put(path, "memory.swap.max", 0);
            }
            None => {}
        }
        self.counters =
            Counters::open(self.memory.as_ref(), self.unified.as_deref(), self.cpuacct.as_deref());
        Ok(())
    }

    fn directories(&self) -> Vec<PathBuf> {
        let all = [
            self.memory.as_ref().map(|(_, path)| path),
            self.pids.as_ref(),
            self.cpu.as_ref().map(|(_, path)| path),
            self.cpuacct.as_ref(),
            self.freezer.as_ref(),
            self.unified.as_ref(),
        ];
        let mut all: Vec<PathBuf> = all.into_iter().flatten().cloned().collect();
        all.sort();
        all.dedup();
        all
    }

    /// Prepares for a new sandbox: thaws, sets the limits (with `extra` processes of our own) and resets the
    /// counters.
    pub(crate) fn begin(&mut self, limits: &ResourceLimits, extra: u32) -> io::Result<()> {
        if self.frozen.get() {
            self.freeze(false)?;
        }
        self.set_idle(false);
        if self.limits != Some((*limits, extra)) || self.forks > 0 {
            self.limits = None;
            self.set_limits(limits, extra)?;
            (self.limits, self.forks) = (Some((*limits, extra)), 0);
        }
        self.counters.begin()?;
        if let Some(event) = &self.oom_event {
            let _ = rustix::io::read(event, &mut [0u8; 8]);
        }
        Ok(())
    }

    fn set_memory(&self, bytes: u64) -> io::Result<()> {
        match &self.memory {
            Some((Version::V1, path)) => {
                // The kernel refuses a memory limit above that of memory and swap, so the latter is raised
                // first.
                let _ = put(path, "memory.memsw.limit_in_bytes", bytes);
                put(path, "memory.limit_in_bytes", bytes)?;
                let _ = put(path, "memory.memsw.limit_in_bytes", bytes);
                let _ = put(path, "memory.swappiness", 0);
                // v1 does not charge TCP and UDP socket buffers to the memory limit; without a limit of their
                // own they are bounded by the host's only.
                let _ = put(path, "memory.kmem.tcp.limit_in_bytes", sockets::limit(bytes));
                Ok(())
            }
            Some((Version::V2, path)) => put(path, "memory.max", bytes),
            None => Ok(()),
        }
    }

    fn set_limits(&self, limits: &ResourceLimits, extra: u32) -> io::Result<()> {
        self.set_memory(limits.memory_bytes)?;
        if let Some(path) = &self.pids {
            put(path, "pids.max", u64::from(limits.processes) + u64::from(extra))?;
        }
        let quota = (u64::from(limits.cpu_millis) * CPU_PERIOD_US / 1000).max(1000);
        match &self.cpu {
            Some((Version::V1, path)) => {
                put(path, "cpu.cfs_period_us", CPU_PERIOD_US)?;
                match put(path, "cpu.cfs_quota_us", quota) {
                    // v1 refuses a quota above an ancestor's, as in a container with fewer CPUs. The
                    // ancestor's quota applies in any case.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                        put(path, "cpu.cfs_quota_us", -1)?;
                    }
                    other => other?,
                }
            }
            Some((Version::V2, path)) => put(path, "cpu.max", format_args!("{quota} {CPU_PERIOD_US}"))?,
            None => {}
        }
        Ok(())
    }

    /// Raises the memory limit so that `forks` clones can be forked from this sandbox. User code has run in
    /// it, so it gets no more than these need.
    pub(crate) fn make_room(&mut self, forks: u64) -> io::Result<()> {
        let Some((limits, _)) = self.limits.filter(|_| forks > self.forks) else { return Ok(()) };
        let forks = forks.next_power_of_two().max(FORKS_AT_LEAST);
        let room = forks.saturating_mul(FORK + limits.memory_bytes / FORK_PART);
        self.set_memory(limits.memory_bytes.saturating_add(room))?;
        self.forks = forks;
        Ok(())
    }

    /// The v2 directory, for `CLONE_INTO_CGROUP`.
    pub(crate) fn clone_into(&self) -> Option<BorrowedFd<'_>> {
        self.clone_into.as_ref().map(AsFd::as_fd)
    }

    /// Moves the calling process into the v1 cgroups.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for entrance in &self.entrances {
            rustix::io::write(entrance, b"0")?;
        }
        Ok(())
    }

    /// Moves a process into the cgroup of every hierarchy.
    pub(crate) fn take_in(&self, pid: u32) -> io::Result<()> {
        let text = pid.to_string();
        for entrance in self.entrances.iter().chain(&self.unified_entrance) {
            rustix::io::write(entrance, text.as_bytes())?;
        }
        Ok(())
    }

    /// v1: readable when the memory limit is hit and the OOM killer is about to run.
    pub(crate) fn oom_event(&self) -> Option<BorrowedFd<'_>> {
        self.oom_event.as_ref().map(AsFd::as_fd)
    }

    /// Whether a process was killed for memory since [`Self::begin`].
    pub(crate) fn oom_killed(&self) -> bool {
        self.counters.oom_killed()
    }

    /// What the sandbox uses now and has used.
    pub(crate) fn usage(&self) -> Usage {
        self.counters.usage()
    }

    /// The same without the present memory.
    pub(crate) fn spent(&self) -> Usage {
        self.counters.spent()
    }

    /// Whether another sandbox may reuse it: v2 before Linux 6.12 cannot reset the memory peak.
    pub(crate) fn recyclable(&self) -> bool {
        self.counters.can_begin_again()
    }

    /// Whether this host has a freezer.
    pub(crate) fn can_freeze(&self) -> bool {
        self.unified.is_some() || self.freezer.is_some()
    }

    /// Starts to freeze or to thaw; [`Self::is_frozen`] tells when freezing is complete.
    pub(crate) fn freeze(&self, frozen: bool) -> io::Result<()> {
        match (&self.unified, &self.freezer) {
            (Some(path), _) => put(path, "cgroup.freeze", u8::from(frozen)),
            (None, Some(path)) => put(path, "freezer.state", if frozen { "FROZEN" } else { "THAWED" }),
            (None, None) => Ok(()),
        }?;
        self.frozen.set(frozen);
        Ok(())
    }

    /// Whether SIGKILL has no effect on a frozen process: so it is with the freezer of v1.
    pub(crate) fn needs_thaw_to_die(&self) -> bool {
        self.unified.is_none() && self.freezer.is_some()
    }

    /// Gives its processes the CPU only while no other leaf of the tree wants it (`cpu.idle`, Linux 5.15), or
    /// an equal share again. No effect where there is no such file.
    pub(crate) fn set_idle(&self, idle: bool) {
        if self.idle.get() != idle
            && let Some((_, path)) = &self.cpu
            && put(path, "cpu.idle", u8::from(idle)).is_ok()
        {
            self.idle.set(idle);
        }
    }

    /// Whether every process in it is frozen.
    pub(crate) fn is_frozen(&self) -> bool {
        match (&self.unified, &self.freezer) {
            (Some(path), _) => field(path, "cgroup.events", "frozen").is_ok_and(|frozen| frozen == 1),
            (None, Some(path)) => {
                fs::read_to_string(path.join("freezer.state")).is_ok_and(|state| state.trim() == "FROZEN")
            }
            (None, None) => false,
        }
    }

    /// Process ids of its members, without zombies.
    pub(crate) fn members(&self) -> io::Result<Vec<u32>> {
        // v1 builds the list when `cgroup.procs` is opened and serves later reads from it, so the file is
        // opened each time.
        let Some(procs) = &self.unified_entrance else {
            return self
                .directories()
                .first()
                .map_or(Ok(Vec::new()), |directory| super::processes(directory));
        };
        let mut text = Vec::with_capacity(256);
        let mut bytes = [0u8; 4096];
        loop {
            let length = rustix::io::pread(procs, &mut bytes, text.len() as u64)?;
            text.extend(&bytes[..length]);
            // The kernel fills the buffer while there are members, so a read that comes back less than half
            // full was the last one.
            if length < bytes.len() / 2 {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Whether no process is in it.
    pub(crate) fn is_vacant(&self) -> bool {
        match &self.unified {
            Some(_) => self.events.as_ref().is_some_and(|events| {
                let mut bytes = [0u8; 128];
                let length = rustix::io::pread(events, &mut bytes, 0).unwrap_or(0);
                bytes[..length].starts_with(b"populated 0")
            }),
            None => self.members().is_ok_and(|members| members.is_empty()),
        }
    }

    /// Kills all members. Only `cgroup.kill` (v2, Linux 5.14) and a freezer keep them from forking meanwhile;
    /// without either this must be repeated until [`Self::is_vacant`].
    pub(crate) fn kill(&self) {
        if let Some(path) = &self.unified
            && put(path, "cgroup.kill", 1).is_ok()
        {
            return;
        }
        let _ = self.freeze(true);
        for pid in self.members().unwrap_or_default() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.freeze(false);
    }

    /// Removes the directories. Fails while a dying process is still counted as a member: try again later.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let mut result = Ok(());
        for directory in self.directories() {
            match fs::remove_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => result = Err(error),
                _ => {}
            }
        }
        result
    }
}

/// An eventfd that the kernel signals when the memory limit is hit (cgroup-v1/memory.rst, section 10).
fn watch_oom_v1(directory: &Path) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let event = rustix::event::eventfd(
        0,
        rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
    )?;
    let control = fs::File::open(directory.join("memory.oom_control"))?;
    put(directory, "cgroup.event_control", format_args!("{} {}", event.as_raw_fd(), control.as_raw_fd()))?;
    Ok(event)
}

#[cfg(test)]
mod v2_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn there_is_room_for_forks_as_long_as_there_are_some() {
        let tree = Tree::create(&format!("flint-test-room-{}", std::process::id()), None);
        let limit = |leaf: &Leaf| match &leaf.memory {
            Some((Version::V1, path)) => super::super::number(path, "memory.limit_in_bytes").ok(),
            Some((Version::V2, path)) => super::super::number(path, "memory.max").ok(),
            None => None,
        };
        let limits = ResourceLimits::default();
        let own = limits.memory_bytes;
        let mut leaf = tree.leaf("leaf").unwrap();
        leaf.begin(&limits, 0).unwrap();
        if limit(&leaf) != Some(own) {
            println!("not checked: no memory limit can be set here");
        } else {
            let with = |forks: u64| Some(own + forks * (FORK + own / FORK_PART));
            for (wanted, made) in [(1, 16), (16, 16), (17, 32), (3, 32), (500, 512)] {
                leaf.make_room(wanted).unwrap();
                assert_eq!(limit(&leaf), with(made), "{wanted}");
            }
            leaf.begin(&limits, 0).unwrap();
            assert_eq!(limit(&leaf), Some(own));
        }
        drop(leaf);
        super::super::remove_trees(&tree.directories(), std::time::Duration::from_secs(60)).unwrap();
    }

    /// A quota above the server's own, as in a container with half a CPU.
    #[test]
    fn more_than_the_server_itself_has_is_no_reason_to_refuse() {
        let tree = Tree::create(&format!("flint-test-quota-{}", std::process::id()), None);
        let Some((Version::V1, above)) = tree.place(Controller::Cpu) else {
            println!("not checked: no v1 hierarchy for the processor, or none that can be written to");
            return;
        };
        put(above, "cpu.cfs_quota_us", CPU_PERIOD_US / 2).unwrap();
        let mut leaf = tree.leaf("leaf").unwrap();
        let quota = |leaf: &Leaf| {
            let (_, path) = leaf.cpu.as_ref().unwrap();
            super::super::read(path, "cpu.cfs_quota_us").unwrap().trim().to_owned()
        };
        for (cpu_millis, expected) in [(2000, "-1"), (250, "25000"), (1000, "-1")] {
            leaf.begin(&ResourceLimits { cpu_millis, ..ResourceLimits::default() }, 0).unwrap();
            assert_eq!(quota(&leaf), expected, "{cpu_millis}");
        }
        drop(leaf);
        super::super::remove_trees(&tree.directories(), std::time::Duration::from_secs(60)).unwrap();
    }

    /// Hosts with v1 alone have neither `cgroup.kill` nor `cgroup.events`.
    #[test]
    fn v1_alone_kills_too() {
        let tree = Tree::create(&format!("flint-test-{}", std::process::id()), None).without_v2();
        if tree.is_empty()
            || tree.place(Controller::Freezer).is_none_or(|(version, _)| version != Version::V1)
        {
            println!("not checked: no v1 hierarchies, or none that can be written to");
            return;
        }
        let mut leaf = tree.leaf("leaf").unwrap();
        leaf.begin(&ResourceLimits::default(), 0).unwrap();
        assert!(leaf.is_vacant());
        let script = "read go; sleep 600 & sleep 600";
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        leaf.take_in(child.id()).unwrap();
        drop(child.stdin.take());
        assert!(leaf.members().unwrap().contains(&child.id()));
        // Killing must end frozen processes too.
        leaf.freeze(true).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !leaf.is_vacant() {
            assert!(std::time::Instant::now() < deadline, "{:?}", leaf.members());
            leaf.kill();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!child.wait().unwrap().success());
        drop(leaf);
        super::super::remove_trees(&tree.directories(), std::time::Duration::from_secs(60)).unwrap();
    }

    /// On v2 a frozen process dies of SIGKILL, and leaves the cgroup frozen.
    #[test]
    fn what_comes_next_does_not_stand_still_because_the_one_before_did() {
        let tree = Tree::create(&format!("flint-test-thaw-{}", std::process::id()), None);
        let mut leaf = tree.leaf("leaf").unwrap();
        if !leaf.can_freeze() {
            println!("not checked: no group here can be frozen");
            return;
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        for frozen in [true, false] {
            leaf.begin(&ResourceLimits::default(), 0).unwrap();
            let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
            leaf.take_in(child.id()).unwrap();
            if frozen {
                leaf.freeze(true).unwrap();
                child.kill().unwrap();
                if leaf.needs_thaw_to_die() {
                    leaf.freeze(false).unwrap();
                }
            }
            drop(child.stdin.take());
            while child.try_wait().unwrap().is_none() {
                if std::time::Instant::now() > deadline {
                    leaf.freeze(false).unwrap();
                    child.kill().unwrap();
                    panic!("it stands still");
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        drop(leaf);
        super::super::remove_trees(&tree.directories(), std::time::Duration::from_secs(60)).unwrap();
    }
}
