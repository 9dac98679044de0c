//! Processes forked from a sandbox's main process: each in a cell of its own.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::zygote::{Zygote, cell_spec, spec};
use common::{Host, alive, eventually, groups, members};
use flint_sandbox::{Error, ExitStatus, ProbeState};

const EPERM: &str = "1";

/// Whether this host has what cells need; says so when not.
fn possible() -> bool {
    common::has("fork-call-wall")
}

fn tells_status() -> bool {
    let found = flint_sandbox::probe(0).into_iter().find(|probe| probe.name == "fork-exit-status").unwrap();
    found.state == ProbeState::Available
}

#[tokio::test]
async fn clones_come_work_and_end() {
    if !possible() {
        return;
    }
    let host = Host::new("clones").await;
    let zygote = Zygote::start(&host, &spec("honest")).await;
    let sealed = zygote.sandbox.seal(&Default::default()).await.unwrap();
    assert_eq!(sealed.threads, 1);
    assert_eq!(sealed.native_code, ["/function/helper"]);
    for code in [0, 7] {
        let clone = zygote.spawn().await.unwrap();
        assert_eq!(clone.ask("write /tmp/x").await, "OK");
        assert_eq!(clone.ask("list /dev/shm").await, "x");
        clone.tell(&format!("exit {code}"));
        let exit = clone.sandbox.wait().await;
        let expected = if tells_status() { ExitStatus::Code(code) } else { ExitStatus::Unknown };
        assert_eq!(exit.status, expected);
        assert!(!exit.oom);
    }
    assert!(zygote.sandbox.exited().is_none());
    host.launcher.shutdown().await;
    assert!(groups("flint-clones-").is_empty());
}

#[tokio::test]
async fn a_zygote_stands_still_between_forks() {
    if !possible() {
        return;
    }
    let host = Host::new("still").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let stopped = || {
        let status = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let all: Vec<_> = members(&groups("flint-still-")).iter().map(status).collect();
        // Never its pid 1, which reaps what clones leave behind.
        all.iter().filter(|status| status.contains("State:\tT")).count() == 1
    };
    let first = zygote.spawn().await.unwrap();
    for _ in 0..2 {
        eventually("it stands still", stopped);
        // Long enough for it to be looked at again.
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(stopped() && zygote.sandbox.exited().is_none());
        let clone = zygote.spawn().await.unwrap();
        assert_eq!(clone.ask("write /tmp/x").await, "OK");
        assert_eq!(first.ask("run (sleep 0.1 &) ; echo fine").await, "fine");
        clone.tell("exit 0");
        clone.sandbox.wait().await;
    }
    eventually("it stands still again", stopped);
    zygote.sandbox.kill();
    assert_eq!(zygote.sandbox.wait().await.tampered, None);
    host.launcher.shutdown().await;
    assert!(groups("flint-still-").is_empty());
}

