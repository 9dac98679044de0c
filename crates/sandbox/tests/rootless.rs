//! The same walls without root. Run as root, these tests step down to an unprivileged user first.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::findings;

const NOBODY: u32 = 65534;

/// Copies by another process: a descriptor open for writing here could be inherited by a neighbouring test's child, and keep the copy from
/// being executed (ETXTBSY).
fn copy_helper(to: &Path) {
    assert!(Command::new("cp").arg(common::HELPER).arg(to).status().unwrap().success());
}

/// Runs one sandbox from a server of an unprivileged user; gives its output.
fn one_shot(program: &[&str]) -> (bool, String) {
    one_shot_with("none", program)
}

fn one_shot_with(network: &str, program: &[&str]) -> (bool, String) {
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    open(directory.path());
    let helper = directory.path().join("helper");
    copy_helper(&helper);
    open(&helper);
    let state = directory.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let mut command = Command::new(&helper);
    command.arg("one-shot").arg(&state).arg(network).args(program).current_dir("/");
    if common::is_root() {
        std::os::unix::fs::chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "{text}");
    (output.status.success(), text)
}

/// Whether this kernel lets users make user namespaces; says so when not.
fn possible() -> bool {
    let (works, output) = one_shot(&["/bin/true"]);
    if !works {
        println!("not checked: sandboxes without root are impossible here: {}", output.trim());
        assert!(output.contains("user namespaces"), "{output}");
    }
    works
}

fn intrude(arguments: &[&str]) -> HashMap<String, String> {
    let (works, output) = one_shot(&[&[common::INSIDE, "intrude"], arguments].concat());
    assert!(works, "{output}");
    findings(&output)
}

#[test]
fn forbidden_calls_fail_without_root_too() {
    if !possible() {
        return;
    }
    let found = intrude(&[]);
    for name in [
        "mount",
        "remount",
        "umount",
        "pivot_root",
        "chroot",
        "unshare_user",
        "unshare_mount",
        "setns",
        "clone_user",
        "ptrace",
        "bpf",
        "keyctl",
        "mknod_device",
        "setgroups",
    ] {
        assert_eq!(found[name], "1", "{name}");
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(found[&format!("status.{set}")], "0000000000000000", "{set}");
    }
    assert_eq!(found["status.NoNewPrivs"], "1");
    assert_eq!(found["status.Seccomp"], "2");
    assert_eq!(found["status.Uid"], "1000 1000 1000 1000");
    assert_eq!(found["interfaces"], "lo");
}

#[test]
fn the_host_is_out_of_sight_without_root_too() {
    if !possible() {
        return;
    }
    let forbidden = [
        "read:/etc/shadow",
        "read:/root",
        "read:/home",
        "read:/var/lib",
        "read:/proc/1/environ",
        "read:/proc/kallsyms",
        "read:/proc/sys/kernel/hostname",
        "write:/usr/x",
        "write:/x",
        "write:/function/x",
    ];
    let allowed = ["write:/tmp/x", "write:/dev/null"];
    let found = intrude(&[&forbidden[..], &allowed[..]].concat());
    for path in forbidden {
        assert_ne!(found[path], "OK", "{path}");
    }
    for path in allowed {
        assert_eq!(found[path], "OK", "{path}");
    }
}

#[test]
fn runtimes_work_without_root_too() {
    if !possible() {
        return;
    }
    for (program, arguments) in [
        ("/usr/bin/python3", ["-c", "import os; os.urandom(4); print('hello')"]),
        ("/usr/bin/node", ["-e", "console.log('hello')"]),
        ("/bin/sh", ["-c", "echo hello > /tmp/x; cat /tmp/x"]),
    ] {
        if !Path::new(program).exists() {
            println!("not checked: this host has no {program}");
            continue;
        }
        let (works, output) = one_shot(&[&[program], &arguments[..]].concat());
        assert!(works && output.starts_with("hello\n"), "{program}: {output}");
    }
}

#[test]
fn somebody_outside_listens_inside_without_root_too() {
    if !possible() {
        return;
    }
    let program = [common::INSIDE, "intrude", "connect:127.0.0.1:3233"];
    let (works, output) = one_shot_with("3233", &program);
    assert!(works, "{output}");
    let found = findings(&output);
    assert_eq!((&*found["connect:127.0.0.1:3233"], &*found["accepted"]), ("OK", "true"), "{output}");
}

#[test]
fn memory_is_bounded_without_a_cgroup_too() {
    if !possible() {
        return;
    }
    let (works, output) = one_shot(&["/bin/sh", "-c", "ulimit -Hd"]);
    assert!(works, "{output}");
    // 256 MiB, and what is reserved, in KiB. Who is not root here may have a delegated cgroup.
    let limit = output.lines().next();
    assert!(limit == Some("524288") || !common::is_root() && limit == Some("unlimited"), "{output}");
}

#[test]
fn egress_is_refused_with_its_reason() {
    if !possible() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let helper = directory.path().join("helper");
    copy_helper(&helper);
    let mut command = Command::new(&helper);
    command
        .arg("one-shot")
        .arg(directory.path().join("state"))
        .args(["egress", "/bin/true"])
        .current_dir("/");
    if common::is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("network egress"), "{text}");
}
