//! The launcher's state file: what a sweep needs to know when the launcher could not clean up itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::RootKind;

/// The extension of a state file while it is being written.
const DRAFT: &str = "new";

/// One launcher, written to `STATE_DIR/launcher-PID.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    /// Process id of the launcher.
    pub(crate) pid: u32,
    /// Its start time in clock ticks since boot, which tells it from a later process with the same process
    /// id.
    pub(crate) started: u64,
    /// Where its directories in the cgroup hierarchies are or would be.
    pub(crate) cgroups: Vec<PathBuf>,
}

impl State {
    /// The state of this process.
    pub(crate) fn new(cgroups: Vec<PathBuf>) -> Self {
        let pid = std::process::id();
        Self { pid, started: start_time(pid).unwrap_or(0), cgroups }
    }

    /// The name of this launcher's cgroups.
    pub(crate) fn group_name(server_id: &str) -> String {
        format!("flint-{server_id}-{}", std::process::id())
    }

    /// Writes the file and returns its path. It is renamed into place, so that a sweep, even another
    /// server's, never reads a partial file.
    pub(crate) fn write(&self, state_dir: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(state_dir)?;
        let path = state_dir.join(format!("launcher-{}.json", self.pid));
        let draft = path.with_extension(DRAFT);
        fs::write(&draft, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&draft, &path)?;
        Ok(path)
    }

    /// Whether a file of this name is a state file that its launcher did not finish before it died.
    pub(crate) fn is_abandoned_draft(name: &str) -> bool {
        let number =
            name.strip_prefix("launcher-").and_then(|rest| rest.strip_suffix(DRAFT)?.strip_suffix('.'));
        number.and_then(|number| number.parse().ok()).is_some_and(|pid| start_time(pid).is_none())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_state_file_is_put_in_place_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let state = State::new(vec!["/a".into()]);
        let path = state.write(scratch.path()).unwrap();
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let first = inode(&path);
        // Whoever has opened the first one reads that, and no other is there beside them.
        assert_eq!(state.write(scratch.path()).unwrap(), path);
        assert_ne!(inode(&path), first);
        let read: State = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert!(read.alive() && read.cgroups == state.cgroups);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_draft_is_abandoned_when_its_writer_is_dead() {
        let own = std::process::id();
        for (name, abandoned) in [
            (format!("launcher-{own}.new"), false),
            (format!("launcher-{}.new", u32::MAX), true),
            (format!("launcher-{}.json", u32::MAX), false),
            ("launcher-x.new".to_owned(), false),
            ("launcher-new".to_owned(), false),
        ] {
            assert_eq!(State::is_abandoned_draft(&name), abandoned, "{name}");
        }
    }
}
