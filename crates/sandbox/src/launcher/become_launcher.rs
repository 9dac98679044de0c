//! Turns a freshly executed process into a launcher: descriptors, signals, namespaces, cgroups, state file.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::event::epoll;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::{ANNOUNCEMENTS, Background, Groups, Launcher, SERVER, Slots, Watch};
use crate::announcements::Announcements;
use crate::cgroup::Tree;
use crate::descriptors::keep;
use crate::error::Fault;
use crate::inside::FIRST_FREE;
use crate::net::{EgressConfig, Namespaces};
use crate::root::{RootKind, Template, name_servers};
use crate::spec::LauncherConfig;
use crate::state::State;
use crate::sys;
use crate::wire::{self, Event, MESSAGE_MAX, Request};

/// Runs the launcher; returns its exit code.
pub(super) fn serve() -> i32 {
    let server = match take_control_socket() {
        Ok(server) => server,
        Err(error) => {
            eprintln!("flint {}: fd 0 is not a control socket: {error}", super::ARGUMENT);
            return 2;
        }
    };
    let mut buffer = vec![0; MESSAGE_MAX];
    let (config, server_pid, announcements) = match wire::receive::<Request<'_>>(server.as_fd(), &mut buffer)
    {
        Ok(Some((Request::Hello { config, server_pid }, Ok(mut fds)))) if fds.len() == 1 => {
            (config.into_owned(), server_pid, Announcements::new(keep(fds.remove(0))))
        }
        other => {
            eprintln!("flint {}: no greeting from the server: {other:?}", super::ARGUMENT);
            return 2;
        }
    };
    detach_from_terminal();
    let told = server.as_fd().try_clone_to_owned();
    match set_up(config, server_pid, server, announcements) {
        Ok(mut launcher) => {
            launcher.tell(&Event::Up, &[]);
            launcher.run();
            launcher.end();
            0
        }
        Err(fault) => {
            if let Ok(socket) = told {
                let _ = wire::send(socket.as_fd(), &Event::Down { fault }, &[]);
            }
            1
        }
    }
}

/// Moves the control socket up from fd 0, where the server passes it, and fills the low numbers, which
/// sandboxes overwrite, with `/dev/null`.
fn take_control_socket() -> io::Result<OwnedFd> {
    let server = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_FREE)?;
    rustix::net::sockopt::socket_type(&server)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for number in (0..FIRST_FREE).filter(|number| *number != 2) {
        sys::dup_onto(null.as_fd(), number, true)?;
    }
    // `null` may have one of those numbers, and must not be closed.
    std::mem::forget(null);
    Ok(server)
}

fn detach_from_terminal() {
    let _ = rustix::process::setsid();
    for signal in 1..=31 {
        if signal != libc::SIGSEGV && signal != libc::SIGBUS {
            sys::default_signal(signal);
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        sys::ignore_signal(signal);
    }
    sys::unblock_signals();
    let _ = rustix::thread::set_name(c"flint-launcher");
    // SAFETY: single-threaded; changes only this process's file mode mask.
    unsafe { libc::umask(0o022) };
    crate::raise_open_files();
}

fn set_up(
    config: LauncherConfig,
    server_pid: u32,
    server: OwnedFd,
    announcements: Announcements,
) -> Result<Launcher, Fault> {
    let at = |step: &'static str| move |error: io::Error| Fault::step(step, &error);
    // Built once, before any fork, so that every sandbox inherits the filters.
    for zygote in [false, true] {
        crate::seccomp::program(zygote);
    }
    let rootless = !is_root(config.uid_base);
    let groups = State::group_name(&config.server_id);
    let state = State::new(Tree::places(&groups));
    let state_path = state.write(&config.state_dir).map_err(at("write the state file"))?;
    let tree = Tree::create(&groups, Some(server_pid));
    let egress =
        EgressConfig { resolvers: name_servers(&config.dns), allow_private: config.allow_private, rootless };
    own_mounts(rootless)
        .map_err(at("make a mount namespace (user namespaces may be disabled: see `flint doctor`)"))?;
    let place = State::root_place(&state_path, RootKind::PLAIN);
    let template =
        Template::build(&place, RootKind::PLAIN, &[], rootless).map_err(at("build the root file system"))?;
    let epoll =
        epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| at("create epoll")(error.into()))?;
    for (socket, token) in [(server.as_fd(), SERVER), (announcements.as_fd(), ANNOUNCEMENTS)] {
        epoll::add(&epoll, socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
            .map_err(|error| at("watch the server")(error.into()))?;
    }
    Ok(Launcher {
        server,
        announcements,
        epoll,
        rootless,
        mounts: fs::File::open("/proc/self/ns/mnt").map_err(at("open the mount namespace"))?.into(),
        tree: if tree.is_empty() { None } else { Some(tree) },
        templates: HashMap::from([(RootKind::PLAIN, template)]),
        networks: Namespaces::new(config.spare_networks, egress).map_err(at("open the network namespace"))?,
        slots: Slots::new(config.recycle_limit, config.uid_base, rootless),
        leaves: 0,
        live: HashMap::new(),
        starting: VecDeque::new(),
        cells: HashMap::new(),
        groups: Groups::new(config.recycle_limit),
        waiting: Vec::new(),
        watch: Watch::default(),
        ending: Vec::new(),
        background: Background::default(),
        doomed: Vec::new(),
        freezing: Vec::new(),
        host_looked_at: Instant::now(),
        state: state_path,
        config,
    })
}

/// Removes the state file and the empty mount points beside it.
pub(super) fn remove_state(state: &Path) {
    for kind in RootKind::ALL {
        let place = State::root_place(state, kind);
        let _ = rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH);
        let _ = fs::remove_dir(place);
    }
    let _ = fs::remove_file(state);
}

/// Whether this process is root on the host: it has the capabilities, and its user namespace maps the
/// payloads' uids.
pub(crate) fn is_root(uid_base: u32) -> bool {
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::MKNOD
        | CapabilitySet::DAC_OVERRIDE;
    let capable = rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let mapped = map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(uid_base)))
    });
    rustix::process::geteuid().is_root() && capable && mapped
}

/// Enters a private mount namespace; without root within a user namespace in which this process is root.
fn own_mounts(rootless: bool) -> io::Result<()> {
    if rootless {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        // A network namespace too: to come back from a sandbox's network, `setns` needs CAP_SYS_ADMIN over
        // the namespace left, which this process lacks over the host's.
        sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWNET)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
    } else {
        sys::unshare(UnshareFlags::NEWNS)?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    Ok(())
}
