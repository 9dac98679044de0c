//! Sockets that listen inside of a sandbox for somebody outside.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use common::{Host, eventually, findings, helper};
use flint_sandbox::{Error, Sandbox, SandboxIo, SandboxSpec};

const PORT: u16 = 3233;

/// Starts `spec`; gives the sandbox, what listens in it, and its output.
async fn start(host: &Host, spec: &SandboxSpec) -> (Sandbox, TcpListener, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let stderr: OwnedFd = writer.try_clone().unwrap().into();
    let io = SandboxIo { stdin: None, stdout: writer.into(), stderr, link: None };
    let (sandbox, listener) = host.launcher.start_and_listen(spec, io, PORT).await.unwrap();
    (sandbox, listener.into(), reader)
}

/// What the program in a sandbox said until its end.
async fn said(sandbox: &Sandbox, mut reader: std::io::PipeReader) -> String {
    let exit = sandbox.wait().await;
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(exit.status.success(), "{exit:?}: {text}");
    text
}

fn python(script: &str) -> SandboxSpec {
    let mut spec = common::shell("");
    spec.argv = ["/usr/bin/python3", "-c", script].map(str::to_owned).to_vec();
    spec
}

fn connecting() -> SandboxSpec {
    helper(&["intrude", "connect:127.0.0.1:3233"])
}

const FOUND: &str = "connect:127.0.0.1:3233";

#[tokio::test]
async fn who_connects_inside_is_accepted_outside_and_nobody_else_is() {
    let host = Host::new("listen").await;
    let (sandbox, listener, reader) = start(&host, &connecting()).await;
    assert_eq!(findings(&said(&sandbox, reader).await)[FOUND], "OK");
    assert_eq!(listener.local_addr().unwrap().to_string(), "127.0.0.1:3233");
    assert!(listener.accept().is_ok());
    // From another sandbox, and from this host, it is not to be seen.
    let refused = libc::ECONNREFUSED.to_string();
    let (_, output) = host.run(&connecting()).await.unwrap();
    assert_eq!(findings(&output)[FOUND], refused);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn nothing_inside_can_take_the_port() {
    let host = Host::new("listentaken").await;
    let script = r#"
import socket
for address in ("127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"):
    for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as taker:
            if option: taker.setsockopt(socket.SOL_SOCKET, option, 1)
            if ":" in address: taker.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            try:
                taker.bind((address, 3233))
                taker.listen()
                print(address, option, "taken")
            except OSError as error:
                print(address, option, "refused", error.errno)
"#;
    let (sandbox, listener, reader) = start(&host, &python(script)).await;
    let text = said(&sandbox, reader).await;
    assert_eq!(text.matches("refused").count(), 12, "{text}");
    drop(listener);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn the_next_sandbox_of_the_same_key_has_another_network() {
    let host = Host::new("listennext").await;
    let mut spec = connecting();
    spec.recycle_key = Some("one function".into());
    let (first, old, reader) = start(&host, &spec).await;
    assert_eq!(findings(&said(&first, reader).await)[FOUND], "OK");
    old.accept().unwrap();
    // Whoever holds the first one's socket hears nothing of the second, which has its own.
    let (second, own, reader) = start(&host, &spec).await;
    assert_eq!(findings(&said(&second, reader).await)[FOUND], "OK");
    own.accept().unwrap();
    assert_eq!(old.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    // And one without does not find that of the second.
    let (_, output) = host.run(&spec).await.unwrap();
    assert_eq!(findings(&output)[FOUND], libc::ECONNREFUSED.to_string());
    assert_eq!(own.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn a_sandbox_that_runs_can_be_listened_in_too() {
    let host = Host::new("listenlater").await;
    let mut spec = common::shell("read line; exec /function/helper intrude connect:127.0.0.1:3233");
    spec.mounts = connecting().mounts;
    let (input, go) = std::io::pipe().unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let stderr: OwnedFd = writer.try_clone().unwrap().into();
    let io = SandboxIo { stdin: Some(input.into()), stdout: writer.into(), stderr, link: None };
    let sandbox = host.launcher.start(&spec, io).await.unwrap();
    let listener: TcpListener = sandbox.listen(PORT).await.unwrap().into();
    let taken = sandbox.listen(PORT).await.unwrap_err();
    assert!(
        matches!(&taken, Error::Operation { source, .. } if source.kind() == ErrorKind::AddrInUse),
        "{taken}"
    );
    let end = sandbox.end();
    assert!(tokio::time::timeout(Duration::ZERO, sandbox.end()).await.is_err(), "it runs");
    std::io::Write::write_all(&mut &go, b"\n").unwrap();
    sandbox.wait().await;
    end.await;
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(findings(&text)[FOUND], "OK");
    listener.accept().unwrap();
    assert!(matches!(sandbox.listen(PORT).await, Err(Error::Ended { .. })));
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn the_launcher_keeps_no_copy_of_the_socket() {
    let host = Host::new("listencopy").await;
    let launcher = host.launcher.pid().await.unwrap();
    let sockets = move || {
        let entries = std::fs::read_dir(format!("/proc/{launcher}/fd")).unwrap().flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let before = sockets();
    let (sandbox, listener, _reader) = start(&host, &common::shell("sleep 600")).await;
    tokio::task::spawn_blocking(move || {
        eventually("the server alone holds the socket", || sockets() == before);
    })
    .await
    .unwrap();
    drop(listener);
    // Without a holder there is nobody to connect to, although the sandbox goes on. A process that another test of this
    // program starts meanwhile holds a copy until it has become its program.
    let deadline = Instant::now() + Duration::from_secs(60);
    let refused = loop {
        match sandbox.connect(PORT).await {
            Err(refused) => break refused,
            Ok(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(10)).await,
            Ok(_) => panic!("somebody holds the socket still"),
        }
    };
    assert!(
        matches!(&refused, Error::Operation { source, .. } if source.kind() == ErrorKind::ConnectionRefused),
        "{refused}"
    );
    drop(sandbox);
    host.launcher.shutdown().await;
}
