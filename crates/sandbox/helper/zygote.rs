//! A zygote without a runtime: it answers each message on its link that carries four descriptors with a fork. Honest, or not.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};

const LINK: i32 = 3;
const TMP: i32 = 200;

/// `mode`: `honest`, or what it does that it must not; `late-…` means at the first fork, after it was
/// sealed, `ever-…` at each.
pub fn run(mode: &str) {
    // SAFETY: single-threaded; plain system calls.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        if mode != "dumpable" {
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0), 0);
        }
    }
    if mode == "stay-in-tmp" {
        std::env::set_current_dir("/tmp").expect("a directory");
    }
    misbehave(mode);
    say(LINK, "ready");
    let mut first = true;
    loop {
        let (text, fds) = hear(LINK);
        match text.as_str() {
            "" => std::process::exit(0),
            "clone" => {
                let is_first = std::mem::take(&mut first);
                let now = mode.strip_prefix("ever-").or(mode.strip_prefix("late-").filter(|_| is_first));
                if let Some(how) = now {
                    misbehave(how);
                }
                fork(mode, fds);
            }
            other => panic!("unknown command {other}"),
        }
    }
}

fn misbehave(how: &str) {
    // SAFETY: what is mapped or forked here is not used otherwise.
    unsafe {
        match how {
            "shared-memory" => {
                let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
                let place =
                    libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
                assert_ne!(place, libc::MAP_FAILED);
            }
            "hidden-memory" => {
                let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
                let place = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0);
                assert_ne!(place, libc::MAP_FAILED);
            }
            "thread" => {
                std::thread::spawn(|| std::thread::sleep(Duration::from_secs(600)));
            }
            "child" => {
                let child = libc::fork() == 0;
                if child {
                    std::thread::sleep(Duration::from_secs(600));
                }
            }
            "alarm" => {
                libc::signal(libc::SIGALRM, fork_a_loop as *const () as libc::sighandler_t);
                libc::alarm(1);
            }
            "swarm" => {
                for _ in 0..20 {
                    let child = libc::fork() == 0;
                    if child {
                        std::thread::sleep(Duration::from_secs(1));
                        libc::_exit(0);
                    }
                }
            }
            "orphan" => {
                if libc::fork() == 0 {
                    if libc::fork() == 0 {
                        std::thread::sleep(Duration::from_secs(600));
                    }
                    libc::_exit(0);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            "socket" => {
                let _ = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener").into_raw_fd();
            }
            "file" => {
                let _ = std::fs::File::create("/tmp/log").expect("a file").into_raw_fd();
            }
            "many-devices" => open_devices(300),
            "many-files" | "much-code" => {
                let folder = std::iter::repeat_n("d".repeat(250), 10)
                    .fold(std::path::PathBuf::from("/tmp"), |path, part| path.join(part));
                std::fs::create_dir_all(&folder).expect("folders");
                for number in 0..100 {
                    let path = folder.join(number.to_string());
                    std::fs::write(&path, [0; 4096]).expect("a file");
                    if how == "many-files" {
                        let file = std::fs::OpenOptions::new().write(true).open(&path);
                        let _ = file.expect("a file").into_raw_fd();
                    } else {
                        map(&path, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
                    }
                }
            }
            "many-mappings" => {
                for _ in 0..1100 {
                    map(std::path::Path::new("/function/helper"), libc::PROT_READ, libc::MAP_SHARED);
                }
            }
            "pipe" => {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                drop(writer);
                let _ = reader.into_raw_fd();
            }
            "timer" => {
                let mut timer: libc::timer_t = std::ptr::null_mut();
                let mut event: libc::sigevent = std::mem::zeroed();
                event.sigev_notify = libc::SIGEV_NONE;
                assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
            }
            _ => {}
        }
    }
}

/// What a signal handler does in the zygote long after the fork.
extern "C" fn fork_a_loop(_: i32) {
    // SAFETY: single-threaded, and the child only calls the kernel.
    unsafe {
        if libc::fork() == 0 {
            loop {
                libc::usleep(10_000);
            }
        }
    }
}

/// Opens a device so many times for good.
fn open_devices(count: usize) {
    for _ in 0..count {
        let _ = std::fs::File::open("/dev/null").expect("a device").into_raw_fd();
    }
}

/// Maps a page of a file for good.
fn map(path: &std::path::Path, protection: i32, flags: i32) {
    let file = std::fs::File::open(path).expect("a file");
    // SAFETY: a fresh mapping that nothing refers to.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, file.as_raw_fd(), 0) };
    assert_ne!(place, libc::MAP_FAILED);
}

fn fork(mode: &str, fds: Vec<OwnedFd>) {
    let mut pipe = None;
    if mode == "shared-pipe" {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        pipe = Some((OwnedFd::from(reader), OwnedFd::from(writer)));
    }
    // SAFETY: single-threaded, so the child may do anything.
    unsafe {
        if forked(mode) == 0 {
            if mode == "stepchild" && libc::fork() != 0 {
                std::thread::sleep(Duration::from_secs(600));
            }
            become_clone(mode, fds, pipe);
        }
    }
    if mode == "keep-link" || mode == "shared-pipe" {
        std::mem::forget((fds, pipe));
    }
    if mode == "hoard" {
        // After the clone has said hello.
        std::thread::sleep(Duration::from_millis(100));
        super::intruder::bomb("memory");
    }
}

/// A fork; or what `clone` makes of it when it is told to share.
///
/// # Safety
/// As fork. With shared memory the child must not return from the caller.
unsafe fn forked(mode: &str) -> i32 {
    let shared = match mode {
        "share-memory" => libc::CLONE_VM,
        "share-directory" => libc::CLONE_FS,
        // SAFETY: a fork.
        _ => return unsafe { libc::fork() },
    };
    if shared == libc::CLONE_VM {
        let stack = vec![0_u128; 1 << 16].leak();
        // SAFETY: the child has a stack of its own and only sleeps.
        return unsafe {
            libc::clone(
                idle_clone,
                stack.as_mut_ptr_range().end.cast(),
                shared | libc::SIGCHLD,
                std::ptr::null_mut(),
            )
        };
    }
    // SAFETY: as fork, without a stack of its own.
    unsafe { libc::syscall(libc::SYS_clone, shared | libc::SIGCHLD, 0, 0, 0, 0) as i32 }
}

extern "C" fn idle_clone(_: *mut libc::c_void) -> i32 {
    // The link that came with the order is the first of the four.
    say(4, "hello");
    // SAFETY: waits to be killed.
    unsafe { libc::pause() }
}

fn become_clone(mode: &str, fds: Vec<OwnedFd>, pipe: Option<(OwnedFd, OwnedFd)>) -> ! {
    // SAFETY: descriptors are moved to their fixed places and the rest is closed; what owned them is forgotten.
    unsafe {
        if mode == "keep-tmp" {
            assert_eq!(libc::dup2(TMP, 100), 100);
        }
        for (fd, place) in fds.iter().zip([LINK, 1, 2, TMP]) {
            assert_eq!(libc::dup2(fd.as_raw_fd(), place), place);
        }
        if let Some((reader, _)) = &pipe {
            assert_eq!(libc::dup2(reader.as_raw_fd(), 100), 100);
        }
        // One more is kept where it is the crime.
        let kept = if pipe.is_some() || mode == "keep-tmp" { 100 } else { 4 };
        libc::syscall(libc::SYS_close_range, 4, kept - 1, 0);
        libc::syscall(libc::SYS_close_range, kept + i32::from(kept == 100), TMP - 1, 0);
        libc::syscall(libc::SYS_close_range, TMP + 1, i32::MAX, 0);
        std::mem::forget((fds, pipe));
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        if mode != "stay-in-tmp" {
            assert_eq!(libc::chdir(c"/tmp".as_ptr()), 0);
        }
        match mode {
            "extra-socket" => {
                assert!(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) > 3);
            }
            "input-socket" => {
                let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
                assert_eq!(libc::dup2(socket, 0), 0);
                libc::close(socket);
            }
            "open-file" => {
                let flags = libc::O_CREAT | libc::O_WRONLY;
                assert!(libc::open(c"/tmp/file".as_ptr(), flags, 0o600) > 3);
            }
            "no-tmp" => {
                libc::close(TMP);
            }
            "opens-few" => open_devices(60),
            "opens-many" => open_devices(70),
            _ => {}
        }
        if mode != "unlocked" {
            lock_in();
        }
        if mode == "two-threads" {
            std::thread::spawn(|| std::thread::sleep(Duration::from_secs(600)));
        }
    }
    say(LINK, "hello");
    serve();
}

/// A Landlock domain of its own: no signals, no abstract sockets towards the outside.
fn lock_in() {
    let attributes: [u64; 3] = [0, 0, 3];
    // SAFETY: the kernel reads 24 bytes; the descriptor is closed again.
    unsafe {
        let size = size_of_val(&attributes);
        let rules = libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), size, 0) as i32;
        if rules >= 0 {
            assert_eq!(libc::syscall(libc::SYS_landlock_restrict_self, rules, 0), 0);
            libc::close(rules);
        }
    }
}

