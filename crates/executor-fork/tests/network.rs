//! What happens before the snapshot reaches nothing; its clones do. In network namespaces made for it: no real address is used.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::process::{Child, Command, Stdio};

use flint_executor_fork::ForkConfig;
use flint_model::Network;
use serde_json::json;
use support::{House, adjusted, handler, warmed};

const INSIDE: &str = "FLINT_TEST_HAS_NETWORK";

const CODE: &str = r#"
import socket

def reach():
    with socket.socket() as attempt:
        attempt.settimeout(5)
        try:
            attempt.connect(("203.0.113.1", 80))
            return True
        except OSError:
            return False

reached = [reach()]

def main(params):
    reached.append(reach())
    return {"reached": reached}
"#;

/// Ends with its owner.
struct Internet(Child);

impl Internet {
    /// Beyond a link of this network namespace: one server.
    fn new() -> Self {
        let script = "import socket, sys\nsys.stdin.readline()\nserver = socket.create_server(('203.0.113.1', 80))\nprint('up', flush=True)\nwhile True: server.accept()[0].close()";
        let mut child = Command::new("unshare")
            .args(["--net", "python3", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // `unshare` becomes Python in its new namespace, so its process id is the one to move the link to.
        let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
        while std::fs::read_link(format!("/proc/{}/ns/net", child.id())).unwrap() == ours {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let pid = child.id();
        sh(&format!(
            "ip link set lo up && ip link add up0 type veth peer name isp0 && ip link set isp0 netns {pid} && ip link set up0 up && \
             ip addr add 203.0.113.2/24 dev up0 && ip route add default via 203.0.113.1 && \
             nsenter --net=/proc/{pid}/ns/net sh -ec 'ip link set lo up; ip link set isp0 up; ip addr add 203.0.113.1/24 dev isp0'"
        ));
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        let mut said = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(&said, b"up\n");
        Self(child)
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sh(script: &str) {
    let output = Command::new("/bin/sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs this test again in a network namespace of its own; whether this is that run.
fn in_a_network_of_its_own(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let egress = flint_sandbox::probe(0).into_iter().find(|probe| probe.name == "rights").unwrap();
    let tools = ["nft", "ip"].iter().all(|name| std::path::Path::new("/usr/sbin").join(name).exists());
    if egress.state != flint_sandbox::ProbeState::Available || !tools {
        println!("not checked: it takes root and the commands nft and ip");
        return false;
    }
    let output = Command::new("unshare")
        .arg("--net")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_clones_reach_the_network() {
    if !in_a_network_of_its_own("only_clones_reach_the_network") {
        return;
    }
    let internet = Internet::new();
    let house = House::with(ForkConfig::default()).await;
    let source = |network_before| {
        adjusted(warmed(handler("python:default", CODE), &["{}"]), |function| {
            function.network = Network::Egress;
            function.snapshot.warmup_network = network_before;
        })
    };
    for allowed in [false, true] {
        let prepared = house.prepare(source(allowed)).await;
        assert_eq!(prepared.fallback, None);
        let answer = house.answer_of(&prepared, "{}").await;
        let reached = answer["reached"].as_array().unwrap();
        let (call, before) = reached.split_last().unwrap();
        assert_eq!(*call, json!(true), "{answer}");
        assert!(before.len() >= 2 && before.iter().all(|one| *one == json!(allowed)), "{answer}");
    }
    let needy = "import urllib.request\nurllib.request.urlopen('http://203.0.113.1/', timeout=5)\ndef main(params): return {}\n";
    let needy = adjusted(handler("python:default", needy), |function| function.network = Network::Egress);
    let why = house.prepare(needy).await.fallback.clone().unwrap_or_default();
    assert!(why.contains("no network") && why.contains("--warmup-network"), "{why}");
    house.end().await;
    drop(internet);
}
