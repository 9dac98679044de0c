//! Inspection of a clone before it gets any work.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::descriptors::{Descriptor, Kind, Listing};
use super::mappings::{MAPPINGS_MAX, Wanted, objection};
use super::{Baseline, Process, Zygote, kcmp, pidfd};
use crate::TMP_FD;
use crate::error::Fault;

/// The clone and what belongs to it.
pub(crate) struct Candidate<'a> {
    pub(crate) process: Process,
    /// Opened before anything else about the process was read.
    pub(crate) pidfd: BorrowedFd<'a>,
    /// The device number of its cell's tmpfs.
    pub(crate) tmp_device: u64,
    /// Whether a device number is that of any cell's tmpfs.
    pub(crate) tmp_devices: &'a dyn Fn(u64) -> bool,
    /// Whether another clone of this zygote has this pipe or socket.
    pub(crate) taken: &'a dyn Fn(&str) -> bool,
    /// Processes in the zygote's cgroup.
    pub(crate) members: &'a [u32],
    pub(crate) init: u32,
    /// How many other forks were asked for that may be under way.
    pub(crate) forks: usize,
}

/// Why a process is not admitted.
#[derive(Debug)]
pub(crate) enum Finding {
    /// Acceptable only if it is over soon.
    Passing(String),
    Tampered(String),
    /// The process or its zygote has ended.
    Ended,
    /// The inspection itself failed: the launcher has too many files open.
    Unseen(io::Error),
}

impl Finding {
    /// As an answer to the caller of [`crate::Cell::admit`].
    pub(crate) fn into_fault(self) -> Fault {
        match self {
            Self::Passing(what) | Self::Tampered(what) => Fault::Tampered { what },
            Self::Ended => Fault::Ended,
            Self::Unseen(error) => Fault::step("look at a forked process", &error),
        }
    }
}

/// The number of the link's descriptor.
const LINK: i32 = 3;

/// How many processes more than were asked for are believed to be ending. Each is looked at.
const SURPLUS_MAX: usize = 8;

/// How many descriptors more than its zygote a clone may have before it is admitted.
const OPENED_MAX: usize = 64;

/// How long the zygote may keep a descriptor that it was sent for a clone.
const DESCRIPTORS_PASS: Duration = Duration::from_secs(2);
/// How long a clone may take from when it was first seen until it is admitted.
const FORKS_PASS: Duration = Duration::from_secs(20);

impl From<io::Error> for Finding {
    /// A living process's files in `/proc` can always be opened, so any error but a full descriptor table
    /// means that it has ended.
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Self::Unseen(error),
            _ => Self::Ended,
        }
    }
}

fn tampered<T>(what: impl Into<String>) -> Result<T, Finding> {
    Err(Finding::Tampered(what.into()))
}

impl Zygote {
    /// All checks that are possible before the process is moved to its cell. Returns its pipes and sockets.
    pub(crate) fn check(&mut self, candidate: &Candidate<'_>) -> Result<Vec<String>, Finding> {
        let zygote_tmp = self.tmp_device;
        let Some(baseline) = &mut self.sealed else { return tampered("its zygote was never sealed") };
        let process = candidate.process;
        let surplus = baseline.others(candidate).count().saturating_sub(candidate.forks);
        if surplus > SURPLUS_MAX {
            return tampered(surplus_of(surplus));
        }
        check_kinship(candidate, baseline)?;
        let foreign = |device: u64| {
            device == zygote_tmp || (device != candidate.tmp_device && (candidate.tmp_devices)(device))
        };
        if foreign(process.device_at("cwd")?) {
            return tampered(
                "its working directory is in the /tmp of another process: it must change it to its own",
            );
        }
        let shared = process.mappings(Wanted::Shared)?;
        if shared.len() == MAPPINGS_MAX {
            return tampered("it has more shared mappings than are looked at");
        }
        for mapping in shared {
            let writable = |device| foreign(device);
            if let Some(what) = objection(&mapping, &writable) {
                return tampered(format!("it has {what} from its zygote"));
            }
        }
        let own = baseline.descriptors_of(process)?;
        let streams = check_descriptors(candidate, &own, &foreign)?;
        baseline.check_zygote(candidate, &own, surplus)?;
        Ok(streams)
    }

    /// Checks what may have changed before the process was moved into its cell: it may have forked or started
    /// a thread. `members`: the processes in the zygote's cgroup, read after the move.
    pub(crate) fn check_again(&self, process: Process, init: u32, members: &[u32]) -> Result<(), Finding> {
        if process.threads()? != 1 {
            return tampered("it has started a thread before it was admitted");
        }
        let main = self.main().ok_or(Finding::Ended)?;
        for member in members.iter().filter(|pid| **pid != init && **pid != main.0) {
            match Process(*member).parent().map_err(Finding::from) {
                Ok(parent) if parent == process.0 => {
                    return tampered("it has forked before it was admitted");
                }
                // Also one whose parent it was, and that has ended.
                Ok(parent) if parent != main.0 && *member != process.0 => {
                    return tampered("a process that is not the zygote's child is left in its sandbox");
                }
                Ok(_) | Err(Finding::Ended) => {}
                Err(finding) => return Err(finding),
            }
        }
        Ok(())
    }
}

