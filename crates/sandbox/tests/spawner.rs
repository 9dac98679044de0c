//! A process a call in a sandbox that stays.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::io::Read;
use std::os::fd::OwnedFd;

use common::{Host, has, helper, shell};
use flint_sandbox::{Ended, Error, ExitStatus, Program, Sandbox, SandboxIo, SandboxSpec, Spawner};

async fn keep(host: &Host, mut spec: SandboxSpec) -> (Sandbox, Spawner) {
    spec.spawner = true;
    let (spawner, link) = Spawner::link().unwrap();
    let null = || OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap());
    let io = SandboxIo { stdin: None, stdout: null(), stderr: null(), link: Some(link) };
    (host.launcher.start(&spec, io).await.unwrap(), spawner)
}

/// Runs one program to its end; gives that and its output (both streams).
async fn run(spawner: &Spawner, arguments: &[&str], env: &[(&str, &str)]) -> (Ended, String) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let arguments: Vec<_> = arguments.iter().map(|text| (*text).to_owned()).collect();
    let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let stderr = writer.try_clone().unwrap().into();
    let program = Program { arguments: &arguments, env: &env, stdin: None, stdout: writer.into(), stderr };
    spawner.run(program).await.unwrap();
    let ended = spawner.ended().await.unwrap();
    let mut text = Vec::new();
    // Whoever could still write is gone.
    reader.read_to_end(&mut text).unwrap();
    (ended, String::from_utf8_lossy(&text).into_owned())
}

/// The names of all processes that a program sees: itself and what it has started, and neither the spawner nor pid 1.
async fn visible(spawner: &Spawner) -> String {
    let (_, text) = run(spawner, &["cat /proc/[0-9]*/comm; :"], &[PATH]).await;
    let mut names: Vec<_> = text.lines().collect();
    names.sort_unstable();
    names.join(" ")
}

/// A shell whose script is what a call adds.
fn scripts() -> SandboxSpec {
    SandboxSpec::new("kept", ["/bin/sh", "-c"].map(str::to_owned).to_vec())
}

const PATH: (&str, &str) = ("PATH", "/usr/bin:/bin");

#[tokio::test]
async fn each_call_is_a_process_of_its_own_with_its_own_environment_and_end() {
    let host = Host::new("spawner-each").await;
    let (sandbox, spawner) = keep(&host, scripts()).await;
    for n in 0..20 {
        let n = n.to_string();
        let (ended, text) = run(&spawner, &["echo $N; exit $N"], &[PATH, ("N", &n)]).await;
        assert_eq!((ended.status, text.trim()), (Ok(ExitStatus::Code(n.parse().unwrap())), &*n));
    }
    let (ended, text) = run(&spawner, &["env | cut -d= -f1 | sort | tr '\\n' ' '"], &[PATH, ("B", "")]).await;
    assert_eq!((ended.status, text.trim()), (Ok(ExitStatus::Code(0)), "B HOME PATH PWD TMPDIR"));
    let (ended, _) = run(&spawner, &["kill -SEGV $$"], &[PATH]).await;
    assert_eq!(ended.status, Ok(ExitStatus::Signal(libc::SIGSEGV)));
    let (ended, text) = run(&spawner, &["ls /proc/self/fd | tr '\\n' ' '"], &[PATH]).await;
    // The last is the directory that is being listed.
    assert_eq!((ended.status, text.trim()), (Ok(ExitStatus::Code(0)), "0 1 2 3"));
    assert!(ended.usage.memory_peak_bytes > 0);
    assert!(sandbox.exited().is_none());
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn nothing_that_a_call_starts_outlives_it() {
    let host = Host::new("spawner-outlive").await;
    let (_sandbox, spawner) = keep(&host, scripts()).await;
    let daemons =
        "for i in 1 2 3 4 5; do setsid sh -c 'while :; do sleep 1000; done' & done; (sleep 1000 &) & echo up";
    for _ in 0..5 {
        let (ended, text) = run(&spawner, &[daemons], &[PATH]).await;
        assert_eq!((ended.status, text.trim()), (Ok(ExitStatus::Code(0)), "up"));
        assert_eq!(visible(&spawner).await, "sh");
    }
    let bomb = "f() { f | f & }; f; sleep 0.2; echo end";
    let (ended, _) = run(&spawner, &[bomb], &[PATH]).await;
    assert!(ended.status.is_ok());
    assert_eq!(visible(&spawner).await, "sh");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_program_that_kills_all_it_can_ends_its_own_sandbox() {
    let host = Host::new("spawner-kill").await;
    let (sandbox, spawner) = keep(&host, scripts()).await;
    let null = || OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap());
    let arguments = ["kill -KILL -1; sleep 1000".to_owned()];
    let program = Program { arguments: &arguments, env: &[], stdin: None, stdout: null(), stderr: null() };
    spawner.run(program).await.unwrap();
    assert!(spawner.ended().await.is_err());
    assert_eq!(sandbox.wait().await.status, ExitStatus::Signal(libc::SIGKILL));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_executed_is_said_and_the_next_call_goes_on() {
    let host = Host::new("spawner-exec").await;
    let (_sandbox, spawner) = keep(&host, SandboxSpec::new("kept", vec!["/nowhere".into()])).await;
    for _ in 0..2 {
        assert_eq!(run(&spawner, &[], &[]).await.0.status, Err(libc::ENOENT));
    }
    let (_sandbox, spawner) = keep(&host, scripts()).await;
    let error = {
        let (_, writer) = std::io::pipe().unwrap();
        let env = [("LONG".to_owned(), "x".repeat(1 << 20))];
        let stderr = writer.try_clone().unwrap().into();
        let program = Program { arguments: &[], env: &env, stdin: None, stdout: writer.into(), stderr };
        spawner.run(program).await.unwrap_err()
    };
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(run(&spawner, &["exit 7"], &[]).await.0.status, Ok(ExitStatus::Code(7)));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn programs_have_the_walls_that_a_sandbox_of_their_own_has() {
    let host = Host::new("spawner-walls").await;
    let alone = host.intrude(&[]).await;
    let (_sandbox, spawner) = keep(&host, helper(&["intrude"])).await;
    let (ended, output) = run(&spawner, &[], &[PATH]).await;
    assert_eq!(ended.status, Ok(ExitStatus::Code(0)), "{output}");
    let kept = common::findings(&output);
    for (name, found) in &alone {
        // Sizes and process ids differ.
        let differs = name == "proc" || name == "pid" || name.starts_with("status.");
        let credentials = ["Cap", "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "Sig"];
        let status = name.strip_prefix("status.").unwrap_or_default();
        if !differs || credentials.iter().any(|kind| status.starts_with(kind)) {
            assert_eq!(kept.get(name), Some(found), "{name}");
        }
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn memory_that_one_call_used_up_ends_the_sandbox() {
    if !has("cgroup-memory") {
        return;
    }
    let host = Host::new("spawner-memory").await;
    let mut spec = helper(&["bomb", "memory"]);
    spec.limits.memory_bytes = 32 << 20;
    let (sandbox, spawner) = keep(&host, spec).await;
    let null = || OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap());
    let program = Program { arguments: &[], env: &[], stdin: None, stdout: null(), stderr: null() };
    spawner.run(program).await.unwrap();
    assert!(sandbox.wait().await.oom);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn it_needs_a_link() {
    let host = Host::new("spawner-link").await;
    let mut spec = shell("exit 0");
    spec.spawner = true;
    assert!(matches!(host.run(&spec).await, Err(Error::InvalidSpec { .. })));
    host.launcher.shutdown().await;
}
