//! The open descriptors of a process.

use std::io;
use std::mem::MaybeUninit;

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, openat, readlinkat};

use super::Process;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) number: i32,
    /// What `/proc/PID/fd/NUMBER` leads to.
    pub(super) target: String,
}

/// Its kind, by its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Target and inode number identify it on this host.
    Pipe,
    /// Likewise.
    Socket,
    /// An object without a name: all of a kind have the same target.
    Anonymous,
    /// Memory with a descriptor.
    Memory,
    /// Something with a path.
    Path,
}

/// Harmless kinds of [`Kind::Anonymous`]: what event loops are made of.
const EVENTS: [&str; 3] = ["anon_inode:[eventpoll]", "anon_inode:[eventfd]", "anon_inode:[signalfd]"];
/// Minor numbers of major 1: null, zero, full, random, urandom.
const DEVICES: [u32; 5] = [3, 5, 7, 8, 9];

impl Descriptor {
    pub(super) fn kind(&self) -> Kind {
        let target = self.target.as_str();
        if target.starts_with("pipe:") {
            Kind::Pipe
        } else if target.starts_with("socket:") {
            Kind::Socket
        } else if target.starts_with("/memfd:") {
            Kind::Memory
        } else if target.starts_with('/') {
            Kind::Path
        } else {
            Kind::Anonymous
        }
    }

    pub(super) fn is_event(&self) -> bool {
        EVENTS.contains(&self.target.as_str())
    }

    /// What it is, for people.
    pub(super) fn describe(&self) -> String {
        format!("descriptor {} ({})", self.number, self.target)
    }
}

impl Process {
    /// All open descriptors, by number.
    pub(super) fn descriptors(self) -> io::Result<Vec<Descriptor>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, self.path("fd"), flags, Mode::empty())?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(&directory, &mut buffer);
        let mut all = Vec::with_capacity(32);
        let mut space = Vec::with_capacity(256);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Some(number) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) else {
                continue;
            };
            match readlinkat(&directory, entry.file_name(), space) {
                Ok(target) => {
                    all.push(Descriptor { number, target: target.to_string_lossy().into_owned() });
                    space = target.into_bytes();
                    space.clear();
                }
                // Closed meanwhile.
                Err(rustix::io::Errno::NOENT) => space = Vec::with_capacity(256),
                Err(error) => return Err(error.into()),
            }
        }
        all.sort_unstable_by_key(|descriptor: &Descriptor| descriptor.number);
        Ok(all)
    }

    /// The file behind a descriptor.
    pub(super) fn file_at(self, number: i32) -> io::Result<rustix::fs::Stat> {
        Ok(rustix::fs::stat(self.path(&format!("fd/{number}")))?)
    }

    /// Whether a descriptor was opened for writing too.
    pub(super) fn is_writable(self, number: i32) -> io::Result<bool> {
        let text = std::fs::read_to_string(self.path(&format!("fdinfo/{number}")))?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
        Ok(flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY))
    }
}

/// Whether it is `/dev/null` or another device that has no state.
pub(super) fn is_stateless_device(file: &rustix::fs::Stat) -> bool {
    let (major, minor) = (rustix::fs::major(file.st_rdev), rustix::fs::minor(file.st_rdev));
    FileType::from_raw_mode(file.st_mode).is_char_device() && major == 1 && DEVICES.contains(&minor)
}
