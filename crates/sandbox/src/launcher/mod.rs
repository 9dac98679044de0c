//! The launcher process: small and single-threaded, the only process that makes sandboxes. It serves one
//! server over one socket and ends, with everything it made, when that socket closes.

mod admissions;
mod asks;
mod background;
mod become_launcher;
mod cells;
mod clones;
mod events;
mod groups;
mod slots;
mod start;
mod users;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use crate::announcements::Announcements;
use crate::cgroup::{Leaf, Tree};
use crate::error::Fault;
use crate::inspect::{Zygote, pidfd};
use crate::net::Namespaces;
use crate::outcome::ExitStatus;
use crate::root::{RootKind, Template};
use crate::spec::LauncherConfig;
use crate::wire::{self, Event, MESSAGE_MAX, Request};
use background::Background;
pub(crate) use become_launcher::is_root;
use cells::{Cell, Stage};
use groups::Groups;
use slots::{Slot, Slots};
use start::Lent;
use watch::Watch;

/// The argument that turns an executable into a launcher.
pub(crate) const ARGUMENT: &str = "__launcher";

/// See [`crate::launcher_entry`].
pub(crate) fn entry() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT) {
        let code = become_launcher::serve();
        std::process::exit(code);
    }
}

/// The state of the launcher.
struct Launcher {
    config: LauncherConfig,
    server: OwnedFd,
    announcements: Announcements,
    epoll: OwnedFd,
    rootless: bool,
    /// The launcher's own mount namespace, to return to.
    mounts: OwnedFd,
    tree: Option<Tree>,
    templates: HashMap<RootKind, Template>,
    networks: Namespaces,
    slots: Slots,
    /// The number of the next cgroup.
    leaves: u64,
    live: HashMap<u64, Live>,
    /// Sandboxes in the order of their start. Those at the front that have come up are removed.
    starting: VecDeque<u64>,
    /// Cells and the clones in them.
    cells: HashMap<u64, Cell>,
    /// Cgroups of ended cells.
    groups: Groups,
    /// Cells whose admission must be tried again, and when.
    waiting: Vec<(u64, Instant)>,
    watch: Watch,
    /// Cells whose main process has ended and whose cgroup may not be empty yet.
    ending: Vec<u64>,
    background: Background,
    /// Cgroups whose removal must be tried again.
    doomed: Vec<Leaf>,
    /// Freezes under way: sequence number, sandbox, deadline.
    freezing: Vec<(u64, u64, Instant)>,
    host_looked_at: Instant,
    state: PathBuf,
}

/// A sandbox that has not ended.
struct Live {
    pidfd: OwnedFd,
    /// The reports of its pid 1.
    reports: OwnedFd,
    slot: Slot,
    /// The descriptors that its pid 1 has not taken over yet.
    lent: Option<Lent>,
    began: Instant,
    setup_us: u64,
    running: bool,
    /// The socket that listens inside, until it is sent to the server.
    listener: Option<OwnedFd>,
    fault: Option<Fault>,
    status: Option<ExitStatus>,
    oom: bool,
    /// The process id of its pid 1 on the host.
    pid: u32,
    kind: RootKind,
    key: Option<String>,
    background: Option<Duration>,
    /// Present if its main process may be forked.
    zygote: Option<Zygote>,
}

/// How long a sandbox may take to come up.
const SETUP_DEADLINE: Duration = Duration::from_secs(20);

/// How long cgroups may stay busy with dying processes at shutdown. The server waits longer than this for the
/// launcher's exit.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// How often, while egress keeps others from forwarding, it is seen whether they want to.
const LOOK_AT_HOST: Duration = Duration::from_secs(5);

/// The tokens of epoll: the server's two sockets, and for each sandbox `sid * 4` plus one of the others.
const SERVER: u64 = 0;
const ANNOUNCEMENTS: u64 = 1;
const PIDFD: u64 = 1;
const REPORTS: u64 = 2;
const OOM: u64 = 3;

impl Launcher {
    /// Serves until the server closes the socket or asks for the shutdown.
    fn run(&mut self) {
        let mut buffer = vec![0; MESSAGE_MAX];
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        let mut idle = true;
        loop {
            events.clear();
            let patience = self.patience(idle);
            let timeout = patience.map(|patience| rustix::event::Timespec {
                tv_sec: patience.as_secs() as _,
                tv_nsec: patience.subsec_nanos() as _,
            });
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            // Ends come first, so that their slots serve the starts; the server's messages come last.
            for event in &events {
                match event.data.u64() {
                    SERVER => {}
                    ANNOUNCEMENTS => self.hear(),
                    other => self.on_sandbox_event(other),
                }
            }
            if events.iter().any(|event| event.data.u64() == SERVER) && !self.on_server(&mut buffer) {
                return;
            }
            self.on_time();
            idle = if events.is_empty() { self.networks.restock() } else { true };
        }
    }

