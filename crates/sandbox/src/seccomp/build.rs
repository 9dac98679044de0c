//! Compiles verdicts on system calls into a classic BPF program.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, sock_filter,
};

/// The verdict on a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    /// Fails with this errno.
    Fail(i32),
    /// Is skipped and reports success.
    Pretend,
    /// Depends on the arguments.
    Check(Check),
}

/// System calls that are allowed with some arguments only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Fails with `errno` if the argument of that index has one of these flags.
    Without { argument: u32, flags: u32, errno: i32 },
    /// Ends with `errno` (0 reports success) if the argument of that index is `value`.
    Except { argument: u32, value: u32, errno: i32 },
    /// `prlimit64` that leaves the limit on core dumps as it is. Setting it reports success: programs that
    /// forbid themselves core dumps (`gpg`) end where they cannot, and there are none.
    Limits,
    /// The same, for the caller only (process 0).
    OwnLimits,
    /// `ioctl` without injecting terminal input.
    Ioctl,
    /// `socket` of the Unix, IPv4 and IPv6 (TCP, UDP) and routing-netlink kinds.
    Socket,
    /// `socketpair` of the Unix kind.
    Socketpair,
    /// `prctl` except for PR_SCHED_CORE, by which a process shares its core with nobody and leaves half of it
    /// idle, and PR_SET_MM, which only checkpointing needs. Other options that reach beyond the process need a
    /// capability.
    Prctl,
    /// The same, and except for becoming dumpable (and thereby open to inspection) or a subreaper, to which
    /// orphans of others would be reparented.
    PrctlOfZygote,
    /// Calls whose first argument is a process id, for the caller only (0): Landlock does not restrict them.
    Oneself,
    /// `setpriority` for the caller only.
    OwnPriority,
    /// `ioprio_set` for the caller only.
    OwnIoPriority,
    /// `personality` to query it or to set the default.
    Personality,
}

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

pub(super) const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
const TIOCLINUX: u32 = 0x541c;
/// The bits of `socket`'s second argument that are no flags.
const SOCKET_TYPE: u32 = 0xf;
const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;

/// The program for verdicts by system-call number. Higher numbers fail with ENOSYS; a foreign architecture
/// kills the process.
pub(super) fn program(verdicts: &[Verdict]) -> Vec<sock_filter> {
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    for (number, verdict) in verdicts.iter().chain([&Verdict::Fail(libc::ENOSYS)]).enumerate() {
        if ranges.last().is_none_or(|(_, last)| last != verdict) {
            ranges.push((number as u32, *verdict));
        }
    }
    let mut program = vec![
        load(4),
        jump(BPF_JEQ, ARCH, 1, 0),
        statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        load(0),
    ];
    program.extend(search(&ranges));
    program
}

/// A binary search for the range that contains the accumulator.
fn search(ranges: &[(u32, Verdict)]) -> Vec<sock_filter> {
    if let [(_, verdict)] = ranges {
        return leaf(*verdict);
    }
    let (left, right) = ranges.split_at(ranges.len() / 2);
    let below = search(left);
    let mut program = Vec::new();
    match u8::try_from(below.len()) {
        Ok(skip) => program.push(jump(BPF_JGE, right[0].0, skip, 0)),
        Err(_) => {
            program.push(jump(BPF_JGE, right[0].0, 0, 1));
            program.push(statement(BPF_JMP | BPF_JA, below.len() as u32));
        }
    }
    program.extend(below);
    program.extend(search(right));
    program
}

/// For calls whose first argument is a type and whose second is an id of that type: allows the type `kind`
/// with id 0, the caller.
fn own(kind: u32) -> Vec<sock_filter> {
    vec![
        argument(0),
        jump(BPF_JEQ, kind, 0, 3),
        argument(1),
        jump(BPF_JEQ, 0, 0, 1),
        statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        fail(libc::EPERM),
    ]
}

/// `prlimit64` of the caller or another process: see [`Check::Limits`].
fn limits() -> Vec<sock_filter> {
    vec![
        argument(1),
        jump(BPF_JEQ, libc::RLIMIT_CORE, 0, 4),
        // Whether there is a new limit.
        argument(2),
        jump(BPF_JEQ, 0, 0, 3),
        upper_half(2),
        jump(BPF_JEQ, 0, 0, 1),
        statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        // Where the old limit is asked for at the same time, it would not be told.
        argument(3),
        jump(BPF_JEQ, 0, 0, 3),
        upper_half(3),
        jump(BPF_JEQ, 0, 0, 1),
        fail(0),
        fail(libc::EPERM),
    ]
}

