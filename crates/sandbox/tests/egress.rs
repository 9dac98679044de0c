//! The way out: where it leads, and where not. A host and an internet of network namespaces are made for it; no real address is used.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use common::findings;
use flint_sandbox::ProbeState;
use rustix::thread::UnshareFlags;

/// What listens in the internet beyond the host: a public address, private and link-local ones, and the host's neighbour.
const ADDRESSES: [&str; 5] = ["203.0.113.1", "198.51.100.7", "10.9.9.9", "192.168.7.7", "169.254.169.254"];

fn sh(script: &str) {
    let output = Command::new("/bin/sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs `inside` on a thread in a "host" network namespace whose default route leads to an "internet" with listeners on port 80.
fn with_internet<T: Send>(inside: impl FnOnce() -> T + Send) -> Option<T> {
    let probe = flint_sandbox::probe(0).into_iter().find(|probe| probe.name == "rights").unwrap();
    let tools = ["/usr/sbin/nft", "/usr/sbin/ip"].iter().all(|path| std::path::Path::new(path).exists());
    if probe.state != ProbeState::Available || !tools {
        println!("not checked: it takes root and the commands nft and ip");
        return None;
    }
    std::thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let (over, is_over) = mpsc::channel::<()>();
        let (host_is, host) = mpsc::channel::<u32>();
        scope.spawn(move || {
            unshare_net();
            let tid = host.recv().unwrap();
            sh(&format!("ip link add up0 type veth peer name isp0 && ip link set up0 netns {tid} && ip link set lo up && ip link set isp0 up"));
            sh(&ADDRESSES.map(|address| format!("ip addr add {address}/24 dev isp0")).join(" && "));
            sh("ip route add 172.30.0.0/24 via 203.0.113.2");
            let listeners: Vec<TcpListener> =
                ADDRESSES.iter().map(|address| TcpListener::bind((*address, 80)).unwrap()).collect();
            let datagrams = UdpSocket::bind(("203.0.113.1", 7777)).unwrap();
            datagrams.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            ready.send(()).unwrap();
            let mut first = None;
            while is_over.try_recv() == Err(mpsc::TryRecvError::Empty) {
                // Whoever was the first to say something hears whenever another does.
                if let Ok((_, sender)) = datagrams.recv_from(&mut [0; 16]) {
                    let first = *first.get_or_insert(sender);
                    if first != sender {
                        datagrams.send_to(b"unasked", first).unwrap();
                    }
                }
            }
            drop(listeners);
        });
        let result = scope.spawn(move || {
            unshare_net();
            host_is.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            is_ready.recv().unwrap();
            sh("ip link set lo up && ip link set up0 up && ip addr add 203.0.113.2/24 dev up0 && ip addr add 198.51.100.99/32 dev lo && \
                ip route add default via 203.0.113.1");
            let listener = TcpListener::bind("0.0.0.0:81").unwrap();
            let result = inside();
            drop((listener, over));
            result
        });
        Some(result.join().unwrap())
    })
}

fn unshare_net() {
    // SAFETY: unsafe only for CLONE_FILES, which is not asked for.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
}

/// Tries connections from a sandbox with a way out.
fn intrude(directory: &std::path::Path, arguments: &[&str]) -> HashMap<String, String> {
    let output = Command::new(common::HELPER)
        .arg("one-shot")
        .arg(directory)
        .args(["egress", common::INSIDE, "intrude"])
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    findings(&text)
}

#[test]
fn public_addresses_only() {
    with_internet(|| {
        let directory = tempfile::tempdir().unwrap();
        let allowed = ["connect:203.0.113.1:80", "connect:198.51.100.7:80"];
        let forbidden = [
            // Private and link-local networks beyond the host.
            "connect:10.9.9.9:80",
            "connect:192.168.7.7:80",
            "connect:169.254.169.254:80",
            // The host itself: its public and other addresses, the gateway, loopback.
            "connect:203.0.113.2:81",
            "connect:198.51.100.99:81",
            "connect:198.18.0.1:81",
            "connect:127.0.0.1:81",
        ];
        let found = intrude(directory.path(), &[&allowed[..], &forbidden[..]].concat());
        for name in allowed {
            assert_eq!(found[name], "OK", "{name}");
        }
        for name in forbidden {
            assert_ne!(found[name], "OK", "{name}");
        }
        assert_as_it_was();
    });
}

