//! What this host offers for isolation, for `flint doctor`.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::cgroup::{Controller, Layout, Tree, moves, remove_trees};
use crate::inspect::pidfd;
use crate::launcher::is_root;
use crate::sys::{self, Forked};
use crate::{fence, net, seccomp};

/// One ability of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// A stable short name, such as `user-namespaces`.
    pub name: &'static str,
    /// Whether it is there.
    pub state: ProbeState,
    /// What was found.
    pub detail: String,
    /// What to do when it is limited or missing; empty otherwise.
    pub remedy: String,
}

/// Whether the host has an ability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeState {
    /// Works.
    Available,
    /// Works in part, as the detail says.
    Limited,
    /// Does not work.
    Missing,
}

/// Oldest kernel with everything that sandboxes need: `mount_setattr`.
const KERNEL_MIN: (u32, u32) = (5, 12);

/// Descriptors that the launcher keeps for a living clone: its process, its cgroup and its streams.
const OF_A_CLONE: u64 = 11;
/// Below this, descriptors run out before memory does.
const MANY_FILES: u64 = 1 << 16;

/// Tries each ability that sandboxes build on, for a launcher with this [`crate::LauncherConfig::uid_base`].
/// Blocks for some milliseconds and leaves nothing behind.
pub fn probe(uid_base: u32) -> Vec<Probe> {
    let rootless = !is_root(uid_base);
    let mut probes = vec![kernel(), rights(rootless, uid_base), open_files(), user_namespaces(rootless)];
    probes.extend(namespaces(rootless));
    probes.extend(cgroups());
    let groups =
        probes.iter().any(|probe| probe.name == "cgroup-freezer" && probe.state == ProbeState::Available);
    probes.extend([seccomp(), landlock(), egress(rootless), call_wall(rootless, groups), exit_status()]);
    probes.extend(cgroup_moves(rootless));
    probes
}

fn found(name: &'static str, detail: impl Into<String>) -> Probe {
    Probe { name, state: ProbeState::Available, detail: detail.into(), remedy: String::new() }
}

fn lacking(
    name: &'static str,
    state: ProbeState,
    detail: impl Into<String>,
    remedy: impl Into<String>,
) -> Probe {
    Probe { name, state, detail: detail.into(), remedy: remedy.into() }
}

fn kernel() -> Probe {
    let release = sys::kernel_release();
    let (major, minor) = KERNEL_MIN;
    if sys::kernel_version() >= KERNEL_MIN {
        found("kernel", format!("Linux {release}"))
    } else {
        lacking(
            "kernel",
            ProbeState::Missing,
            format!("Linux {release}"),
            format!("sandboxes need {major}.{minor} or later"),
        )
    }
}

fn rights(rootless: bool, uid_base: u32) -> Probe {
    const NAME: &str = "rights";
    if !rootless {
        return found(NAME, "root: each sandbox gets host user ids of its own");
    }
    let (who, remedy) = if rustix::process::geteuid().is_root() {
        (
            format!(
                "root without all capabilities, or without the user ids from {uid_base} (sandbox.uid_base)"
            ),
            "run as the host's root, outside of a user namespace, for a user id per sandbox, limits and egress",
        )
    } else {
        ("not root".to_owned(), "run as root for a user id per sandbox, limits and egress")
    };
    let detail = format!(
        "{who}: one host user for all sandboxes, limits only with a delegated cgroup, no start fork, no network egress"
    );
    lacking(NAME, ProbeState::Limited, detail, remedy)
}

/// The limit of open files, raised as a server raises it.
fn open_files() -> Probe {
    const NAME: &str = "open-files";
    let limit = crate::raise_open_files();
    let detail = format!("{limit} at once; a living clone takes {OF_A_CLONE} of them");
    if limit >= MANY_FILES {
        return found(NAME, detail);
    }
    lacking(
        NAME,
        ProbeState::Limited,
        detail,
        "raise the hard limit: ulimit -Hn, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container",
    )
}

