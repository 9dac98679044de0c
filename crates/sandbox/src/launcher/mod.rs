//! The launcher process: single-threaded, small, the only process that makes sandboxes. It serves one server over one socket
//! and ends, with everything it made, when that socket closes.

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

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::epoll;

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

/// The argument that makes an executable a launcher.
pub(crate) const ARGUMENT: &str = "__launcher";

/// See [`crate::launcher_entry`].
pub(crate) fn entry() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT) {
        let code = become_launcher::serve();
        std::process::exit(code);
    }
}

/// Everything the launcher holds.
struct Launcher {
    config: LauncherConfig,
    server: OwnedFd,
    epoll: OwnedFd,
    rootless: bool,
    /// The launcher's own mount namespace, to come back to.
    mounts: OwnedFd,
    tree: Option<Tree>,
    templates: HashMap<RootKind, Template>,
    networks: Namespaces,
    slots: Slots,
    /// Number of the next cgroup.
    leaves: u64,
    live: HashMap<u64, Live>,
    /// Sandboxes in the order of their starts, without those at the front that have come up.
    starting: VecDeque<u64>,
    /// Places for forked processes, and those that live there.
    cells: HashMap<u64, Cell>,
    /// Groups of ended cells.
    groups: Groups,
    /// Cells whose admission has to be tried again.
    waiting: Vec<u64>,
    /// Cells whose main process has ended and whose group may not be empty yet.
    ending: Vec<u64>,
    background: Background,
    /// Groups whose removal has to be tried again.
    doomed: Vec<Leaf>,
    /// Freezes under way: sequence number, sandbox, deadline.
    freezing: Vec<(u64, u64, Instant)>,
    state: PathBuf,
}

/// A sandbox that exists.
struct Live {
    pidfd: OwnedFd,
    /// The reports of its pid 1.
    reports: OwnedFd,
    slot: Slot,
    /// What its pid 1 has not taken yet.
    lent: Option<Lent>,
    began: Instant,
    setup_us: u64,
    running: bool,
    /// A socket that listens inside, until the server is given it.
    listener: Option<OwnedFd>,
    fault: Option<Fault>,
    status: Option<ExitStatus>,
    oom: bool,
    /// Host process id of its pid 1.
    pid: u32,
    kind: RootKind,
    key: Option<String>,
    background: Option<Duration>,
    /// For a sandbox whose main process may be forked.
    zygote: Option<Zygote>,
}

/// A sandbox that takes longer to come up is given up.
const SETUP_DEADLINE: Duration = Duration::from_secs(20);

/// How long the groups may stay busy with dying processes at the end; the server waits longer for the launcher.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// epoll tokens: the server's socket, and for each sandbox `sid * 4` plus one of these.
const SERVER: u64 = 0;
const PIDFD: u64 = 1;
const REPORTS: u64 = 2;
const OOM: u64 = 3;

impl Launcher {
    /// Serves until the server goes or says so.
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
            // Ends first, so that their slots serve the starts; the server's messages last.
            for event in events.iter().filter(|event| event.data.u64() != SERVER) {
                self.on_sandbox_event(event.data.u64());
            }
            if events.iter().any(|event| event.data.u64() == SERVER) && !self.on_server(&mut buffer) {
                return;
            }
            self.on_time();
            idle = if events.is_empty() { self.networks.restock() } else { true };
        }
    }

    /// How long to wait for events: for ever, unless there is something to do later.
    fn patience(&self, idle: bool) -> Option<Duration> {
        if !self.waiting.is_empty() {
            Some(Duration::from_micros(200))
        } else if !self.freezing.is_empty() || !self.ending.is_empty() {
            Some(Duration::from_millis(1))
        } else if idle {
            Some(Duration::from_millis(3))
        } else if !self.doomed.is_empty() {
            Some(Duration::from_millis(20))
        } else if !self.background.is_empty() {
            Some(background::LOOK_EVERY)
        } else if !self.starting.is_empty() {
            Some(Duration::from_secs(1))
        } else {
            None
        }
    }

    /// Handles one message of the server; false: it is over.
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

    /// Ends what runs there; its end is told when it has come.
    fn kill(&self, sid: u64) {
        match self.cells.get(&sid).map(|cell| &cell.stage) {
            // Whatever else is in its group ends with it.
            Some(Stage::Running { pidfd, .. }) => pidfd::kill(pidfd.as_fd()),
            Some(_) => {}
            None => {
                if let Some(live) = self.live.get(&sid) {
                    live.kill();
                }
            }
        }
    }

    /// Tells the server; that it has gone is noticed elsewhere.
    fn tell(&self, event: &Event, fds: &[BorrowedFd<'_>]) {
        let _ = wire::send(self.server.as_fd(), event, fds);
    }

    /// What has become due.
    fn on_time(&mut self) {
        self.doomed.retain(|leaf| leaf.remove().is_err());
        self.check_freezing();
        self.check_waiting();
        self.check_ending();
        self.check_starting();
        self.check_background();
    }

    /// Gives up what takes too long to come up. Most events concern sandboxes that run: these are not looked at.
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

    /// Ends every sandbox and removes what it has made on this host.
    fn end(mut self) {
        for live in self.live.values() {
            live.kill();
        }
        // First the groups: a sandbox that takes long to die keeps only its own.
        let directories = self.tree.as_ref().map(Tree::directories).unwrap_or_default();
        let removed = crate::cgroup::remove_trees(&directories, END_PATIENCE).is_ok();
        if removed {
            for (_, live) in self.live.drain() {
                let id = rustix::process::WaitId::PidFd(live.pidfd.as_fd());
                let _ = rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED);
            }
        }
        self.networks.end();
        // What is left is for a sweep, which finds it by the state file.
        if removed {
            become_launcher::remove_state(&self.state);
        }
    }
}

impl Live {
    fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        if let Some(leaf) = &self.slot.leaf {
            // A frozen v1 group holds back even this.
            if leaf.needs_thaw_to_die() {
                let _ = leaf.freeze(false);
            }
        }
    }
}
