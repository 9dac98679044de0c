//! Zygotes between forks. User code has run in them, and with a signal handler or a timer it would go on to
//! run in them when no call is there for it: so they are stopped, and looked at.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
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
/// How often at least. The pause is doubled each time that the zygote is found standing still, until a fork
/// is wanted.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(30);
/// Most looks in one round of the launcher: events and requests are not to wait for all of them.
const LOOKS_AT_ONCE: usize = 4;
/// How long something may be amiss: on a busy host, processes take a while to end or to stop.
const AMISS_MAX: Duration = Duration::from_secs(5);
/// How long the zygote may take at most until the turn comes of a fork that was given up.
const TURN_MAX: Duration = Duration::from_secs(60);
/// How long a clone that was given up may take from its turn until it has ended.
const LAPSED_PASS: Duration = Duration::from_secs(10);

/// The sealed zygotes.
#[derive(Default)]
pub(super) struct Watch {
    zygotes: HashMap<u64, Watched>,
    /// When each is to be looked at next.
    looks: BTreeSet<(Instant, u64)>,
}

struct Watched {
    main: OwnedFd,
    /// When it is to be looked at next, and how long after the look before.
    due: Instant,
    pause: Duration,
    /// Whether it was stopped since a fork was last wanted.
    stopped: bool,
    /// When a fork was last wanted, or has come.
    active: Instant,
    /// How many forks were wanted: the turn of the latest, since the zygote forks for one after the other.
    wanted: u64,
    /// The turn of the latest that has come.
    come: u64,
    /// Forks that were given up: they may still come.
    lapsed: Vec<Lapse>,
    /// Since when each look has found what must not be.
    amiss: Option<Instant>,
    /// Whether processes that nobody asked for were killed before.
    warned: bool,
    /// Why it was ended.
    reason: Option<String>,
}

/// What must not be.
enum Amiss {
    /// These processes, which nobody asked for.
    Others(Vec<u32>),
    /// A process of it has woken it.
    Woken,
}

/// A fork that was given up.
struct Lapse {
    turn: u64,
    /// When nothing may be left of it: at first later than it takes, and sooner once its turn has been.
    over: Instant,
}

impl Watch {
    /// Watches a zygote from its seal on; `main`: its main process.
    pub(super) fn begin(&mut self, sid: u64, main: OwnedFd) {
        let now = Instant::now();
        let watched = Watched {
            main,
            due: now,
            pause: LOOK_EVERY,
            stopped: false,
            active: now,
            wanted: 0,
            come: 0,
            lapsed: Vec::new(),
            amiss: None,
            warned: false,
            reason: None,
        };
        self.forget(sid);
        self.zygotes.insert(sid, watched);
        self.look_in(sid, LOOK_EVERY);
    }

    /// Has a zygote looked at after this pause.
    fn look_in(&mut self, sid: u64, pause: Duration) {
        let Some(watched) = self.zygotes.get_mut(&sid) else { return };
        self.looks.remove(&(watched.due, sid));
        (watched.due, watched.pause) = (Instant::now() + pause, pause);
        self.looks.insert((watched.due, sid));
    }

    /// The next zygote, if it is due. It is not looked at again before [`Self::look_in`] says so.
    fn take_due(&mut self, now: Instant) -> Option<u64> {
        let next = *self.looks.first()?;
        (next.0 <= now && self.looks.remove(&next)).then_some(next.1)
    }

    /// The zygote has ended; returns why, if it was for what a look has found.
    pub(super) fn forget(&mut self, sid: u64) -> Option<String> {
        let watched = self.zygotes.remove(&sid)?;
        self.looks.remove(&(watched.due, sid));
        watched.reason
    }

    /// A fork is wanted: the zygote goes on. Returns the fork's turn.
    pub(super) fn wanted(&mut self, sid: u64) -> Option<u64> {
        let watched = self.zygotes.get_mut(&sid)?;
        watched.active = Instant::now();
        watched.amiss = None;
        if std::mem::take(&mut watched.stopped) {
            let _ = pidfd_send_signal(&watched.main, Signal::CONT);
        }
        watched.wanted += 1;
        let turn = watched.wanted;
        if watched.pause > LOOK_EVERY {
            self.look_in(sid, LOOK_EVERY);
        }
        Some(turn)
    }

