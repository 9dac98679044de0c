//! Pidfds: references to a process that stay valid when its process id is reused.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::outcome::ExitStatus;
use crate::sys;

/// Opens the process that has this process id now.
pub(crate) fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)
}

pub(crate) fn kill(pidfd: BorrowedFd<'_>) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// Whether it has not been reaped, so that its process id still means this process.
pub(crate) fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    // SAFETY: signal 0 only checks; no siginfo is passed.
    unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), 0, std::ptr::null::<u8>(), 0) == 0
    }
}

/// `struct pidfd_info` of Linux 6.15, `include/uapi/linux/pidfd.h`.
#[repr(C)]
#[derive(Debug, Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const INFO_IDS: u64 = 1 << 0;
/// The index of the parent's process id in [`PidfdInfo::ids`].
const PARENT: usize = 2;
const INFO_EXIT: u64 = 1 << 3;
const EXIT_SINCE: (u32, u32) = (6, 15);
/// `_IOWR(0xff, 11, struct pidfd_info)`
const GET_INFO: libc::c_ulong = 0xc000_ff0b | ((size_of::<PidfdInfo>() as libc::c_ulong) << 16);

/// The process id of the parent. An error if the process has ended or the kernel (before 6.13) has no such
/// ioctl.
pub(crate) fn parent(pidfd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = PidfdInfo { mask: INFO_IDS, ..PidfdInfo::default() };
    get(pidfd, &mut info)?;
    if info.mask & INFO_IDS == 0 { Err(io::ErrorKind::Unsupported.into()) } else { Ok(info.ids[PARENT]) }
}

fn get(pidfd: BorrowedFd<'_>, info: &mut PidfdInfo) -> io::Result<()> {
    // SAFETY: the kernel fills the structure, whose size is part of the request number.
    match unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO as _, &raw mut *info) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How a process that is not our child ended; `Ok(None)` while that is not known. An error on a kernel before
/// 6.15.
pub(crate) fn exit_status(pidfd: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    // Kernels 6.13 and 6.14 know the ioctl but not the exit code, and would answer as if it were not known
    // yet.
    if sys::kernel_version() < EXIT_SINCE {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    if let Err(error) = get(pidfd, &mut info) {
        return if error.raw_os_error() == Some(libc::ESRCH) { Ok(None) } else { Err(error) };
    }
    if info.mask & INFO_EXIT == 0 {
        return Ok(None);
    }
    Ok(Some(match info.exit_code & 0x7f {
        0 => ExitStatus::Code(info.exit_code >> 8 & 0xff),
        signal => ExitStatus::Signal(signal),
    }))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_parent_is_told_or_the_kernel_is_too_old() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let told = parent(open(child.id()).unwrap().as_fd());
        child.kill().unwrap();
        child.wait().unwrap();
        match told {
            Ok(parent) => assert_eq!(parent, std::process::id()),
            Err(error) => assert!(sys::kernel_version() < (6, 13), "{error}"),
        }
    }
}
