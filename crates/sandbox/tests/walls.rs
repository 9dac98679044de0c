//! What code inside a sandbox cannot do, tried for real.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::{Host, helper, shell};

const EPERM: &str = "1";
const EBADF: &str = "9";
const EACCES: &str = "13";
const ENOSYS: &str = "38";

#[tokio::test]
async fn forbidden_calls_fail() {
    let host = Host::new("calls").await;
    let found = host.intrude(&[]).await;
    for name in [
        "mount",
        "remount",
        "umount",
        "fsopen",
        "open_tree",
        "pivot_root",
        "chroot",
        "unshare_user",
        "unshare_mount",
        "unshare_net",
        "setns",
        "clone_user",
        "clone_net",
        "ptrace",
        "process_vm_readv",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "keyctl",
        "add_key",
        "open_by_handle_at",
        "pidfd_getfd",
        "kexec_load",
        "init_module",
        "reboot",
        "swapon",
        "syslog",
        "sethostname",
        "personality",
        "mknod_device",
        "setgroups",
        "kill_init",
        "tiocsti",
        "fcntl_notify",
        "prctl_sched_core",
        "prctl_set_mm",
    ] {
        assert_eq!(found[name], EPERM, "{name}");
    }
    for name in ["clone3", "io_uring_setup", "inotify_init", "inotify_add_watch"] {
        assert_eq!(found[name], ENOSYS, "{name}");
    }
    assert_eq!(found["memfd_hugetlb"], libc::EINVAL.to_string());
    for name in [
        "setuid_root",
        "setgid_root",
        "socket_packet",
        "socket_raw_tcp",
        "socket_dccp",
        "socket_vsock",
        "socket_alg",
        "socket_icmp",
        "socket_netfilter",
    ] {
        assert_ne!(found[name], "OK", "{name}");
    }
    for name in ["allowed_unix", "allowed_tcp", "allowed_tcp6", "allowed_route"] {
        assert_eq!(found[name], "OK", "{name}");
    }
    // Whoever flushes the host's disks or empties its page cache is told that it has: the kernel, if it were asked, would find no
    // such file.
    for name in ["sync", "syncfs_of_nothing", "fsync_of_nothing", "fdatasync_of_nothing", "evict_nothing"] {
        assert_eq!(found[name], "OK", "{name}");
    }
    assert_eq!(found["advise_on_nothing"], EBADF);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn identity_is_unprivileged() {
    let host = Host::new("identity").await;
    let found = host.intrude(&[]).await;
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(found[&format!("status.{set}")], "0000000000000000", "{set}");
    }
    assert_eq!(found["status.NoNewPrivs"], "1");
    assert_eq!(found["status.Seccomp"], "2");
    assert_eq!(found["status.Uid"], "1000 1000 1000 1000");
    assert_eq!(found["status.Gid"], "1000 1000 1000 1000");
    if common::is_root() {
        assert_eq!(found["status.Groups"], "");
    }
    host.launcher.shutdown().await;
}