fn check_kinship(candidate: &Candidate<'_>, zygote: &Baseline) -> Result<(), Finding> {
    let process = candidate.process;
    if process == zygote.main {
        return tampered("it is the zygote itself");
    }
    let parent = match pidfd::parent(candidate.pidfd) {
        Ok(parent) => parent,
        Err(_) => process.parent()?,
    };
    if parent != zygote.main.0 {
        return tampered(format!("process {} is not a child of the zygote", process.0));
    }
    if process.pid_namespace()? != zygote.pid_namespace {
        return tampered("it is in another pid namespace than its zygote");
    }
    let threads = process.threads()?;
    if threads != 1 {
        return tampered(format!("it has {threads} threads; a fork has one"));
    }
    if let Some(what) = kcmp::shared_state(process.0, zygote.main.0) {
        return tampered(format!("it shares its {what} with its zygote"));
    }
    if process.is_dumpable_of(zygote.owner)? {
        return tampered("it is dumpable, so that others could inspect it");
    }
    Ok(())
}

/// Checks each descriptor of the process; returns its pipes and sockets.
fn check_descriptors(
    candidate: &Candidate<'_>,
    own: &[Descriptor],
    foreign: &dyn Fn(u64) -> bool,
) -> Result<Vec<String>, Finding> {
    let process = candidate.process;
    let mut streams = Vec::new();
    let mut tmp = false;
    for descriptor in own {
        let what = || descriptor.describe();
        if descriptor.number == TMP_FD && descriptor.device == candidate.tmp_device {
            tmp = true;
            continue;
        }
        if foreign(descriptor.device) {
            return tampered(format!("it has the /tmp of another process: {}", what()));
        }
        match descriptor.kind {
            Kind::Socket if descriptor.number != LINK => {
                return tampered(format!("it has a socket besides its link: {}", what()));
            }
            Kind::Socket | Kind::Pipe => {
                if (candidate.taken)(&descriptor.target) {
                    return tampered(format!("another copy has {} too", what()));
                }
                if !streams.contains(&descriptor.target) {
                    streams.push(descriptor.target.clone());
                }
            }
            Kind::Event | Kind::Device => {}
            Kind::Anonymous | Kind::Memory => return tampered(format!("it has {}", what())),
            Kind::Path => {
                if process.is_writable(descriptor.number)? {
                    return tampered(format!("it has a file for writing: {}", what()));
                }
            }
        }
    }
    if !tmp {
        return tampered(format!("descriptor {TMP_FD} is not the tmpfs of its cell"));
    }
    Ok(streams)
}

impl Baseline {
    /// All descriptors of a clone.
    fn descriptors_of(&self, process: Process) -> Result<Vec<Descriptor>, Finding> {
        let folder = Listing::open(process, "fd")?;
        if let Some(kept) = &self.kept
            && let Some(all) =
                kept.descriptors_of(process, &self.descriptors, &folder, || process.open_descriptors())?
        {
            return Ok(all);
        }
        let all = folder.descriptors()?;
        self.few(&all)?;
        Ok(all)
    }

    /// A clone opens a few descriptors before it is admitted; all of two processes are compared with each
    /// other, while nothing else of the launcher's goes on.
    fn few(&self, descriptors: &[Descriptor]) -> Result<(), Finding> {
        match descriptors.len() > self.descriptors.len() + OPENED_MAX {
            true => tampered(format!("it has opened {OPENED_MAX} descriptors or more")),
            false => Ok(()),
        }
    }

    /// Whether the zygote has exactly the descriptors that it was sealed with.
    fn is_unchanged(&self) -> Result<bool, Finding> {
        let Some(kept) = &self.kept else { return Ok(false) };
        Ok(kept
            .are_all(self.main, &self.descriptors, &self.descriptor_list, || self.main.open_descriptors())?)
    }

