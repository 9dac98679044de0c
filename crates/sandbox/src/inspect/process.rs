//! One process in `/proc`.

use std::fs;
use std::io;

use rustix::fs::{CWD, StatxFlags, statx};

/// A process by its host id. Whoever reads more than once makes sure, by a pidfd opened before and still alive afterwards, that it was one and the
/// same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub(super) parent: u32,
    pub(super) threads: u32,
}

impl Process {
    pub(super) fn path(self, below: &str) -> String {
        format!("/proc/{}/{below}", self.0)
    }

    pub(super) fn stat(self) -> io::Result<Stat> {
        let text = fs::read_to_string(self.path("stat"))?;
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        // The command name, in parentheses, may contain anything.
        let fields: Vec<&str> = text.rsplit_once(") ").ok_or_else(invalid)?.1.split(' ').collect();
        let number = |at: usize| fields.get(at).and_then(|text| text.parse().ok()).ok_or_else(invalid);
        Ok(Stat { parent: number(1)?, threads: number(17)? })
    }

    /// Its name, for messages.
    pub(super) fn name(self) -> String {
        fs::read_to_string(self.path("comm")).unwrap_or_default().trim_end().to_owned()
    }

    /// Its id in the innermost pid namespace.
    fn inner_id(self) -> Option<u32> {
        let status = fs::read_to_string(self.path("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_whitespace().next_back()?.parse().ok()
    }

    /// The main process of the sandbox whose pid 1 is this process, one of `members`: the first that was made there.
    pub(super) fn main_child(self, members: &[u32]) -> Option<Self> {
        members.iter().map(|pid| Self(*pid)).find(|process| process.inner_id() == Some(2))
    }

    /// Ids of its threads.
    pub(super) fn threads(self) -> io::Result<Vec<u32>> {
        let mut threads: Vec<u32> = fs::read_dir(self.path("task"))?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        threads.sort_unstable();
        Ok(threads)
    }

    /// Identifies its pid namespace.
    pub(crate) fn pid_namespace(self) -> io::Result<u64> {
        Ok(rustix::fs::stat(self.path("ns/pid"))?.st_ino)
    }

    /// Whether processes of the same user may inspect it: the files below `/proc/PID`, unlike that directory itself, belong to root when not.
    pub(super) fn is_dumpable(self) -> io::Result<bool> {
        let owner = |path: &str| {
            statx(CWD, self.path(path), rustix::fs::AtFlags::empty(), StatxFlags::UID)
                .map(|stat| stat.stx_uid)
        };
        Ok(owner("fd")? == owner("")?)
    }

    /// The device of the file system that a link below its directory leads into.
    pub(super) fn device_at(self, below: &str) -> io::Result<u64> {
        Ok(rustix::fs::stat(self.path(below))?.st_dev)
    }
}