/// Does what it is told, a line at a time.
fn serve() -> ! {
    loop {
        let (command, _) = hear(LINK);
        let (verb, argument) = command.split_once(' ').unwrap_or((command.as_str(), ""));
        let outcome = match verb {
            "" => std::process::exit(0),
            "exit" => std::process::exit(argument.parse().expect("a number")),
            "write" => std::fs::write(argument, "x"),
            "read" => std::fs::read(argument).map(drop),
            "list" => {
                let names = std::fs::read_dir(argument).expect("a directory");
                let mut names: Vec<_> =
                    names.flatten().map(|entry| entry.file_name().into_string().expect("text")).collect();
                names.sort();
                say(LINK, &names.join(","));
                continue;
            }
            "pid" => {
                say(LINK, &std::process::id().to_string());
                continue;
            }
            "kill" => {
                let pid: i32 = argument.parse().expect("a process");
                check(|| unsafe { libc::kill(pid, libc::SIGKILL) })
            }
            "wake" => loop {
                let pid: i32 = argument.parse().expect("a process");
                // SAFETY: sends a signal.
                let _ = unsafe { libc::kill(pid, libc::SIGCONT) };
                std::thread::sleep(Duration::from_millis(10));
            },
            "ptrace" => {
                let pid: i32 = argument.parse().expect("a process");
                check(|| unsafe { libc::ptrace(libc::PTRACE_ATTACH, pid, 0, 0) as i32 })
            }
            "dumpable" => check(|| unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }),
            "subreaper" => {
                check(|| unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1_u64 << 32, 0, 0, 0) })
            }
            "shmget" => check(|| unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) }),
            "listener" => check(|| unsafe {
                let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
                libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, 0) as i32
            }),
            "run" => {
                let output = std::process::Command::new("/bin/sh").args(["-c", argument]).output();
                let output = output.expect("a shell");
                say(LINK, String::from_utf8_lossy(&output.stdout).trim());
                continue;
            }
            "bomb" => {
                super::intruder::bomb(argument);
                Ok(())
            }
            "daemonise" => {
                super::server::fork_daemon();
                Ok(())
            }
            other => panic!("unknown command {other}"),
        };
        say(
            LINK,
            &outcome.map_or_else(|error| error.raw_os_error().unwrap_or(-1).to_string(), |()| "OK".into()),
        );
    }
}

fn check(call: impl FnOnce() -> i32) -> std::io::Result<()> {
    if call() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

fn link(fd: i32) -> BorrowedFd<'static> {
    // SAFETY: open as long as this program runs.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

fn say(fd: i32, text: &str) {
    let mut control = SendAncillaryBuffer::default();
    sendmsg(link(fd), &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL).expect("a peer");
}

/// One message with its descriptors; empty at the end.
fn hear(fd: i32) -> (String, Vec<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0u8; 1024];
    let received =
        recvmsg(link(fd), &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
    let length = received.map_or(0, |received| received.bytes);
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    (String::from_utf8_lossy(&bytes[..length]).into_owned(), fds)
}
