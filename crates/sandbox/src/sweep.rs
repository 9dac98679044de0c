//! Removes what dead servers left behind.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::cgroup::remove_trees;
use crate::net;
use crate::root::RootKind;
use crate::state::State;

/// What a sweep found and removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Launchers that had died without cleaning up.
    pub launchers: usize,
    /// Processes killed.
    pub processes: usize,
    /// Cgroup directories removed.
    pub cgroups: usize,
    /// nftables tables removed.
    pub nft_tables: usize,
    /// Network interfaces removed.
    pub interfaces: usize,
    /// State files and directories removed.
    pub files: usize,
    /// What could not be removed, and why.
    pub problems: Vec<String>,
}

/// How long cgroups may stay busy with dying processes while a next launcher waits to start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Removes what dead servers with `state_dir` left behind, and what any dead server of this host left in the
/// network. Call it at server start, before [`crate::Launcher::spawn`]. Blocks.
///
/// A launcher that still runs is left alone: its server lives, or it is about to notice that its server has
/// died.
pub fn sweep(state_dir: &Path) -> SweepReport {
    sweep_within(state_dir, PATIENCE)
}

/// Like [`sweep`], with this much patience.
pub(crate) fn sweep_within(state_dir: &Path, patience: Duration) -> SweepReport {
    let mut report = SweepReport::default();
    for entry in fs::read_dir(state_dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if State::is_abandoned_draft(name) {
            remove_file(&entry.path(), &mut report);
        }
        if !(name.starts_with("launcher-") && name.ends_with(".json")) {
            continue;
        }
        let path = entry.path();
        let state = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
        match state {
            Some(state) if state.alive() => {}
            Some(state) => {
                let known = report.problems.len();
                sweep_launcher(&state, patience, &mut report);
                // The state file stays for the next sweep while something could not be removed.
                if report.problems.len() == known {
                    remove_files(&path, &mut report);
                }
            }
            // An earlier version of Flint was killed while writing it, before it had made anything.
            None => remove_files(&path, &mut report),
        }
    }
    net::sweep(&mut report);
    report
}

fn sweep_launcher(state: &State, patience: Duration, report: &mut SweepReport) {
    report.launchers += 1;
    match remove_trees(&state.cgroups, patience) {
        Ok(removed) => {
            report.processes += removed.processes;
            report.cgroups += removed.groups;
        }
        Err(error) => report.problems.push(error.to_string()),
    }
}

fn remove_files(state: &Path, report: &mut SweepReport) {
    for kind in RootKind::ALL {
        report.files += usize::from(fs::remove_dir(State::root_place(state, kind)).is_ok());
    }
    remove_file(state, report);
}

fn remove_file(path: &Path, report: &mut SweepReport) {
    match fs::remove_file(path) {
        Ok(()) => report.files += 1,
        Err(error) => report.problems.push(format!("{}: {error}", path.display())),
    }
}
