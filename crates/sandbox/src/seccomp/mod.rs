//! The system-call allow-list of payloads.
//!
//! The filter is a binary search over ranges of numbers rather than the usual list of comparisons: on
//! installation the kernel runs it once for every number, to build its cache of always-allowed calls, which
//! with a list costs several times as much.

mod build;
mod list;

use std::io;
use std::sync::OnceLock;

use libc::sock_filter;

/// The filter, built on first use; a zygote gets the stricter one.
pub(crate) fn program(zygote: bool) -> &'static [sock_filter] {
    static PROGRAMS: [OnceLock<Vec<sock_filter>>; 2] = [OnceLock::new(), OnceLock::new()];
    PROGRAMS[usize::from(zygote)]
        .get_or_init(|| build::program(&if zygote { list::zygote_verdicts() } else { list::verdicts() }))
}

/// Installs the filter on the calling thread, irrevocably. Requires `no_new_privs`.
pub(crate) fn install(program: &[sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel only reads the program, and copies it.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the kernel supports filters.
pub(crate) fn available() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: queries an action; the kernel reads four bytes.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}
