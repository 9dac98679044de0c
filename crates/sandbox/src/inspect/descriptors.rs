//! The open descriptors of a process.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, StatxFlags, major, minor, openat,
    readlinkat, seek, statat, statx,
};

use super::Process;

/// One open descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) number: i32,
    pub(super) kind: Kind,
    /// The device number of its file system.
    pub(super) device: u64,
    /// The target of the link `/proc/PID/fd/NUMBER`, or an equivalent made of `stat`'s figures.
    pub(super) target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its target identifies it on this host.
    Pipe,
    /// Its target identifies it on this host.
    Socket,
    /// An epoll, eventfd or the like. All of one type have the same target.
    Event,
    /// Another anonymous inode.
    Anonymous,
    /// A memfd.
    Memory,
    /// `/dev/null` or another stateless device.
    Device,
    /// A file with a path.
    Path,
}

const EVENTS: [&str; 3] = ["anon_inode:[eventpoll]", "anon_inode:[eventfd]", "anon_inode:[signalfd]"];
/// Minor numbers of major 1: null, zero, full, random, urandom.
const DEVICES: [u32; 5] = [3, 5, 7, 8, 9];

impl Descriptor {
    /// Reads the descriptor `name` in a `/proc/PID/fd` directory. `readlink` is called only where `stat` does
    /// not identify the file.
    fn look(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Self>> {
        let Some(number) = name.to_str().ok().and_then(|name| name.parse().ok()) else { return Ok(None) };
        let file = match statat(directory, name, AtFlags::empty()) {
            Ok(file) => file,
            // Closed since the directory was listed.
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (kind, target) = match FileType::from_raw_mode(file.st_mode) {
            FileType::Socket => (Kind::Socket, format!("socket:[{}]", file.st_ino)),
            FileType::Fifo => (Kind::Pipe, format!("pipe:[{}]", file.st_ino)),
            FileType::CharacterDevice if is_stateless(&file) => {
                (Kind::Device, format!("device 1:{}", minor(file.st_rdev)))
            }
            _ => match readlinkat(directory, name, Vec::with_capacity(64)) {
                Ok(target) => {
                    let target = target.to_string_lossy().into_owned();
                    (kind_of(&target), target)
                }
                Err(rustix::io::Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        };
        Ok(Some(Self { number, kind, device: file.st_dev, target }))
    }

    /// A description for messages.
    pub(super) fn describe(&self) -> String {
        format!("descriptor {} ({})", self.number, self.target)
    }
}

fn kind_of(target: &str) -> Kind {
    if EVENTS.contains(&target) {
        Kind::Event
    } else if target.starts_with("/memfd:") {
        Kind::Memory
    } else if target.starts_with('/') {
        Kind::Path
    } else {
        Kind::Anonymous
    }
}

fn is_stateless(file: &Stat) -> bool {
    major(file.st_rdev) == 1 && DEVICES.contains(&minor(file.st_rdev))
}

/// A directory of `/proc/PID`, kept open so that it can be listed again.
#[derive(Debug)]
pub(super) struct Listing(OwnedFd);

impl Listing {
    pub(super) fn open(process: Process, below: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, process.path(below), flags, Mode::empty())?))
    }

    /// One descriptor of an `fd` directory; `None` if it is not open.
    pub(super) fn look(&self, number: i32) -> io::Result<Option<Descriptor>> {
        let name = std::ffi::CString::new(number.to_string())?;
        Descriptor::look(self.0.as_fd(), &name)
    }

    /// The mount that the file of a descriptor is on, by a number that no other mount gets; `None` if it is not
    /// open.
    pub(super) fn mount_of(&self, number: i32) -> io::Result<Option<u64>> {
        /// `STATX_MNT_ID_UNIQUE`, of Linux 6.8.
        const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
        match statx(&self.0, number.to_string(), AtFlags::empty(), UNIQUE) {
            Ok(file) => Ok(Some(file.stx_mnt_id)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// All descriptors of an `fd` directory, by number.
    pub(super) fn descriptors(&self) -> io::Result<Vec<Descriptor>> {
        let mut all = Vec::with_capacity(32);
        self.each(|name| {
            all.extend(Descriptor::look(self.0.as_fd(), name)?);
            Ok(())
        })?;
        all.sort_unstable_by_key(|descriptor: &Descriptor| descriptor.number);
        Ok(all)
    }

    /// All numeric names, sorted: for `task`, the thread ids.
    pub(super) fn numbers(&self) -> io::Result<Vec<u32>> {
        let mut all = Vec::with_capacity(8);
        self.each(|name| {
            all.extend(name.to_str().ok().and_then(|name| name.parse::<u32>().ok()));
            Ok(())
        })?;
        all.sort_unstable();
        Ok(all)
    }

    fn each(&self, mut visit: impl FnMut(&CStr) -> io::Result<()>) -> io::Result<()> {
        seek(&self.0, SeekFrom::Start(0))?;
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(&self.0, &mut buffer);
        let mut bytes = 0;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            // An upper bound of the entry's length in the kernel's format.
            bytes += 32 + entry.file_name().to_bytes().len();
            visit(entry.file_name())?;
            // The kernel fills the buffer while there are entries, so a buffer that is less than half full
            // was the last.
            if entries.is_buffer_empty() && bytes < 4096 {
                break;
            }
        }
        Ok(())
    }
}

impl Process {
    /// The number of open descriptors; 0 where the kernel (before 6.2) does not report it as the directory's
    /// size.
    pub(super) fn open_descriptors(self) -> io::Result<u64> {
        Ok(rustix::fs::stat(self.path("fd"))?.st_size as u64)
    }

    /// All open descriptors, by number.
    pub(super) fn descriptors(self) -> io::Result<Vec<Descriptor>> {
        Listing::open(self, "fd")?.descriptors()
    }

    /// Whether the descriptor was opened for writing.
    pub(super) fn is_writable(self, number: i32) -> io::Result<bool> {
        let text = std::fs::read_to_string(self.path(&format!("fdinfo/{number}")))?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|text| i32::from_str_radix(text.trim(), 8).ok());
        Ok(flags.is_none_or(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY))
    }
}
