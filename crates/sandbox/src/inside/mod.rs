//! What runs inside a sandbox before user code does: its pid 1 ([`init`]), and the last steps of the payload's process ([`payload`]).

pub(crate) mod init;
mod mounts;
mod payload;
pub(crate) mod report;
mod spawner;

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::cgroup::Leaf;
use crate::spec::SandboxSpec;

/// Everything a sandbox is made of, prepared by the launcher. All descriptors are above [`FIRST_FREE`]; those of the leaf, `template` and `network`
/// are used before pid 1 leaves the launcher's table, the others after.
pub(crate) struct Job<'a> {
    pub(crate) spec: &'a SandboxSpec,
    /// Whether pid 1 begins in the launcher's own descriptor table: see [`crate::descriptors`].
    pub(crate) in_launchers_table: bool,
    /// `None` on a host without usable cgroups.
    pub(crate) leaf: Option<&'a Leaf>,
    /// The mount namespace whose `/` is the minimal root.
    pub(crate) template: BorrowedFd<'a>,
    pub(crate) network: BorrowedFd<'a>,
    /// The user namespace in which the payload is uid 1000.
    pub(crate) users: BorrowedFd<'a>,
    /// Host uid and gid that pid 1 takes once it has set everything up; `None` without root.
    pub(crate) init_uid: Option<u32>,
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
    pub(crate) link: Option<BorrowedFd<'a>>,
    /// The pipe to the launcher.
    pub(crate) report: BorrowedFd<'a>,
    /// For a zygote: the tmpfs it starts with, at [`crate::TMP_FD`].
    pub(crate) tmp: Option<BorrowedFd<'a>>,
    /// Detached mounts, in the order of the specification's.
    pub(crate) mounts: &'a [OwnedFd],
    /// Whether processes must be limited by RLIMIT_NPROC, for want of a pids cgroup.
    pub(crate) limit_by_uid: bool,
    /// Whether memory must be limited by RLIMIT_DATA, for want of a memory cgroup.
    pub(crate) limit_data: bool,
}

/// The launcher keeps lower descriptors occupied, so that the fixed places below are free to be overwritten.
pub(crate) const FIRST_FREE: i32 = 16;
/// Fixed places inside: 0 to 3 are the payload's.
const LINK: i32 = 3;
const REPORT: i32 = 4;
const USERS: i32 = 5;
const FIRST_CLOSED: i32 = 6;

/// The payload's uid and gid as seen inside.
pub(crate) const PAYLOAD_ID: u32 = 1000;
