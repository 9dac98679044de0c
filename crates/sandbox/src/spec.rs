//! What the caller asks for: the launcher's configuration, and a sandbox's program, mounts and limits.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Fault;

/// How to start the launcher process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LauncherConfig {
    /// Directory for the launcher's own files (a few kilobytes), removed at shutdown; see also
    /// [`sweep`](crate::sweep()). Created when missing. Each server needs its own.
    pub state_dir: PathBuf,
    /// Names this server in cgroups. `[A-Za-z0-9_-]`, at most 40 characters.
    pub server_id: String,
    /// Name servers for sandboxes with [`Network::Egress`]; empty: those of the host's `/etc/resolv.conf`, but for loopback resolvers
    /// (systemd-resolved), which a sandbox cannot reach.
    pub dns: Vec<IpAddr>,
    /// Whether [`Network::Egress`] may reach private address ranges (RFC 1918, RFC 6598, fc00::/7). Off by default.
    pub allow_private: bool,
    /// The program that calls [`crate::launcher_entry`] first thing; `None` means this very executable (`/proc/self/exe`).
    pub exe: Option<PathBuf>,
    /// Number of empty network namespaces that the launcher keeps ready while it is idle (creating one costs about 0.4 ms).
    pub spare_networks: usize,
    /// Most ended sandboxes whose cgroups and network namespace are kept for the same [`SandboxSpec::recycle_key`].
    pub recycle_limit: usize,
    /// Whether the first sandbox with [`SandboxSpec::zygote`] sets the mount option `favordynmods` of cgroup
    /// v2 on this host (as root; on by default). Without it every [`crate::Cell::admit`] after a pause takes
    /// some 10 ms, during which the launcher does nothing else. The option makes forks on the whole host
    /// slightly slower, and from Linux 6.18 on only a reboot undoes it.
    pub favor_cgroup_moves: bool,
    /// First host uid (and gid) of the range for payloads; each living sandbox has its own. Must not collide
    /// with accounts of the host. Ignored when not running as root.
    pub uid_base: u32,
}

impl LauncherConfig {
    /// The defaults for a server that keeps its state in `state_dir`.
    pub fn new(state_dir: impl Into<PathBuf>, server_id: impl Into<String>) -> Self {
        Self {
            state_dir: state_dir.into(),
            server_id: server_id.into(),
            dns: Vec::new(),
            allow_private: false,
            exe: None,
            spare_networks: 8,
            recycle_limit: 256,
            favor_cgroup_moves: true,
            uid_base: 1_600_000,
        }
    }
}

/// One sandbox: what runs in it, what it sees and what it may use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// A name for messages and logs; unique among live sandboxes is helpful but not required.
    pub id: String,
    /// Program and arguments. `argv[0]` is a path inside the sandbox; without a `/` it is looked up in `PATH` of [`Self::env`]
    /// (or `/usr/bin:/bin`).
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited. `HOME`, `PATH` and `TMPDIR` get defaults when absent.
    pub env: Vec<(String, String)>,
    /// Working directory inside the sandbox.
    pub cwd: String,
    /// What the payload sees besides the minimal root: the function's code at `/function`, an interpreter's prefix, …
    pub mounts: Vec<Mount>,
    /// Size of `/tmp` and `/dev/shm` together, in bytes; what is stored there also counts as memory.
    pub tmp_bytes: u64,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// Network access.
    pub network: Network,
    /// Whether [`Network::Egress`] is closed until [`crate::Sandbox::open_network`].
    pub network_closed: bool,
    /// Ended sandboxes pass their cgroup and network namespace on to later ones with the same key, and to no
    /// others. Use one key per tenant and function version. With `None` both are made afresh.
    pub recycle_key: Option<String>,
    /// Host name inside.
    pub hostname: String,
    /// Whether the main process will be forked by [`crate::Sandbox::cell`] and [`crate::Cell::admit`]. Then
    /// `/tmp` (and `/var/tmp`, `/dev/shm`) is the tmpfs that a process holds as descriptor 200
    /// ([`crate::TMP_FD`]), the main process starts with a tmpfs of its own there, and system calls by which
    /// forked processes could share memory or inspect each other are refused. The main process must make
    /// itself non-dumpable.
    pub zygote: bool,
    /// Start in the background, because nobody waits for it: its processes get the CPU only while no other
    /// sandbox of this launcher wants it, until [`crate::Sandbox::foreground`] or [`crate::Sandbox::seal`],
    /// and at most for this long. Needs a CPU cgroup and Linux 5.15; otherwise it has no effect.
    pub background: Option<Duration>,
    /// Whether `argv` is executed once for each request of a [`crate::Spawner`], whose link the sandbox is
    /// given, instead of once. The sandbox's own stdin, stdout and stderr are not used then.
    pub spawner: bool,
}