/// A server of its own, in the calling thread's network.
async fn server(id: &str) -> common::Host {
    common::Host::with(id, |config| config.dns = vec!["192.0.2.53".parse().unwrap()]).await
}

/// A sandbox that answers, and where.
async fn listen(host: &common::Host) -> (flint_sandbox::Sandbox, String) {
    let script = "import socket\nu=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nu.connect(('203.0.113.1',9))\n\
        s=socket.create_server(('0.0.0.0',8080))\nprint(u.getsockname()[0],flush=True)\nwhile True: s.accept()";
    let mut spec = common::shell("");
    spec.argv = vec!["/usr/bin/python3".into(), "-c".into(), script.into()];
    spec.network = flint_sandbox::Network::Egress;
    let (sandbox, reader) = host.start(&spec).await.unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(reader), &mut line).unwrap();
    let address: std::net::Ipv4Addr = line.trim().parse().unwrap();
    (sandbox, format!("{address}:8080"))
}

/// Whether a new sandbox reaches each of these.
async fn reaches(host: &common::Host, addresses: &[&str]) -> Vec<bool> {
    let attempts: Vec<String> = addresses.iter().map(|address| format!("connect:{address}")).collect();
    let mut words = vec!["intrude"];
    words.extend(attempts.iter().map(String::as_str));
    let mut client = common::helper(&words);
    client.network = flint_sandbox::Network::Egress;
    let (_, output) = host.run(&client).await.unwrap();
    let found = findings(&output);
    attempts.iter().map(|attempt| found[attempt] == "OK").collect()
}

const OUTSIDE: &str = "198.51.100.7:80";

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

/// What a sandbox is sent on port 5353 within two seconds, and its address; with `says`, it has something sent out from there first.
async fn hears(host: &common::Host, says: bool) -> (String, String) {
    let script = "import socket,sys\nu=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nu.bind(('0.0.0.0',5353))\n\
        own=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nown.connect(('203.0.113.1',9))\n\
        if sys.argv[1:]: u.sendto(b'hello',('203.0.113.1',7777))\n\
        print(own.getsockname()[0],flush=True)\nu.settimeout(2)\n\
        try: print(u.recv(99).decode())\nexcept OSError: print('nothing')";
    let mut spec = common::shell("");
    spec.argv = vec!["/usr/bin/python3".into(), "-c".into(), script.into()];
    spec.argv.extend(says.then(|| "says".to_owned()));
    spec.network = flint_sandbox::Network::Egress;
    let (_sandbox, reader) = host.start(&spec).await.unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
    let address = lines.next().unwrap().unwrap();
    if !says {
        UdpSocket::bind("203.0.113.2:0").unwrap().send_to(b"again", "203.0.113.1:7777").unwrap();
    }
    (lines.next().unwrap().unwrap(), address)
}

#[test]
fn what_is_sent_to_a_sandbox_that_has_ended_reaches_no_other() {
    with_internet(|| {
        block_on(async {
            let one = server("before").await;
            let (heard, address) = hears(&one, true).await;
            assert_eq!(heard, "nothing");
            let (heard, other) = hears(&one, false).await;
            assert!(heard == "nothing" && other != address, "{heard} at {other} after {address}");
            one.launcher.shutdown().await;
            let next = server("after").await;
            // It has the same addresses.
            assert_eq!(hears(&next, false).await, ("nothing".to_owned(), address));
            next.launcher.shutdown().await;
        });
    });
}

