//! Compares kernel objects of two processes by `kcmp`: an open file, or state that `clone` can share.

use std::io;

const KCMP_FILE: libc::c_int = 0;
/// State that `clone` shares on request and `fork` never does, with a name for messages.
const SHARED: [(libc::c_int, &str); 3] =
    [(1, "memory"), (2, "table of descriptors"), (3, "working directory")];

/// Whether descriptor `one` of process `a` and `other` of `b` refer to the same open file description: made
/// by one `open`, then inherited, duplicated or sent. An error if the kernel cannot tell (built without
/// `CONFIG_KCMP`).
pub(crate) fn same_file(a: u32, one: i32, b: u32, other: i32) -> io::Result<bool> {
    // SAFETY: takes and returns numbers only.
    let order = unsafe {
        libc::syscall(libc::SYS_kcmp, a, b, KCMP_FILE, one as libc::c_ulong, other as libc::c_ulong)
    };
    match order {
        -1 => match io::Error::last_os_error() {
            // One of them was closed meanwhile.
            error if error.raw_os_error() == Some(libc::EBADF) => Ok(false),
            error => Err(error),
        },
        order => Ok(order == 0),
    }
}

/// The name of state that a process shares with its parent because it was made by `clone` with other flags
/// than a fork's. `None` also where the kernel cannot tell.
pub(crate) fn shared_state(a: u32, b: u32) -> Option<&'static str> {
    SHARED.iter().find_map(|(kind, what)| {
        // SAFETY: takes and returns numbers only.
        let order = unsafe { libc::syscall(libc::SYS_kcmp, a, b, *kind, 0, 0) };
        (order == 0).then_some(*what)
    })
}
