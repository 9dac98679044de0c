//! What a sandbox costs: set-up time and throughput of complete sandboxes that run `/bin/cat` once.
//!
//! ```text
//! cargo run --release -p flint-sandbox --example setup_cost -- [RUNS]
//! ```
//! This program is its own launcher.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use flint_sandbox::{Launcher, LauncherConfig, SandboxIo, SandboxSpec};
use hdrhistogram::Histogram;

/// Sandboxes at once in the throughput run.
const CONCURRENCY: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    flint_sandbox::launcher_entry();
    let runs: usize = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let launcher = Launcher::spawn(LauncherConfig::new(directory.path(), "bench")).await?;
        for (title, key) in [("everything made afresh", None), ("cgroup and network recycled", Some("bench"))]
        {
            latency(&launcher, title, key, runs).await?;
            throughput(&launcher, title, key, runs).await?;
        }
        launcher.shutdown().await;
        Ok(())
    })
}

async fn latency(
    launcher: &Launcher,
    title: &str,
    key: Option<&str>,
    runs: usize,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (mut inside, mut seen, mut whole) = (histogram()?, histogram()?, histogram()?);
    for run in 0..runs + 20 {
        let began = Instant::now();
        let (setup_us, started, ended) = once(launcher, key, began).await?;
        if run >= 20 {
            inside.record(setup_us)?;
            seen.record(started.as_micros() as u64)?;
            whole.record(ended.as_micros() as u64)?;
        }
    }
    println!("{title}, one at a time, {runs} runs, microseconds:");
    for (name, figures) in
        [("set-up in the launcher", inside), ("start() returned", seen), ("cat echoed and ended", whole)]
    {
        println!(
            "  {name:24} min {:5}  p50 {:5}  p90 {:5}  p99 {:5}",
            figures.min(),
            figures.value_at_quantile(0.5),
            figures.value_at_quantile(0.9),
            figures.value_at_quantile(0.99)
        );
    }
    Ok(())
}

async fn throughput(
    launcher: &Launcher,
    title: &str,
    key: Option<&str>,
    runs: usize,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let began = Instant::now();
    let cpu_before = launcher_cpu(launcher).await;
    let each = (2 * runs).div_ceil(CONCURRENCY);
    let tasks: Vec<_> = (0..CONCURRENCY)
        .map(|_| {
            let (launcher, key) = (launcher.clone(), key.map(str::to_owned));
            tokio::spawn(async move {
                for _ in 0..each {
                    once(&launcher, key.as_deref(), Instant::now())
                        .await
                        .map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let count = each * CONCURRENCY;
    let seconds = began.elapsed().as_secs_f64();
    let cpu = launcher_cpu(launcher).await.saturating_sub(cpu_before);
    println!(
        "{title}, {CONCURRENCY} at a time: {:.0} sandboxes/s; launcher {} us CPU each",
        count as f64 / seconds,
        cpu.as_micros() as usize / count
    );
    Ok(())
}

/// One sandbox: set-up in the launcher, and the times until `start` returned and until the exit was known.
async fn once(
    launcher: &Launcher,
    key: Option<&str>,
    began: Instant,
) -> Result<(u64, Duration, Duration), Box<dyn std::error::Error + Send + Sync>> {
    let (stdin, mut to_cat) = std::io::pipe()?;
    let (mut from_cat, stdout) = std::io::pipe()?;
    let stderr: OwnedFd = std::fs::File::create("/dev/null")?.into();
    let mut spec = SandboxSpec::new("bench", vec!["/bin/cat".into()]);
    spec.recycle_key = key.map(str::to_owned);
    to_cat.write_all(b"hello")?;
    drop(to_cat);
    let io = SandboxIo { stdin: Some(stdin.into()), stdout: stdout.into(), stderr, link: None };
    let sandbox = launcher.start(&spec, io).await?;
    let started = began.elapsed();
    let exit = sandbox.wait().await;
    let ended = began.elapsed();
    let mut answer = String::new();
    from_cat.read_to_string(&mut answer)?;
    if answer != "hello" || !exit.status.success() {
        return Err(format!("cat gave {answer:?} and {}", exit.status).into());
    }
    Ok((exit.setup_us, started, ended))
}

/// CPU time of the launcher process itself.
async fn launcher_cpu(launcher: &Launcher) -> Duration {
    let Some(pid) = launcher.pid().await else { return Duration::ZERO };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0))
}

fn histogram() -> Result<Histogram<u64>, hdrhistogram::CreationError> {
    Histogram::new(3)
}