/// Nothing of any server is on this host: no rules, no interfaces, no forwarding.
fn assert_as_it_was() {
    let left = Command::new("nft").args(["list", "tables"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    let links = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    assert!(!links.contains("flint"), "{links}");
    assert!(!forwards());
}

fn forwards() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/conf/up0/forwarding").unwrap().trim() == "1"
}

#[test]
fn sandboxes_with_a_way_out_do_not_reach_each_other() {
    with_internet(|| {
        block_on(async {
            let host = server("neighbours").await;
            let (_neighbour, address) = listen(&host).await;
            assert_eq!(reaches(&host, &[&address, OUTSIDE]).await, [false, true]);
            let mut resolver = common::shell("cat /etc/resolv.conf");
            resolver.network = flint_sandbox::Network::Egress;
            let (_, output) = host.run(&resolver).await.unwrap();
            assert!(output.contains("nameserver"), "{output}");
            host.launcher.shutdown().await;
        });
    });
}

#[test]
fn servers_of_one_host_do_not_get_into_each_others_way() {
    with_internet(|| {
        block_on(async {
            let (one, other) = (server("one").await, server("other").await);
            let (_ours, ours) = listen(&one).await;
            let (_theirs, theirs) = listen(&other).await;
            assert_ne!(ours, theirs);
            assert_eq!(reaches(&one, &[OUTSIDE, &ours, &theirs]).await, [true, false, false]);
            assert_eq!(reaches(&other, &[OUTSIDE, &ours, &theirs]).await, [true, false, false]);
            // The one that came first goes; the host still forwards for the other.
            one.launcher.shutdown().await;
            assert_eq!(reaches(&other, &[OUTSIDE, &ours, "10.9.9.9:80"]).await, [true, false, false]);
            assert!(forwards());
            other.launcher.shutdown().await;
            assert_as_it_was();
        });
    });
}

#[test]
fn what_a_killed_server_has_left_is_swept_by_the_next_and_the_others_go_on() {
    with_internet(|| {
        block_on(async {
            let (killed, living) = (server("killed").await, server("living").await);
            let (_theirs, theirs) = listen(&killed).await;
            let (_ours, ours) = listen(&living).await;
            kill(&killed).await;
            // With its rules still there, or not: nobody else is concerned.
            assert_eq!(reaches(&living, &[OUTSIDE, &theirs]).await, [true, false]);
            let next = server("next").await;
            let (_sandbox, address) = listen(&next).await;
            assert_eq!(address, theirs, "a dead server's addresses are free again");
            assert_eq!(reaches(&next, &[OUTSIDE, &ours]).await, [true, false]);
            assert_eq!(reaches(&living, &[OUTSIDE, &address]).await, [true, false]);
            living.launcher.shutdown().await;
            assert_eq!(reaches(&next, &[OUTSIDE]).await, [true]);
            // The last one is killed: a sweep, of whatever server, puts everything back.
            kill(&next).await;
            assert!(forwards());
            let empty = tempfile::tempdir().unwrap();
            let report = flint_sandbox::sweep(empty.path());
            assert!(report.problems.is_empty() && report.nft_tables == 2, "{report:?}");
            assert_as_it_was();
            assert_eq!(flint_sandbox::sweep(empty.path()), flint_sandbox::SweepReport::default());
            next.launcher.shutdown().await;
            killed.launcher.shutdown().await;
        });
    });
}

/// Kills a launcher, as it would be together with its server.
async fn kill(host: &common::Host) {
    let pid = host.launcher.pid().await.unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    common::eventually("the launcher ends", || !common::alive(pid));
}

#[test]
fn a_closed_way_out_leads_nowhere_until_it_is_opened() {
    with_internet(|| {
        block_on(async {
            let host = server("closed").await;
            // Also with a socket that is bound to the interface, for which the kernel needs no route.
            let script = "import socket,sys,time\n\
                def tries(bound):\n\
                \x20 s=socket.socket(); s.settimeout(1.5)\n\
                \x20 if bound: s.setsockopt(socket.SOL_SOCKET,25,b'eth0')\n\
                \x20 try: s.connect(('203.0.113.1',80)); return 'OK'\n\
                \x20 except OSError as error: return type(error).__name__\n\
                print('closed',tries(False)=='OK',tries(True)=='OK',flush=True)\n\
                while tries(False)!='OK': time.sleep(0.05)\n\
                print('open',flush=True)\n\
                time.sleep(600)";
            let mut spec = common::shell("");
            spec.argv = vec!["/usr/bin/python3".into(), "-c".into(), script.into()];
            spec.network = flint_sandbox::Network::Egress;
            spec.recycle_key = Some("closed".into());
            let open_first = flint_sandbox::SandboxSpec { argv: vec!["/bin/true".into()], ..spec.clone() };
            // What an open sandbox of the same function hands on is closed again.
            assert!(host.run(&open_first).await.unwrap().0.status.success());
            spec.network_closed = true;
            let (sandbox, reader) = host.start(&spec).await.unwrap();
            let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
            assert_eq!(lines.next().unwrap().unwrap(), "closed False False");
            sandbox.open_network().await.unwrap();
            sandbox.open_network().await.unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), "open");
            drop(sandbox);
            host.launcher.shutdown().await;
        });
    });
}