fn user_namespaces(rootless: bool) -> Probe {
    const NAME: &str = "user-namespaces";
    let lacks = |detail: String| {
        lacking(
            NAME,
            ProbeState::Missing,
            detail,
            "allow them: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns; in a container, its seccomp profile",
        )
    };
    if let Err(error) = try_clone(libc::CLONE_NEWUSER) {
        return lacks(error.to_string());
    }
    // AppArmor lets unprivileged users create user namespaces, but can deny the capabilities within.
    match rootless.then(|| try_rights(&maps())) {
        Some(Err(error)) => lacks(format!("can be made, and give no rights: {error}")),
        _ => found(NAME, "can be made"),
    }
}

/// A file of a process and the text to write to it.
type Entry = (&'static CStr, String);

/// The id maps that make this user root in a user namespace.
fn maps() -> [Entry; 3] {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("0 {uid} 1")),
        (c"/proc/self/gid_map", format!("0 {gid} 1")),
    ]
}

/// Does what the launcher does first in a user namespace.
fn try_rights(maps: &[Entry]) -> io::Result<()> {
    // SAFETY: sound in a multi-threaded process, since the child only makes system calls and allocates
    // nothing.
    match unsafe { sys::clone3(libc::CLONE_NEWUSER | libc::CLONE_NEWNS, None) }? {
        Forked::Child => sys::exit_now(use_rights(maps).map_or_else(|errno| errno.raw_os_error(), |()| 0)),
        Forked::Parent { pidfd, .. } => {
            let ended = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)?;
            match ended.and_then(|ended| ended.exit_status()) {
                Some(0) => Ok(()),
                Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                None => Err(io::Error::other("the process in it was killed")),
            }
        }
    }
}

