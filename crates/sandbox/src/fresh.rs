//! New file systems that are not mounted anywhere yet.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, move_mount,
};

/// Mount attributes of everything that payloads can write to.
pub(crate) const SAFE: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// A tmpfs of at most `bytes`, writable for everyone. It lives as long as this `O_PATH` descriptor, its
/// duplicates and the files open in it.
pub(crate) fn tmpfs(bytes: u64) -> io::Result<OwnedFd> {
    // Inodes cost kernel memory too; one per KiB is more than enough.
    let inodes = (bytes / 1024).clamp(1024, 1 << 20);
    let options =
        [("size", bytes.to_string()), ("nr_inodes", inodes.to_string()), ("mode", "1777".to_owned())];
    detached("tmpfs", &options, SAFE)
}

/// A new file system of this type, not mounted anywhere.
pub(crate) fn detached(
    kind: &str,
    options: &[(&str, String)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, value.as_str())?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(io::Error::from)
}

/// Mounts it at `target`.
pub(crate) fn attach(mount: OwnedFd, target: &str) -> io::Result<()> {
    move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(io::Error::from)
}
