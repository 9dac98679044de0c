//! The mount option of cgroup v2 that makes moving a process between cgroups cheap.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::fs::CWD;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick};

/// Since Linux 6.0. It speeds up moves in v1 hierarchies too.
const OPTION: &str = "favordynmods";

/// Where cgroup v2 is mounted, and its options.
fn mounted() -> Option<(PathBuf, Vec<String>)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let point = left.split(' ').nth(4)?.replace("\\040", " ");
        (kind == "cgroup2").then(|| (point.into(), options.split(',').map(str::to_owned).collect()))
    })
}

/// Whether moves are cheap; `None` on a host without cgroup v2.
pub(crate) fn are_cheap() -> Option<bool> {
    mounted().map(|(_, options)| options.iter().any(|option| option == OPTION))
}

/// Sets the option on this host. Without it, every move after a pause waits for an RCU grace period, until
/// every CPU has passed through the scheduler: 7 to 15 ms on a busy two-core machine instead of some 20 µs.
/// The price is slightly slower forks and exits on the whole host, and from Linux 6.18 on only a reboot
/// undoes it.
pub(crate) fn make_cheap() -> io::Result<()> {
    let Some((point, options)) = mounted() else { return Ok(()) };
    if options.iter().any(|option| option == OPTION) {
        return Ok(());
    }
    let context = fspick(CWD, point, FsPickFlags::FSPICK_CLOEXEC)?;
    // Reconfiguring the mount clears every option that is not named.
    for option in options.iter().filter(|option| !["rw", "ro"].contains(&option.as_str())) {
        fsconfig_set_flag(&context, option.as_str())?;
    }
    fsconfig_set_flag(&context, OPTION)?;
    fsconfig_reconfigure(&context).map_err(io::Error::from)
}
