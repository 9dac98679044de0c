//! Whether two descriptors are one.

use std::io;

const KCMP_FILE: libc::c_int = 0;

/// Whether descriptor `one` of process `a` and `other` of `b` are the same open file: made by one `open`, then inherited, duplicated or passed on.
/// An error where the kernel cannot tell (built without `CONFIG_KCMP`).
pub(crate) fn same_file(a: u32, one: i32, b: u32, other: i32) -> io::Result<bool> {
    // SAFETY: compares; takes and gives numbers only.
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
