//! Whoever is killed: nothing stays behind.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{Host, alive, eventually, groups, members};
use flint_sandbox::{ExitStatus, sweep};

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// A server process with three sandboxes of three processes each.
struct Server {
    child: Child,
    launcher: u32,
    pids: Vec<u32>,
    prefix: String,
}

impl Server {
    fn new(directory: &std::path::Path, id: &str) -> Self {
        let mut child = Command::new(common::HELPER)
            .arg("serve")
            .arg(directory)
            .arg(id)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let launcher = line.trim().strip_prefix("ready ").expect("ready").parse().unwrap();
        let mut server = Self { child, launcher, pids: Vec::new(), prefix: format!("flint-{id}-{launcher}") };
        if groups(&server.prefix).is_empty() {
            println!("no cgroup on this host can list the processes; only launcher and files are checked");
        } else {
            // Pid 1, the main process, and a daemon that has left it, in each; no helper on its way any more.
            eventually("daemons run", || {
                server.pids = members(&groups(&server.prefix));
                server.pids.len() == 9
            });
        }
        server
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_killed_server_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::new(directory.path(), "killedserver");
    server.kill();
    eventually("the launcher ends", || !alive(server.launcher));
    eventually("the sandboxes end with it", || server.pids.iter().all(|pid| !alive(*pid)));
    assert!(groups(&server.prefix).is_empty());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("flint-root"));
}

#[test]
fn when_both_are_killed_the_sweep_removes_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::new(directory.path(), "bothkilled");
    assert_eq!(sweep(directory.path()), flint_sandbox::SweepReport::default(), "a living server is let be");
    kill(server.launcher);
    server.kill();
    eventually("the sandboxes end with their launcher", || server.pids.iter().all(|pid| !alive(*pid)));
    let report = sweep(directory.path());
    assert_eq!(report.launchers, 1, "{report:?}");
    assert!(report.problems.is_empty(), "{report:?}");
    assert!(groups(&server.prefix).is_empty());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(sweep(directory.path()), flint_sandbox::SweepReport::default());
}

#[tokio::test]
async fn a_killed_launcher_is_replaced() {
    let host = Host::new("killedlauncher").await;
    let (sandbox, _reader) = host.start(&common::helper(&["daemonise"])).await.unwrap();
    let pids = members(&groups("flint-killedlauncher-"));
    let launcher = host.launcher.pid().await.unwrap();
    kill(launcher);
    assert_eq!(sandbox.wait().await.status, ExitStatus::Lost);
    eventually("the sandboxes end with their launcher", || pids.iter().all(|pid| !alive(*pid)));
    let (exit, output) = host.run(&common::shell("echo again")).await.unwrap();
    assert_eq!((exit.status, output.as_str()), (ExitStatus::Code(0), "again\n"));
    assert_ne!(host.launcher.pid().await, Some(launcher));
    host.launcher.shutdown().await;
    assert!(groups("flint-killedlauncher-").is_empty());
}

#[tokio::test]
async fn after_a_killed_launcher_the_shutdown_leaves_nothing() {
    let host = Host::new("killedatend").await;
    let (_sandbox, _reader) = host.start(&common::helper(&["daemonise"])).await.unwrap();
    let pids = members(&groups("flint-killedatend-"));
    kill(host.launcher.pid().await.unwrap());
    host.launcher.shutdown().await;
    assert!(groups("flint-killedatend-").is_empty());
    eventually("the sandboxes end", || pids.iter().all(|pid| !alive(*pid)));
    assert_eq!(std::fs::read_dir(host.directory.path()).unwrap().count(), 0);
}

#[test]
fn what_could_not_be_removed_is_known_to_the_next_sweep() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::new(directory.path(), "triedagain");
    let state = directory.path().join(format!("launcher-{}.json", server.launcher));
    kill(server.launcher);
    server.kill();
    eventually("the launcher ends", || !alive(server.launcher));
    // A directory with a file in it stands for a group that cannot be removed.
    let stubborn = tempfile::tempdir().unwrap();
    let file = stubborn.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut text: serde_json::Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    text["cgroups"].as_array_mut().unwrap().push(stubborn.path().to_str().unwrap().into());
    std::fs::write(&state, text.to_string()).unwrap();
    let report = sweep(directory.path());
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(groups(&server.prefix).is_empty() && state.exists());
    std::fs::remove_file(file).unwrap();
    let report = sweep(directory.path());
    assert!(report.problems.is_empty() && report.launchers == 1, "{report:?}");
    assert!(!stubborn.path().exists());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Ctrl-C goes to the whole foreground group; the launcher's end is the server's business.
#[tokio::test]
async fn terminal_signals_do_not_reach_the_launcher() {
    let host = Host::new("terminal").await;
    let launcher = rustix::process::Pid::from_raw(host.launcher.pid().await.unwrap() as i32).unwrap();
    assert_eq!(rustix::process::getsid(Some(launcher)).unwrap(), launcher);
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP]
    {
        rustix::process::kill_process(launcher, signal).unwrap();
    }
    assert!(host.run(&common::shell("true")).await.unwrap().0.status.success());
    host.launcher.shutdown().await;
}
