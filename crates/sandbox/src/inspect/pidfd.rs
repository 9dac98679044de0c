//! Processes by descriptors that cannot come to mean another one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::outcome::ExitStatus;
use crate::sys;

/// Opens the process that has this id now.
pub(crate) fn open(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)
}

pub(crate) fn kill(pidfd: BorrowedFd<'_>) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// Whether it has not been reaped, and so its id means no other process.
pub(crate) fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    // SAFETY: signal 0 only asks; no siginfo is passed.
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

const INFO_EXIT: u64 = 1 << 3;
const EXIT_SINCE: (u32, u32) = (6, 15);
/// `_IOWR(0xff, 11, struct pidfd_info)`
const GET_INFO: libc::c_ulong = 0xc000_ff0b | ((size_of::<PidfdInfo>() as libc::c_ulong) << 16);

/// How a process ended that is another's child. `Ok(None)`: not known yet. An error: this kernel (before 6.15) does not tell.
pub(crate) fn exit_status(pidfd: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    // Kernels that know the question but not this part of the answer look like ones that have no answer yet.
    if sys::kernel_version() < EXIT_SINCE {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the kernel fills the structure, whose size is part of the request number.
    if unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), GET_INFO as _, &raw mut info) } < 0 {
        let error = io::Error::last_os_error();
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
