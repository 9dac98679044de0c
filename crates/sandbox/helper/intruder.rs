//! Runs inside a sandbox and reports, as `name=outcome` lines, what it managed to do. An outcome is `OK` or an error number.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Arguments: `read:PATH`, `write:PATH`, `connect:ADDRESS:PORT`, `shmget:KEY`, or nothing for the fixed list.
pub fn run(arguments: &[&str]) {
    for argument in arguments {
        let outcome = match argument.split_once(':') {
            Some(("read", path)) => look(path),
            Some(("write", path)) => fs::write(path, "x"),
            Some(("connect", address)) => connect(address),
            Some(("shmget", key)) => share(key),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        say(argument, outcome);
    }
    if arguments.is_empty() {
        calls();
        sockets();
        identity();
    }
}

/// Reads a file or lists a directory.
fn look(path: &str) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() { fs::read_dir(path).map(drop) } else { fs::read(path).map(drop) }
}

fn connect(address: &str) -> io::Result<()> {
    let address: SocketAddr = address.parse().expect("an address");
    TcpStream::connect_timeout(&address, Duration::from_secs(2)).map(drop)
}

/// Opens a segment of System V shared memory that somebody has made.
fn share(key: &str) -> io::Result<()> {
    let key = key.parse().expect("a number");
    // SAFETY: nothing is mapped.
    if unsafe { libc::shmget(key, 0, 0) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn say(name: &str, outcome: io::Result<()>) {
    match outcome {
        Ok(()) => println!("{name}=OK"),
        Err(error) => println!("{name}={}", error.raw_os_error().unwrap_or(-1)),
    }
}

fn call(name: &str, number: libc::c_long, arguments: [usize; 6]) {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: each call below fails in a sandbox; where it does not, the test fails. Pointers are to static strings, to a local
    // number, or null.
    let done = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    say(name, if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
}

fn calls() {
    let text = |text: &'static std::ffi::CStr| text.as_ptr() as usize;
    let own_namespace = fs::File::open("/proc/self/ns/net").map(std::os::fd::IntoRawFd::into_raw_fd);
    let namespace = own_namespace.unwrap_or(-1) as usize;
    let shared = fs::File::open("/usr").map(std::os::fd::IntoRawFd::into_raw_fd).unwrap_or(-1) as usize;
    let nothing = -1isize as usize;
    let mut size_of_map = 0u32;
    let clone_flags = |new: i32| [(new | libc::SIGCHLD) as usize, 0, 0, 0, 0, 0];
    for (name, number, arguments) in [
        ("mount", libc::SYS_mount, [text(c"none"), text(c"/tmp"), text(c"tmpfs"), 0, 0, 0]),
        ("remount", libc::SYS_mount, [0, text(c"/"), 0, (libc::MS_REMOUNT | libc::MS_BIND) as usize, 0, 0]),
        ("umount", libc::SYS_umount2, [text(c"/proc"), 2, 0, 0, 0, 0]),
        ("fsopen", libc::SYS_fsopen, [text(c"tmpfs"), 0, 0, 0, 0, 0]),
        ("open_tree", libc::SYS_open_tree, [libc::AT_FDCWD as usize, text(c"/"), 1, 0, 0, 0]),
        ("pivot_root", libc::SYS_pivot_root, [text(c"/"), text(c"/"), 0, 0, 0, 0]),
        ("chroot", libc::SYS_chroot, [text(c"/tmp"), 0, 0, 0, 0, 0]),
        ("unshare_user", libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0, 0]),
        ("unshare_mount", libc::SYS_unshare, [libc::CLONE_NEWNS as usize, 0, 0, 0, 0, 0]),
        ("unshare_net", libc::SYS_unshare, [libc::CLONE_NEWNET as usize, 0, 0, 0, 0, 0]),
        ("setns", libc::SYS_setns, [namespace, 0, 0, 0, 0, 0]),
        ("clone_user", libc::SYS_clone, clone_flags(libc::CLONE_NEWUSER)),
        ("clone_net", libc::SYS_clone, clone_flags(libc::CLONE_NEWNET)),
        ("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0, 0]),
        ("ptrace", libc::SYS_ptrace, [libc::PTRACE_TRACEME as usize, 0, 0, 0, 0, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [1, 0, 0, 0, 0, 0]),
        ("bpf", libc::SYS_bpf, [0, 0, 0, 0, 0, 0]),
        ("perf_event_open", libc::SYS_perf_event_open, [0, 0, 0, 0, 0, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0]),
        ("keyctl", libc::SYS_keyctl, [0, -3isize as usize, 1, 0, 0, 0]),
        ("add_key", libc::SYS_add_key, [text(c"user"), text(c"x"), text(c"x"), 1, -3isize as usize, 0]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0, 0]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [0, 0, 0, 0, 0, 0]),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, [0, 0, 0, 0, 0, 0]),
        ("kexec_load", libc::SYS_kexec_load, [0, 0, 0, 0, 0, 0]),
        ("init_module", libc::SYS_init_module, [0, 0, 0, 0, 0, 0]),
        ("reboot", libc::SYS_reboot, [0, 0, 0, 0, 0, 0]),
        ("swapon", libc::SYS_swapon, [text(c"/tmp"), 0, 0, 0, 0, 0]),
        ("syslog", libc::SYS_syslog, [3, 0, 0, 0, 0, 0]),
        ("sethostname", libc::SYS_sethostname, [text(c"x"), 1, 0, 0, 0, 0]),
        ("personality", libc::SYS_personality, [libc::ADDR_NO_RANDOMIZE as usize, 0, 0, 0, 0, 0]),
        (
            "mknod_device",
            libc::SYS_mknodat,
            [libc::AT_FDCWD as usize, text(c"/tmp/disk"), (libc::S_IFBLK | 0o666) as usize, 0xfe00, 0, 0],
        ),
        ("setuid_root", libc::SYS_setuid, [0; 6]),
        ("setgid_root", libc::SYS_setgid, [0; 6]),
        ("setgroups", libc::SYS_setgroups, [0; 6]),
        ("kill_init", libc::SYS_kill, [1, libc::SIGKILL as usize, 0, 0, 0, 0]),
        ("sync", libc::SYS_sync, [0; 6]),
        ("syncfs_of_nothing", libc::SYS_syncfs, [nothing, 0, 0, 0, 0, 0]),
        ("fsync_of_nothing", libc::SYS_fsync, [nothing, 0, 0, 0, 0, 0]),
        ("fdatasync_of_nothing", libc::SYS_fdatasync, [nothing, 0, 0, 0, 0, 0]),
        ("evict_nothing", libc::SYS_fadvise64, [nothing, 0, 0, libc::POSIX_FADV_DONTNEED as usize, 0, 0]),
        ("advise_on_nothing", libc::SYS_fadvise64, [nothing, 0, 0, libc::POSIX_FADV_WILLNEED as usize, 0, 0]),
        ("inotify_init", libc::SYS_inotify_init1, [0; 6]),
        (
            "inotify_add_watch",
            libc::SYS_inotify_add_watch,
            [0, text(c"/usr"), libc::IN_OPEN as usize, 0, 0, 0],
        ),
        ("fcntl_notify", libc::SYS_fcntl, [shared, libc::F_NOTIFY as usize, 1 /* DN_ACCESS */, 0, 0, 0]),
        ("memfd_hugetlb", libc::SYS_memfd_create, [text(c"x"), libc::MFD_HUGETLB as usize, 0, 0, 0, 0]),
        ("prctl_sched_core", libc::SYS_prctl, [libc::PR_SCHED_CORE as usize, 1, 0, 0, 0, 0]),
        (
            "prctl_set_mm",
            libc::SYS_prctl,
            [
                libc::PR_SET_MM as usize,
                libc::PR_SET_MM_MAP_SIZE as usize,
                &raw mut size_of_map as usize,
                0,
                0,
                0,
            ],
        ),
        ("tiocsti", libc::SYS_ioctl, [0, libc::TIOCSTI as usize, text(c"x"), 0, 0, 0]),
    ] {
        call(name, number, arguments);
    }
}

fn sockets() {
    for (name, family, kind, protocol) in [
        ("socket_packet", libc::AF_PACKET, libc::SOCK_RAW, 0),
        ("socket_vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("socket_alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        ("socket_raw_tcp", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP),
        ("socket_dccp", libc::AF_INET6, libc::SOCK_DCCP, 0),
        ("socket_icmp", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        ("socket_netfilter", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER),
        ("allowed_unix", libc::AF_UNIX, libc::SOCK_STREAM, 0),
        ("allowed_tcp", libc::AF_INET, libc::SOCK_STREAM, 0),
        ("allowed_tcp6", libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_TCP),
        ("allowed_route", libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
    ] {
        call(name, libc::SYS_socket, [family as usize, kind as usize, protocol as usize, 0, 0, 0]);
    }
}

/// Who it is, what it holds, what it sees.
fn identity() {
    let status = fs::read_to_string("/proc/self/status").expect("own status");
    for line in status.lines() {
        if let Some((name, value)) = line.split_once(':') {
            println!("status.{name}={}", value.trim().replace('\t', " "));
        }
    }
    let list = |path: &str| -> Vec<String> {
        let names = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    println!("root={}", list("/").join(","));
    println!("proc={}", list("/proc").join(","));
    println!("dev={}", list("/dev").join(","));
    println!("etc={}", list("/etc").join(","));
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names: Vec<&str> =
        interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    println!("interfaces={}", names.join(","));
    println!("pid={}", std::process::id());
}

/// Uses up a resource; what happens then is the test's business.
pub fn bomb(kind: &str) {
    match kind {
        "fork" => fork_bomb(),
        "signals" => signal_bomb(),
        "sockets" => socket_bomb(),
        "memory" => {
            let mut held = Vec::new();
            loop {
                held.push(vec![1u8; 1 << 20]);
                std::hint::black_box(&held);
            }
        }
        "tmp" => {
            let chunk = vec![0u8; 1 << 20];
            let mut file = fs::File::create("/tmp/fill").expect("a file");
            let mut written = 0u64;
            let error = loop {
                match io::Write::write(&mut file, &chunk) {
                    Ok(length) => written += length as u64,
                    Err(error) => break error,
                }
            };
            println!("written={written}\nerror={}", error.raw_os_error().unwrap_or(-1));
        }
        "timers" => timer_bomb(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        other => panic!("no bomb {other}"),
    }
}

/// Makes POSIX timers until there are no more, and counts.
fn timer_bomb() {
    let mut timers = 0;
    let error = loop {
        let mut timer = std::ptr::null_mut();
        // SAFETY: the kernel writes the timer's id.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, std::ptr::null_mut(), &raw mut timer) } < 0 {
            break io::Error::last_os_error();
        }
        timers += 1;
        assert!(timers < 100_000, "no end of timers");
    };
    println!("timers={timers}\nerror={}", error.raw_os_error().unwrap_or(-1));
}

/// Forks until it is stopped, counts, and stays.
fn fork_bomb() {
    let mut children = 0;
    loop {
        // SAFETY: the child only sleeps.
        match unsafe { libc::fork() } {
            0 => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
            -1 => break,
            _ => children += 1,
        }
    }
    let error = io::Error::last_os_error().raw_os_error().unwrap_or(-1);
    println!("children={children}\nerror={error}");
    io::Write::flush(&mut io::stdout()).expect("flush");
    std::thread::sleep(Duration::from_secs(600));
}

/// Has signals queued that it does not take, says how many, and stays.
fn signal_bomb() {
    let signal = libc::SIGRTMIN();
    // SAFETY: `set` is initialised by sigemptyset before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        for _ in 0..1000 {
            libc::kill(libc::getpid(), signal);
        }
    }
    let status = fs::read_to_string("/proc/self/status").expect("own status");
    let queued = status.lines().find_map(|line| line.strip_prefix("SigQ:")?.trim().split('/').next());
    println!("queued={}", queued.unwrap_or_default());
    io::Write::flush(&mut io::stdout()).expect("flush");
    std::thread::sleep(Duration::from_secs(600));
}

/// Fills connections to itself until they take no more, says so, and stays.
fn socket_bomb() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("its address");
    let chunk = vec![0u8; 256 << 10];
    let (mut kept, mut sent) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut client = TcpStream::connect(address).expect("a connection");
        client.set_nonblocking(true).expect("it does not wait");
        kept.push(listener.accept().expect("its other end").0);
        while let Ok(length) = io::Write::write(&mut client, &chunk) {
            sent += length;
        }
        kept.push(client);
    }
    println!("sent={sent}");
    io::Write::flush(&mut io::stdout()).expect("flush");
    std::thread::sleep(Duration::from_secs(600));
}
