//! No descriptor is left in the server or in the launcher: what needs one fails, and everything else goes on.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::Read;

use common::zygote::{Zygote, cell_spec};
use common::{Host, shell};
use flint_sandbox::{Error, ExitStatus, Sandbox, SandboxIo, SandboxSpec};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use tokio::sync::Mutex;

/// Limits are a process's, and so all tests'.
static ALONE: Mutex<()> = Mutex::const_new(());

/// As many descriptors as this process has in these tests when it is full.
const FULL: u64 = 256;

/// A table whose numbers below [`FULL`] are all taken. What is opened beyond the limit, while it is lifted, frees none of them when it is closed.
struct Table {
    taken: Vec<File>,
}

impl Table {
    fn fill() -> Self {
        limit(FULL);
        let taken = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        lift();
        Self { taken }
    }
}

fn limit(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
}

fn lift() {
    limit(getrlimit(Resource::Nofile).maximum.unwrap_or(4096));
}

fn can_fork() -> bool {
    common::has("fork-call-wall")
}

/// Streams for a sandbox, and the end of its output.
fn streams() -> (SandboxIo, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let stderr = writer.try_clone().unwrap().into();
    (SandboxIo { stdin: None, stdout: writer.into(), stderr, link: None }, reader)
}

fn sleeping() -> SandboxSpec {
    shell("exec sleep 600")
}

#[track_caller]
fn is_out_of_descriptors<T: std::fmt::Debug>(whose: &str, result: flint_sandbox::Result<T>) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::OutOfDescriptors { process, .. } if process == whose), "{error:?}");
    assert!(error.to_string().contains("ulimit -n"), "{error}");
}

/// It ended because it was killed, and not with its launcher.
async fn is_well(host: &Host, sandbox: Sandbox) {
    assert_eq!(sandbox.exited(), None);
    sandbox.usage().await.unwrap();
    assert_eq!(host.run(&shell("echo on")).await.unwrap().1, "on\n");
    sandbox.kill();
    assert_eq!(sandbox.wait().await.status, ExitStatus::Signal(libc::SIGKILL));
}

#[tokio::test]
async fn a_server_without_descriptors_loses_what_it_cannot_hold_and_nothing_else() {
    let _alone = ALONE.lock().await;
    let host = Host::new("fullserver").await;
    let launcher = host.launcher.pid().await;
    let (living, _output) = host.start(&sleeping()).await.unwrap();
    let mut table = Table::fill();

    // Its pid 1 finds no room.
    let (io, mut output) = streams();
    limit(FULL);
    is_out_of_descriptors("the server", host.launcher.start(&sleeping(), io).await);
    // What had come up is ended: nobody has its output any more.
    tokio::task::spawn_blocking(move || output.read_to_end(&mut Vec::new())).await.unwrap().unwrap();

    // Its pid 1 does, its socket does not; the room is free again afterwards.
    lift();
    let (io, mut output) = streams();
    limit(FULL);
    table.taken.pop();
    is_out_of_descriptors("the server", host.launcher.start_and_listen(&sleeping(), io, 3233).await);
    tokio::task::spawn_blocking(move || output.read_to_end(&mut Vec::new())).await.unwrap().unwrap();
    table.taken.push(File::open("/dev/null").unwrap());

    is_out_of_descriptors("the server", living.listen(3233).await);
    drop(table);
    lift();
    is_well(&host, living).await;
    assert_eq!(host.launcher.pid().await, launcher, "the launcher has never ended");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_server_without_descriptors_keeps_its_zygotes() {
    let _alone = ALONE.lock().await;
    if !can_fork() {
        return;
    }
    let host = Host::new("fullforks").await;
    let zygote = Zygote::sealed(&host, "honest").await;
    let living = zygote.spawn().await.unwrap();
    let table = Table::fill();
    let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
    let (pid, _link) = zygote.fork(&cell).await;
    limit(FULL);
    is_out_of_descriptors("the server", cell.admit(pid).await);
    common::eventually("the clone that could not be had is ended", || !common::alive(pid));
    is_out_of_descriptors("the server", zygote.sandbox.cell(&cell_spec()).await);
    drop(table);
    lift();
    zygote.spawn().await.unwrap();
    is_well(&host, living.sandbox).await;
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_launcher_without_descriptors_starts_nothing_and_ends_nothing() {
    let _alone = ALONE.lock().await;
    let host = Host::new("fulllauncher").await;
    let launcher = host.launcher.pid().await.unwrap();
    let limit = |files: Option<u64>| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let new = Rlimit { current: files.or(maximum), maximum };
        prlimit(Pid::from_raw(launcher as i32), Resource::Nofile, new).unwrap();
    };
    let (living, _output) = host.start(&sleeping()).await.unwrap();
    limit(Some(1));
    is_out_of_descriptors("the sandbox launcher", host.start(&sleeping()).await);
    limit(None);
    if can_fork() {
        let zygote = Zygote::sealed(&host, "honest").await;
        let clone = zygote.spawn().await.unwrap();
        let cell = zygote.sandbox.cell(&cell_spec()).await.unwrap();
        let (pid, link) = zygote.fork(&cell).await;
        limit(Some(1));
        let error = cell.admit(pid).await.unwrap_err();
        // It has done nothing wrong, and its zygote even less.
        assert!(
            matches!(&error, Error::Setup { source, .. } if source.raw_os_error() == Some(libc::EMFILE)),
            "{error:?}"
        );
        limit(None);
        // Whose link ends, ends, too: an honest clone.
        drop(link);
        zygote.spawn().await.unwrap();
        assert_eq!(clone.sandbox.exited(), None);
    }
    is_well(&host, living).await;
    assert_eq!(host.launcher.pid().await, Some(launcher));
    host.launcher.shutdown().await;
}