    /// Checks that the zygote is what it was when sealed, and that neither it nor another clone holds
    /// anything of the candidate's. `surplus`: how many processes it has besides those asked for.
    fn check_zygote(
        &mut self,
        candidate: &Candidate<'_>,
        own: &[Descriptor],
        surplus: usize,
    ) -> Result<(), Finding> {
        if self.task_list.numbers()? != self.threads {
            return tampered("the zygote's threads have changed since it was sealed");
        }
        if self.main.is_dumpable_of(self.owner)? {
            return tampered("the zygote has become dumpable");
        }
        let now = Instant::now();
        let mut seen = Vec::new();
        let read;
        let theirs = match self.is_unchanged()? {
            true => &self.descriptors,
            false => {
                read = self.descriptor_list.descriptors()?;
                &read
            }
        };
        shared_with(candidate.process, own, self.main, theirs, "its zygote")?;
        let mut expected = self.descriptors.iter().peekable();
        for descriptor in theirs {
            if let Some(missing) = expected.next_if(|other| other.number < descriptor.number) {
                return tampered(format!("the zygote has closed {} since it was sealed", missing.describe()));
            }
            match expected.next_if(|other| other.number == descriptor.number) {
                Some(same) if same.target == descriptor.target => {}
                Some(_) => {
                    return tampered(format!(
                        "the zygote's {} is another than when it was sealed",
                        descriptor.describe()
                    ));
                }
                // The root of every clone is called `/`, on a mount of its own.
                None if descriptor.kind == Kind::Path => seen.extend(
                    self.descriptor_list
                        .mount_of(descriptor.number)?
                        .map(|mount| format!("{} on mount {mount:x}", descriptor.describe())),
                ),
                None if matches!(descriptor.kind, Kind::Pipe | Kind::Socket) => {
                    seen.push(descriptor.target.clone())
                }
                None => {
                    return tampered(format!(
                        "the zygote has opened {} since it was sealed",
                        descriptor.describe()
                    ));
                }
            }
        }
        if let Some(missing) = expected.next() {
            return tampered(format!("the zygote has closed {} since it was sealed", missing.describe()));
        }
        let others = self.check_others(candidate, own, surplus)?;
        self.passing.retain(|what, _| seen.contains(what) || others.contains(what));
        for (kind, list, limit) in [("descriptor", seen, DESCRIPTORS_PASS), ("process", others, FORKS_PASS)] {
            for what in list {
                let since = *self.passing.entry(what.clone()).or_insert(now);
                if now.duration_since(since) > limit {
                    return tampered(format!(
                        "the zygote keeps a {kind} that no longer belongs to a fork under way: {what}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The processes in the zygote's cgroup besides itself, its pid 1 and the candidate.
    fn others(&self, candidate: &Candidate<'_>) -> impl Iterator<Item = Process> {
        let known = [candidate.process.0, candidate.init, self.main.0];
        candidate.members.iter().filter(move |pid| !known.contains(pid)).map(|pid| Process(*pid))
    }

    /// Checks the other processes in the zygote's cgroup: clones on their way to their cells.
    fn check_others(
        &self,
        candidate: &Candidate<'_>,
        own: &[Descriptor],
        surplus: usize,
    ) -> Result<Vec<String>, Finding> {
        let mut others = Vec::new();
        for other in self.others(candidate) {
            let parent = match other.parent().map_err(Finding::from) {
                Ok(parent) => parent,
                // A process that has ended meanwhile does no harm.
                Err(Finding::Ended) => continue,
                Err(finding) => return Err(finding),
            };
            if parent != self.main.0 {
                return tampered(format!(
                    "a process that is not the zygote's child is left in its sandbox: {} {}",
                    other.0,
                    other.name()
                ));
            }
            others.push(other);
        }
        // A clone whose cell was given up may be about to end.
        if surplus > 0 {
            return Err(Finding::Passing(surplus_of(surplus)));
        }
        // Descriptors last, since each process may have many.
        for other in &others {
            match other.descriptors().map_err(Finding::from) {
                Ok(theirs) => {
                    self.few(&theirs)?;
                    shared_with(candidate.process, own, *other, &theirs, "another process of the zygote")?;
                }
                Err(Finding::Ended) => {}
                Err(finding) => return Err(finding),
            }
        }
        Ok(others.iter().map(|other| other.0.to_string()).collect())
    }
}

fn surplus_of(surplus: usize) -> String {
    format!("the zygote has {surplus} processes besides those asked for")
}

/// Fails if two processes share an open file. Stateless devices do not count.
fn shared_with(
    process: Process,
    own: &[Descriptor],
    other: Process,
    theirs: &[Descriptor],
    whose: &str,
) -> Result<(), Finding> {
    for mine in own {
        for their in theirs.iter().filter(|their| their.target == mine.target) {
            let same = match mine.kind {
                // The target identifies the object, and the two ends of a pipe belong together.
                Kind::Pipe | Kind::Socket => true,
                Kind::Device => false,
                // On a kernel without `kcmp` it has to do that all kinds which get here are harmless.
                _ => kcmp::same_file(process.0, mine.number, other.0, their.number).unwrap_or(false),
            };
            if same {
                let what = format!("{whose} has a copy of its {}", mine.describe());
                // A zygote closes its copies of what it was sent for a clone right after the fork.
                let sent = (0..4).contains(&mine.number) || mine.number == TMP_FD;
                return Err(if sent { Finding::Passing(what) } else { Finding::Tampered(what) });
            }
        }
    }
    Ok(())
}
