//! System calls that `rustix` does not wrap, as safe functions where possible.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::outcome::ExitStatus;

/// `libc` declares it with a type that is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The return value of [`clone3`] in parent and child.
pub(crate) enum Forked {
    Child,
    Parent { pid: libc::pid_t, pidfd: OwnedFd },
}

/// Forks with new namespaces and, on cgroup v2, directly into a cgroup. As after `fork`, the child has a copy
/// of the memory.
///
/// # Safety
/// The calling process must be single-threaded: otherwise the child may find a lock held by a thread that it
/// does not have.
pub(crate) unsafe fn clone3(flags: i32, cgroup: Option<BorrowedFd<'_>>) -> io::Result<Forked> {
    let mut pidfd: RawFd = -1;
    // SAFETY: `clone_args` is a plain struct of integers, for which all zeroes is valid.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = (flags | libc::CLONE_PIDFD) as u64;
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: the arguments outlive the call. Without CLONE_VM the child has its own copy of the stack. The
    // caller vouches for threads.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        // SAFETY: the kernel has stored a new descriptor that nobody else owns.
        pid => Ok(Forked::Parent { pid: pid as libc::pid_t, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }),
    }
}

/// Forks a helper that does `work` and then waits to be killed through its pidfd. It also ends when this
/// process does, in whatever way: it may hold descriptors whose closing others wait for.
///
/// # Safety
/// As [`clone3`].
pub(crate) unsafe fn helper(flags: i32, work: impl FnOnce()) -> io::Result<(libc::pid_t, OwnedFd)> {
    let parent = rustix::process::getpid();
    // SAFETY: the caller vouches for the same.
    match unsafe { clone3(flags, None) }? {
        Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Forked::Child => {
            let tie = || {
                let kill = Some(rustix::process::Signal::KILL);
                let tied = rustix::process::set_parent_process_death_signal(kill);
                // A parent that died before the signal was set is noticed by the new parent.
                if tied.is_err() || rustix::process::getppid() != Some(parent) {
                    exit_now(125);
                }
            };
            tie();
            work();
            // The kernel clears the parent-death signal when credentials change.
            tie();
            loop {
                std::thread::park();
            }
        }
    }
}

/// Runs `child` in a new process that shares this one's memory, while this one is suspended until the child
/// has executed a program or ended (`vfork`). That saves copying the page tables. `child` returns an exit
/// code or executes a program; it must not unwind.
///
/// # Safety
/// Single-threaded caller; `child` must leave the shared memory in a state with which the parent can
/// continue.
pub(crate) unsafe fn vfork<F: FnOnce() -> i32>(child: F) -> io::Result<libc::pid_t> {
    extern "C" fn trampoline<F: FnOnce() -> i32>(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `argument` is the `Option<F>` below, alive because the parent is suspended.
        let slot = unsafe { &mut *argument.cast::<Option<F>>() };
        let code = slot.take().map_or(127, |child| child());
        // SAFETY: ends only this process; none of the parent's destructors may run here.
        unsafe { libc::_exit(code) }
    }
    const STACK: usize = 256 * 1024;
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    // SAFETY: the end of the allocation, aligned to 16 as the ABI requires; stacks grow downwards.
    let top = unsafe { stack.as_mut_ptr().cast::<u8>().add(STACK) };
    let mut slot = Some(child);
    // SAFETY: CLONE_VFORK suspends the parent, so stack and closure outlive the child's use of them.
    let pid = unsafe {
        libc::clone(
            trampoline::<F>,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut slot).cast(),
        )
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}

/// The state of this process's children.
pub(crate) enum Child {
    /// A child has ended and was reaped.
    Ended {
        pid: libc::pid_t,
        status: ExitStatus,
        cpu_us: u64,
        memory_peak_bytes: u64,
    },
    /// There are children, and none has ended.
    Running,
    None,
}

/// Reaps a child; with `wait` it never returns [`Child::Running`].
pub(crate) fn next_child(wait: bool) -> Child {
    // SAFETY: a plain struct of integers, for which all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    let flags = if wait { 0 } else { libc::WNOHANG };
    let pid = loop {
        // SAFETY: both places outlive the call.
        let pid = unsafe { libc::wait4(-1, &raw mut status, flags, &raw mut usage) };
        if pid >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break pid;
        }
    };
    match pid {
        0 => Child::Running,
        ..0 => Child::None,
        pid => {
            let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
            Child::Ended {
                pid,
                status: match libc::WIFEXITED(status) {
                    true => ExitStatus::Code(libc::WEXITSTATUS(status)),
                    false => ExitStatus::Signal(libc::WTERMSIG(status)),
                },
                cpu_us: us(usage.ru_utime) + us(usage.ru_stime),
                memory_peak_bytes: usage.ru_maxrss as u64 * 1024,
            }
        }
    }
}

