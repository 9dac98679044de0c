//! One process in `/proc`.

use std::fs;
use std::io;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};

/// A process by its host process id. Reads are of one and the same process only if a pidfd that was opened
/// before the first still reports it alive after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(pub(crate) u32);

/// The figures of `/proc/PID/smaps_rollup`, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) private: u64,
    pub(super) proportional: u64,
}

impl Process {
    pub(super) fn path(self, below: &str) -> String {
        format!("/proc/{}/{below}", self.0)
    }

    /// Whether it is exiting and has no memory any more: then it has no descriptors either, and its files in
    /// `/proc` belong to another user.
    pub(crate) fn is_leaving(self) -> bool {
        std::fs::read_link(self.path("exe")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The process id of its parent.
    pub(super) fn parent(self) -> io::Result<u32> {
        let (_, parent) = self.stat()?;
        Ok(parent)
    }

    /// Whether it is stopped, by a signal or a debugger of the operator's, or in the kernel and stops before
    /// it comes out; or has ended.
    pub(crate) fn stands_still(self) -> bool {
        self.stat().map_or(true, |(state, _)| matches!(state, 'T' | 't' | 'D' | 'Z' | 'X'))
    }

    /// Its state and the process id of its parent.
    fn stat(self) -> io::Result<(char, u32)> {
        // In one read: `fs::read_to_string` makes eight system calls for it.
        let file = openat(CWD, self.path("stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = [0u8; 1024];
        let length = rustix::io::read(&file, &mut bytes)?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        // The command name, in parentheses, may contain any character.
        let fields = text.rsplit_once(") ").map(|(_, fields)| fields.split(' '));
        let both = fields.and_then(|mut fields| {
            let state = fields.next()?.chars().next()?;
            Some((state, fields.next()?.parse().ok()?))
        });
        both.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The number of threads: the kernel reports it in the link count of `/proc/PID/task`.
    pub(super) fn threads(self) -> io::Result<u32> {
        Ok((rustix::fs::stat(self.path("task"))?.st_nlink as u32).saturating_sub(2))
    }

    /// The memory that it maps; `None` where the kernel does not report it.
    pub(super) fn memory(self) -> Option<Memory> {
        let text = fs::read_to_string(self.path("smaps_rollup")).ok()?;
        let kib = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse().ok()
        };
        let private = kib("Private_Clean:")? + kib("Private_Dirty:")?;
        Some(Memory { private: private << 10, proportional: kib("Pss:")? << 10 })
    }

    /// Its command name, for messages.
    pub(crate) fn name(self) -> String {
        fs::read_to_string(self.path("comm")).unwrap_or_default().trim_end().to_owned()
    }

    /// Its process id in the innermost pid namespace.
    fn inner_id(self) -> Option<u32> {
        let status = fs::read_to_string(self.path("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_whitespace().next_back()?.parse().ok()
    }

    /// The main process among `members` of the sandbox whose pid 1 this is: pid 2 of its pid namespace.
    pub(super) fn main_child(self, members: &[u32]) -> Option<Self> {
        members.iter().map(|pid| Self(*pid)).find(|process| process.inner_id() == Some(2))
    }

    /// The inode number of its pid namespace.
    pub(crate) fn pid_namespace(self) -> io::Result<u64> {
        Ok(rustix::fs::stat(self.path("ns/pid"))?.st_ino)
    }

    /// Its uid on the host.
    pub(super) fn owner(self) -> io::Result<u32> {
        self.owner_of("")
    }

    /// Whether other processes of its user, `owner`, may inspect it. The files below `/proc/PID`, unlike that
    /// directory itself, belong to root when the process is not dumpable.
    pub(super) fn is_dumpable_of(self, owner: u32) -> io::Result<bool> {
        Ok(self.owner_of("fd")? == owner)
    }

    fn owner_of(self, below: &str) -> io::Result<u32> {
        Ok(statx(CWD, self.path(below), AtFlags::empty(), StatxFlags::UID)?.stx_uid)
    }

    /// The device number of the file system that the link `below` in its directory leads to.
    pub(super) fn device_at(self, below: &str) -> io::Result<u64> {
        Ok(rustix::fs::stat(self.path(below))?.st_dev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stopped_or_debugged_stands_still() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (process, id) = (Process(child.id()), child.id() as libc::pid_t);
        let wait_for = |expected: char| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while process.stat().unwrap().0 != expected {
                assert!(std::time::Instant::now() < deadline, "it does not become {expected}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        wait_for('S');
        assert!(!process.stands_still());
        // SAFETY: sends a signal to the child.
        assert_eq!(unsafe { libc::kill(id, libc::SIGSTOP) }, 0);
        wait_for('T');
        assert!(process.stands_still());
        // SAFETY: attaches to the child. Not allowed everywhere.
        if unsafe { libc::ptrace(libc::PTRACE_ATTACH, id, 0_usize, 0_usize) } == 0 {
            wait_for('t');
            assert!(process.stands_still());
            // SAFETY: detaches from it, so that its end is waited for and not its stop.
            assert_eq!(unsafe { libc::ptrace(libc::PTRACE_DETACH, id, 0_usize, 0_usize) }, 0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn threads_are_counted_in_both_ways() {
        let own = Process(std::process::id());
        let (begin, began) = std::sync::mpsc::channel::<()>();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = begin.send(());
            let _ = ended.recv();
        });
        began.recv().unwrap();
        let status = || {
            let text = fs::read_to_string(own.path("status")).unwrap();
            let threads = text.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
            threads.trim().parse::<u32>().unwrap()
        };
        // The test process's own threads come and go: repeat until both figures are of one moment.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        loop {
            let (before, links, after) = (status(), own.threads().unwrap(), status());
            assert!(before >= 2 && links >= 2);
            if before == links && links == after {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{before} threads, {links} links");
        }
        drop(end);
        thread.join().unwrap();
    }
}
