//! The launcher's state file: what a sweep must know when the launcher could not clean up itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::RootKind;

/// One launcher, written to `STATE_DIR/launcher-PID.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    /// Process id of the launcher.
    pub(crate) pid: u32,
    /// Its start time in clock ticks since boot, which tells it from a later process with the same number.
    pub(crate) started: u64,
    /// Where its directories in the cgroup hierarchies are, or would be.
    pub(crate) cgroups: Vec<PathBuf>,
}

impl State {
    /// The state of this very process.
    pub(crate) fn new(cgroups: Vec<PathBuf>) -> Self {
        let pid = std::process::id();
        Self { pid, started: start_time(pid).unwrap_or(0), cgroups }
    }

    /// The name of this launcher's cgroups.
    pub(crate) fn group_name(server_id: &str) -> String {
        format!("flint-{server_id}-{}", std::process::id())
    }

    /// Writes the file and gives its path.
    pub(crate) fn write(&self, state_dir: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(state_dir)?;
        let path = state_dir.join(format!("launcher-{}.json", self.pid));
        fs::write(&path, serde_json::to_vec_pretty(self)?)?;
        Ok(path)
    }

    /// Where the launcher with the state file `state` mounts a root template (in its own mount namespace; elsewhere an empty directory).
    pub(crate) fn root_place(state: &Path, kind: RootKind) -> PathBuf {
        state.with_extension(kind.ending())
    }

    /// Whether the launcher is alive.
    pub(crate) fn alive(&self) -> bool {
        start_time(self.pid).is_some_and(|started| started == self.started)
    }
}

/// When the process was started; `None` when there is none, or only its zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name, in parentheses, may contain anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    if state == "Z" || state == "X" { None } else { fields.nth(18)?.parse().ok() }
}
