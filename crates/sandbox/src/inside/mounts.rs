//! The mounts of each sandbox on top of the shared root: its own `/proc`, its own `/tmp`, and those that the
//! caller asked for.

use std::io;

use rustix::fs::CWD;
use rustix::mount::{MountAttrFlags, MoveMountFlags, move_mount};

use super::Job;
use crate::error::Fault;
use crate::fresh;

/// Mounts everything. The calling process must be in its own copy of the template's mount namespace.
pub(super) fn mount_all(job: &Job<'_>) -> Result<(), Fault> {
    // Only process directories, and only those of the reader's own processes: no kernel log, no sysctl, no
    // pid 1.
    let proc_options = [("subset", "pid".to_owned()), ("hidepid", "invisible".to_owned())];
    let attributes = fresh::SAFE | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fresh::detached("proc", &proc_options, attributes)
        .and_then(|proc| fresh::attach(proc, "/proc"))
        .map_err(no_proc)?;
    if !job.spec.zygote {
        fresh::tmpfs(job.spec.tmp_bytes)
            .and_then(|tmp| fresh::attach(tmp, "/tmp"))
            .map_err(|error| Fault::step("mount /tmp", &error))?;
    }
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

/// In a user namespace the kernel refuses a new `/proc` that would show more than a visible one already does.
fn no_proc(error: io::Error) -> Fault {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Fault::step("mount /proc", &error);
    }
    Fault::Unavailable {
        what: format!("a /proc of its own ({error}: without root it takes one here of which nothing is covered)"),
        remedy: "uncover it (docker run --security-opt systempaths=unconfined, podman run --security-opt unmask=ALL, systemd without \
                 ProtectKernelTunables= and ProtectKernelLogs=), or run flint as the host's root"
            .into(),
    }
}