/// Whether a container of somebody else's, on an interface of its own, gets answers from outside through the host.
fn container_reaches_outside() -> bool {
    std::thread::scope(|scope| {
        let (container_is, container) = mpsc::channel::<u32>();
        let (ready, is_ready) = mpsc::channel();
        let reached = scope.spawn(move || {
            unshare_net();
            container_is.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            is_ready.recv().unwrap();
            sh("ip addr add 172.30.0.2/24 dev box1 && ip link set box1 up && ip route add default via 172.30.0.1");
            TcpStream::connect_timeout(&OUTSIDE.parse().unwrap(), Duration::from_secs(2)).is_ok()
        });
        let tid = container.recv().unwrap();
        sh(&format!(
            "ip link add box0 type veth peer name box1 netns {tid} && ip addr add 172.30.0.1/24 dev box0 && ip link set box0 up"
        ));
        ready.send(()).unwrap();
        let reached = reached.join().unwrap();
        sh("ip link del box0 2>/dev/null || true");
        reached
    })
}

fn set_forwarding(name: &str, on: bool) {
    let switch = format!("/proc/sys/net/ipv4/conf/{name}/forwarding");
    std::fs::write(switch, if on { "1" } else { "0" }).unwrap();
}

fn is_guarded() -> bool {
    Command::new("nft").args(["list", "table", "inet", "flint_egress"]).output().unwrap().status.success()
}

/// As Docker, which is started later and switches forwarding on for the whole host.
#[test]
fn who_wants_the_host_to_forward_later_gets_it_and_keeps_it() {
    with_internet(|| {
        block_on(async {
            let host = server("forwarding").await;
            assert_eq!(reaches(&host, &[OUTSIDE]).await, [true]);
            assert!(is_guarded() && forwards());
            set_forwarding("all", true);
            // The next sandbox with egress notices.
            assert_eq!(reaches(&host, &[OUTSIDE, "10.9.9.9:80"]).await, [true, false]);
            assert!(!is_guarded() && container_reaches_outside());
            host.launcher.shutdown().await;
            assert!(forwards(), "it is not Flint's to switch off");
            assert!(container_reaches_outside());
        });
    });
}

#[test]
fn that_others_want_to_forward_is_noticed_without_a_sandbox_too() {
    with_internet(|| {
        block_on(async {
            let host = server("noticed").await;
            assert_eq!(reaches(&host, &[OUTSIDE]).await, [true]);
            set_forwarding("all", true);
            common::eventually("the guard is gone", || !is_guarded());
            // Even if nobody had noticed.
            kill(&host).await;
            let empty = tempfile::tempdir().unwrap();
            assert!(flint_sandbox::sweep(empty.path()).problems.is_empty());
            assert!(forwards());
            host.launcher.shutdown().await;
        });
    });
}

/// The operator of a router had switched forwarding off for this uplink alone.
#[test]
fn an_uplink_that_is_to_forward_nothing_forwards_for_sandboxes_only() {
    with_internet(|| {
        block_on(async {
            set_forwarding("all", true);
            set_forwarding("up0", false);
            let host = server("router").await;
            for _ in 0..2 {
                assert_eq!(reaches(&host, &[OUTSIDE]).await, [true]);
                assert!(is_guarded() && !container_reaches_outside());
            }
            host.launcher.shutdown().await;
            assert_as_it_was();
        });
    });
}

#[test]
fn without_a_route_it_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    if !common::is_root() {
        println!("not checked: it takes root to make a host without routes");
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            unshare_net();
            let output = Command::new(common::HELPER)
                .arg("one-shot")
                .arg(directory.path())
                .args(["egress", "/bin/true"])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(!output.status.success() && text.contains("network egress"), "{text}");
        });
    });
}
