//! Bombs, and what becomes of them.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};

use common::{Host, findings, has, helper};
use flint_sandbox::ExitStatus;

#[tokio::test]
async fn a_memory_bomb_is_reported_as_such() {
    if !has("cgroup-memory") {
        return;
    }
    let host = Host::new("memory").await;
    for key in [None, Some("bomb".to_owned())] {
        for _ in 0..2 {
            let mut spec = helper(&["bomb", "memory"]);
            spec.limits.memory_bytes = 32 << 20;
            spec.recycle_key = key.clone();
            let (exit, _) = host.run(&spec).await.unwrap();
            assert!(exit.oom, "{exit:?}");
            assert_eq!(exit.status, ExitStatus::Signal(libc::SIGKILL));
            assert!(
                exit.usage.memory_peak_bytes <= 32 << 20 && exit.usage.memory_peak_bytes > 16 << 20,
                "{exit:?}"
            );
        }
    }
    let (exit, _) = host.run(&common::shell("true")).await.unwrap();
    assert!(!exit.oom);
    host.launcher.shutdown().await;
}

/// A child that is killed for memory must not leave a half-dead sandbox behind.
#[tokio::test]
async fn a_bombing_child_ends_the_sandbox() {
    if !has("cgroup-memory") {
        return;
    }
    let host = Host::new("child").await;
    let mut spec = helper(&[]);
    spec.argv = ["/bin/sh", "-c", "/function/helper bomb memory & sleep 600"].map(str::to_owned).to_vec();
    spec.limits.memory_bytes = 32 << 20;
    let (exit, _) = host.run(&spec).await.unwrap();
    assert!(exit.oom, "{exit:?}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn tmp_counts_as_memory_and_has_a_size() {
    let host = Host::new("tmp").await;
    let mut spec = helper(&["bomb", "tmp"]);
    spec.tmp_bytes = 8 << 20;
    let (exit, output) = host.run(&spec).await.unwrap();
    let found = findings(&output);
    assert_eq!(found["written"], (8 << 20).to_string());
    assert_eq!(found["error"], libc::ENOSPC.to_string());
    if has("cgroup-memory") {
        assert!(exit.usage.memory_peak_bytes >= 8 << 20, "{exit:?}");
    }
    host.launcher.shutdown().await;
}

/// With v1, where it is counted apart: all sandboxes share what the host has for its connections.
#[tokio::test]
async fn what_sockets_hold_is_a_small_part_of_the_memory() {
    const USED: &str = "memory.kmem.tcp.max_usage_in_bytes";
    let host = Host::new("sockets").await;
    let (_sandbox, reader) = host.start(&helper(&["bomb", "sockets"])).await.unwrap();
    let leaves = common::groups("flint-sockets-").into_iter().flat_map(std::fs::read_dir).flatten().flatten();
    let Some(file) = leaves.map(|leaf| leaf.path().join(USED)).find(|file| file.exists()) else {
        println!("not checked: no memory cgroup of v1 here");
        return host.launcher.shutdown().await;
    };
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    let memory = flint_sandbox::ResourceLimits::default().memory_bytes;
    let used: u64 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    // At its limit a socket still gets what it cannot do without.
    assert!(line.starts_with("sent=") && used > 0 && used < memory / 8, "{used} of {memory}; {line}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_limit() {
    if !has("cgroup-pids") {
        return;
    }
    let host = Host::new("forks").await;
    let mut spec = helper(&["bomb", "fork"]);
    spec.limits.processes = 20;
    let (sandbox, mut reader) = host.start(&spec).await.unwrap();
    let output: String =
        BufReader::new(&mut reader).lines().take(2).map(|line| line.unwrap() + "\n").collect();
    let found = findings(&output);
    assert_eq!(found["children"], "19", "{output}");
    assert_eq!(found["error"], libc::EAGAIN.to_string());
    let pids = common::members(&common::groups("flint-forks-"));
    assert_eq!(pids.len(), 21, "20 and the sandbox's pid 1");
    sandbox.kill();
    sandbox.wait().await;
    assert!(pids.iter().all(|pid| !common::alive(*pid)));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn open_files_are_limited() {
    let host = Host::new("files").await;
    let mut spec = common::shell("ulimit -n; ulimit -Hn");
    spec.limits.open_files = 77;
    let (_, output) = host.run(&spec).await.unwrap();
    assert_eq!(output, "77\n77\n");
    host.launcher.shutdown().await;
}

/// A limit of 1 byte, and no other, keeps the kernel from starting the program that `core_pattern` may name.
#[tokio::test]
async fn no_core_is_dumped_and_nothing_changes_that() {
    if !common::is_root() {
        println!("not checked: without root the host's limit may be 0");
        return;
    }
    let host = Host::new("cores").await;
    let script = "cd /tmp; ulimit -c 0 || echo failed; ulimit -c unlimited || echo failed; \
        sed -n '/core file/s/  */ /gp' /proc/self/limits; sh -c 'kill -SEGV $$'; echo $?; ls";
    let (_, output) = host.run(&common::shell(script)).await.unwrap();
    let lines: Vec<&str> = output.lines().filter(|line| !line.contains("Segmentation fault")).collect();
    assert_eq!(lines, ["Max core file size 1 1 bytes ", "139"]);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn timers_are_limited() {
    let host = Host::new("timers").await;
    let (_, output) = host.run(&helper(&["bomb", "timers"])).await.unwrap();
    let found = findings(&output);
    assert_eq!((found["timers"].as_str(), found["error"].as_str()), ("1024", "11"), "{output}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn cpu_is_limited() {
    if !has("cgroup-cpu") {
        return;
    }
    let host = Host::new("cpu").await;
    let mut spec = helper(&["bomb", "spin"]);
    spec.limits.cpu_millis = 100;
    let began = std::time::Instant::now();
    let (sandbox, _reader) = host.start(&spec).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let used = u128::from(sandbox.usage().await.unwrap().cpu_us);
    // A tenth of a core, of the time that it was really there; a whole core would be far from it.
    let real = began.elapsed().as_micros();
    assert!(used < real / 2, "{used} of {real}");
    host.launcher.shutdown().await;
}

/// A call that is woken takes the processor neither from the server nor from another call.
#[tokio::test]
async fn what_runs_gives_way_to_what_is_running() {
    let host = Host::new("policy").await;
    // Of a process that the payload's has made, so that it is seen to be handed on.
    let (exit, output) = host.run(&common::shell("cut -d' ' -f41 /proc/self/stat")).await.unwrap();
    assert_eq!(exit.status, ExitStatus::Code(0), "{output}");
    assert_eq!(output.trim(), libc::SCHED_BATCH.to_string());
    host.launcher.shutdown().await;
}

/// What nobody waits for takes the processor from no other sandbox: until somebody waits, it is sealed, or its time is over.
#[tokio::test]
async fn a_sandbox_stays_in_the_background_for_as_long_as_nobody_waits_for_it() {
    use common::zygote::{self, Zygote};
    let host = Host::new("background").await;
    if !common::groups("flint-background-").iter().any(|group| group.join("cpu.idle").exists()) {
        println!("not checked: no CPU cgroup here, or one without cpu.idle");
        return host.launcher.shutdown().await;
    }
    // Of the only sandbox there is. A recycled group is told again.
    let told = || {
        let leaves = common::groups("flint-background-").into_iter().flat_map(std::fs::read_dir);
        let texts = leaves.flatten().flatten().filter_map(|leaf| {
            let procs = std::fs::read_to_string(leaf.path().join("cgroup.procs")).ok()?;
            let idle = std::fs::read_to_string(leaf.path().join("cpu.idle")).ok()?;
            (!procs.is_empty()).then(|| idle.trim() == "1")
        });
        texts.collect::<Vec<_>>()
    };
    let comes_forward = async || {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while told() != [false] {
            assert!(std::time::Instant::now() < deadline, "{:?}", told());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let (long, short) = (std::time::Duration::from_secs(3600), std::time::Duration::from_millis(200));
    let mut spec = common::shell("sleep 600");
    spec.recycle_key = Some("tenant".into());
    for background in [None, Some(long), None, Some(short)] {
        spec.background = background;
        let (sandbox, _output) = host.start(&spec).await.unwrap();
        if background != Some(short) {
            assert_eq!(told(), [background.is_some()], "{background:?}");
            sandbox.foreground();
        }
        comes_forward().await;
        sandbox.kill();
        sandbox.wait().await;
    }
    let zygote = Zygote::start(
        &host,
        &flint_sandbox::SandboxSpec { background: Some(long), ..zygote::spec("honest") },
    )
    .await;
    assert_eq!(told(), [true]);
    zygote.sandbox.seal(&Default::default()).await.unwrap();
    assert_eq!(told(), [false]);
    drop(zygote);
    host.launcher.shutdown().await;
}
