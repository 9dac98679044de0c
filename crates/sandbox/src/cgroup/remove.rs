//! Removal of a launcher's cgroups and of the processes in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::put;
use super::tree::processes;

/// What was removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removed {
    /// Processes killed; one that survives several attempts is counted each time.
    pub(crate) processes: usize,
    /// Directories.
    pub(crate) groups: usize,
}

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Kills the processes in the cgroups at `directories` and below, and removes the cgroups. A killed process
/// takes time to die, so attempts go on until the pauses between them add up to `patience`; counting pauses
/// rather than wall-clock time gives a suspended machine its full patience. The error names the remaining
/// processes.
pub(crate) fn remove_trees(directories: &[PathBuf], patience: Duration) -> io::Result<Removed> {
    let mut removed = Removed::default();
    let mut pause = Duration::from_millis(1);
    let mut paused = Duration::ZERO;
    loop {
        let failed = directories
            .iter()
            .filter_map(|directory| Some((directory, remove_once(directory, &mut removed).err()?)))
            .reduce(|first, _| first);
        let Some((directory, error)) = failed else { return Ok(removed) };
        if error.raw_os_error() != Some(libc::EBUSY) || paused >= patience {
            let who = members(directory).join(", ");
            let who = if who.is_empty() { "nobody that can be seen".into() } else { who };
            return Err(io::Error::new(
                error.kind(),
                format!("cgroup {}: {error}; in it: {who}", directory.display()),
            ));
        }
        std::thread::sleep(pause);
        paused += pause;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// One attempt at the whole tree: a cgroup that cannot be removed does not stop the others from being
/// removed.
fn remove_once(directory: &Path, removed: &mut Removed) -> io::Result<()> {
    let mut result = Ok(());
    for child in children(directory) {
        if let Err(error) = remove_once(&child, removed) {
            result = Err(error);
        }
    }
    for pid in processes(directory).unwrap_or_default() {
        if let Some(pid) = Pid::from_raw(pid as i32) {
            removed.processes += usize::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
    // The v1 freezer keeps killed processes from dying.
    let _ = put(directory, "freezer.state", "THAWED");
    result?;
    match fs::remove_dir(directory) {
        Ok(()) => removed.groups += 1,
        // Another sweep has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// The tasks in the cgroup and below, each with its name and scheduler state.
fn members(directory: &Path) -> Vec<String> {
    let mut all: Vec<String> = children(directory).iter().flat_map(|child| members(child)).collect();
    let tasks =
        ["cgroup.threads", "tasks"].iter().find_map(|file| fs::read_to_string(directory.join(file)).ok());
    for tid in tasks.unwrap_or_default().lines() {
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
        let name =
            stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("?", |(name, _)| name);
        all.push(format!("{tid} ({name}) in state {state}"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep that ran out of patience may still be at work in the background when the next one begins.
    #[test]
    fn who_removes_a_tree_together_with_another_returns_when_it_is_gone() {
        let scratch = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let tree = scratch.path().join(round.to_string());
            for leaf in 0..100 {
                fs::create_dir_all(tree.join(format!("group-{leaf}/inner"))).unwrap();
            }
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        remove_trees(std::slice::from_ref(&tree), Duration::from_secs(60)).unwrap();
                        assert!(!tree.exists());
                    });
                }
            });
        }
    }
}