fn use_rights(maps: &[Entry]) -> rustix::io::Result<()> {
    for (path, text) in maps {
        let file = rustix::fs::open(*path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes())?;
    }
    mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

fn namespaces(rootless: bool) -> Vec<Probe> {
    let all = [
        ("pid-namespaces", libc::CLONE_NEWPID),
        ("mount-namespaces", libc::CLONE_NEWNS),
        ("network-namespaces", libc::CLONE_NEWNET),
        ("ipc-namespaces", libc::CLONE_NEWIPC),
        ("uts-namespaces", libc::CLONE_NEWUTS),
        ("cgroup-namespaces", libc::CLONE_NEWCGROUP),
    ];
    let user = if rootless { libc::CLONE_NEWUSER } else { 0 };
    let one = |(name, flag)| match try_clone(user | flag) {
        Ok(()) => found(name, "can be made"),
        Err(error) => lacking(
            name,
            ProbeState::Missing,
            error.to_string(),
            "needs root with CAP_SYS_ADMIN and CAP_NET_ADMIN, or user namespaces, and a kernel with this namespace compiled in",
        ),
    };
    all.into_iter().map(one).collect()
}

/// Clones a child that exits at once; in a network namespace of its own after it has brought up `lo`, which each
/// sandbox needs.
fn try_clone(flags: i32) -> io::Result<()> {
    // SAFETY: sound in a multi-threaded process, since the child makes plain system calls and exits.
    match unsafe { sys::clone3(flags, None) }? {
        Forked::Child => {
            let up = if flags & libc::CLONE_NEWNET == 0 { Ok(()) } else { net::loopback::up() };
            sys::exit_now(up.err().and_then(|error| error.raw_os_error()).unwrap_or(0))
        }
        Forked::Parent { pidfd, .. } => {
            let ended = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)?;
            match ended.and_then(|ended| ended.exit_status()) {
                Some(0) | None => Ok(()),
                Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }
}

fn cgroups() -> Vec<Probe> {
    let mode = Layout::of_this_process().mode();
    let remedy = "as root: mount cgroup2. Without root: start with systemd and Delegate=yes, \
                  or `systemd-run --user --scope -p Delegate=yes`";
    let tree = Tree::create(&format!("flint-probe-{}", std::process::id()), None);
    let mut probes = vec![if mode == "none" {
        lacking("cgroups", ProbeState::Missing, "no cgroup file system is mounted", remedy)
    } else {
        found("cgroups", format!("{mode} hierarchy"))
    }];
    let controllers = [
        ("cgroup-memory", Controller::Memory),
        ("cgroup-pids", Controller::Pids),
        ("cgroup-cpu", Controller::Cpu),
    ];
    for (name, controller) in controllers {
        probes.push(match tree.place(controller) {
            Some((version, _)) => found(name, format!("{version:?}")),
            None => {
                let why = tree.missing.iter().find(|text| text.starts_with(controller.name()));
                lacking(name, ProbeState::Missing, why.cloned().unwrap_or_default(), remedy)
            }
        });
    }
    let freezer = tree.unified().is_some() || tree.place(Controller::Freezer).is_some();
    probes.push(if freezer {
        found("cgroup-freezer", "can stop and continue sandboxes")
    } else {
        lacking("cgroup-freezer", ProbeState::Missing, "no hierarchy is writable", remedy)
    });
    let _ = remove_trees(&tree.directories(), Duration::from_millis(100));
    probes
}

fn seccomp() -> Probe {
    if seccomp::available() {
        found(
            "seccomp",
            format!("filters work; the allow-list has {} instructions", seccomp::program(false).len()),
        )
    } else {
        lacking(
            "seccomp",
            ProbeState::Missing,
            "the kernel has no filters",
            "use a kernel with CONFIG_SECCOMP_FILTER",
        )
    }
}

fn landlock() -> Probe {
    const NAME: &str = "landlock";
    let remedy = "Linux 6.12 or later with landlock in the lsm= boot parameter; until then the other walls stand alone";
    match fence::version() {
        0 => lacking(NAME, ProbeState::Missing, "not enabled", remedy),
        version @ 1..6 => lacking(
            NAME,
            ProbeState::Limited,
            format!("ABI {version}: files, but not signals and abstract sockets"),
            remedy,
        ),
        version => found(NAME, format!("ABI {version}: files, signals, abstract sockets")),
    }
}

/// Fork start: the separation of two calls of one function. See SECURITY.md.
fn call_wall(rootless: bool, groups: bool) -> Probe {
    const NAME: &str = "fork-call-wall";
    if rootless {
        // The `/proc` files of a non-dumpable process belong to the host's root.
        let detail = "without root nobody can look at a clone before it is given a call";
        return lacking(NAME, ProbeState::Missing, detail, "run flint as root");
    }
    if !groups {
        return lacking(NAME, ProbeState::Missing, "no cgroup for each clone", "mount cgroup2");
    }
    match fence::version() {
        // The runtimes make no clones then.
        version @ 0..6 => lacking(
            NAME,
            ProbeState::Missing,
            format!("Landlock ABI {version}: clones of one function could send signals to each other"),
            "Linux 6.12 or later with landlock in the lsm= boot parameter",
        ),
        version => {
            found(NAME, format!("a /tmp, a cgroup and a Landlock domain (ABI {version}) for each clone"))
        }
    }
}

/// Fork start: whether moving a clone into its cgroup is fast.
fn cgroup_moves(rootless: bool) -> Option<Probe> {
    const NAME: &str = "fork-cgroup-moves";
    match moves::are_cheap()? {
        true => Some(found(NAME, "cgroup2 is mounted with favordynmods")),
        false if !rootless => {
            let detail = "will be mounted with favordynmods at the first function with start fork (a setting of the whole host)";
            Some(found(NAME, detail))
        }
        false => Some(lacking(
            NAME,
            ProbeState::Limited,
            "a clone waits some 10 ms for its cgroup after a pause",
            "as root: mount -o remount,favordynmods /sys/fs/cgroup (Linux 6.0 or later)",
        )),
    }
}

/// Fork start: whether the exit status of a process that is not our child can be read.
fn exit_status() -> Probe {
    const NAME: &str = "fork-exit-status";
    let own = pidfd::open(std::process::id()).and_then(|own| pidfd::exit_status(own.as_fd()));
    match own {
        Ok(_) => found(NAME, "exit codes of clones are known"),
        Err(error) => lacking(
            NAME,
            ProbeState::Limited,
            format!("how a clone ended is reported as unknown: {error}"),
            "Linux 6.15 or later",
        ),
    }
}

fn egress(rootless: bool) -> Probe {
    let lacks = net::egress_missing(rootless).or_else(|| conntrack_missing(ask_conntrack()));
    match lacks {
        None => found("egress", "veth pairs, nftables NAT"),
        Some((what, remedy)) => lacking("egress", ProbeState::Missing, what, remedy),
    }
}

/// Without ctnetlink the connections of ended sandboxes cannot be deleted, so egress is refused.
fn conntrack_missing(answer: io::Result<()>) -> Option<(String, String)> {
    let error = answer.err()?;
    Some((
        format!("the kernel's connection tracking does not answer by netlink: {error}"),
        "load the module: modprobe nf_conntrack_netlink (CONFIG_NF_CT_NETLINK of the kernel)".into(),
    ))
}

/// Asks connection tracking for its statistics, on which the kernel loads the module if it may.
fn ask_conntrack() -> io::Result<()> {
    /// `NFNL_SUBSYS_CTNETLINK` in the upper byte, `IPCTNL_MSG_CT_GET_STATS` in the lower.
    const GET_STATS: u16 = 1 << 8 | 5;
    /// The lengths of `struct nlmsghdr` and `struct nfgenmsg`.
    const LENGTH: u32 = 16 + 4;
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
    let mut request = Vec::with_capacity(LENGTH as usize);
    request.extend(LENGTH.to_ne_bytes());
    request.extend(GET_STATS.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([libc::AF_INET as u8, 0, 0, 0]);
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0u8; 1024];
    // netlink answers within `send`, so the answer is there already.
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    refusal_in(&answer[..length])
}

/// The error that a netlink answer reports, if any.
fn refusal_in(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..).and_then(|rest| rest.first_chunk::<2>());
    let content = answer.get(16..).and_then(|rest| rest.first_chunk::<4>());
    let (Some(kind), Some(content)) = (kind, content) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    match i32::from_ne_bytes(*content) {
        error if error != 0 && i32::from(u16::from_ne_bytes(*kind)) == libc::NLMSG_ERROR => {
            Err(io::Error::from_raw_os_error(-error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_whose_connection_tracking_does_not_answer_has_no_egress() {
        let answer = |kind: u16, content: i32| {
            let mut message = 20u32.to_ne_bytes().to_vec();
            message.extend(kind.to_ne_bytes());
            message.extend([0; 10]);
            message.extend(content.to_ne_bytes());
            message
        };
        // Statistics, hence no refusal.
        assert!(refusal_in(&answer(1 << 8 | 5, 2)).is_ok());
        // The answer of a kernel without the module.
        let (what, remedy) =
            conntrack_missing(refusal_in(&answer(libc::NLMSG_ERROR as u16, -libc::EINVAL))).unwrap();
        assert!(what.contains("Invalid argument") && remedy.contains("modprobe nf_conntrack_netlink"));
        assert!(refusal_in(&[]).is_err());
        assert_eq!(conntrack_missing(Ok(())), None);
    }

    #[test]
    fn root_of_a_namespace_without_the_payloads_ids_is_not_called_root() {
        // An id that no id map contains.
        let probes = probe(u32::MAX);
        let state_of = |name| probes.iter().find(|probe| probe.name == name).unwrap().state;
        assert_eq!(state_of("rights"), ProbeState::Limited);
        // The call wall also on a host with cgroups.
        let walls = [state_of("egress"), state_of("fork-call-wall"), call_wall(true, true).state];
        assert_eq!(walls, [ProbeState::Missing; 3]);
    }

    /// AppArmor makes the write to the id map fail; the test uses a map that cannot be written.
    #[test]
    fn a_user_namespace_without_rights_is_told_from_one_with_them() {
        if let Err(error) = try_clone(libc::CLONE_NEWUSER) {
            println!("not checked: no user namespaces here: {error}");
            return;
        }
        let nonsense = [(c"/proc/self/uid_map", "0 0 0".to_owned())];
        assert!(try_rights(&nonsense).is_err());
        // A host on which the launcher works without root must not be reported as lacking rights.
        if let Err(error) = try_rights(&maps()) {
            println!("user namespaces give no rights here: {error}");
            assert_ne!(user_namespaces(true).state, ProbeState::Available);
        }
    }
}
