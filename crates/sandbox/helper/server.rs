//! Servers for tests that kill them, and programs that such servers run.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use flint_sandbox::{Launcher, LauncherConfig, Mount, Network, Sandbox, SandboxIo, SandboxSpec};

/// Three sandboxes with daemons in them; prints `ready LAUNCHER_PID` and waits to be killed.
pub fn serve(directory: &str, id: &str) {
    runtime().block_on(async {
        let launcher = Launcher::spawn(LauncherConfig::new(directory, id)).await.expect("a launcher");
        let mut sandboxes = Vec::new();
        for _ in 0..3 {
            sandboxes
                .push(start(&launcher, Network::None, &["/function/helper", "daemonise"], "/dev/null").await);
        }
        println!("ready {}", launcher.pid().await.expect("alive"));
        std::thread::sleep(Duration::from_secs(600));
        drop(sandboxes);
    });
}

/// One sandbox to its end; its output is this program's. `network`: `none`, `egress`, or the port of its loopback to listen on for it.
pub fn one_shot(directory: &str, network: &str, program: &[&str]) {
    let port = network.parse().ok();
    let network = if network == "egress" { Network::Egress } else { Network::None };
    let code = runtime().block_on(async {
        let launcher = Launcher::spawn(LauncherConfig::new(directory, "oneshot")).await.expect("a launcher");
        let (sandbox, listener) = match port {
            None => (start(&launcher, network, program, "/proc/self/fd/1").await, None),
            Some(port) => {
                let (spec, io) = prepare(network, program, "/proc/self/fd/1");
                let (sandbox, listener) = launcher.start_and_listen(&spec, io, port).await.expect("a start");
                (sandbox, Some(std::net::TcpListener::from(listener)))
            }
        };
        let exit = sandbox.wait().await;
        if let Some(listener) = listener {
            println!("accepted={}", listener.accept().is_ok());
        }
        println!("exit={:?} oom={}", exit.status, exit.oom);
        launcher.shutdown().await;
        i32::from(!exit.status.success())
    });
    std::process::exit(code);
}

fn prepare(network: Network, program: &[&str], output: &str) -> (SandboxSpec, SandboxIo) {
    let mut spec = SandboxSpec::new("test", program.iter().map(|word| (*word).to_owned()).collect());
    spec.network = network;
    spec.mounts.push(Mount {
        source: std::env::current_exe().expect("this program"),
        target: "/function/helper".into(),
        readonly: true,
    });
    let open = || -> OwnedFd {
        if output == "/dev/null" {
            File::create(Path::new(output)).expect("/dev/null").into()
        } else {
            std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().expect("standard output")
        }
    };
    let io = SandboxIo { stdin: None, stdout: open(), stderr: open(), link: None };
    (spec, io)
}

async fn start(launcher: &Launcher, network: Network, program: &[&str], output: &str) -> Sandbox {
    let (spec, io) = prepare(network, program, output);
    match launcher.start(&spec, io).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            println!("start failed: {error}");
            std::process::exit(3);
        }
    }
}

/// A process that has left its parent, session and group, as daemons do, beside one that stays.
pub fn daemonise() {
    fork_daemon();
    println!("daemonised");
    std::thread::sleep(Duration::from_secs(600));
}

/// Leaves a process behind that has another parent, session and group.
pub fn fork_daemon() {
    // SAFETY: the children only make a session and sleep.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            if libc::fork() == 0 {
                std::thread::sleep(Duration::from_secs(600));
            }
            libc::_exit(0);
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}
