//! The allow-list: system calls that Node.js, CPython, the JVM, Go, Rust, shells and core utilities make.

use super::build::{Check, NEW_NAMESPACES, Verdict};

/// The last system call known when the list was made (Linux 6.18). Later ones fail with ENOSYS, as on an
/// older kernel.
const LAST_KNOWN: usize = 469;

/// The verdict on every known system call, by number.
pub(super) fn verdicts() -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Fail(libc::EPERM); LAST_KNOWN + 1];
    for number in FILES
        .iter()
        .chain(PROCESSES)
        .chain(MEMORY)
        .chain(MESSAGES)
        .chain(SHARED_OBJECTS)
        .chain(TIME)
        .chain(LEGACY)
    {
        verdicts[*number as usize] = Verdict::Allow;
    }
    for (number, check) in [
        (libc::SYS_clone, Check::Without { argument: 0, flags: NEW_NAMESPACES, errno: EPERM }),
        (libc::SYS_ioctl, Check::Ioctl),
        (libc::SYS_socket, Check::Socket),
        (libc::SYS_socketpair, Check::Socketpair),
        (libc::SYS_personality, Check::Personality),
        (libc::SYS_prctl, Check::Prctl),
        // A limit of 1 keeps the kernel from starting a program of the host for a core dump; 0 does not.
        (libc::SYS_prlimit64, Check::Limits),
        (libc::SYS_setrlimit, Check::Except { argument: 0, value: RLIMIT_CORE, errno: 0 }),
        // As for inotify below.
        (libc::SYS_fcntl, Check::Except { argument: 1, value: F_NOTIFY as u32, errno: EPERM }),
        // It would drop from the page cache what others are reading.
        (libc::SYS_fadvise64, Check::Except { argument: 3, value: POSIX_FADV_DONTNEED as u32, errno: 0 }),
        // The host's reserve of huge pages counts in no memory cgroup.
        (libc::SYS_mmap, Check::Without { argument: 3, flags: MAP_HUGETLB as u32, errno: ENOMEM }),
        (libc::SYS_memfd_create, Check::Without { argument: 1, flags: MFD_HUGETLB, errno: EINVAL }),
        (libc::SYS_shmget, Check::Without { argument: 2, flags: SHM_HUGETLB as u32, errno: EPERM }),
    ] {
        verdicts[number as usize] = Verdict::Check(check);
    }
    // No namespace confines these: they would write back every file system of the host, or what is below a
    // read-only mount, and have disks write their caches, on behalf of any caller. Everything writable here
    // is in memory, where there is nothing to write back.
    for number in [SYS_sync, SYS_syncfs, SYS_fsync, SYS_fdatasync, SYS_sync_file_range] {
        verdicts[number as usize] = Verdict::Pretend;
    }
    // Watches are on inodes, and those below `/usr`, of the runtime and of the code are the host's: they would
    // show what it and others open and execute. With ENOSYS programs look again and again, or say what is
    // missing.
    for number in INOTIFY {
        verdicts[*number as usize] = Verdict::Fail(libc::ENOSYS);
    }
    // Their arguments are in memory, which a filter cannot read. With ENOSYS C libraries fall back to
    // `clone`, and libuv to its thread pool.
    for number in
        [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]
    {
        verdicts[number as usize] = Verdict::Fail(libc::ENOSYS);
    }
    // Newer than the review of this list (463 and later): reported as missing rather than forbidden.
    for verdict in verdicts.iter_mut().skip(463) {
        if *verdict == Verdict::Fail(libc::EPERM) {
            *verdict = Verdict::Fail(libc::ENOSYS);
        }
    }
    verdicts
}

/// Like [`verdicts`], without the calls by which processes of one zygote could share state unseen or inspect
/// each other.
pub(super) fn zygote_verdicts() -> Vec<Verdict> {
    let mut verdicts = verdicts();
    for number in SHARED_OBJECTS {
        verdicts[*number as usize] = Verdict::Fail(libc::EPERM);
    }
    // By a listener a supervisor could answer the system calls of processes forked later.
    let listener = SECCOMP_FILTER_FLAG_NEW_LISTENER as u32;
    // By CLONE_PARENT the child would become the zygote's.
    let flags = NEW_NAMESPACES | CLONE_PARENT as u32;
    for (number, check) in [
        (SYS_prctl, Check::PrctlOfZygote),
        (SYS_seccomp, Check::Without { argument: 1, flags: listener, errno: EPERM }),
        (SYS_clone, Check::Without { argument: 0, flags, errno: EPERM }),
        (SYS_prlimit64, Check::OwnLimits),
    ] {
        verdicts[number as usize] = Verdict::Check(check);
    }
    // The kernel only checks for the same uid, so a clone could starve its siblings and the zygote or end
    // them by a limit.
    for (number, check) in [
        (libc::SYS_sched_setaffinity, Check::Oneself),
        (libc::SYS_sched_setattr, Check::Oneself),
        (libc::SYS_sched_setparam, Check::Oneself),
        (libc::SYS_sched_setscheduler, Check::Oneself),
        (libc::SYS_setpriority, Check::OwnPriority),
        (libc::SYS_ioprio_set, Check::OwnIoPriority),
    ] {
        if verdicts[number as usize] == Verdict::Allow {
            verdicts[number as usize] = Verdict::Check(check);
        }
    }
    verdicts
}

