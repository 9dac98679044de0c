//! Zygotes between forks. User code has run in them, and with a signal handler or a timer it would go on to
//! run in them when no call is there for it: so they are stopped, and looked at.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Signal, pidfd_send_signal};

use super::{Launcher, Live};
use crate::descriptors::keep;
use crate::inspect::{Process, pidfd};

/// A zygote of which no fork was wanted for this long is stopped. It is longer than the pauses of a function
/// that is called often, whose forks need not wait for its zygote to go on.
const QUIET: Duration = Duration::from_secs(2);
/// How often each zygote is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Most looks in one round of the launcher: events and requests are not to wait for all of them.
const LOOKS_AT_ONCE: usize = 4;
/// How long something may be amiss: on a busy host, processes take a while to end or to stop.
const AMISS_MAX: Duration = Duration::from_secs(5);
/// How long the zygote may take to fork for a cell that was given up, and that clone to end.
const LAPSED_PASS: Duration = Duration::from_secs(10);

/// The sealed zygotes.
#[derive(Default)]
pub(super) struct Watch {
    zygotes: HashMap<u64, Watched>,
    /// When each is to be looked at next, in this order.
    looks: VecDeque<(Instant, u64)>,
}

struct Watched {
    main: OwnedFd,
    /// Whether it was stopped since a fork was last wanted.
    stopped: bool,
    /// When a fork was last wanted, or has come.
    active: Instant,
    /// When forks were given up that had been wanted: they may still come.
    lapsed: Vec<Instant>,
    /// Since when each look has found what must not be.
    amiss: Option<Instant>,
    /// Why it was ended.
    reason: Option<String>,
}

impl Watch {
    /// Watches a zygote from its seal on; `main`: its main process.
    pub(super) fn begin(&mut self, sid: u64, main: OwnedFd) {
        let now = Instant::now();
        let watched =
            Watched { main, stopped: false, active: now, lapsed: Vec::new(), amiss: None, reason: None };
        if self.zygotes.insert(sid, watched).is_none() {
            self.looks.push_back((now + LOOK_EVERY, sid));
        }
    }

    /// The zygote has ended; returns why, if it was for what a look has found.
    pub(super) fn forget(&mut self, sid: u64) -> Option<String> {
        self.zygotes.remove(&sid).and_then(|watched| watched.reason)
    }

    /// A fork is wanted: the zygote goes on.
    pub(super) fn wanted(&mut self, sid: u64) {
        if let Some(watched) = self.zygotes.get_mut(&sid) {
            watched.active = Instant::now();
            watched.amiss = None;
            if std::mem::take(&mut watched.stopped) {
                let _ = pidfd_send_signal(&watched.main, Signal::CONT);
            }
        }
    }

    /// A fork that was wanted has come.
    pub(super) fn came(&mut self, sid: u64) {
        if let Some(watched) = self.zygotes.get_mut(&sid) {
            watched.active = Instant::now();
        }
    }

    /// A fork that was wanted is given up.
    pub(super) fn lapsed(&mut self, sid: u64) {
        if let Some(watched) = self.zygotes.get_mut(&sid) {
            watched.active = Instant::now();
            watched.forget_lapsed();
            watched.lapsed.push(watched.active);
        }
    }

    /// How many forks may still come though they were given up.
    pub(super) fn late(&self, sid: u64) -> usize {
        let Some(watched) = self.zygotes.get(&sid) else { return 0 };
        watched.lapsed.iter().filter(|since| since.elapsed() < LAPSED_PASS).count()
    }

    /// How long until the next look.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.looks.front().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }
}

impl Watched {
    fn forget_lapsed(&mut self) {
        self.lapsed.retain(|since| since.elapsed() < LAPSED_PASS);
    }

    /// Stops a zygote of which no fork is wanted, and ends it if it goes on to run code.
    fn look(&mut self, live: &Live) {
        self.forget_lapsed();
        let Some(found) = self.find(live) else {
            self.amiss = None;
            return;
        };
        if self.amiss.get_or_insert_with(Instant::now).elapsed() >= AMISS_MAX {
            self.reason = Some(found);
            live.kill();
        }
    }

    /// Stops it; returns what must not be.
    fn find(&mut self, live: &Live) -> Option<String> {
        let main = live.zygote.as_ref().and_then(|zygote| zygote.main())?;
        let was_stopped = std::mem::replace(&mut self.stopped, true);
        let stands_still = !was_stopped || main.stands_still();
        let _ = pidfd_send_signal(&self.main, Signal::STOP);
        // A process that it forks at this moment is found by the next look.
        let members = live.slot.leaf.as_ref()?.members().ok()?;
        let others: Vec<_> = members.iter().filter(|pid| **pid != live.pid && **pid != main.0).collect();
        match others.first() {
            Some(pid) if others.len() > self.lapsed.len() => Some(format!(
                "no fork is wanted of the zygote, and it has {} processes that nobody asked for: {pid} {}",
                others.len(),
                Process(**pid).name()
            )),
            _ if !stands_still => {
                Some("the zygote was stopped until the next fork, and a process of it has woken it".into())
            }
            _ => None,
        }
    }
}

impl Launcher {
    /// Watches a zygote that was sealed just now.
    pub(super) fn watch(&mut self, sid: u64) {
        let main = self.live.get(&sid).and_then(|live| live.zygote.as_ref()?.main());
        // Without a pidfd it has ended, which is about to be noticed.
        if let Some(main) = main
            && let Ok(pidfd) = pidfd::open(main.0)
        {
            self.watch.begin(sid, keep(pidfd));
        }
    }

    /// Looks at the zygotes that are due.
    pub(super) fn check_zygotes(&mut self) {
        let now = Instant::now();
        for _ in 0..LOOKS_AT_ONCE {
            let Some((_, sid)) = self.watch.looks.pop_front_if(|(due, _)| *due <= now) else { return };
            let forks = self.cells.values().any(|cell| cell.zygote == sid && cell.expects_a_process());
            let (Some(watched), Some(live)) = (self.watch.zygotes.get_mut(&sid), self.live.get(&sid)) else {
                continue;
            };
            if forks || watched.active.elapsed() < QUIET {
                watched.amiss = None;
            } else if watched.reason.is_none() {
                watched.look(live);
            }
            self.watch.looks.push_back((now + LOOK_EVERY, sid));
        }
    }
}