    /// The fork of this turn has come. So those of earlier turns have come, or will not come.
    pub(super) fn came(&mut self, sid: u64, turn: u64) {
        let Some(watched) = self.zygotes.get_mut(&sid) else { return };
        watched.active = Instant::now();
        watched.come = watched.come.max(turn);
        let over = watched.active + LAPSED_PASS;
        for lapse in watched.lapsed.iter_mut().filter(|lapse| lapse.turn <= turn) {
            lapse.over = lapse.over.min(over);
        }
    }

    /// The fork of this turn is given up.
    pub(super) fn lapsed(&mut self, sid: u64, turn: u64) {
        let Some(watched) = self.zygotes.get_mut(&sid) else { return };
        watched.active = Instant::now();
        watched.forget_lapsed();
        let until_turn = if turn <= watched.come { Duration::ZERO } else { TURN_MAX };
        watched.lapsed.push(Lapse { turn, over: watched.active + until_turn + LAPSED_PASS });
    }

    /// How many forks may still come, or end, though they were given up.
    pub(super) fn late(&mut self, sid: u64) -> usize {
        let Some(watched) = self.zygotes.get_mut(&sid) else { return 0 };
        watched.forget_lapsed();
        watched.lapsed.len()
    }

    /// How long until the next look.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.looks.first().map(|(due, _)| due.saturating_duration_since(Instant::now()))
    }
}

impl Watched {
    fn forget_lapsed(&mut self) {
        let now = Instant::now();
        self.lapsed.retain(|lapse| lapse.over > now);
    }

    /// Whether it may still have to fork for a cell that was given up.
    fn has_a_turn_left(&self) -> bool {
        let passing = Instant::now() + LAPSED_PASS;
        self.lapsed.iter().any(|lapse| lapse.over > passing)
    }

    /// Stops a zygote of which no fork is wanted, and ends it if it goes on to run code. `members`: the
    /// processes in its cgroup.
    fn look(&mut self, live: &Live, members: &[u32]) {
        self.forget_lapsed();
        let was_stopped = self.stopped;
        let Some(found) = self.find(live, members) else {
            self.amiss = None;
            if was_stopped && self.lapsed.is_empty() {
                self.pause = (self.pause * 2).min(LOOK_AT_LEAST_EVERY);
            }
            return;
        };
        self.pause = LOOK_EVERY;
        if self.amiss.get_or_insert_with(Instant::now).elapsed() < AMISS_MAX {
            return;
        }
        match found {
            // They may be left of forks that took too long, and its clones may be serving calls.
            Amiss::Others(others) if !self.warned => {
                kill_members(live, &others);
                self.warned = true;
                self.amiss = None;
            }
            found => {
                self.reason = Some(found.to_string());
                live.kill();
            }
        }
    }

    /// Stops it; returns what must not be.
    fn find(&mut self, live: &Live, members: &[u32]) -> Option<Amiss> {
        let main = live.zygote.as_ref().and_then(|zygote| zygote.main())?;
        let was_stopped = std::mem::replace(&mut self.stopped, true);
        let stands_still = !was_stopped || main.stands_still();
        let _ = pidfd_send_signal(&self.main, Signal::STOP);
        // A process that it has just forked is found by the next look.
        let mut others = members.to_vec();
        others.retain(|pid| *pid != live.pid && *pid != main.0);
        if others.len() > self.lapsed.len() {
            Some(Amiss::Others(others))
        } else {
            (!stands_still).then_some(Amiss::Woken)
        }
    }
}

/// Kills those of these processes that are in the zygote's cgroup.
fn kill_members(live: &Live, pids: &[u32]) {
    let pidfds: Vec<_> = pids.iter().filter_map(|pid| Some((*pid, pidfd::open(*pid).ok()?))).collect();
    // Read after they were opened: a process id that was given away before belongs to no member.
    let members = live.slot.leaf.as_ref().and_then(|leaf| leaf.members().ok()).unwrap_or_default();
    for (_, pidfd) in pidfds.iter().filter(|(pid, _)| members.contains(pid)) {
        pidfd::kill(pidfd.as_fd());
    }
}