    /// How long to wait for events; `None` without pending work.
    fn patience(&self, idle: bool) -> Option<Duration> {
        let timed = [self.waiting_patience(), self.watch.patience(), self.working_patience(idle)];
        timed.into_iter().flatten().min()
    }

    fn working_patience(&self, idle: bool) -> Option<Duration> {
        if !self.freezing.is_empty() || !self.ending.is_empty() {
            Some(Duration::from_millis(1))
        } else if idle {
            Some(Duration::from_millis(3))
        } else if !self.doomed.is_empty() {
            Some(Duration::from_millis(20))
        } else if !self.background.is_empty() {
            Some(background::LOOK_EVERY)
        } else if !self.starting.is_empty() {
            Some(Duration::from_secs(1))
        } else if self.networks.watches_host() {
            Some(LOOK_AT_HOST)
        } else {
            None
        }
    }

    /// Handles one message of the server; false when it was the last.
    fn on_server(&mut self, buffer: &mut [u8]) -> bool {
        let (request, fds) = match wire::receive::<Request<'_>>(self.server.as_fd(), buffer) {
            Ok(Some(message)) => message,
            Ok(None) => return false,
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        };
        match request {
            Request::Hello { .. } => {}
            Request::Start { sid, spec, stdin, link, listen } => {
                self.start(sid, &spec, [stdin, link], listen, fds)
            }
            Request::StartAside { sid, length } => self.start_aside(sid, length, fds),
            Request::Admit { sid, pid } => self.admit(sid, pid),
            Request::DropCell { sid } => self.drop_cell(sid),
            Request::Foreground { sid } => self.come_forward(sid),
            Request::Kill { sid } => self.kill(sid),
            Request::Ask { seq, sid, ask } => self.answer(seq, sid, ask),
            Request::Shutdown => return false,
        }
        true
    }

    /// Kills a sandbox or a clone. The end is reported when it has come.
    fn kill(&self, sid: u64) {
        match self.cells.get(&sid).map(|cell| &cell.stage) {
            // `finish` kills what else is in its cgroup.
            Some(Stage::Running { pidfd, .. }) => pidfd::kill(pidfd.as_fd()),
            Some(_) => {}
            None => {
                if let Some(live) = self.live.get(&sid) {
                    live.kill();
                }
            }
        }
    }

    /// Sends an event to the server. That the server has gone is noticed on receiving.
    fn tell(&self, event: &Event, fds: &[BorrowedFd<'_>]) {
        let _ = wire::send(self.server.as_fd(), event, fds);
    }

    /// Does the work that is due.
    fn on_time(&mut self) {
        self.doomed.retain(|leaf| leaf.remove().is_err());
        self.check_freezing();
        self.check_waiting();
        self.check_zygotes();
        self.check_ending();
        self.check_starting();
        self.check_background();
        if self.networks.watches_host() && self.host_looked_at.elapsed() >= LOOK_AT_HOST {
            self.host_looked_at = Instant::now();
            self.networks.look_at_host();
        }
    }

    /// Gives up sandboxes that take too long to come up. Most events concern running sandboxes, so only the
    /// front of the queue is looked at.
    fn check_starting(&mut self) {
        while let Some(sid) = self.starting.front() {
            if let Some(live) = self.live.get_mut(sid).filter(|live| !live.running && live.fault.is_none()) {
                if live.began.elapsed() <= SETUP_DEADLINE {
                    return;
                }
                live.fault = Some(Fault::Step { step: "set up within 20 s".into(), errno: libc::ETIMEDOUT });
                live.kill();
            }
            self.starting.pop_front();
        }
    }

    /// Ends every sandbox and removes everything that the launcher made on this host.
    fn end(mut self) {
        for live in self.live.values() {
            live.kill();
        }
        // The cgroups first, so that one sandbox that is slow to die holds up only its own cgroup.
        let directories = self.tree.as_ref().map(Tree::directories).unwrap_or_default();
        let removed = crate::cgroup::remove_trees(&directories, END_PATIENCE).is_ok();
        if removed {
            for (_, live) in self.live.drain() {
                let id = rustix::process::WaitId::PidFd(live.pidfd.as_fd());
                let _ = rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED);
            }
        }
        self.networks.end();
        // Otherwise a sweep removes the rest, which it finds by the state file.
        if removed {
            become_launcher::remove_state(&self.state);
        }
    }
}

impl Live {
    fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        if let Some(leaf) = &self.slot.leaf {
            // Under the freezer of v1 even SIGKILL has to wait.
            if leaf.needs_thaw_to_die() {
                let _ = leaf.freeze(false);
            }
        }
    }
}
