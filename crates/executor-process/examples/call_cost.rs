//! What calls and starts cost: warm calls one after the other, `stdio` calls many at once, cold starts.
//!
//! `cargo run --release -p flint-executor-process --example call_cost [-- SECONDS]`

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{Body, Call, Executor, FunctionSource, Invoked, PrewarmTarget, StartContext};
use flint_executor_process::ProcessExecutor;
use flint_model::{
    ActivationId, Annotations, ByteSize, Code, CodeFormat, Contract, Digest, Function, FunctionLimits,
    InstanceId, Isolation, Network, Parameters, Reuse, Start, Strategy, Timestamp, Version,
};
use flint_runtimes::{House, HouseConfig};
use flint_sandbox::{Launcher, LauncherConfig};
use hdrhistogram::Histogram;

const NODE: &str = "function main(params) { return params }";
const PYTHON: &str = "def main(params):\n    return params\n";
const JAVA: &str = "import java.util.Map;
public class Echo { public static Map<String, Object> main(Map<String, Object> params) { return params; } }";
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    flint_sandbox::launcher_entry();
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(Duration::from_secs_f64(seconds)))
}

async fn measure(span: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let launcher = Launcher::spawn(LauncherConfig::new(folder.path().join("sandboxes"), "call-cost")).await?;
    let config =
        HouseConfig::new(folder.path().join("artefacts"), folder.path().join("runtimes"), launcher.clone());
    let began = Instant::now();
    let executor = Arc::new(ProcessExecutor::new(Arc::new(House::open(config).await?)));
    println!("set-up with discovery: {} ms", began.elapsed().as_millis());
    for (kind, code) in [("nodejs:default", NODE), ("python:default", PYTHON), ("java:default", JAVA)] {
        let available = executor.kinds().iter().any(|known| {
            known.kind.family() == kind.split(':').next().unwrap_or_default() && known.state.is_ok()
        });
        if available {
            cold(&executor, kind, code).await?;
            prewarmed(&executor, kind, code).await?;
            warm(&executor, kind, code, span).await?;
        }
    }
    for concurrency in [1, 8, 32] {
        stdio(&executor, concurrency, span).await?;
    }
    executor.shutdown().await;
    launcher.shutdown().await;
    Ok(())
}

async fn cold(
    executor: &Arc<ProcessExecutor>,
    kind: &str,
    code: &'static str,
) -> Result<(), Box<dyn std::error::Error>> {
    let prepared =
        executor.prepare(source(kind, Contract::Handler, CodeFormat::Source, code)?, &|_| {}).await?;
    println!("{kind}: prepared in {} ms: {}", prepared.took.as_millis(), prepared.steps.join("; "));
    let mut whole = Histogram::<u64>::new(3)?;
    for _ in 0..15 {
        let began = Instant::now();
        let started = executor.start(&prepared, context()).await?;
        started.instance.invoke(call()).await;
        whole.record(began.elapsed().as_micros() as u64)?;
        started.instance.stop().await;
    }
    println!(
        "S20 {kind}, cold start to first answer: p50 {:.1} ms, p90 {:.1} ms",
        ms(&whole, 0.5),
        ms(&whole, 0.9)
    );
    Ok(())
}

async fn warm(
    executor: &Arc<ProcessExecutor>,
    kind: &str,
    code: &'static str,
    span: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let prepared =
        executor.prepare(source(kind, Contract::Handler, CodeFormat::Source, code)?, &|_| {}).await?;
    let instance = executor.start(&prepared, context()).await?.instance;
    for _ in 0..2000 {
        instance.invoke(call()).await;
    }
    // On a worker, as calls are; and not through the harness' own thread.
    let measured = tokio::spawn(async move {
        let mut latency = Histogram::<u64>::new(3)?;
        let (began, cpu) = (Instant::now(), cpu());
        while began.elapsed() < span {
            let sent = Instant::now();
            let Invoked::Done { result: Ok(_), .. } = instance.invoke(call()).await else {
                return Err("a call failed".into());
            };
            latency.record(sent.elapsed().as_nanos() as u64)?;
        }
        let (calls, cpu) = (latency.len() as f64, self::cpu().saturating_sub(cpu));
        instance.stop().await;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((
            latency,
            calls / began.elapsed().as_secs_f64(),
            cpu,
            calls,
        ))
    });
    let (latency, rate, cpu, calls) = measured.await?.map_err(|error| error.to_string())?;
    println!(
        "S20 {kind}, warm call: p50 {:.1} µs, p99 {:.1} µs; {rate:.0} calls/s; Flint's CPU {:.1} µs a call",
        latency.value_at_quantile(0.5) as f64 / 1e3,
        latency.value_at_quantile(0.99) as f64 / 1e3,
        cpu.as_secs_f64() * 1e6 / calls
    );
    Ok(())
}