use libc::*;

// Added by Linux 6.6 and 6.7, and not (everywhere) in `libc` yet; the numbers are the same on every
// architecture.
const SYS_FCHMODAT2: c_long = 452;
const SYS_MAP_SHADOW_STACK: c_long = 453;
const SYS_FUTEX_WAKE: c_long = 454;
const SYS_FUTEX_WAIT: c_long = 455;
const SYS_FUTEX_REQUEUE: c_long = 456;

const FILES: &[c_long] = &[
    SYS_read,
    SYS_write,
    SYS_close,
    SYS_fstat,
    SYS_lseek,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_openat,
    SYS_openat2,
    SYS_close_range,
    SYS_newfstatat,
    SYS_statx,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_FCHMODAT2,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_truncate,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_getdents64,
    SYS_getcwd,
    SYS_chdir,
    SYS_fchdir,
    SYS_umask,
    SYS_fcntl,
    SYS_flock,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_sendfile,
    SYS_splice,
    SYS_tee,
    SYS_copy_file_range,
    SYS_readahead,
    SYS_fadvise64,
    SYS_statfs,
    SYS_fstatfs,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_flistxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_ppoll,
    SYS_pselect6,
    SYS_eventfd2,
    SYS_memfd_create,
];

const INOTIFY: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    SYS_inotify_init,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
];

const PROCESSES: &[c_long] = &[
    SYS_execve,
    SYS_execveat,
    SYS_exit,
    SYS_exit_group,
    SYS_wait4,
    SYS_waitid,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getpgid,
    SYS_setpgid,
    SYS_getsid,
    SYS_setsid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getgroups,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_setgroups,
    SYS_capget,
    SYS_capset,
    SYS_prctl,
    SYS_seccomp,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
    SYS_kill,
    SYS_tkill,
    SYS_tgkill,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_rt_sigsuspend,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_signalfd4,
    SYS_restart_syscall,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_rseq,
    SYS_futex,
    SYS_futex_waitv,
    SYS_FUTEX_WAKE,
    SYS_FUTEX_WAIT,
    SYS_FUTEX_REQUEUE,
    SYS_membarrier,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_setparam,
    SYS_sched_getscheduler,
    SYS_sched_setscheduler,
    SYS_sched_getattr,
    SYS_sched_setattr,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval,
    SYS_getpriority,
    SYS_setpriority,
    SYS_ioprio_get,
    SYS_ioprio_set,
    SYS_getrlimit,
    SYS_setrlimit,
    SYS_prlimit64,
    SYS_getrusage,
    SYS_times,
    SYS_uname,
    SYS_sysinfo,
    SYS_getcpu,
    SYS_getrandom,
];

const MEMORY: &[c_long] = &[
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_msync,
    SYS_mincore,
    SYS_madvise,
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_mseal,
    SYS_pkey_alloc,
    SYS_pkey_free,
    SYS_pkey_mprotect,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_mbind,
    SYS_MAP_SHADOW_STACK,
];

const MESSAGES: &[c_long] = &[
    SYS_bind,
    SYS_connect,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_shutdown,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_recvmmsg,
];

/// System V IPC and POSIX message queues: named objects that outlive a process.
const SHARED_OBJECTS: &[c_long] = &[
    SYS_shmget,
    SYS_shmat,
    SYS_shmdt,
    SYS_shmctl,
    SYS_semget,
    SYS_semop,
    SYS_semctl,
    SYS_semtimedop,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
];

const TIME: &[c_long] = &[
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getitimer,
    SYS_setitimer,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun,
    SYS_timer_delete,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
];

/// Older names of the above, which only x86-64 has.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[c_long] = &[
    SYS_open,
    SYS_creat,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_unlink,
    SYS_rename,
    SYS_renameat,
    SYS_link,
    SYS_symlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_mknod,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_getdents,
    SYS_dup2,
    SYS_pipe,
    SYS_poll,
    SYS_select,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_epoll_ctl_old,
    SYS_epoll_wait_old,
    SYS_eventfd,
    SYS_signalfd,
    SYS_fork,
    SYS_vfork,
    SYS_getpgrp,
    SYS_pause,
    SYS_alarm,
    SYS_time,
    SYS_arch_prctl,
];
#[cfg(target_arch = "aarch64")]
const LEGACY: &[c_long] = &[SYS_renameat];