impl SandboxSpec {
    /// A sandbox without network that runs `argv` with 256 MiB of memory, 64 processes, one core and 64 MiB of `/tmp`.
    pub fn new(id: impl Into<String>, argv: Vec<String>) -> Self {
        Self {
            id: id.into(),
            argv,
            env: Vec::new(),
            cwd: "/tmp".into(),
            mounts: Vec::new(),
            tmp_bytes: 64 << 20,
            limits: ResourceLimits::default(),
            network: Network::None,
            network_closed: false,
            recycle_key: None,
            hostname: "function".into(),
            zygote: false,
            background: None,
            spawner: false,
        }
    }
}

/// A directory or file of the host that the payload sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute path on the host.
    pub source: PathBuf,
    /// Absolute path inside. Created in the root when missing; below `/usr` it must exist. `/proc`, `/dev`,
    /// `/sys`, `/etc`, `/tmp`, `/bin` and `/sbin`, and everything below them, are refused.
    pub target: String,
    /// Read-only unless `false`. A writable source must be writable for "others", since each sandbox's
    /// payload has another uid.
    pub readonly: bool,
}

/// Resource limits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory with page cache and `/tmp`, in bytes; swap is off.
    pub memory_bytes: u64,
    /// Processes and threads at once.
    pub processes: u32,
    /// CPU quota in thousandths of a core: 1000 = one core.
    pub cpu_millis: u32,
    /// Open files of one process.
    pub open_files: u32,
    /// Largest size of a file that a process writes (`RLIMIT_FSIZE`), in bytes; `None` keeps the host's
    /// limit. Does not bound the disk space of a file of the host: `fallocate` can reserve more behind its end.
    pub file_bytes: Option<u64>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self { memory_bytes: 256 << 20, processes: 64, cpu_millis: 1000, open_files: 1024, file_bytes: None }
    }
}

/// Rejects limits too low for anything to run.
pub(crate) fn check_limits(limits: &ResourceLimits) -> Result<(), Fault> {
    if limits.processes == 0 || limits.memory_bytes < 1 << 20 || limits.cpu_millis == 0 {
        let what = "limits too low: at least 1 process, 1 MiB of memory and 1 thousandth of a core";
        return Err(Fault::Invalid { what: what.into() });
    }
    Ok(())
}

/// Network access of a sandbox. Each sandbox has a network namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Only its own loopback interface.
    None,
    /// Outgoing connections to public addresses, through NAT; no host address, no other sandbox, no link-local (metadata) address.
    Egress,
}

/// The payload's file descriptors. They are moved into the sandbox; the caller's copies are closed when the request is sent.
#[derive(Debug)]
pub struct SandboxIo {
    /// fd 0; `None` is `/dev/null`.
    pub stdin: Option<OwnedFd>,
    /// fd 1.
    pub stdout: OwnedFd,
    /// fd 2.
    pub stderr: OwnedFd,
    /// fd 3, when given: the link to the runtime shim, or the pipe for a build tool's product.
    pub link: Option<OwnedFd>,
}