#[tokio::test]
async fn siblings_have_nothing_of_each_other() {
    if !possible() {
        return;
    }
    let host = Host::new("siblings2").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let (one, other) = (zygote.spawn().await.unwrap(), zygote.spawn().await.unwrap());
    assert_eq!(one.ask("write /tmp/mine").await, "OK");
    assert_eq!(other.ask("list /tmp").await, "");
    assert_eq!(other.ask("run ls /tmp /var/tmp | grep -c mine").await, "0");
    assert_eq!(one.ask("run ls /tmp").await, "mine");
    let (victim, main) = (one.ask("pid").await, "2");
    for process in [victim.as_str(), main, "1"] {
        assert_ne!(other.ask(&format!("kill {process}")).await, "OK", "{process}");
        assert_ne!(other.ask(&format!("ptrace {process}")).await, "OK", "{process}");
        for file in ["mem", "maps", "environ", "fd/3", "cwd/x", "root/tmp/x"] {
            let path = format!("/proc/{process}/{file}");
            assert_ne!(other.ask(&format!("read {path}")).await, "OK", "{path}");
            assert_ne!(other.ask(&format!("write {path}")).await, "OK", "{path}");
        }
    }
    let own = other.ask("pid").await;
    assert_eq!(other.ask("list /proc").await, format!("{own},self,thread-self"));
    assert_eq!(other.ask("list /proc/self/fd").await, "0,1,2,200,3,4");
    for forbidden in ["dumpable", "subreaper", "shmget", "listener"] {
        assert_eq!(other.ask(forbidden).await, EPERM, "{forbidden}");
    }
    assert_eq!(one.ask("list /tmp").await, "mine");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_memory_bomb_ends_its_own_cell() {
    if !possible() {
        return;
    }
    let host = Host::new("cellmemory").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let neighbour = zygote.spawn().await.unwrap();
    for _ in 0..2 {
        let clone = zygote.spawn().await.unwrap();
        clone.tell("bomb memory");
        let exit = clone.sandbox.wait().await;
        assert!(exit.oom, "{exit:?}");
        assert!(exit.usage.memory_peak_bytes <= 64 << 20, "{exit:?}");
    }
    assert_eq!(neighbour.ask("write /tmp/x").await, "OK");
    let next = zygote.spawn().await.unwrap();
    next.tell("exit 0");
    assert!(!next.sandbox.wait().await.oom);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_fork_bomb_stays_in_its_cell() {
    if !possible() {
        return;
    }
    let host = Host::new("cellforks").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let neighbour = zygote.spawn().await.unwrap();
    let clone = zygote.spawn().await.unwrap();
    clone.tell("bomb fork");
    // Pid 1, the main process, the neighbour, and the bomb's sixteen.
    let group = || members(&groups("flint-cellforks-"));
    tokio::task::spawn_blocking(move || eventually("the bomb is stopped", || group().len() == 19))
        .await
        .unwrap();
    assert_eq!(neighbour.ask("run echo fine").await, "fine");
    assert_eq!(zygote.spawn().await.unwrap().ask("run echo fine").await, "fine");
    clone.sandbox.kill();
    clone.sandbox.wait().await;
    let left = members(&groups("flint-cellforks-"));
    assert!(left.len() <= 4, "{left:?}");
    assert_eq!(neighbour.ask("run echo fine").await, "fine");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn kill_ends_what_has_left_its_parent() {
    if !possible() {
        return;
    }
    let host = Host::new("celldaemons").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    for kill in [true, false] {
        let before = members(&groups("flint-celldaemons-"));
        let clone = zygote.spawn().await.unwrap();
        assert_eq!(clone.ask("daemonise").await, "OK");
        let with = members(&groups("flint-celldaemons-"));
        assert!(with.len() >= before.len() + 2, "{before:?} {with:?}");
        if kill {
            clone.sandbox.kill();
        } else {
            clone.tell("exit 0");
        }
        clone.sandbox.wait().await;
        assert!(with.iter().filter(|pid| !before.contains(pid)).all(|pid| !alive(*pid)), "{with:?}");
        assert!(before.iter().all(|pid| alive(*pid)));
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_frozen_clone_stands_still_alone() {
    if !possible() {
        return;
    }
    let host = Host::new("cellfreeze").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let (clone, neighbour) = (zygote.spawn().await.unwrap(), zygote.spawn().await.unwrap());
    clone.tell("bomb spin");
    clone.sandbox.freeze().await.unwrap();
    let before = clone.sandbox.usage().await.unwrap().cpu_us;
    assert_eq!(neighbour.ask("run echo fine").await, "fine");
    assert_eq!(clone.sandbox.usage().await.unwrap().cpu_us, before);
    clone.sandbox.kill();
    clone.sandbox.wait().await;
    assert!(matches!(clone.sandbox.usage().await, Err(Error::Ended { .. })));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn fifty_at_once() {
    if !possible() {
        return;
    }
    let host = Host::new("fifty").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let mut cells = Vec::new();
    for _ in 0..50 {
        cells.push(zygote.sandbox.cell(&cell_spec()).await.unwrap());
    }
    let mut forked = Vec::new();
    for cell in cells {
        let (pid, link) = zygote.fork(&cell).await;
        forked.push((cell, pid, link));
    }
    // All are forked before the first is admitted.
    let mut clones = Vec::new();
    for (cell, pid, link) in forked {
        let sandbox = cell.admit(pid).await.unwrap();
        clones.push(common::zygote::Clone { sandbox, link, pid });
    }
    for clone in &clones {
        assert_eq!(clone.ask("write /tmp/x").await, "OK");
    }
    for clone in &clones {
        assert_eq!(clone.ask("list /tmp").await, "x");
        clone.sandbox.kill();
    }
    for clone in &clones {
        clone.sandbox.wait().await;
        assert!(!alive(clone.pid));
    }
    assert!(zygote.spawn().await.is_ok());
    host.launcher.shutdown().await;
    assert!(groups("flint-fifty-").is_empty());
}

#[tokio::test]
async fn clones_end_with_their_zygote() {
    if !possible() {
        return;
    }
    let host = Host::new("zygotedies").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let clones = [zygote.spawn().await.unwrap(), zygote.spawn().await.unwrap()];
    let empty = zygote.sandbox.cell(&cell_spec()).await.unwrap();
    // With v1 alone, what stands still does not die.
    clones[0].sandbox.freeze().await.unwrap();
    zygote.sandbox.kill();
    zygote.sandbox.wait().await;
    for clone in &clones {
        clone.sandbox.wait().await;
        assert!(!alive(clone.pid));
    }
    assert!(matches!(empty.admit(clones[0].pid).await, Err(Error::Ended { .. })));
    assert!(matches!(zygote.sandbox.cell(&cell_spec()).await, Err(Error::Ended { .. })));
    host.launcher.shutdown().await;
    assert!(groups("flint-zygotedies-").is_empty());
}

#[tokio::test]
async fn clones_end_with_the_launcher() {
    if !possible() {
        return;
    }
    let host = Host::new("launcherdies").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let clone = zygote.spawn().await.unwrap();
    assert_eq!(clone.ask("daemonise").await, "OK");
    let pids = members(&groups("flint-launcherdies-"));
    let launcher = rustix::process::Pid::from_raw(host.launcher.pid().await.unwrap() as i32).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
    assert_eq!(clone.sandbox.wait().await.status, ExitStatus::Lost);
    eventually("they end with their launcher", || pids.iter().all(|pid| !alive(*pid)));
    drop((clone, zygote));
    // The next start sweeps.
    assert!(host.run(&common::shell("true")).await.unwrap().0.status.success());
    let state = std::fs::read_dir(host.directory.path()).unwrap();
    assert_eq!(
        state
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".json"))
            .count(),
        1
    );
    host.launcher.shutdown().await;
    assert!(groups("flint-launcherdies-").is_empty());
    assert_eq!(std::fs::read_dir(host.directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn dropped_cells_and_clones_leave_nothing() {
    if !possible() {
        return;
    }
    let host = Host::with("celldrops", |config| config.recycle_limit = 0).await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let before = groups("flint-celldrops-").len() + leaves("flint-celldrops-");
    drop(zygote.sandbox.cell(&cell_spec()).await.unwrap());
    for wait in 0..20 {
        let spec = cell_spec();
        let _ = tokio::time::timeout(Duration::from_micros(30 * wait), zygote.sandbox.cell(&spec)).await;
    }
    let clone = zygote.spawn().await.unwrap();
    drop(clone.sandbox);
    for wait in 0..10 {
        let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
        let (pid, _link) = zygote.fork(&cell).await;
        let _ = tokio::time::timeout(Duration::from_micros(30 * wait), cell.admit(pid)).await;
    }
    let count = || groups("flint-celldrops-").len() + leaves("flint-celldrops-");
    tokio::task::spawn_blocking(move || eventually("all cells are removed", || count() == before))
        .await
        .unwrap();
    host.launcher.shutdown().await;
}

/// Groups below these.
fn leaves(prefix: &str) -> usize {
    let below = |group: &std::path::PathBuf| {
        let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).count()
    };
    groups(prefix).iter().map(below).sum()
}

#[tokio::test]
async fn groups_are_used_again() {
    if !possible() {
        return;
    }
    let host = Host::new("cellagain").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let mut counts = Vec::new();
    for _ in 0..10 {
        let clone = zygote.spawn().await.unwrap();
        assert_eq!(clone.ask("list /tmp").await, "");
        assert_eq!(clone.ask("write /tmp/x").await, "OK");
        clone.tell("exit 0");
        assert!(clone.sandbox.wait().await.usage.memory_peak_bytes < 32 << 20);
        counts.push(leaves("flint-cellagain-"));
    }
    assert_eq!(counts.first(), counts.last(), "{counts:?}");
    host.launcher.shutdown().await;
}
