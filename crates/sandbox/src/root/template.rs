//! Builds a root template, once per launcher and variant of the root.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{
    MountFlags, MoveMountFlags, UnmountFlags, mount, mount_bind_recursive, move_mount, unmount,
};
use rustix::thread::UnshareFlags;

use super::{RootKind, etc, targets};
use crate::error::Fault;
use crate::spec::Network;
use crate::sys;

/// Subdirectories of the host's `/usr` that a sandbox sees, if they exist.
const USR: [&str; 6] = ["bin", "lib", "lib32", "lib64", "libexec", "share"];
/// Entries of the root that are links into `/usr`, or directories on hosts without a merged `/usr`.
const ROOT_LINKS: [&str; 5] = ["bin", "lib", "lib32", "lib64", "libx32"];
/// Device nodes: name, major, minor.
const DEVICES: [(&str, u32, u32); 5] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9)];

/// A ready root: enter its mount namespace, unshare it, and `/` is the minimal root.
#[derive(Debug)]
pub(crate) struct Template {
    /// The mount namespace.
    namespace: OwnedFd,
    /// A writable view of the root in the launcher's own mount namespace.
    place: PathBuf,
    /// Mount targets that are known to exist.
    targets: HashSet<String>,
}

impl Template {
    /// Builds a template. `place` is an empty directory to mount it on, in the launcher's private mount
    /// namespace; `resolvers` are for sandboxes with egress; `rootless` takes device nodes from the host,
    /// since only root may create some.
    pub(crate) fn build(
        place: &Path,
        kind: RootKind,
        resolvers: &[IpAddr],
        rootless: bool,
    ) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        mount("flint-root", place, "tmpfs", MountFlags::NOSUID, Some(c"mode=0755,size=64m,nr_inodes=16384"))?;
        populate(place, kind, resolvers, rootless)?;
        let namespace = enclose(place, rootless)?;
        Ok(Self { namespace, place: place.to_owned(), targets: HashSet::new() })
    }

    pub(crate) fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// Checks a mount target and creates it in the root where necessary.
    pub(crate) fn prepare_target(&mut self, target: &str, directory: bool) -> Result<(), Fault> {
        if self.targets.contains(target) {
            return Ok(());
        }
        targets::check(target)?;
        targets::ensure(&self.place, target, directory)
            .map_err(|error| Fault::step(format!("create mount target {target}"), &error))?;
        self.targets.insert(target.to_owned());
        Ok(())
    }
}

fn populate(root: &Path, kind: RootKind, resolvers: &[IpAddr], rootless: bool) -> io::Result<()> {
    for directory in ["dev", "etc", "function", "opt", "proc", "run", "usr/local", "var", "sys"] {
        fs::create_dir_all(root.join(directory))?;
    }
    if kind.zygote {
        symlink(format!("/proc/self/fd/{}", crate::TMP_FD), root.join("tmp"))?;
    } else {
        fs::create_dir(root.join("tmp"))?;
    }
    symlink("../tmp", root.join("var/tmp"))?;
    for name in USR.iter().chain(&["sbin"]) {
        let host = Path::new("/usr").join(name);
        if let Ok(target) = fs::read_link(&host) {
            symlink(target, root.join("usr").join(name))?;
        } else if host.is_dir() {
            fs::create_dir(root.join("usr").join(name))?;
        }
    }
    for name in ROOT_LINKS.iter().chain(&["sbin"]) {
        let host = Path::new("/").join(name);
        if let Ok(target) = fs::read_link(&host) {
            symlink(target, root.join(name))?;
        } else if host.is_dir() {
            fs::create_dir(root.join(name))?;
        }
    }
    let resolvers = (kind.network == Network::Egress).then_some(resolvers);
    etc::fill(&root.join("etc"), resolvers)?;
    populate_dev(&root.join("dev"), rootless)?;
    populate_sys(&root.join("sys"))
}