fn leaf(verdict: Verdict) -> Vec<sock_filter> {
    let allow = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    match verdict {
        Verdict::Allow => vec![allow],
        Verdict::Fail(errno) => vec![fail(errno)],
        Verdict::Pretend => vec![fail(0)],
        Verdict::Check(Check::Without { argument: index, flags, errno }) => {
            vec![argument(index), jump(BPF_JSET, flags, 1, 0), allow, fail(errno)]
        }
        Verdict::Check(Check::Except { argument: index, value, errno }) => {
            vec![argument(index), jump(BPF_JEQ, value, 1, 0), allow, fail(errno)]
        }
        Verdict::Check(Check::Limits) => limits(),
        Verdict::Check(Check::OwnLimits) => {
            let mut program = vec![argument(0), jump(BPF_JEQ, 0, 1, 0), fail(libc::EPERM)];
            program.extend(limits());
            program
        }
        Verdict::Check(Check::Oneself) => {
            vec![argument(0), jump(BPF_JEQ, 0, 0, 1), allow, fail(libc::EPERM)]
        }
        Verdict::Check(Check::OwnPriority) => own(PRIO_PROCESS),
        Verdict::Check(Check::OwnIoPriority) => own(IOPRIO_WHO_PROCESS),
        Verdict::Check(Check::Ioctl) => vec![
            argument(1),
            jump(BPF_JEQ, libc::TIOCSTI as u32, 2, 0),
            jump(BPF_JEQ, TIOCLINUX, 1, 0),
            allow,
            fail(libc::EPERM),
        ],
        Verdict::Check(Check::Socket) => vec![
            argument(0),
            jump(BPF_JEQ, libc::AF_UNIX as u32, 13, 0),
            jump(BPF_JEQ, libc::AF_INET as u32, 4, 0),
            jump(BPF_JEQ, libc::AF_INET6 as u32, 3, 0),
            jump(BPF_JEQ, libc::AF_NETLINK as u32, 0, 11),
            argument(2),
            jump(BPF_JEQ, libc::NETLINK_ROUTE as u32, 8, 10),
            // Protocol 0 is the default one of the type, which need not be TCP or UDP.
            argument(1),
            statement(BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE),
            jump(BPF_JEQ, libc::SOCK_STREAM as u32, 1, 0),
            jump(BPF_JEQ, libc::SOCK_DGRAM as u32, 0, 7),
            argument(2),
            jump(BPF_JEQ, 0, 2, 0),
            jump(BPF_JEQ, libc::IPPROTO_TCP as u32, 1, 0),
            jump(BPF_JEQ, libc::IPPROTO_UDP as u32, 0, 2),
            allow,
            fail(libc::EAFNOSUPPORT),
            fail(libc::EPROTONOSUPPORT),
            fail(libc::ESOCKTNOSUPPORT),
        ],
        Verdict::Check(Check::Socketpair) => {
            vec![argument(0), jump(BPF_JEQ, libc::AF_UNIX as u32, 0, 1), allow, fail(libc::EAFNOSUPPORT)]
        }
        Verdict::Check(Check::Prctl) => vec![
            argument(0),
            jump(BPF_JEQ, libc::PR_SCHED_CORE as u32, 2, 0),
            jump(BPF_JEQ, libc::PR_SET_MM as u32, 1, 0),
            allow,
            fail(libc::EPERM),
        ],
        Verdict::Check(Check::PrctlOfZygote) => vec![
            argument(0),
            jump(BPF_JEQ, libc::PR_SCHED_CORE as u32, 8, 0),
            jump(BPF_JEQ, libc::PR_SET_MM as u32, 7, 0),
            jump(BPF_JEQ, libc::PR_SET_DUMPABLE as u32, 1, 0),
            jump(BPF_JEQ, libc::PR_SET_CHILD_SUBREAPER as u32, 0, 4),
            argument(1),
            jump(BPF_JEQ, 0, 0, 3),
            // Any number but 0 makes a reaper, also one of the upper half alone.
            upper_half(1),
            jump(BPF_JEQ, 0, 0, 1),
            allow,
            fail(libc::EPERM),
        ],
        Verdict::Check(Check::Personality) => {
            vec![argument(0), jump(BPF_JEQ, 0, 1, 0), jump(BPF_JEQ, u32::MAX, 0, 1), allow, fail(libc::EPERM)]
        }
    }
}

