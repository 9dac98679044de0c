//! Start, wait, kill, freeze, connect, attach: what holders of a sandbox rely on.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::{Host, eventually, helper, shell};
use flint_sandbox::{Error, ExitStatus, Mount};

#[tokio::test]
async fn exit_codes_and_signals_arrive() {
    let host = Host::new("exits").await;
    for (script, status) in [
        ("exit 0", ExitStatus::Code(0)),
        ("exit 42", ExitStatus::Code(42)),
        ("kill -SEGV $$", ExitStatus::Signal(libc::SIGSEGV)),
        ("kill -KILL $$", ExitStatus::Signal(libc::SIGKILL)),
        ("kill -TERM $$", ExitStatus::Signal(libc::SIGTERM)),
    ] {
        for key in [None, Some("same".to_owned())] {
            let mut spec = shell(script);
            spec.recycle_key = key;
            let (exit, _) = host.run(&spec).await.unwrap();
            assert_eq!(exit.status, status, "{script}");
            assert!(!exit.oom);
        }
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_program_that_is_still_open_for_writing_is_waited_for() {
    let host = Host::new("busy").await;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("run");
    std::fs::write(&program, "#!/bin/sh\necho it runs\n").unwrap();
    for path in [folder.path(), &program] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    // As a child has it that was forked while the program was written.
    let open = std::fs::OpenOptions::new().write(true).open(&program).unwrap();
    let mut spec = shell("");
    spec.argv = vec!["/program/run".into()];
    spec.mounts.push(Mount { source: folder.path().to_owned(), target: "/program".into(), readonly: true });
    let closed = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(open);
    };
    let (ran, ()) = tokio::join!(host.run(&spec), closed);
    assert_eq!(ran.unwrap().1, "it runs\n");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn environment_directory_and_name_are_as_asked() {
    let host = Host::new("environment").await;
    let mut spec = shell("env | sort; pwd; cat /proc/self/comm; uname -n");
    spec.env = vec![("GREETING".into(), "hello world".into())];
    spec.cwd = "/function".into();
    spec.hostname = "somewhere".into();
    let (_, output) = host.run(&spec).await.unwrap();
    for line in ["GREETING=hello world", "HOME=/tmp", "/function", "somewhere"] {
        assert!(output.lines().any(|other| other == line), "{line} in {output}");
    }
    // The server's own variables stay out.
    assert!(!output.contains("CARGO"), "{output}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn kill_ends_daemons_too() {
    let host = Host::new("daemons").await;
    let (sandbox, mut reader) = host.start(&helper(&["daemonise"])).await.unwrap();
    let mut line = [0; 10];
    reader.read_exact(&mut line).unwrap();
    let groups = common::groups("flint-daemons-");
    let mut pids = Vec::new();
    if groups.is_empty() {
        println!("no cgroup on this host can list the processes; only the exit is checked");
    } else {
        eventually("pid 1, the main process and the daemon are there", || {
            pids = common::members(&groups);
            pids.len() == 3
        });
    }
    sandbox.kill();
    assert_eq!(sandbox.wait().await.status, ExitStatus::Signal(libc::SIGKILL));
    assert!(pids.iter().all(|pid| !common::alive(*pid)), "{pids:?}");
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn the_end_of_the_main_process_ends_the_rest() {
    let host = Host::new("main").await;
    let (exit, _) = host.run(&shell("sleep 600 & setsid sleep 600 & exit 3")).await.unwrap();
    assert_eq!(exit.status, ExitStatus::Code(3));
    assert!(common::members(&common::groups("flint-main-")).is_empty());
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn dropping_kills() {
    let host = Host::new("drops").await;
    let (sandbox, mut reader) = host.start(&shell("echo up; sleep 600")).await.unwrap();
    let mut line = [0; 3];
    reader.read_exact(&mut line).unwrap();
    drop(sandbox);
    // The pipe closes when its last writer inside is gone.
    assert_eq!(reader.read(&mut line).unwrap(), 0);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn abandoned_starts_leave_nothing() {
    let host = Host::new("abandoned").await;
    for wait in 0..20 {
        let spec = shell("sleep 600");
        let start = host.start(&spec);
        let _ = tokio::time::timeout(Duration::from_micros(100 * wait), start).await;
    }
    let group = || common::members(&common::groups("flint-abandoned-"));
    tokio::task::spawn_blocking(move || eventually("abandoned sandboxes end", || group().is_empty()))
        .await
        .unwrap();
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn frozen_means_standing_still() {
    let host = Host::new("freeze").await;
    let (sandbox, _reader) = host.start(&helper(&["bomb", "spin"])).await.unwrap();
    match sandbox.freeze().await {
        Ok(()) => {}
        Err(Error::Unavailable { what, remedy, .. }) => {
            println!("not checked: {what} is not available here: {remedy}");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    let before = sandbox.usage().await.unwrap().cpu_us;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(sandbox.usage().await.unwrap().cpu_us, before);
    sandbox.thaw().await.unwrap();
    while sandbox.usage().await.unwrap().cpu_us == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    sandbox.freeze().await.unwrap();
    sandbox.kill();
    assert_eq!(sandbox.wait().await.status, ExitStatus::Signal(libc::SIGKILL));
    assert!(matches!(sandbox.usage().await, Err(Error::Ended { .. })));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_port_inside_can_be_reached_by_its_holder_only() {
    let host = Host::new("ports").await;
    // The same port of the host is somebody else's.
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let script = format!(
        "import socket\ns=socket.create_server(('127.0.0.1',{port}))\nc,_=s.accept()\nc.sendall(c.recv(9)*2)"
    );
    let mut spec = shell("");
    spec.argv = vec!["/usr/bin/python3".into(), "-c".into(), script];
    let (sandbox, _reader) = host.start(&spec).await.unwrap();
    let socket = loop {
        match sandbox.connect(port).await {
            Ok(socket) => break socket,
            Err(Error::Operation { source, .. })
                if source.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    let from_outside = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert_eq!(outside.accept().unwrap().1, from_outside.local_addr().unwrap());
    let mut stream = std::net::TcpStream::from(socket);
    stream.set_nonblocking(false).unwrap();
    stream.write_all(b"ab").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "abab");
    assert!(sandbox.wait().await.status.success());
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn code_can_be_attached_later() {
    let host = Host::new("attach").await;
    let code = tempfile::tempdir().unwrap();
    std::fs::write(
        code.path().join("code.sh"),
        "echo attached; touch /function/late/x 2>/dev/null || echo readonly",
    )
    .unwrap();
    let script =
        "echo up; until [ -e /function/late/code.sh ]; do sleep 0.01; done; . /function/late/code.sh";
    let (sandbox, mut reader) = host.start(&shell(script)).await.unwrap();
    let (other, _reader) = host.start(&shell("sleep 600")).await.unwrap();
    assert!(sandbox.attach(code.path(), "/etc").await.is_err());
    assert!(sandbox.attach("/no/such".as_ref(), "/function/late").await.is_err());
    sandbox.attach(code.path(), "/function/late").await.unwrap();
    assert!(sandbox.wait().await.status.success());
    let mut output = String::new();
    reader.read_to_string(&mut output).unwrap();
    assert_eq!(output, "up\nattached\nreadonly\n");
    other.kill();
    assert!(matches!(sandbox.attach(code.path(), "/function/late").await, Err(Error::Ended { .. })));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn recycled_parts_carry_nothing_over() {
    let host = Host::new("recycled").await;
    let mut first = shell("echo x > /tmp/mine; head -c 30000000 /dev/zero > /tmp/big; sleep 600 & echo done");
    first.recycle_key = Some("tenant".into());
    let (exit, _) = host.run(&first).await.unwrap();
    let mut second = shell("ls /tmp; hostname 2>/dev/null; true");
    second.recycle_key = Some("tenant".into());
    let (again, output) = host.run(&second).await.unwrap();
    assert!(!output.contains("mine") && !output.contains("big"), "{output}");
    if exit.usage.memory_peak_bytes > 0 {
        assert!(exit.usage.memory_peak_bytes >= 30_000_000, "{exit:?}");
        assert!(again.usage.memory_peak_bytes < 30_000_000, "{again:?}");
        assert!(exit.usage.cpu_us > 0 && again.usage.cpu_us > 0);
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn many_at_once() {
    let host = Host::new("many").await;
    let runs = (0..64).map(|number| {
        let mut spec = shell(&format!("echo {number}"));
        spec.recycle_key = (number % 2 == 0).then(|| format!("key-{}", number % 6));
        let host = &host;
        async move { host.run(&spec).await.unwrap() }
    });
    let mut outputs = Vec::new();
    for run in runs.map(Box::pin).collect::<Vec<_>>() {
        outputs.push(run.await);
    }
    for (number, (exit, output)) in outputs.into_iter().enumerate() {
        assert_eq!((exit.status, output.trim()), (ExitStatus::Code(0), number.to_string().as_str()));
    }
    host.launcher.shutdown().await;
}

/// Holders may keep the handle of an ended sandbox as long as they like.
#[tokio::test]
async fn an_ended_sandbox_gives_the_launcher_nothing_to_do() {
    let host = Host::new("held").await;
    let (sandbox, _reader) = host.start(&shell("true")).await.unwrap();
    sandbox.wait().await;
    let pid = host.launcher.pid().await.unwrap();
    let mut asleep = 0;
    eventually("the launcher sleeps", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let sleeps = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'));
        asleep = if sleeps { asleep + 1 } else { 0 };
        asleep == 20
    });
    drop(sandbox);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn after_shutdown_nothing_starts() {
    let host = Host::new("over").await;
    let (sandbox, _reader) = host.start(&shell("sleep 600")).await.unwrap();
    let second = host.launcher.clone();
    host.launcher.shutdown().await;
    assert!(common::groups("flint-over-").is_empty());
    assert_eq!(sandbox.wait().await.status, ExitStatus::Lost);
    assert_eq!(std::fs::read_dir(host.directory.path()).unwrap().count(), 0);
    let (_, writer) = std::io::pipe().unwrap();
    let io = flint_sandbox::SandboxIo {
        stdin: None,
        stdout: writer.try_clone().unwrap().into(),
        stderr: writer.into(),
        link: None,
    };
    assert!(matches!(second.start(&shell("true"), io).await, Err(Error::ShutDown)));
}
