//! A cgroup with a memory limit and no swap, for a server and its descendants; version 1 or 2, whichever has
//! the memory controller.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::{bench::janitor::Note, output::tell};

/// The effect of the kernel's limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Event {
    /// It killed a process.
    OutOfMemory,
    /// It was reached, with next to nothing left to reclaim.
    Full,
    /// An instance did not come up.
    Failed(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory => f.write_str("a process that the kernel ended for want of memory"),
            Self::Full => f.write_str("the limit, with nothing left to give back"),
            Self::Failed(why) => write!(f, "an instance that did not come up: {why}"),
        }
    }
}

/// Below this share of cached files in the limit, next to nothing can be reclaimed.
const NOTHING: f64 = 0.03;
/// The server's own groups lie below and are removed with it. Processes still running after this time are
/// killed: a server that was killed for lack of memory may have left some.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);
/// Time limit for the removal of a group.
const GONE_WITHIN: Duration = Duration::from_secs(15);

/// File names of one cgroup version.
struct Names {
    limit: &'static str,
    used: &'static str,
}

const V1: Names = Names { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes" };
const V2: Names = Names { limit: "memory.max", used: "memory.current" };

/// The group, removed on drop.
pub(super) struct Group {
    folder: PathBuf,
    limit: u64,
    is_v2: bool,
    _note: Note,
}

impl Group {
    /// Creates it below this process's group.
    pub(super) fn make(limit: u64) -> anyhow::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").context("reading this process's groups")?;
        let (parent, is_v2) = place(&own, Path::new("/sys/fs/cgroup"))
            .context("this host has no memory controller that can be used here")?;
        let folder = parent.join(format!("flint-density-{}-{limit}", std::process::id()));
        let note = Note::to_remove_group(&folder)?;
        fs::create_dir(&folder).with_context(|| {
            format!("making {}: this experiment needs to be run as root", folder.display())
        })?;
        let group = Self { folder, limit, is_v2, _note: note };
        let names = group.names();
        fs::write(group.folder.join(names.limit), limit.to_string()).context("setting the limit")?;
        let swap = if is_v2 {
            ("memory.swap.max", "0".to_owned())
        } else {
            ("memory.memsw.limit_in_bytes", limit.to_string())
        };
        // A host without swap may not have the file.
        let _ = fs::write(group.folder.join(swap.0), swap.1);
        ensure!(group.used()? <= limit, "the group is not empty");
        Ok(group)
    }

    const fn names(&self) -> Names {
        if self.is_v2 { V2 } else { V1 }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn read(&self, file: &str) -> anyhow::Result<String> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// Bytes charged to it at present.
    pub(super) fn used(&self) -> anyhow::Result<u64> {
        Ok(self.read(self.names().used)?.trim().parse()?)
    }

    /// Whether a process is in it or in a group below.
    pub(super) fn has(&self, pid: u32) -> anyhow::Result<bool> {
        let of = fs::read_to_string(format!("/proc/{pid}/cgroup")).context("reading the server's groups")?;
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        Ok(of.lines().any(|line| line.split('/').any(|part| part == name)))
    }

    /// The first of these processes that is outside; one that has ended meanwhile is not.
    pub(super) fn first_outside(&self, pids: impl IntoIterator<Item = u32>) -> Option<u32> {
        pids.into_iter().find(|&pid| self.has(pid).is_ok_and(|is_in_it| !is_in_it))
    }

    /// The effect of its limit so far, if any.
    pub(super) fn event(&self) -> anyhow::Result<Option<Event>> {
        let (killed, reached) = match self.is_v2 {
            true => {
                let events = self.read("memory.events")?;
                (field(&events, "oom_kill"), field(&events, "max"))
            }
            false => (
                field(&self.read("memory.oom_control")?, "oom_kill"),
                self.read("memory.failcnt")?.trim().parse().unwrap_or(0),
            ),
        };
        if killed > 0 {
            return Ok(Some(Event::OutOfMemory));
        }
        let stat = self.read("memory.stat")?;
        let prefix = if self.is_v2 { "" } else { "total_" };
        let files: u64 = ["inactive_file", "active_file"]
            .iter()
            .map(|name| field(&stat, &format!("{prefix}{name}")))
            .sum();
        let nothing = (files as f64) < NOTHING * self.limit as f64;
        Ok((reached > 0 && nothing).then_some(Event::Full))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove_group(&self.folder);
    }
}

/// Removes a group once its processes have left or were killed.
pub(in crate::bench) fn remove_group(folder: &Path) {
    let begin = Instant::now();
    while let Err(error) = remove(folder) {
        if !folder.exists() {
            return;
        }
        if begin.elapsed() > GONE_WITHIN {
            tell!("flint bench: {} stays: {error}", folder.display());
            return;
        }
        if begin.elapsed() > LEAVE_WITHIN {
            end_all(folder);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Kills the processes in a group and in those below.
fn end_all(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            end_all(&entry.path());
        }
    }
    let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in processes.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Removes groups from the leaves up; files in them disappear with them.
fn remove(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

/// The number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.split_once(' ').filter(|(key, _)| *key == name)?.1.trim().parse().ok())
        .unwrap_or(0)
}

/// The folder of a process's memory cgroup, from its `/proc/PID/cgroup`, and whether that is version 2.
fn place(own: &str, root: &Path) -> Option<(PathBuf, bool)> {
    let below = |point: &Path, path: &str| {
        let folder = point.join(path.trim_start_matches('/'));
        // In a container the path is the host's, and only the mount point exists.
        if folder.is_dir() { folder } else { point.to_owned() }
    };
    // number:controllers:path
    let groups = || own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let v1 = groups().find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
    if let Some((_, path)) = v1 {
        return Some((below(&root.join("memory"), path), false));
    }
    let (_, path) = groups().find(|(controllers, _)| controllers.is_empty())?;
    let folder = below(root, path);
    let controllers = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    if controllers.split_whitespace().any(|name| name == "memory") {
        return Some((folder, true));
    }
    // A group that contains processes cannot pass controllers to groups below; its parent can.
    let parent = folder.parent()?.to_owned();
    let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    controllers.split_whitespace().any(|name| name == "memory").then_some((parent, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_lives_outside_is_found() {
        let folder = PathBuf::from("/sys/fs/cgroup/no-group-of-this-name");
        let _note = Note::to_remove_group(&folder).unwrap();
        let group = Group { folder, limit: 0, is_v2: true, _note };
        let (gone, own) = (u32::MAX, std::process::id());
        assert_eq!((group.first_outside([gone]), group.first_outside([gone, own])), (None, Some(own)));
    }

    #[test]
    fn both_versions_are_found() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("memory/a/b")).unwrap();
        let at = |own: &str| {
            place(own, root.path())
                .map(|(folder, v2)| (folder.strip_prefix(root.path()).unwrap().to_owned(), v2))
        };
        assert_eq!(at("4:cpu,memory:/a/b\n0::/\n"), Some(("memory/a/b".into(), false)));
        assert_eq!(at("4:memory:/of/the/host\n0::/\n"), Some(("memory".into(), false)));
        assert_eq!(at("0::/x\n"), None);
        fs::create_dir_all(root.path().join("x/y")).unwrap();
        fs::write(root.path().join("x/cgroup.subtree_control"), "cpu memory\n").unwrap();
        assert_eq!(at("0::/x\n"), Some(("x".into(), true)));
        assert_eq!(at("0::/x/y\n"), Some(("x".into(), true)));
        assert_eq!((field("oom 1\noom_kill 7\n", "oom_kill"), field("", "max")), (7, 0));
    }
}