impl std::fmt::Display for Amiss {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Others(others) => {
                let (count, pid) = (others.len(), others.first().copied().unwrap_or_default());
                let name = Process(pid).name();
                write!(
                    out,
                    "no fork is wanted of the zygote, and it has {count} processes that nobody asked for: \
                     {pid} {name}"
                )
            }
            Self::Woken => {
                out.write_str("the zygote was stopped until the next fork, and a process of it has woken it")
            }
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
            let Some(sid) = self.watch.take_due(now) else { return };
            let members = self.members_of(sid).unwrap_or_default();
            // After the processes, so that each of them was announced that was asked for.
            self.hear();
            let (Some(watched), Some(live)) = (self.watch.zygotes.get_mut(&sid), self.live.get(&sid)) else {
                continue;
            };
            let forks = || self.cells.values().any(|cell| cell.zygote == sid && cell.expects_a_process());
            if watched.active.elapsed() < QUIET || watched.has_a_turn_left() || forks() {
                watched.amiss = None;
            } else if watched.reason.is_none() {
                watched.look(live, &members);
            }
            let pause = watched.pause;
            self.watch.look_in(sid, pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZYGOTE: u64 = 7;

    fn watch() -> Watch {
        let mut watch = Watch::default();
        watch.begin(ZYGOTE, pidfd::open(std::process::id()).unwrap());
        watch
    }

    #[test]
    fn a_fork_that_was_given_up_may_come_until_a_later_one_has() {
        let mut watch = watch();
        let turns = [(); 3].map(|()| watch.wanted(ZYGOTE).unwrap());
        assert_eq!(turns, [1, 2, 3]);
        let has_a_turn_left = |watch: &Watch| watch.zygotes[&ZYGOTE].has_a_turn_left();
        watch.lapsed(ZYGOTE, turns[1]);
        watch.came(ZYGOTE, turns[0]);
        assert!(has_a_turn_left(&watch), "an earlier one says nothing of it");
        watch.came(ZYGOTE, turns[2]);
        assert!(!has_a_turn_left(&watch));
        assert_eq!(watch.late(ZYGOTE), 1, "it may take a while to end");
        watch.zygotes.get_mut(&ZYGOTE).unwrap().lapsed[0].over = Instant::now();
        assert_eq!(watch.late(ZYGOTE), 0);
    }

    #[test]
    fn a_zygote_is_looked_at_again_soon_when_a_fork_is_wanted() {
        let mut watch = watch();
        let due = |watch: &mut Watch, after: Duration| watch.take_due(Instant::now() + after);
        watch.look_in(ZYGOTE, LOOK_AT_LEAST_EVERY);
        assert_eq!((watch.looks.len(), due(&mut watch, LOOK_EVERY)), (1, None));
        watch.wanted(ZYGOTE);
        assert_eq!((watch.looks.len(), due(&mut watch, LOOK_EVERY)), (1, Some(ZYGOTE)));
        assert_eq!(due(&mut watch, LOOK_AT_LEAST_EVERY), None, "it was taken");
        watch.look_in(ZYGOTE, LOOK_EVERY);
        watch.forget(ZYGOTE);
        assert!(watch.looks.is_empty());
    }

    #[test]
    fn a_fork_that_is_given_up_after_it_has_come_has_no_turn_left() {
        let mut watch = watch();
        let turn = watch.wanted(ZYGOTE).unwrap();
        watch.came(ZYGOTE, turn);
        watch.lapsed(ZYGOTE, turn);
        assert_eq!((watch.zygotes[&ZYGOTE].has_a_turn_left(), watch.late(ZYGOTE)), (false, 1));
        assert_eq!(
            (watch.wanted(ZYGOTE + 1), watch.late(ZYGOTE + 1)),
            (None, 0),
            "of no zygote that is watched"
        );
    }
}