/// A cold start that takes a runtime which is up already.
async fn prewarmed(
    executor: &Arc<ProcessExecutor>,
    kind: &str,
    code: &'static str,
) -> Result<(), Box<dyn std::error::Error>> {
    let source = source(kind, Contract::Handler, CodeFormat::Source, code)?;
    let target =
        PrewarmTarget { kind: source.function.kind.clone(), memory: source.function.limits.memory, count: 1 };
    let prepared = executor.prepare(source, &|_| {}).await?;
    executor.prewarm(&[target]).await;
    let mut whole = Histogram::<u64>::new(3)?;
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let began = Instant::now();
        let started = executor.start(&prepared, context()).await?;
        started.instance.invoke(call()).await;
        if started.started == Duration::ZERO {
            whole.record(began.elapsed().as_micros() as u64)?;
        }
        started.instance.stop().await;
    }
    executor.prewarm(&[]).await;
    println!(
        "S20 {kind}, prewarmed start to first answer: p50 {:.1} ms, p90 {:.1} ms; n = {}",
        ms(&whole, 0.5),
        ms(&whole, 0.9),
        whole.len()
    );
    Ok(())
}

async fn stdio(
    executor: &Arc<ProcessExecutor>,
    concurrency: usize,
    span: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let cat = std::fs::read("/bin/cat")?;
    let prepared =
        executor.prepare(source("native", Contract::Stdio, CodeFormat::Executable, cat)?, &|_| {}).await?;
    let (began, before) = (Instant::now(), (cpu(), cpu_of_children()));
    let workers: Vec<_> = (0..concurrency)
        .map(|_| {
            let (executor, prepared) = (Arc::clone(executor), Arc::clone(&prepared));
            tokio::spawn(async move {
                let mut latency = Histogram::<u64>::new(3).ok()?;
                while began.elapsed() < span {
                    let sent = Instant::now();
                    let instance = executor.start(&prepared, context()).await.ok()?.instance;
                    let Invoked::Done { result: Ok(_), .. } = instance.invoke(call()).await else {
                        return None;
                    };
                    instance.stop().await;
                    latency.record(sent.elapsed().as_micros() as u64).ok()?;
                }
                Some(latency)
            })
        })
        .collect();
    let mut all = Histogram::<u64>::new(3)?;
    for worker in workers {
        all.add(worker.await?.ok_or("a call failed")?)?;
    }
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / all.len() as f64;
    println!(
        "S20 stdio /bin/cat, {concurrency} at once: p50 {:.2} ms, p99 {:.2} ms; {:.0} calls/s; CPU a call: Flint {:.0} µs, \
         launcher {:.0} µs",
        ms(&all, 0.5),
        ms(&all, 0.99),
        all.len() as f64 / began.elapsed().as_secs_f64(),
        each(cpu().saturating_sub(before.0)),
        each(cpu_of_children().saturating_sub(before.1)),
    );
    Ok(())
}

/// CPU time of the processes that this one has started itself, which is the launcher; as exact as the clock's ticks.
fn cpu_of_children() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let here = std::process::id().to_string();
    let stats = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ticks = stats.filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // parent, then utime and stime: fields 4, 14 and 15 of proc(5), of which the first two are before the parenthesis.
        (fields.get(1) == Some(&here.as_str())).then_some(())?;
        Some(fields.get(11)?.parse::<u32>().ok()? + fields.get(12)?.parse::<u32>().ok()?)
    });
    TICK * ticks.sum::<u32>()
}

fn ms(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

/// CPU time of this process, user and system.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn context() -> StartContext {
    StartContext {
        id: InstanceId(1),
        namespace: None,
        activation: None,
        transaction: "bench".into(),
        deadline: Instant::now() + LIMIT,
        environment: Vec::new(),
        max_logs: ByteSize::mib(1),
    }
}

fn call() -> Call {
    Call {
        activation: ActivationId::generate(),
        transaction: "bench".into(),
        deadline: Instant::now() + LIMIT,
        deadline_at: Timestamp::now(),
        head: None,
        body: Body::Full(Bytes::from_static(br#"{"name":"Ada","n":[1,2,3]}"#)),
        api_key: None,
        max_result: ByteSize::mib(1),
        max_logs: ByteSize::mib(10),
    }
}

fn source(
    kind: &str,
    contract: Contract,
    format: CodeFormat,
    code: impl Into<Bytes>,
) -> Result<FunctionSource, Box<dyn std::error::Error>> {
    let code: Bytes = code.into();
    let digest = Digest::from_bytes(*blake3::hash(&code).as_bytes());
    let function = Function {
        path: "guest/bench".parse()?,
        version: Version::FIRST,
        revision: 1,
        kind: kind.parse()?,
        code: Code { digest, size: ByteSize::bytes(code.len() as u64), format },
        main: None,
        image: None,
        contract,
        strategy: Strategy {
            isolation: Isolation::Process,
            start: Start::Spawn,
            reuse: Reuse::Warm,
            concurrency: NonZeroU32::MIN,
        },
        network: Network::None,
        limits: FunctionLimits::default(),
        parameters: Parameters::default(),
        annotations: Annotations::default(),
        publish: false,
        restored: None,
        asked: flint_model::StrategyRequest::default(),
        snapshot: flint_model::SnapshotOptions::default(),
        wasm: flint_model::WasmOptions::default(),
        updated: Timestamp::now(),
    };
    Ok(FunctionSource { function: Arc::new(function), code })
}