fn populate_dev(dev: &Path, rootless: bool) -> io::Result<()> {
    for (name, major, minor) in DEVICES {
        if rootless {
            fs::File::create(dev.join(name))?;
        } else {
            let mode = Mode::from_raw_mode(0o666);
            mknodat(CWD, dev.join(name), FileType::CharacterDevice, mode, makedev(major, minor))?;
            rustix::fs::chmod(dev.join(name), mode)?;
        }
    }
    // POSIX shared memory is in the same tmpfs as /tmp, so that one limit bounds both.
    symlink("/tmp", dev.join("shm"))?;
    symlink("/proc/self/fd", dev.join("fd"))?;
    for (number, name) in ["stdin", "stdout", "stderr"].iter().enumerate() {
        symlink(format!("/proc/self/fd/{number}"), dev.join(name))?;
    }
    Ok(())
}

/// The kernel's setting for transparent huge pages.
const HUGE_PAGES: &str = "kernel/mm/transparent_hugepage/enabled";

/// The files of `/sys` that runtimes look up: the CPUs and the setting for huge pages.
fn populate_sys(sys: &Path) -> io::Result<()> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = sys.join("devices/system/cpu");
    fs::create_dir_all(&cpus)?;
    for cpu in 0..count {
        fs::create_dir(cpus.join(format!("cpu{cpu}")))?;
    }
    for name in ["online", "possible", "present"] {
        let list = if count > 1 { format!("0-{}\n", count - 1) } else { "0\n".into() };
        fs::write(cpus.join(name), list)?;
    }
    if let Ok(enabled) = fs::read(Path::new("/sys").join(HUGE_PAGES)) {
        let file = sys.join(HUGE_PAGES);
        fs::create_dir_all(file.parent().unwrap_or(sys))?;
        fs::write(file, enabled)?;
    }
    Ok(())
}

/// Makes the mount namespace whose root is `place` in a helper process, and opens it, which keeps it alive.
fn enclose(place: &Path, rootless: bool) -> io::Result<OwnedFd> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let work = || {
        let outcome = enclose_here(place, rootless);
        let errno = outcome.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // The launcher opens this process's mount namespace and then kills it.
        let _ = rustix::io::write(&writer, &errno.to_ne_bytes());
    };
    // SAFETY: the launcher is single-threaded.
    let (pid, pidfd) = unsafe { sys::helper(0, work) }?;
    drop(writer);
    let mut errno = [0u8; 4];
    let length = rustix::io::read(&reader, &mut errno)?;
    let result = match (length, i32::from_ne_bytes(errno)) {
        (4, 0) => fs::File::open(format!("/proc/{pid}/ns/mnt")).map(OwnedFd::from),
        (4, errno) => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::Error::other("the helper that builds the root ended early")),
    };
    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL)?;
    rustix::process::waitid(
        rustix::process::WaitId::PidFd(pidfd.as_fd()),
        rustix::process::WaitIdOptions::EXITED,
    )?;
    result
}

fn enclose_here(place: &Path, rootless: bool) -> io::Result<()> {
    sys::unshare(UnshareFlags::NEWNS)?;
    let ro = sys::RDONLY | sys::NOSUID | sys::NODEV;
    for name in USR {
        let host = Path::new("/usr").join(name);
        if host.is_dir() && !host.is_symlink() {
            bind(&host, &place.join("usr").join(name), ro)?;
        }
    }
    for name in ROOT_LINKS {
        let host = Path::new("/").join(name);
        if host.is_dir() && !host.is_symlink() {
            bind(&host, &place.join(name), ro)?;
        }
    }
    if rootless {
        for (name, ..) in DEVICES {
            bind(&Path::new("/dev").join(name), &place.join("dev").join(name), sys::NOSUID | sys::NOEXEC)?;
        }
        // In a user namespace the kernel allows a new /proc only where a full one is visible already. The
        // sandbox's own covers it.
        mount_bind_recursive("/proc", place.join("proc"))?;
    }
    let root =
        rustix::fs::open(place, rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC, Mode::empty())?;
    rustix::process::fchdir(&root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    // Only this view of the root becomes read-only; through its own the launcher creates mount targets.
    let here = rustix::fs::open("/", rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC, Mode::empty())?;
    sys::restrict_mount(here.as_fd(), sys::RDONLY | sys::NOSUID, false)
}

fn bind(source: &Path, target: &Path, attributes: u64) -> io::Result<()> {
    let tree = sys::detached_copy(source, attributes)?;
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}
