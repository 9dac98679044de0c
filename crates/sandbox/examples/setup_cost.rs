//! What a sandbox costs: set-up time and throughput of complete sandboxes that run `/bin/cat` once; with LIVING, throughput alone and
//! beside so many living ones.
//!
//! ```text
//! cargo run --release -p flint-sandbox --example setup_cost -- [RUNS [LIVING]]
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
    let living: Option<usize> = std::env::args().nth(2).map(|text| text.parse()).transpose()?;
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        if let Some(living) = living {
            for _ in 0..3 {
                // A launcher of its own each time: it recycles what the living ones leave.
                let launcher = Launcher::spawn(LauncherConfig::new(directory.path(), "bench")).await?;
                beside(&launcher, living, runs).await?;
                launcher.shutdown().await;
            }
            return Ok(());
        }
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
    let ms = |quantile| inside.value_at_quantile(quantile) as f64 / 1e3;
    println!("S14 {title}: p50 {:.3} ms, p99 {:.3} ms", ms(0.5), ms(0.99));
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

/// Throughput alone, and then beside `living` other sandboxes.
async fn beside(
    launcher: &Launcher,
    living: usize,
    runs: usize,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    throughput(launcher, "alone", Some("bench"), runs).await?;
    let mut others = Vec::with_capacity(living);
    for other in 0..living {
        let (stdin, to_cat) = std::io::pipe()?;
        let quiet = || std::fs::File::create("/dev/null").map(OwnedFd::from);
        let mut spec = SandboxSpec::new(format!("other-{other}"), vec!["/bin/cat".into()]);
        spec.recycle_key = Some(format!("other-{other}"));
        let io = SandboxIo { stdin: Some(stdin.into()), stdout: quiet()?, stderr: quiet()?, link: None };
        others.push((to_cat, launcher.start(&spec, io).await?));
    }
    let open = launcher_descriptors(launcher).await;
    let title = format!("beside {living} living ones ({open} descriptors in the launcher)");
    throughput(launcher, &title, Some("bench"), runs).await?;
    for (to_cat, sandbox) in others {
        drop(to_cat);
        sandbox.wait().await;
    }
    Ok(())
}

/// How many descriptors the launcher has open.
async fn launcher_descriptors(launcher: &Launcher) -> usize {
    let Some(pid) = launcher.pid().await else { return 0 };
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

async fn throughput(
    launcher: &Launcher,
    title: &str,
    key: Option<&str>,
    runs: usize,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let began = Instant::now();
    let before = cpu_of(launcher).await;
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
    let after = cpu_of(launcher).await;
    let each = |part: usize| after[part].saturating_sub(before[part]).as_micros() as usize / count;
    println!(
        "{title}, {CONCURRENCY} at a time: {:.0} sandboxes/s; CPU each: launcher {} us, inside {} us",
        count as f64 / seconds,
        each(0),
        each(1)
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

/// CPU time of the launcher process itself, and of all that has ended below it.
async fn cpu_of(launcher: &Launcher) -> [Duration; 2] {
    let Some(pid) = launcher.pid().await else { return [Duration::ZERO; 2] };
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let own = read("schedstat").split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    // `cutime` and `cstime`, in ticks of 10 ms, are the 14th and 15th behind the name.
    let stat = read("stat");
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').skip(13).take(2);
    let ticks: u64 = fields.filter_map(|text| text.parse::<u64>().ok()).sum();
    [Duration::from_nanos(own), Duration::from_millis(10 * ticks)]
}

fn histogram() -> Result<Histogram<u64>, hdrhistogram::CreationError> {
    Histogram::new(3)
}
