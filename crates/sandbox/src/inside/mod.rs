//! What runs inside a sandbox before user code: its pid 1 ([`init`]) and the payload's process up to `execve`
//! ([`payload`]).

pub(crate) mod init;
mod mounts;
mod payload;
pub(crate) mod report;
mod spawner;

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::cgroup::Leaf;
use crate::spec::SandboxSpec;

/// The parts of a sandbox, prepared by the launcher. All descriptors are numbered [`FIRST_FREE`] or higher.
/// Those of the leaf, `template` and `network` are used before pid 1 leaves the launcher's descriptor table,
/// the others after.
pub(crate) struct Job<'a> {
    pub(crate) spec: &'a SandboxSpec,
    /// Whether pid 1 starts with the launcher's own descriptor table: see [`crate::descriptors`].
    pub(crate) in_launchers_table: bool,
    /// `None` on a host without usable cgroups.
    pub(crate) leaf: Option<&'a Leaf>,
    /// A mount namespace whose `/` is the minimal root.
    pub(crate) template: BorrowedFd<'a>,
    pub(crate) network: BorrowedFd<'a>,
    /// The user namespace in which the payload has uid 1000.
    pub(crate) users: BorrowedFd<'a>,
    /// Host uid and gid that pid 1 takes once everything is set up; `None` without root.
    pub(crate) init_uid: Option<u32>,
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
    pub(crate) link: Option<BorrowedFd<'a>>,
    /// The pipe to the launcher, for reports.
    pub(crate) report: BorrowedFd<'a>,
    /// For a zygote: the tmpfs it starts with, at [`crate::TMP_FD`].
    pub(crate) tmp: Option<BorrowedFd<'a>>,
    /// Detached mounts, in the order of the specification's mounts.
    pub(crate) mounts: &'a [OwnedFd],
    /// Whether to limit processes by RLIMIT_NPROC, because there is no pids cgroup.
    pub(crate) limit_by_uid: bool,
    /// Whether to limit memory by RLIMIT_DATA, because there is no memory cgroup.
    pub(crate) limit_data: bool,
}

/// The launcher keeps the lower numbers occupied by placeholders, so that the fixed numbers below can be
/// overwritten.
pub(crate) const FIRST_FREE: i32 = 16;
/// Fixed descriptor numbers inside; 0 to 3 are the payload's.
const LINK: i32 = 3;
const REPORT: i32 = 4;
const USERS: i32 = 5;
const FIRST_CLOSED: i32 = 6;

/// The payload's uid and gid as seen inside.
pub(crate) const PAYLOAD_ID: u32 = 1000;
