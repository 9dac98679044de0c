//! Zygotes and forked processes that are not what they should be.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use common::zygote::{Clone, Zygote, cell_spec, spec};
use common::{Host, alive, eventually, groups, members};
use flint_sandbox::{Error, Result, SealSpec};

/// Whether this host has cgroups for cells; says so when not.
async fn host(id: &str) -> Option<Host> {
    if !common::has("fork-call-wall") {
        return None;
    }
    Some(Host::new(id).await)
}

/// What a refusal says.
fn refusal(result: Result<impl std::fmt::Debug>) -> String {
    match result {
        Err(Error::Tampered { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_in_the_way_of_forking_is_named() {
    let Some(host) = host("reasons").await else { return };
    for (mode, reason) in [
        ("shared-memory", "writable shared memory"),
        ("hidden-memory", "shared memory that can be made writable"),
        ("thread", "1 threads are running besides the main one"),
        ("child", "a child process is running"),
        ("orphan", "a child process is running"),
        ("socket", "a TCP socket is open (fd 4): close it in beforeSnapshot"),
        ("file", "/log, for writing, is open (fd 4): close it in beforeSnapshot"),
        ("pipe", "a pipe is open (fd 4)"),
        ("timer", "POSIX timers are set (1)"),
        ("many-mappings", "1024 shared mappings or more"),
        ("many-devices", "descriptors are open, more than the 256"),
        ("dumpable", "the process is dumpable"),
    ] {
        let reasons = Zygote::reasons(&host, mode).await;
        assert!(reasons.contains(reason) && reasons.lines().count() == 1, "{mode}: {reasons}");
    }
    host.launcher.shutdown().await;
}

/// The launcher's answer is one message: what does not fit would end it, and every sandbox with it.
#[tokio::test]
async fn what_a_zygote_is_full_of_is_told_in_part() {
    let Some(host) = host("full").await else { return };
    let (bystander, _reader) = host.start(&common::shell("sleep 600")).await.unwrap();
    let reasons = Zygote::reasons(&host, "many-files").await;
    assert!(reasons.lines().count() < 10 && reasons.len() < 10_000, "{}: {reasons}", reasons.len());
    let zygote = Zygote::start(&host, &spec("much-code")).await;
    let code = zygote.sandbox.seal(&SealSpec::default()).await.unwrap().native_code;
    assert_eq!((code.len(), code.last().unwrap().as_str()), (65, "and 37 more"));
    assert!(code.iter().all(|file| file.len() <= 256), "{code:?}");
    assert!(zygote.spawn().await.is_ok() && bystander.exited().is_none());
    host.launcher.shutdown().await;
}

/// Its group has room for forks beyond the limit of the function, and user code has run in it.
#[tokio::test]
async fn a_sealed_zygote_does_not_get_the_hosts_memory() {
    let Some(host) = host("hoard").await else { return };
    let zygote = Zygote::sealed(&host, "hoard").await;
    let _ = zygote.spawn().await;
    // It would be stopped on the way, if no fork were wanted.
    let next = zygote.sandbox.cell(&cell_spec()).await;
    if let Ok(next) = &next {
        next.expect().await.unwrap();
    }
    let exit = zygote.sandbox.wait().await;
    assert!(exit.oom, "{exit:?}");
    assert!(exit.usage.memory_peak_bytes < 1 << 30, "{exit:?}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn what_the_runtime_needs_is_no_reason() {
    let Some(host) = host("expected").await else { return };
    let named = |name: &str| SealSpec {
        extra_threads: 1,
        thread_names: vec![name.to_owned()],
        ..SealSpec::default()
    };
    let zygote = Zygote::start(&host, &spec("thread")).await;
    assert!(zygote.sandbox.seal(&named("other")).await.is_err());
    assert_eq!(zygote.sandbox.seal(&named("helper")).await.unwrap().threads, 2);
    assert!(zygote.spawn().await.is_ok());
    let zygote = Zygote::start(&host, &spec("socket")).await;
    let socket = SealSpec { descriptors: vec![4], ..SealSpec::default() };
    zygote.sandbox.seal(&socket).await.unwrap();
    assert!(zygote.spawn().await.is_ok());
    assert!(Zygote::sealed(&host, "opens-few").await.spawn().await.is_ok());
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_changed_zygote_is_noticed() {
    let Some(host) = host("changed").await else { return };
    for (mode, reason) in [
        ("late-shared-memory", "it has writable shared memory"),
        ("late-hidden-memory", "shared memory that can be made writable"),
        ("late-many-mappings", "more shared mappings than are looked at"),
        ("late-thread", "threads have changed"),
        ("late-orphan", "not the zygote's child is left"),
        ("late-socket", "no longer belongs to a fork under way: socket:["),
        ("late-file", "(/log)"),
        ("keep-link", "its zygote has a copy of its descriptor"),
        ("shared-pipe", "its zygote has a copy of its descriptor"),
    ] {
        let zygote = Zygote::sealed(&host, mode).await;
        let mut result = zygote.spawn().await;
        // What may be a fork under way is only known not to be one when it does not go away.
        for _ in 0..600 {
            if result.is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            result = zygote.spawn().await;
        }
        let what = refusal(result.map(|clone: Clone| clone.pid));
        assert!(what.contains(reason), "{mode}: {what}");
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_child_that_nobody_asked_for_is_noticed() {
    let Some(host) = host("child").await else { return };
    let zygote = Zygote::sealed(&host, "late-child").await;
    let what = refusal(zygote.spawn().await.map(|clone| clone.pid));
    // It was forked when the zygote held the first clone's link.
    assert!(
        what.contains("another process of the zygote has a copy") || what.contains("besides those asked for"),
        "{what}"
    );
    host.launcher.shutdown().await;
}

/// Places that are kept ready are no forks that were asked for.
#[tokio::test]
async fn a_child_beside_places_that_wait_is_noticed() {
    let Some(host) = host("spare").await else { return };
    let zygote = Zygote::sealed(&host, "late-alarm").await;
    let clone = zygote.spawn().await.unwrap();
    let spare = [zygote.sandbox.cell(&cell_spec()).await, zygote.sandbox.cell(&cell_spec()).await];
    // Its pid 1, itself, the child, the clone.
    eventually("the zygote has forked", || members(&groups("flint-spare-")).len() == 4);
    let what = refusal(zygote.spawn().await.map(|clone| clone.pid));
    assert!(what.contains("1 processes besides those asked for"), "{what}");
    assert!(spare.iter().all(Result::is_ok) && clone.sandbox.exited().is_none());
    host.launcher.shutdown().await;
}

/// Looking at each of them again and again would keep the launcher from its other work.
#[tokio::test]
async fn children_in_numbers_are_not_waited_for() {
    let Some(host) = host("swarm").await else { return };
    let zygote = Zygote::sealed(&host, "late-swarm").await;
    let what = refusal(zygote.spawn().await.map(|clone| clone.pid));
    assert!(what.contains("20 processes besides those asked for"), "{what}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_zygote_runs_nothing_when_no_fork_is_wanted() {
    let Some(host) = host("between").await else { return };
    let zygote = Zygote::sealed(&host, "unlocked").await;
    let clone = zygote.spawn().await.unwrap();
    clone.tell("wake 2");
    let what = found_between_forks(&zygote).await;
    assert!(what.contains("a process of it has woken it"), "{what}");
    assert_eq!(clone.sandbox.wait().await.tampered, None);
    host.launcher.shutdown().await;
}

/// What it was ended for while nobody forked it.
async fn found_between_forks(zygote: &Zygote) -> String {
    let exit = tokio::time::timeout(std::time::Duration::from_secs(60), zygote.sandbox.wait()).await;
    exit.expect("it lives on").tampered.unwrap_or_default()
}

/// It may be left of a fork that took too long, when a call is still served by a clone of the same zygote.
#[tokio::test]
async fn what_a_zygote_forks_by_itself_ends_alone_the_first_time() {
    let Some(host) = host("strays").await else { return };
    let zygote = Zygote::sealed(&host, "ever-alarm").await;
    let clone = zygote.spawn().await.unwrap();
    // Its pid 1, itself, the clone, what it forks.
    let count = || members(&groups("flint-strays-")).len();
    eventually("the zygote has forked", || count() == 4);
    eventually("that process is killed", || count() == 3);
    assert_eq!(clone.ask("run echo fine").await, "fine");
    let next = zygote.spawn().await.unwrap();
    let what = found_between_forks(&zygote).await;
    assert!(what.contains("1 processes that nobody asked for"), "{what}");
    for clone in [clone, next] {
        assert_eq!(clone.sandbox.wait().await.tampered, None);
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_clone_that_is_no_plain_fork_is_refused() {
    let Some(host) = host("noplain").await else { return };
    for (mode, reason) in [
        ("stepchild", "is not a child of the zygote"),
        ("two-threads", "it has 2 threads"),
        ("share-memory", "it shares its memory with its zygote"),
        ("share-directory", "it shares its working directory with its zygote"),
        ("stay-in-tmp", "working directory is in the /tmp of another process"),
        ("keep-tmp", "it has the /tmp of another process"),
        ("extra-socket", "it has a socket besides its link"),
        ("input-socket", "it has a socket besides its link"),
        ("open-file", "it has a file for writing"),
        ("no-tmp", "descriptor 200 is not the tmpfs of its cell"),
        ("opens-many", "it has opened 64 descriptors or more"),
    ] {
        let zygote = Zygote::sealed(&host, mode).await;
        let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
        let (pid, _link) = zygote.fork(&cell).await;
        let what = refusal(cell.admit(pid).await);
        assert!(what.contains(reason), "{mode}: {what}");
        eventually("the refused process is killed", || !alive(pid));
        assert!(zygote.sandbox.exited().is_none());
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn other_processes_are_refused_and_left_alone() {
    let Some(host) = host("others").await else { return };
    let zygote = Zygote::sealed(&host, "honest").await;
    let clone = zygote.spawn().await.unwrap();
    let other = Zygote::sealed(&host, "honest").await;
    let elsewhere = other.spawn().await.unwrap();
    let mut child = std::process::Command::new("/bin/sleep").arg("600").spawn().unwrap();
    let launcher = host.launcher.pid().await.unwrap();
    for pid in [child.id(), std::process::id(), launcher, 1, elsewhere.pid] {
        let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
        let what = refusal(cell.admit(pid).await);
        assert!(what.contains("is not a child of the zygote"), "{what}");
        assert!(alive(pid), "{pid}");
    }
    // The zygote itself, and pid 1 of its sandbox.
    for pid in members(&groups("flint-others-")) {
        if pid != clone.pid && pid != elsewhere.pid {
            let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
            refusal(cell.admit(pid).await);
            assert!(alive(pid), "{pid}");
        }
    }
    let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
    assert!(matches!(cell.admit(4_000_000).await, Err(Error::Ended { .. })));
    assert_eq!(clone.ask("run echo fine").await, "fine");
    // A clone that lives elsewhere already is not let in twice.
    let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
    let what = refusal(cell.admit(clone.pid).await);
    assert!(what.contains("the /tmp of another process"), "{what}");
    child.kill().unwrap();
    child.wait().unwrap();
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn only_sealed_zygotes_have_clones() {
    let Some(host) = host("unsealed").await else { return };
    let zygote = Zygote::start(&host, &spec("honest")).await;
    let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
    let (pid, _link) = zygote.fork(&cell).await;
    let what = refusal(cell.admit(pid).await);
    assert!(what.contains("never sealed"), "{what}");
    let (plain, _reader) = host.start(&common::shell("sleep 600")).await.unwrap();
    assert!(matches!(plain.cell(&cell_spec()).await, Err(Error::InvalidSpec { .. })));
    assert!(matches!(plain.seal(&SealSpec::default()).await, Err(Error::InvalidSpec { .. })));
    host.launcher.shutdown().await;
}

/// Without a Landlock domain, what is left of the wall is that nobody can be inspected.
#[tokio::test]
async fn a_clone_without_its_domain_still_cannot_look_into_others() {
    let Some(host) = host("unlocked").await else { return };
    let zygote = Zygote::sealed(&host, "unlocked").await;
    let (one, other) = (zygote.spawn().await.unwrap(), zygote.spawn().await.unwrap());
    let victim = one.ask("pid").await;
    for process in [victim.as_str(), "2"] {
        assert_ne!(other.ask(&format!("ptrace {process}")).await, "OK");
        for file in ["mem", "fd/3", "cwd/x", "environ"] {
            assert_ne!(other.ask(&format!("read /proc/{process}/{file}")).await, "OK");
        }
    }
    host.launcher.shutdown().await;
}
