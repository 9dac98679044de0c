//! File systems made anew, not yet mounted anywhere.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, move_mount,
};

/// Attributes of everything that payloads can write to.
pub(crate) const SAFE: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// A tmpfs of at most `bytes`, for anybody to write to. It lasts as long as this descriptor (an `O_PATH` one) and its copies, and what is open in it.
pub(crate) fn tmpfs(bytes: u64) -> io::Result<OwnedFd> {
    // Inodes cost kernel memory too; one for each KiB is more than files need.
    let inodes = (bytes / 1024).clamp(1024, 1 << 20);
    let options =
        [("size", bytes.to_string()), ("nr_inodes", inodes.to_string()), ("mode", "1777".to_owned())];
    detached("tmpfs", &options, SAFE)
}

/// A file system of this kind, mounted nowhere.
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