fn fail(errno: i32) -> sock_filter {
    statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errno as u32)
}

/// Loads the lower half of an argument, which is all that the kernel uses of most flags and numbers checked
/// here.
fn argument(index: u32) -> sock_filter {
    load(16 + 8 * index)
}

fn upper_half(index: u32) -> sock_filter {
    load(16 + 8 * index + 4)
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(kind: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | kind | BPF_K) as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::list;

    /// A minimal interpreter for the output of [`program`].
    fn run(program: &[sock_filter], arch: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut value) = (0usize, 0u32);
        loop {
            let step = program[at];
            let code = u32::from(step.code);
            at += 1;
            if code == BPF_RET | BPF_K {
                return step.k;
            } else if code == BPF_LD | BPF_W | BPF_ABS {
                value = match step.k {
                    0 => number,
                    4 => arch,
                    offset => arguments[(offset as usize - 16) / 8],
                };
            } else if code == BPF_JMP | BPF_JA {
                at += step.k as usize;
            } else if code == BPF_ALU | BPF_AND | BPF_K {
                value &= step.k;
            } else {
                let hit = match code & 0xf0 {
                    BPF_JEQ => value == step.k,
                    BPF_JGE => value >= step.k,
                    BPF_JSET => value & step.k != 0,
                    other => panic!("unexpected {other}"),
                };
                at += usize::from(if hit { step.jt } else { step.jf });
            }
        }
    }

    const FAIL: fn(i32) -> u32 = |errno| SECCOMP_RET_ERRNO | errno as u32;

    #[test]
    fn every_number_gets_its_verdict() {
        let verdicts = list::verdicts();
        let program = program(&verdicts);
        assert!(program.len() < 1000, "{}", program.len());
        for (number, verdict) in verdicts.iter().enumerate() {
            let result = run(&program, ARCH, number as u32, [0; 6]);
            match verdict {
                Verdict::Allow => assert_eq!(result, SECCOMP_RET_ALLOW, "{number}"),
                Verdict::Fail(errno) => assert_eq!(result, FAIL(*errno), "{number}"),
                Verdict::Pretend => assert_eq!(result, SECCOMP_RET_ERRNO, "{number}"),
                Verdict::Check(_) => {}
            }
        }
        for beyond in [verdicts.len() as u32, 0x4000_0000, u32::MAX] {
            assert_eq!(run(&program, ARCH, beyond, [0; 6]), FAIL(libc::ENOSYS));
        }
        assert_eq!(run(&program, 0x4000_0003, 1, [0; 6]), SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn arguments_decide() {
        let program = program(&list::verdicts());
        let call = |number: libc::c_long, first: i32, second: u32, third: i32| {
            run(&program, ARCH, number as u32, [first as u32, second, third as u32, 0, 0, 0])
        };
        let allow = SECCOMP_RET_ALLOW;
        assert_eq!(call(libc::SYS_clone, libc::CLONE_VM | libc::CLONE_THREAD | libc::SIGCHLD, 0, 0), allow);
        assert_eq!(call(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0), FAIL(libc::EPERM));
        assert_eq!(call(libc::SYS_ioctl, 0, libc::TIOCGWINSZ as u32, 0), allow);
        assert_eq!(call(libc::SYS_ioctl, 0, libc::TIOCSTI as u32, 0), FAIL(libc::EPERM));
        let (stream, datagram) = (libc::SOCK_STREAM, libc::SOCK_DGRAM);
        let [family_fails, protocol_fails, type_fails] =
            [libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT, libc::ESOCKTNOSUPPORT].map(FAIL);
        for (family, kind, protocol, expected) in [
            (libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, allow),
            (libc::AF_INET, stream, 0, allow),
            (libc::AF_INET, stream | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, libc::IPPROTO_TCP, allow),
            (libc::AF_INET6, datagram | libc::SOCK_CLOEXEC, libc::IPPROTO_UDP, allow),
            (libc::AF_INET, datagram, libc::IPPROTO_ICMP, protocol_fails),
            (libc::AF_INET6, stream, libc::IPPROTO_SCTP, protocol_fails),
            (libc::AF_INET, libc::SOCK_SEQPACKET, 0, type_fails),
            (libc::AF_INET6, libc::SOCK_DCCP | libc::SOCK_CLOEXEC, 0, type_fails),
            (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP, type_fails),
            (libc::AF_INET, 10, 0, type_fails), // SOCK_PACKET
            (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE, allow),
            (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER, protocol_fails),
            (libc::AF_PACKET, libc::SOCK_RAW, 0, family_fails),
            (libc::AF_VSOCK, stream, 0, family_fails),
            (libc::AF_ALG, libc::SOCK_SEQPACKET, 0, family_fails),
        ] {
            let verdict = call(libc::SYS_socket, family, kind as u32, protocol);
            assert_eq!(verdict, expected, "{family} {kind} {protocol}");
        }
        assert_eq!(call(libc::SYS_socketpair, libc::AF_UNIX, 0, 0), allow);
        assert_ne!(call(libc::SYS_socketpair, libc::AF_TIPC, 0, 0), allow);
        assert_eq!(call(libc::SYS_personality, -1, 0, 0), allow);
        assert_eq!(call(libc::SYS_personality, libc::ADDR_NO_RANDOMIZE, 0, 0), FAIL(libc::EPERM));
        assert_eq!(call(libc::SYS_fcntl, 5, libc::F_SETFD as u32, 1), allow);
        assert_eq!(call(libc::SYS_fcntl, 5, libc::F_NOTIFY as u32, 1), FAIL(libc::EPERM));
        for (option, expected) in [
            (libc::PR_SET_NAME, allow),
            (libc::PR_SET_DUMPABLE, allow),
            (libc::PR_SCHED_CORE, FAIL(libc::EPERM)),
            (libc::PR_SET_MM, FAIL(libc::EPERM)),
        ] {
            assert_eq!(call(libc::SYS_prctl, option, 1, 0), expected, "{option}");
        }
    }

    #[test]
    fn the_limit_on_core_dumps_stays() {
        for verdicts in [list::verdicts(), list::zygote_verdicts()] {
            let program = program(&verdicts);
            let call = |number: libc::c_long, arguments| run(&program, ARCH, number as u32, arguments);
            let (core, files, new, old) = (libc::RLIMIT_CORE, libc::RLIMIT_NOFILE, 0x1000, 0x2000);
            for (arguments, expected) in [
                ([0, core, 0, old, 0, 0], SECCOMP_RET_ALLOW),
                ([0, core, new, 0, 0, 0], FAIL(0)),
                ([0, core, new, old, 0, 0], FAIL(libc::EPERM)),
                ([0, files, new, old, 0, 0], SECCOMP_RET_ALLOW),
            ] {
                assert_eq!(call(libc::SYS_prlimit64, arguments), expected, "{arguments:?}");
            }
            assert_eq!(call(libc::SYS_setrlimit, [core, new, 0, 0, 0, 0]), FAIL(0));
            assert_eq!(call(libc::SYS_setrlimit, [files, new, 0, 0, 0, 0]), SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    fn huge_pages_of_the_host_are_out_of_reach() {
        let program = program(&list::verdicts());
        let call = |number: libc::c_long, arguments| run(&program, ARCH, number as u32, arguments);
        let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u32;
        let huge = libc::MAP_HUGETLB as u32;
        for (number, arguments, expected) in [
            (libc::SYS_mmap, [0, 4096, 3, anonymous, u32::MAX, 0], SECCOMP_RET_ALLOW),
            (libc::SYS_mmap, [0, 4096, 3, anonymous | huge, u32::MAX, 0], FAIL(libc::ENOMEM)),
            (libc::SYS_memfd_create, [1, libc::MFD_CLOEXEC, 0, 0, 0, 0], SECCOMP_RET_ALLOW),
            (libc::SYS_memfd_create, [1, libc::MFD_HUGETLB, 0, 0, 0, 0], FAIL(libc::EINVAL)),
            (libc::SYS_shmget, [1, 4096, 0o600, 0, 0, 0], SECCOMP_RET_ALLOW),
            (libc::SYS_shmget, [1, 4096, libc::SHM_HUGETLB as u32, 0, 0, 0], FAIL(libc::EPERM)),
        ] {
            assert_eq!(call(number, arguments), expected, "{number} {arguments:?}");
        }
    }

    #[test]
    fn a_zygote_gets_less() {
        let program = program(&list::zygote_verdicts());
        let call = |number: libc::c_long, first: i32, second: u32| {
            run(&program, ARCH, number as u32, [first as u32, second, 0, 0, 0, 0])
        };
        let (allow, refused) = (SECCOMP_RET_ALLOW, FAIL(libc::EPERM));
        for (option, value, expected) in [
            (libc::PR_SET_DUMPABLE, 0, allow),
            (libc::PR_SET_DUMPABLE, 1, refused),
            (libc::PR_SET_DUMPABLE, 2, refused),
            (libc::PR_SET_CHILD_SUBREAPER, 1, refused),
            (libc::PR_SET_CHILD_SUBREAPER, 0, allow),
            (libc::PR_GET_DUMPABLE, 7, allow),
            (libc::PR_SET_NAME, 7, allow),
            (libc::PR_SET_NO_NEW_PRIVS, 1, allow),
            (libc::PR_SCHED_CORE, 1, refused),
            (libc::PR_SET_MM, 1, refused),
        ] {
            assert_eq!(call(libc::SYS_prctl, option, value), expected, "{option} {value}");
        }
        let filter = libc::SECCOMP_SET_MODE_FILTER as i32;
        assert_eq!(call(libc::SYS_seccomp, filter, 0), allow);
        assert_eq!(call(libc::SYS_seccomp, filter, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32), refused);
        for number in
            [libc::SYS_shmget, libc::SYS_shmat, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open]
        {
            assert_eq!(call(number, 0, 0), refused, "{number}");
        }
        assert_eq!(call(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0), refused);
        assert_eq!(call(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0), refused);
        assert_eq!(call(libc::SYS_clone, libc::CLONE_VM | libc::CLONE_THREAD, 0), allow);
        for number in [
            libc::SYS_prlimit64,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setparam,
        ] {
            assert_eq!(call(number, 0, 7), allow, "{number}");
            assert_eq!(call(number, 2, 7), refused, "{number}");
        }
        for (number, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
            assert_ne!(call(number, process, 2), allow, "{number}");
            assert_ne!(call(number, process + 1, 0), allow, "{number}");
            assert_ne!(call(number, process + 2, 0), allow, "{number}");
        }
        assert_eq!(call(libc::SYS_setpriority, 0, 0), allow);
        // System calls that forking needs.
        for number in [
            libc::SYS_clone,
            libc::SYS_madvise,
            libc::SYS_close_range,
            libc::SYS_recvmsg,
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_restrict_self,
        ] {
            assert_eq!(call(number, 0, 0), allow, "{number}");
        }
    }

    #[test]
    fn the_hosts_disks_are_not_flushed_and_its_cache_is_not_emptied() {
        for verdicts in [list::verdicts(), list::zygote_verdicts()] {
            let program = program(&verdicts);
            let call =
                |number: libc::c_long, advice| run(&program, ARCH, number as u32, [3, 0, 0, advice, 0, 0]);
            for number in [
                libc::SYS_sync,
                libc::SYS_syncfs,
                libc::SYS_fsync,
                libc::SYS_fdatasync,
                libc::SYS_sync_file_range,
            ] {
                assert_eq!(call(number, 0), FAIL(0), "{number}");
            }
            // It only writes back mappings of files that are open for writing.
            assert_eq!(call(libc::SYS_msync, 0), SECCOMP_RET_ALLOW);
            assert_eq!(call(libc::SYS_fadvise64, libc::POSIX_FADV_DONTNEED as u32), FAIL(0));
            assert_eq!(call(libc::SYS_fadvise64, libc::POSIX_FADV_WILLNEED as u32), SECCOMP_RET_ALLOW);
        }
    }

    #[test]
    fn what_must_never_pass() {
        for verdicts in [list::verdicts(), list::zygote_verdicts()] {
            never_pass(&verdicts);
        }
    }

    fn never_pass(verdicts: &[Verdict]) {
        for number in [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_keyctl,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at,
            libc::SYS_pidfd_getfd,
            libc::SYS_fsopen,
            libc::SYS_fsmount,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
            libc::SYS_quotactl,
            libc::SYS_acct,
            libc::SYS_syslog,
            libc::SYS_clone3,
            libc::SYS_kcmp,
            libc::SYS_fanotify_init,
            libc::SYS_inotify_init1,
            libc::SYS_inotify_add_watch,
        ] {
            assert!(matches!(verdicts[number as usize], Verdict::Fail(_)), "{number}");
        }
    }
}