/// The kernel counts for the owner of a user namespace what is used in it.
#[tokio::test]
async fn what_a_payload_uses_up_is_not_roots() {
    if !common::is_root() {
        println!("not checked: it takes root for a user id per sandbox");
        return;
    }
    let host = Host::new("counts").await;
    let (_sandbox, reader) = host.start(&helper(&["bomb", "signals"])).await.unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(reader), &mut line).unwrap();
    let queued: u64 = common::findings(&line)["queued"].parse().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let roots = status.lines().find_map(|line| line.strip_prefix("SigQ:")?.trim().split('/').next()).unwrap();
    assert!(queued >= 20 && roots.parse::<u64>().unwrap() < queued, "{queued} inside, root has {roots}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn nothing_of_the_host_is_in_sight() {
    let host = Host::new("sight").await;
    std::fs::write(host.directory.path().join("secret"), "x").unwrap();
    let found = host.intrude(&[]).await;
    for name in found["root"].split(',') {
        let known = [
            "bin", "dev", "etc", "function", "lib", "lib32", "lib64", "libx32", "opt", "proc", "run", "sbin",
            "sys", "tmp", "usr", "var",
        ];
        assert!(known.contains(&name), "/{name}");
    }
    // Only itself: neither pid 1 nor siblings nor kernel tables.
    assert_eq!(found["proc"], format!("{},self,thread-self", found["pid"]));
    assert_eq!(found["dev"], "fd,full,null,random,shm,stderr,stdin,stdout,urandom,zero");
    assert_eq!(found["interfaces"], "lo");
    for name in ["shadow", "hostname", "machine-id", "ssh", "fstab"] {
        assert!(!found["etc"].split(',').any(|other| other == name), "/etc/{name}");
    }
    let secret = format!("read:{}", host.directory.path().join("secret").display());
    let paths = [
        secret.as_str(),
        "read:/etc/shadow",
        "read:/root",
        "read:/home",
        "read:/var/lib",
        "read:/proc/1/status",
        "read:/proc/1/environ",
        "read:/proc/kallsyms",
        "read:/proc/sys/kernel/hostname",
        "read:/proc/meminfo",
        "read:/proc/cmdline",
        // Of it there is a copy of one file: whether huge pages may be asked for.
        "read:/sys/kernel/notes",
        "read:/sys/kernel/security",
        "read:/sys/kernel/mm/hugepages",
        "read:/sys/fs/cgroup",
        "read:/usr/local/bin",
        "read:/boot",
    ];
    let found = host.intrude(&paths).await;
    for path in paths {
        assert_ne!(found[path], "OK", "{path}");
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn only_tmp_is_writable() {
    let host = Host::new("writable").await;
    let forbidden = [
        "write:/x",
        "write:/usr/bin/x",
        "write:/usr/lib/x",
        "write:/etc/passwd",
        "write:/etc/x",
        "write:/function/x",
        "write:/dev/x",
        "write:/sys/x",
        "write:/opt/x",
        "write:/run/x",
        "write:/function/helper",
        "write:/proc/sys/x",
    ];
    let allowed = ["write:/tmp/x", "write:/var/tmp/y", "write:/dev/shm/z", "write:/dev/null"];
    let found = host.intrude(&[&forbidden[..], &allowed[..]].concat()).await;
    for path in forbidden {
        assert_ne!(found[path], "OK", "{path}");
    }
    for path in allowed {
        assert_eq!(found[path], "OK", "{path}");
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn mounts_show_what_was_asked_for() {
    let host = Host::new("mounts").await;
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("index.js"), "code").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(source.path(), open).unwrap();
    let mut spec = shell(
        "cat /function/code/index.js; echo x 2>&1 >/function/code/new; echo made >/opt/rw/new && cat /opt/rw/new",
    );
    for (target, readonly) in [("/function/code", true), ("/opt/rw", false)] {
        let (source, target) = (source.path().to_owned(), target.to_owned());
        spec.mounts.push(flint_sandbox::Mount { source, target, readonly });
    }
    let (_, output) = host.run(&spec).await.unwrap();
    assert!(output.starts_with("code") && output.ends_with("made\n"), "{output}");
    assert!(output.contains("Read-only file system") || output.contains("Permission denied"), "{output}");
    host.launcher.shutdown().await;
}

/// A read-only mount does not keep anybody from writing to a pipe in it: nothing but Landlock does.
#[tokio::test]
async fn landlock_forbids_what_the_mounts_allow() {
    if !common::has("landlock") {
        return;
    }
    let host = Host::new("landlock").await;
    let attempts = ["write:/function/code/pipe", "write:/opt/rw/pipe"];
    let mut spec = helper(&[&["intrude"], &attempts[..]].concat());
    let mut kept = Vec::new();
    // Of one and the same directory Landlock would know no two accesses.
    for (target, readonly) in [("/function/code", true), ("/opt/rw", false)] {
        let source = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(source.path(), open).unwrap();
        let pipe = source.path().join("pipe");
        let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status().unwrap();
        assert!(made.success());
        let (path, target) = (source.path().to_owned(), target.to_owned());
        spec.mounts.push(flint_sandbox::Mount { source: path, target, readonly });
        // Who writes to it waits for nobody to read.
        kept.push((std::fs::File::options().read(true).write(true).open(pipe).unwrap(), source));
    }
    let (exit, output) = host.run(&spec).await.unwrap();
    assert!(exit.status.success(), "{exit:?}: {output}");
    let found = common::findings(&output);
    assert_eq!(attempts.map(|attempt| found[attempt].as_str()), [EACCES, "OK"]);
    drop(kept);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn shared_memory_of_the_host_is_not_found() {
    let host = Host::new("ipc").await;
    // Nobody else's: others have no reason to use such a key.
    let key = 0x464c_0000 ^ std::process::id() as i32;
    // SAFETY: it is only made.
    let segment = unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | libc::IPC_EXCL | 0o666) };
    assert!(segment >= 0, "{}", std::io::Error::last_os_error());
    let attempt = format!("shmget:{key}");
    let outside = std::process::Command::new(common::HELPER).args(["intrude", &attempt]).output().unwrap();
    let inside = host.intrude(&[&attempt]).await;
    // SAFETY: it is removed; nobody has it mapped.
    unsafe { libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()) };
    assert_eq!(common::findings(&String::from_utf8_lossy(&outside.stdout))[&attempt], "OK");
    assert_eq!(inside[&attempt], libc::ENOENT.to_string());
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn descriptors_are_only_those_given() {
    let host = Host::new("descriptors").await;
    let list = shell("ls /proc/self/fd; ls -l /proc/self/fd/0");
    let (_, output) = host.run(&list).await.unwrap();
    let numbers: Vec<&str> = output.lines().take(4).collect();
    // 3 is the directory that `ls` itself has open.
    assert_eq!(numbers, ["0", "1", "2", "3"], "{output}");
    assert_eq!(output.lines().count(), 5, "{output}");
    assert!(output.contains("/dev/null"), "{output}");

    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let io = flint_sandbox::SandboxIo {
        stdin: None,
        stdout: writer.try_clone().unwrap().into(),
        stderr: writer.into(),
        link: Some(theirs.into()),
    };
    let sandbox =
        host.launcher.start(&shell("read line <&3; echo \"got $line\"; echo pong >&3"), io).await.unwrap();
    std::io::Write::write_all(&mut &ours, b"ping\n").unwrap();
    assert!(sandbox.wait().await.status.success());
    let (mut answer, mut output) = (String::new(), String::new());
    std::io::Read::read_to_string(&mut &ours, &mut answer).unwrap();
    std::io::Read::read_to_string(&mut reader, &mut output).unwrap();
    assert_eq!((answer.as_str(), output.as_str()), ("pong\n", "got ping\n"));
    host.launcher.shutdown().await;
}

/// Sandboxes begin in the descriptor table of the launcher, which has those of all others.
#[tokio::test]
async fn of_many_sandboxes_each_has_its_own_descriptors_only() {
    let host = Host::new("many").await;
    let mut living = Vec::new();
    for _ in 0..40 {
        living.push(host.start(&shell("exec sleep 600")).await.unwrap());
    }
    let starts: Vec<_> = (0..100)
        .map(|number| {
            let mut spec = shell("read in; read link <&3; echo $in $link; ls /proc/self/fd");
            // Some have so much to take along that they begin with a copy of that table.
            for mount in 0..if number % 50 == 0 { 1100 } else { 0 } {
                let (source, target) = ("/usr".into(), format!("/function/{mount}"));
                spec.mounts.push(flint_sandbox::Mount { source, target, readonly: true });
            }
            let launcher = host.launcher.clone();
            tokio::spawn(async move {
                let (stdin, mut to_stdin) = std::io::pipe().unwrap();
                let (mut output, stdout) = std::io::pipe().unwrap();
                let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
                let mark = format!("{number}\n");
                std::io::Write::write_all(&mut to_stdin, mark.as_bytes()).unwrap();
                std::io::Write::write_all(&mut &ours, mark.as_bytes()).unwrap();
                let io = flint_sandbox::SandboxIo {
                    stdin: Some(stdin.into()),
                    stdout: stdout.try_clone().unwrap().into(),
                    stderr: stdout.into(),
                    link: Some(theirs.into()),
                };
                let exit = launcher.start(&spec, io).await.unwrap().wait().await;
                let mut text = String::new();
                std::io::Read::read_to_string(&mut output, &mut text).unwrap();
                (number, exit, text)
            })
        })
        .collect();
    for start in starts {
        let (number, exit, text) = start.await.unwrap();
        assert!(exit.status.success(), "{exit:?}: {text}");
        // 4 is the directory that `ls` itself has open.
        assert_eq!(text, format!("{number} {number}\n0\n1\n2\n3\n4\n"));
    }
    if common::is_root() {
        let pids = common::members(&common::groups("flint-many-"));
        let mut init = 0;
        for pid in pids {
            let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
            let mut open: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            open.sort();
            // Pid 1 has its pipe to the launcher, the payload what it was given.
            init += usize::from(open == ["4"]);
            assert!(open == ["4"] || open == ["0", "1", "2"], "{pid}: {open:?}");
        }
        assert_eq!(init, living.len());
    }
    drop(living);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn the_hosts_loopback_is_out_of_reach() {
    let host = Host::new("loopback").await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let attempt = format!("connect:{}", listener.local_addr().unwrap());
    let elsewhere = "connect:192.0.2.1:80";
    let found = host.intrude(&[&attempt, elsewhere]).await;
    assert_eq!(found[&attempt], libc::ECONNREFUSED.to_string());
    assert_eq!(found[elsewhere], libc::ENETUNREACH.to_string());
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn siblings_are_invisible_and_have_other_ids() {
    let host = Host::new("siblings").await;
    let (first, _reader) = host.start(&shell("echo secret > /tmp/mine; sleep 600")).await.unwrap();
    let (second, _reader) = host.start(&shell("sleep 600")).await.unwrap();
    let found = host.intrude(&["read:/tmp/mine"]).await;
    assert_eq!(found["read:/tmp/mine"], libc::ENOENT.to_string());
    let found = host.intrude(&[]).await;
    assert_eq!(found["proc"], format!("{},self,thread-self", found["pid"]));
    if common::is_root() {
        let groups = common::groups("flint-siblings-");
        let uids: Vec<String> = common::members(&groups)
            .into_iter()
            .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok())
            .filter_map(|status| Some(status.lines().find(|line| line.starts_with("Uid:"))?.to_owned()))
            .collect();
        let distinct: std::collections::HashSet<&String> = uids.iter().collect();
        // Two pid 1s and two payloads (a shell may have a child of its own id).
        assert!(distinct.len() >= 4 && !uids.iter().any(|line| line.contains("\t0\t")), "{uids:?}");
    }
    drop((first, second));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_wrong_request_is_refused_with_its_cause() {
    let host = Host::new("refused").await;
    type Spoil = fn(&mut flint_sandbox::SandboxSpec);
    let cases: [(Spoil, &str); 6] = [
        (|spec| spec.argv = vec!["/no/such".into()], "/no/such"),
        (|spec| spec.argv.clear(), "argv"),
        (|spec| spec.cwd = "/nowhere".into(), "/nowhere"),
        (|spec| spec.mounts[0].source = "/no/source".into(), "/no/source"),
        (|spec| spec.mounts[0].target = "/etc/x".into(), "/etc/x"),
        (|spec| spec.env.push(("BIG".into(), "x".repeat(200_000))), "bytes"),
    ];
    for (spoil, cause) in cases {
        let mut spec = helper(&["intrude"]);
        spoil(&mut spec);
        let error = host.run(&spec).await.unwrap_err().to_string();
        assert!(error.contains(cause), "{error}");
    }
    host.launcher.shutdown().await;
}
