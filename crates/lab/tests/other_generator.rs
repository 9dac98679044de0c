//! The open loop beside another generator that counts from when calls were meant to start: oha, where it is installed, on the PATH or in
//! ~/.cache/flint-tools/bin. Both call the same server at the same time, which stands still for one second of every ten, by fewer connections
//! than calls come meanwhile: what is sent late because of that has to be counted as late.

mod stalling;

use std::{env, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use flint_lab::{Arrivals, HttpArm, HttpRequest, OpenLoad, OpenMeasured, drive_open};
use serde_json::Value;

const PERIOD: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(1);
const RATE: u32 = 100;
const CONNECTIONS: usize = 20;
const CALLS: u64 = RATE as u64 * PERIOD.as_secs();
/// How far two quantiles may lie apart, in ms: what a busy machine makes of 20 connections at once. A generator that counts from the sending is
/// 400 ms and more away.
const TOLERANCE_MS: f64 = 100.0;

fn installed(name: &str) -> Option<PathBuf> {
    let own = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/flint-tools/bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(own).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// What oha says of the same calls.
async fn oha(program: PathBuf, address: SocketAddr) -> Value {
    let output = tokio::process::Command::new(program)
        .args(["-n", &CALLS.to_string(), "-q", &RATE.to_string(), "-c", &CONNECTIONS.to_string()])
        .args(["--latency-correction", "--no-tui", "--output-format", "json"])
        .arg(format!("http://{address}/"))
        .kill_on_drop(true)
        .output()
        .await
        .expect("oha can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("what oha prints is JSON")
}

async fn own(address: SocketAddr) -> OpenMeasured {
    let request = HttpRequest::new("GET", "/", address, &[], b"", 200);
    let load = OpenLoad {
        arrivals: Arrivals::Constant { rate: f64::from(RATE) },
        duration: PERIOD,
        warm_up: Duration::ZERO,
        connections: CONNECTIONS,
        timeout: Duration::from_secs(60),
    };
    drive_open(Arc::new(HttpArm::new(address, vec![request])), &load).await.expect("the server answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oha_finds_the_same_quantiles() {
    let Some(program) = installed("oha") else {
        println!("not checked: oha is not installed (docs/benchmarks.md says how)");
        return;
    };
    let address = stalling::start(PERIOD, STALL);
    let (theirs, ours) = tokio::join!(oha(program, address), own(address));
    assert_eq!((ours.intended, ours.answered()), (CALLS, CALLS), "{:?}", ours.failures);
    assert_eq!(theirs["statusCodeDistribution"]["200"], CALLS, "{theirs}");
    // A tenth of the calls come while the server stands still, and wait for what is left of that.
    for (name, quantile, implied) in [("p50", 0.5, 0.0), ("p95", 0.95, 500.0), ("p99", 0.99, 900.0)] {
        let our = ours.quantile_us(quantile) / 1e3;
        let their = theirs["latencyPercentiles"][name].as_f64().unwrap() * 1e3;
        let is_near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE_MS;
        assert!(
            is_near(our, their) && is_near(our, implied),
            "{name}: {our:.0} ms, oha {their:.0} ms, the stall implies {implied} ms"
        );
    }
}
