//! What each sandbox mounts on top of the shared root: its own `/proc`, its own `/tmp`, and what the caller asked for.

use std::io;

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, move_mount,
};

use super::Job;
use crate::error::Fault;

/// Mounts everything; the caller is in its own copy of the template's mount namespace.
pub(super) fn mount_all(job: &Job<'_>) -> Result<(), Fault> {
    let safe = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    // Only process directories, and of those only one's own: no kernel logs, no sysctls, no pid 1.
    let proc_options = [("subset", "pid".to_owned()), ("hidepid", "invisible".to_owned())];
    fresh("proc", &proc_options, safe | MountAttrFlags::MOUNT_ATTR_NOEXEC, "/proc")
        .map_err(|error| Fault::step("mount /proc", &error))?;
    // Inodes cost kernel memory too; one for each KiB is more than files need.
    let inodes = (job.spec.tmp_bytes / 1024).clamp(1024, 1 << 20);
    let tmp_options = [
        ("size", job.spec.tmp_bytes.to_string()),
        ("nr_inodes", inodes.to_string()),
        ("mode", "1777".to_owned()),
    ];
    fresh("tmpfs", &tmp_options, safe, "/tmp").map_err(|error| Fault::step("mount /tmp", &error))?;
    for (mount, tree) in job.spec.mounts.iter().zip(job.mounts) {
        move_mount(tree, "", CWD, mount.target.as_str(), MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(
            |error| {
                let step = format!("mount {} at {}", mount.source.display(), mount.target);
                Fault::step(step, &error.into())
            },
        )?;
    }
    Ok(())
}

fn fresh(kind: &str, options: &[(&str, String)], attributes: MountAttrFlags, target: &str) -> io::Result<()> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, value.as_str())?;
    }
    fsconfig_create(&context)?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}