/// Kills every process that this one may signal, except itself and pid 1 of its pid namespace.
pub(crate) fn kill_everything() {
    // SAFETY: plain system call. Only called inside a sandbox, whose pid namespace bounds it.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Closes the descriptors from `first` to `last`; `flags` as in close_range(2).
pub(crate) fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: closes descriptors by number; callers own none in this range that they use or drop later.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, flags) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `dup2`/`dup3` onto a fixed number.
pub(crate) fn dup_onto(fd: BorrowedFd<'_>, number: RawFd, cloexec: bool) -> io::Result<()> {
    // SAFETY: plain descriptor operations; that `number` is closed first is intended.
    let done = unsafe {
        if fd.as_raw_fd() == number {
            libc::fcntl(number, libc::F_SETFD, if cloexec { libc::FD_CLOEXEC } else { 0 })
        } else {
            libc::dup3(fd.as_raw_fd(), number, if cloexec { libc::O_CLOEXEC } else { 0 })
        }
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `unshare` of namespaces, never of the descriptor table.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: unsafe only because CLONE_FILES can invalidate descriptors held elsewhere; it is not among the
    // flags used here.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Enters the namespace behind `fd`.
pub(crate) fn enter(fd: BorrowedFd<'_>, kind: LinkNameSpaceType) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(fd, Some(kind)).map_err(io::Error::from)
}

/// Enters the mount namespace of the process behind `pidfd`.
pub(crate) fn enter_mounts_of(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: plain system call on a descriptor.
    let done = unsafe { libc::setns(pidfd.as_raw_fd(), libc::CLONE_NEWNS) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The cookie of the calling thread's network namespace, which is not reused before the next boot (Linux
/// 5.14).
pub(crate) fn network_cookie() -> io::Result<u64> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `cookie`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

/// Mount attributes for [`restrict_mount`].
pub(crate) const RDONLY: u64 = 1;
pub(crate) const NOSUID: u64 = 2;
pub(crate) const NODEV: u64 = 4;
pub(crate) const NOEXEC: u64 = 8;

/// Adds attributes to the mount behind `fd` and (if `recursive`) all below it.
pub(crate) fn restrict_mount(fd: BorrowedFd<'_>, attributes: u64, recursive: bool) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns: u64,
    }
    let attr = MountAttr { set: attributes, clear: 0, propagation: 0, userns: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the struct has the kernel's layout (MOUNT_ATTR_SIZE_VER0) and outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A detached, restricted copy of the mount tree at `source`, to be attached with `move_mount`.
pub(crate) fn detached_copy(source: &Path, attributes: u64) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(rustix::fs::CWD, source, flags)?;
    restrict_mount(tree.as_fd(), attributes, true)?;
    Ok(tree)
}

/// Resets a signal to its default action.
pub(crate) fn default_signal(signal: libc::c_int) {
    // SAFETY: installs no handler function.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Ignores a signal.
pub(crate) fn ignore_signal(signal: libc::c_int) {
    // SAFETY: installs no handler function.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Unblocks all signals.
pub(crate) fn unblock_signals() {
    // SAFETY: `set` is initialised by sigemptyset before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Makes the calling thread and its descendants SCHED_BATCH: on wake-up they do not preempt a running task.
/// Leaves another policy that the operator has chosen, and a host that refuses the change, as they are: this
/// is no security boundary.
pub(crate) fn give_way() {
    let parameter = libc::sched_param { sched_priority: 0 };
    // Direct system calls, since musl's functions of these names only fail with ENOSYS.
    // SAFETY: the parameter outlives the calls.
    unsafe {
        if libc::syscall(libc::SYS_sched_getscheduler, 0) == libc::c_long::from(libc::SCHED_OTHER) {
            libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const parameter);
        }
    }
}

/// Ends this process at once, without destructors or exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: never returns.
    unsafe { libc::_exit(code) }
}

/// Sets a resource limit of this process (soft and hard), at most to the present hard limit.
pub(crate) fn limit(resource: rustix::process::Resource, value: u64) -> io::Result<()> {
    let present = rustix::process::getrlimit(resource);
    let value = present.maximum.map_or(value, |maximum| value.min(maximum));
    let new = rustix::process::Rlimit { current: Some(value), maximum: Some(value) };
    rustix::process::setrlimit(resource, new).map_err(io::Error::from)
}

/// Executes a program; returns only on failure.
pub(crate) fn execve(
    program: &CString,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
) -> io::Error {
    debug_assert!(
        argv.last().is_some_and(|end| end.is_null()) && envp.last().is_some_and(|end| end.is_null())
    );
    // SAFETY: both arrays end with a null pointer and contain C strings that the caller keeps alive.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// The kernel's release as `uname` reports it, such as `6.12.0-rc1`.
pub(crate) fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The kernel's major and minor version.
pub(crate) fn kernel_version() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let release = kernel_release();
        let mut numbers = release.split(['.', '-']).map(|word| word.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    #[test]
    fn a_helper_ends_with_whoever_made_it() {
        use rustix::fs::Uid;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (worked, work) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        // SAFETY: sound in a multi-threaded process, since neither child takes a lock or allocates.
        match unsafe { clone3(0, None) }.unwrap() {
            Forked::Child => {
                // As root it changes its credentials as well.
                let change = || {
                    let _ = rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::from_raw(1), Uid::ROOT);
                    let _ = rustix::io::write(&work, b"w");
                };
                // SAFETY: this process has one thread.
                let made = unsafe { helper(libc::CLONE_FILES, change) };
                let waited = rustix::io::read(&worked, &mut [0u8]);
                exit_now(i32::from(made.is_err() || waited.is_err()));
            }
            Forked::Parent { pidfd, .. } => {
                let ended = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED).unwrap().unwrap();
                assert_eq!(ended.exit_status(), Some(0));
            }
        }
        drop(writer);
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        let mut watched = [PollFd::new(&reader, PollFlags::IN)];
        assert_eq!(
            poll(&mut watched, Some(&minute)).unwrap(),
            1,
            "the helper lives on, with all that it holds"
        );
    }
}
