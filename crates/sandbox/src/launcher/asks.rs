//! The launcher's answers to questions about running sandboxes.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{MoveMountFlags, move_mount};
use rustix::thread::LinkNameSpaceType;

use super::start::open_mount;
use super::{Launcher, Live};
use crate::cgroup::Leaf;
use crate::error::Fault;
use crate::outcome::Usage;
use crate::spec::Mount;
use crate::sys;
use crate::wire::{Ask, Event, Told};

/// How long freezing may take before it is reported as failed.
const FREEZE_DEADLINE: Duration = Duration::from_secs(5);

impl Launcher {
    pub(super) fn answer(&mut self, seq: u64, sid: u64, ask: Ask) {
        let (answer, socket) = match ask {
            Ask::Connect { port, v6 } => match self.connect(sid, port, v6) {
                Ok(socket) => (Ok(Told::Done), Some(socket)),
                Err(fault) => (Err(fault), None),
            },
            Ask::Listen { port } => match self.listen(sid, port) {
                Ok(socket) => (Ok(Told::Done), Some(socket)),
                Err(fault) => (Err(fault), None),
            },
            Ask::Attach { source, target } => (self.attach(sid, &source, target), None),
            Ask::Usage => (self.counted(sid, Leaf::usage), None),
            Ask::Spent => (self.counted(sid, Leaf::spent), None),
            Ask::Freeze => match self.set_frozen(sid, true) {
                Ok(()) => {
                    self.freezing.push((seq, sid, Instant::now() + FREEZE_DEADLINE));
                    return self.check_freezing();
                }
                Err(fault) => (Err(fault), None),
            },
            Ask::Thaw => (self.set_frozen(sid, false).map(|()| Told::Done), None),
            Ask::OpenNetwork => (self.open_network(sid).map(|()| Told::Done), None),
            Ask::Seal { expect } => (self.seal(sid, &expect).map(Told::Sealed), None),
            Ask::Cell { cell, limits, tmp_bytes } => match self.make_cell(sid, cell, &limits, tmp_bytes) {
                Ok(tmp) => (Ok(Told::Done), Some(tmp)),
                Err(fault) => (Err(fault), None),
            },
        };
        let fds: Vec<_> = socket.iter().map(AsFd::as_fd).collect();
        self.tell(&Event::Done { seq, answer }, &fds);
    }

    fn live(&self, sid: u64) -> Result<&Live, Fault> {
        self.live.get(&sid).ok_or(Fault::Ended)
    }

    fn leaf(&self, sid: u64) -> Result<Option<&Leaf>, Fault> {
        match self.cells.get(&sid) {
            Some(cell) => Ok(Some(&cell.leaf)),
            None => Ok(self.live(sid)?.slot.leaf.as_ref()),
        }
    }

    fn counted(&self, sid: u64, usage: impl FnOnce(&Leaf) -> Usage) -> Result<Told, Fault> {
        Ok(Told::Usage(self.leaf(sid)?.map(usage).unwrap_or_default()))
    }

    fn connect(&self, sid: u64, port: u16, v6: bool) -> Result<std::os::fd::OwnedFd, Fault> {
        // A clone shares its zygote's network namespace.
        let sid = self.cells.get(&sid).map_or(sid, |cell| cell.zygote);
        let net = self.live(sid)?.slot.net.as_ref().ok_or(Fault::Ended)?;
        self.networks
            .connect(net.namespace.as_fd(), port, v6)
            .map_err(|error| Fault::step(format!("connect to port {port}"), &error))
    }

    fn listen(&mut self, sid: u64, port: u16) -> Result<std::os::fd::OwnedFd, Fault> {
        let net = self.live.get_mut(&sid).and_then(|live| live.slot.net.as_mut()).ok_or(Fault::Ended)?;
        self.networks
            .listen(net, port)
            .map_err(|error| Fault::step(format!("listen on port {port} inside"), &error))
    }

    fn open_network(&mut self, sid: u64) -> Result<(), Fault> {
        let net = self.live.get_mut(&sid).and_then(|live| live.slot.net.as_mut()).ok_or(Fault::Ended)?;
        self.networks.set_open(net, true)
    }

    fn set_frozen(&self, sid: u64, frozen: bool) -> Result<(), Fault> {
        let Some(leaf) = self.leaf(sid)?.filter(|leaf| leaf.can_freeze()) else {
            return Err(Fault::Unavailable {
                what: "freezing".into(),
                remedy: "it needs cgroup v2 or the v1 freezer hierarchy, writable for the server".into(),
            });
        };
        let step = if frozen { "freeze" } else { "thaw" };
        leaf.freeze(frozen).map_err(|error| Fault::step(step, &error))
    }

    /// Answers the freezes that are complete or overdue, or whose sandbox has ended.
    pub(super) fn check_freezing(&mut self) {
        let now = Instant::now();
        for (seq, sid, deadline) in std::mem::take(&mut self.freezing) {
            let answer = match self.leaf(sid) {
                Err(fault) => Err(fault),
                Ok(leaf) if leaf.is_none_or(Leaf::is_frozen) => Ok(Told::Done),
                Ok(_) if now > deadline => {
                    Err(Fault::Step { step: "freeze within 5 s".into(), errno: libc::ETIMEDOUT })
                }
                Ok(_) => {
                    self.freezing.push((seq, sid, deadline));
                    continue;
                }
            };
            self.tell(&Event::Done { seq, answer }, &[]);
        }
    }

    /// Mounts `source` read-only in a running sandbox. This takes root ([`crate::Launcher::can_attach`]): the
    /// launcher enters the sandbox's mount namespace and comes back.
    fn attach(&mut self, sid: u64, source: &Path, target: String) -> Result<Told, Fault> {
        if self.cells.contains_key(&sid) {
            let what = "a forked process has the mounts of its zygote; attach to that";
            return Err(Fault::Invalid { what: what.into() });
        }
        let kind = self.live(sid)?.kind;
        let template = self.templates.get_mut(&kind).ok_or(Fault::Ended)?;
        let mount = Mount { source: source.to_owned(), target, readonly: true };
        let tree = open_mount(template, &mount)?;
        let live = self.live(sid)?;
        let step = |error: std::io::Error| Fault::step(format!("attach {}", mount.target), &error);
        sys::enter_mounts_of(live.pidfd.as_fd()).map_err(step)?;
        // No symbolic link is followed: user code may have planted some, in `/tmp` for instance.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let attached =
            rustix::fs::openat2(CWD, &mount.target, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
                .and_then(|place| {
                    let flags =
                        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
                    move_mount(&tree, "", &place, "", flags)
                });
        sys::enter(self.mounts.as_fd(), LinkNameSpaceType::Mount).map_err(step)?;
        attached.map(|()| Told::Done).map_err(|error| step(error.into()))
    }
}
