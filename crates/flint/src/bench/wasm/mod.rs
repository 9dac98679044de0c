//! `wasm`: the cost of a new WebAssembly instance per call: by itself, through the server, and beside peers;
//! docs/benchmarks.md describes the arms.

mod engine;
mod live;
mod modules;

use std::{collections::BTreeMap, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use flint_lab::{
    Arm, ArmPlan, ArmReport, ArmRounds, HttpArm, HttpRequest, Load, NoiseWatch, ProcessTree, Report,
    RunFolder, Target, median, median_ratio, run_rounds,
};
use flint_model::Contract;

use self::{
    engine::{Callers, Driven, EngineArm},
    live::Live,
    modules::{JAVA, SAMPLES, Sample},
};
use super::{Run, asked::check_arms, bare_http, janitor, run::show, server::Server, suite::Baseline};
use crate::client::GUEST_KEY;

const BARE: &str = "bare-http";
const SERVE: &str = "wasmtime-serve";
const LIVE: &str = "live-http";
/// `flint-http` in a namespace that keeps no records.
const UNRECORDED: &str = "flint-http-unrecorded";
/// Slots of the executor's pool: enough to be divided among the processors, as in a server.
const PLACES: u32 = 512;

struct Scale {
    rounds: usize,
    round: Duration,
    live: usize,
}

const FULL: Scale = Scale { rounds: 5, round: Duration::from_secs(3), live: 4000 };
const QUICK: Scale = Scale { rounds: 2, round: Duration::from_millis(500), live: 500 };

/// A component that answers, and waits for ever at `/pause`.
pub(super) fn waiting_component() -> anyhow::Result<Vec<u8>> {
    SAMPLES[2].code()
}

/// Every arm there is.
fn names() -> Vec<String> {
    let mut names: Vec<String> = SAMPLES.iter().map(|sample| engine_arm(sample.name)).collect();
    names.extend(JAVA.iter().map(|(name, _)| java_arm(name)));
    names.extend(SAMPLES.iter().map(|sample| flint_arm(sample.name)));
    names.extend([UNRECORDED, BARE, SERVE, LIVE].map(str::to_owned));
    names
}

fn engine_arm(sample: &str) -> String {
    format!("engine-{sample}")
}

fn java_arm(program: &str) -> String {
    format!("java-{program}")
}

fn flint_arm(sample: &str) -> String {
    format!("flint-{sample}")
}

pub(super) async fn run(run: &mut Run) -> anyhow::Result<Report> {
    let mut scale = if run.effort.quick { QUICK } else { FULL };
    scale.rounds = run.effort.rounds(scale.rounds);
    let names = names();
    let asked = run.effort.arms.clone();
    check_arms(&asked, names.iter().map(String::as_str))?;
    let chosen = |name: &str| asked.is_empty() || asked.iter().any(|arm| arm == name);
    let scratch = janitor::scratch()?;
    let mut absent: Vec<(String, String)> = Vec::new();

    run.show("the engine alone", 0, 1);
    let mut arms =
        engine_level(scratch.path(), &scale, &chosen, &mut absent, &run.folder, &mut run.noise).await?;
    arms.extend(platform_level(scratch.path(), &scale, &chosen, &mut absent, run).await?);
    let live = match chosen(LIVE) {
        true => {
            run.show(LIVE, 0, 1);
            let code = SAMPLES[2].code()?;
            live::held(&scratch.path().join("live"), code, scale.live)
                .await
                .map_err(|error| absent.push((LIVE.to_owned(), format!("{error:#}"))))
                .ok()
        }
        false => None,
    };
    Ok(report(run.report("wasm"), &arms, live.as_ref(), absent))
}

/// One and two threads, each contract, and Java if built.
async fn engine_level(
    scratch: &Path,
    scale: &Scale,
    chosen: &dyn Fn(&str) -> bool,
    absent: &mut Vec<(String, String)>,
    folder: &RunFolder,
    noise: &mut NoiseWatch,
) -> anyhow::Result<Vec<ArmRounds>> {
    let executor = engine::open(&scratch.join("engine"), PLACES)?;
    let callers = Callers::start()?;
    let mut arms = Vec::new();
    for sample in SAMPLES.iter().filter(|sample| chosen(&engine_arm(sample.name))) {
        let prepared = engine::prepare(&executor, sample.name, sample.contract, sample.code()?).await?;
        let arm = EngineArm {
            executor: executor.clone(),
            prepared,
            body: Bytes::from_static(sample.body),
            answer: Bytes::from_static(sample.answer),
            is_over: callers.is_over(),
        };
        let (name, function) = (engine_arm(sample.name), sample.name.to_owned());
        arms.push(Driven { name, function, arm, callers: &[1, 2] });
    }
    let java_folder = modules::java_folder();
    for (name, n) in JAVA.iter().filter(|(name, _)| chosen(&java_arm(name))) {
        let made = match &java_folder {
            None => Err(anyhow::anyhow!("functions/java-faas/build is not there: build.sh in it makes it")),
            Some(folder) => java(&executor, &callers, folder, name, *n).await,
        };
        match made {
            Ok(arm) => {
                let function = format!("java-{name}");
                arms.push(Driven { name: java_arm(name), function, arm, callers: &[1] });
            }
            Err(error) => absent.push((java_arm(name), format!("{error:#}"))),
        }
    }
    callers.drive(&arms, (scale.rounds, scale.round), folder, noise).await
}

async fn java(
    executor: &Arc<flint_executor_wasm::WasmExecutor>,
    callers: &Callers,
    folder: &Path,
    name: &str,
    n: u32,
) -> anyhow::Result<EngineArm> {
    let module = folder.join("build").join(format!("{name}.wasm"));
    let code = std::fs::read(&module).with_context(|| format!("reading {}", module.display()))?;
    let prepared = engine::prepare(executor, &format!("java-{name}"), Contract::WasiCommand, code).await?;
    let body = Bytes::from(format!("{{\"n\":{n}}}"));
    let (executor, is_over) = (executor.clone(), callers.is_over());
    let asked = EngineArm { executor, prepared, body, answer: Bytes::new(), is_over };
    // The first response, once verified, is what all others have to equal.
    let answer = asked.answered().await?;
    modules::check_java(folder, name, &answer)?;
    Ok(EngineArm { answer, ..asked })
}

/// Through a server with everything enabled, beside a bare server and `wasmtime serve`.
async fn platform_level(
    scratch: &Path,
    scale: &Scale,
    chosen: &dyn Fn(&str) -> bool,
    absent: &mut Vec<(String, String)>,
    run: &mut Run,
) -> anyhow::Result<Vec<ArmRounds>> {
    let component = scratch.join("http.wasm");
    std::fs::write(&component, SAMPLES[2].code()?).context("writing the component")?;
    let mut plans = Vec::new();
    let plan = |name: &str, function: Option<&str>, concurrency, arm: HttpArm, process| ArmPlan {
        name: name.to_owned(),
        function: function.map(str::to_owned),
        arm: Box::new(arm) as Box<dyn Arm>,
        load: Load { concurrency, duration: scale.round, warm_up: 50 },
        process,
    };
    let get = |address: SocketAddr| {
        HttpArm::new(address, vec![HttpRequest::new("GET", "/", address, &[], b"", 200)])
    };
    let samples: Vec<&Sample> = SAMPLES.iter().filter(|sample| chosen(&flint_arm(sample.name))).collect();
    let server = match samples.is_empty() && !chosen(UNRECORDED) {
        true => None,
        // Wasm runs in the server's own process, on its threads.
        false => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from).to_string();
            let server = Server::start_with(scratch, &[("FLINT_SERVER__THREADS", &cores)]).await?;
            for sample in &samples {
                let code = scratch.join(format!("{}.wasm", sample.name));
                std::fs::write(&code, sample.code()?).context("writing a module")?;
                server.deploy(&code, sample.name, &[])?;
            }
            Some(server)
        }
    };
    let unrecorded = match &server {
        Some(server) if chosen(UNRECORDED) => {
            let key = server.namespace("unrecorded", &["--store-activations", "false"])?;
            server.deploy(&component, SAMPLES[2].name, &["--auth", &key])?;
            Some(key)
        }
        _ => None,
    };
    let peer = match chosen(SERVE) {
        true => Baseline::of_file(SERVE, true, &component, Duration::MAX, None)
            .map_err(|error| absent.push((SERVE.to_owned(), format!("{error:#}"))))
            .ok(),
        false => None,
    };
    if let Some(peer) = &peer {
        run.uses(peer.versions())?;
    }
    let bare = match chosen(BARE) {
        true => Some(bare_http::start(SAMPLES[2].answer)?),
        false => None,
    };
    for concurrency in [1, 32, 128] {
        if let Some(bare) = bare {
            plans.push(plan(BARE, None, concurrency, get(bare), None));
        }
        if let Some(server) = &server {
            let process = Some(ProcessTree::new(server.pid()));
            for sample in &samples {
                let arm = HttpArm::new(server.address, vec![invoke(server.address, sample, GUEST_KEY)]);
                plans.push(plan(&flint_arm(sample.name), Some(sample.name), concurrency, arm, process));
            }
            if let Some(key) = &unrecorded {
                let sample = &SAMPLES[2];
                let arm = HttpArm::new(server.address, vec![invoke(server.address, sample, key)]);
                plans.push(plan(UNRECORDED, Some(sample.name), concurrency, arm, process));
            }
        }
        if let Some(peer) = &peer {
            let version = peer.version.as_deref();
            plans.push(plan(SERVE, version, concurrency, get(peer.address), Some(peer.process)));
        }
    }
    let bar = run.bar.clone();
    let progress = |arm: &str, done: usize, steps: usize| show(&bar, arm, done, steps);
    let pause = Duration::from_millis(100);
    let how = (scale.rounds, pause);
    Ok(run_rounds("calls", plans, how, &run.folder, &mut run.noise, &progress).await?)
}

/// A blocking call with the client's key.
fn invoke(address: SocketAddr, sample: &Sample, key: &str) -> HttpRequest {
    let headers =
        [format!("authorization: Basic {}", BASE64.encode(key)), "content-type: application/json".to_owned()];
    let path = format!("/api/v1/namespaces/_/actions/{}?blocking=true&result=true", sample.name);
    HttpRequest::new("POST", &path, address, &headers, sample.body, 200)
}

/// The promises, without measurements.
pub(super) fn targets_of_nothing() -> Vec<Target> {
    report(Report::default(), &[], None, Vec::new()).targets
}

fn report(empty: Report, arms: &[ArmRounds], live: Option<&Live>, absent: Vec<(String, String)>) -> Report {
    let arm = |name: &str, concurrency: usize| {
        arms.iter().find(|arm| arm.plan.name == name && arm.plan.load.concurrency == concurrency)
    };
    let p50 = |name: &str| arm(name, 1).and_then(|arm| arm.quantile_us(0.5));
    let ratio_of = |a: &str, b: &str, concurrency| {
        median_ratio(&arm(a, concurrency)?.rates(), &arm(b, concurrency)?.rates())
    };
    let mut ratios: BTreeMap<String, f64> = BTreeMap::new();
    let mut comparisons = Vec::new();
    for concurrency in [1, 32, 128] {
        for (a, b) in [("flint-http", SERVE), (UNRECORDED, SERVE), ("flint-http", BARE), ("flint-core", BARE)]
        {
            let both = arm(a, concurrency).zip(arm(b, concurrency));
            comparisons.extend(both.and_then(|(a, b)| a.compared(b)));
            if let Some(ratio) = ratio_of(a, b, concurrency) {
                ratios.insert(format!("{a} / {b} calls/s at {concurrency}"), ratio);
            }
        }
    }
    for sample in &SAMPLES {
        let name = engine_arm(sample.name);
        if let (Some(one), Some(two)) = (arm(&name, 1), arm(&name, 2))
            && let Some(ratio) = median_ratio(&two.rates(), &one.rates())
        {
            ratios.insert(format!("{name}, two threads / one"), ratio);
        }
    }
    let two_threads = arm("engine-core", 2).and_then(|arm| median(&arm.rates()));
    let per_gib = live.map(|live| f64::from(1 << 30) / (live.resident + live.tables));
    let targets = vec![
        Target::at_most("core ABI: instantiate, call, drop, p50, µs", p50("engine-core"), 5.0).of("W6"),
        Target::at_least("core ABI on two threads, calls/s", two_threads, 400_000.0).of("W6"),
        Target::at_least(
            "wasi-http, of wasmtime serve's calls/s at 32",
            ratio_of("flint-http", SERVE, 32),
            2.0,
        )
        .of("W7")
        .about(SERVE, None),
        Target::at_least("the same without activation records", ratio_of(UNRECORDED, SERVE, 32), 2.5)
            .about(SERVE, None),
        Target::at_most(
            "wasi-http, p99 at 128, ms",
            arm("flint-http", 128).and_then(|arm| arm.quantile_us(0.99)).map(|us| us / 1e3),
            8.0,
        )
        .of("W8"),
        Target::at_least("live instances of the component per GiB", per_gib, 20_000.0)
            .of("W9")
            .about(LIVE, None),
        Target::at_most("java-faas hello through TeaVM, p50, µs", p50("java-hello"), 50.0)
            .about("java-hello", None),
    ];
    let mut reports: Vec<ArmReport> = arms.iter().map(ArmReport::from).collect();
    reports.extend(live.map(|live| ArmReport {
        arm: LIVE.to_owned(),
        function: Some("http".to_owned()),
        concurrency: Some(live.instances),
        rss_bytes: Some(live.resident as u64),
        note: Some(format!("of each instance; {:.0} bytes of page tables beside that", live.tables)),
        ..ArmReport::default()
    }));
    reports.extend(absent.into_iter().map(|(arm, why)| ArmReport {
        arm,
        note: Some(format!("unavailable: {why}")),
        ..ArmReport::default()
    }));
    Report { arms: reports, ratios, targets, comparisons, ..empty }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_engine_level_runs_and_an_arm_that_is_absent_says_why() {
        let scratch = tempfile::tempdir().unwrap();
        let scale = Scale { rounds: 1, round: Duration::from_millis(20), live: 20 };
        let mut absent = Vec::new();
        let chosen = |name: &str| name.starts_with("engine-");
        let (folder, mut noise) = (RunFolder::none(), NoiseWatch::start());
        let arms =
            engine_level(scratch.path(), &scale, &chosen, &mut absent, &folder, &mut noise).await.unwrap();
        assert!(noise.noise().looks > 0);
        assert_eq!(arms.len(), 6);
        assert!(arms.iter().all(|arm| arm.rounds.iter().all(|round| round.calls > 0)));
        let live = live::held(&scratch.path().join("live"), SAMPLES[2].code().unwrap(), 20).await.unwrap();
        assert_eq!(live.instances, 20);
        absent.push((SERVE.to_owned(), "not installed".to_owned()));
        let report = report(Report::default(), &arms, Some(&live), absent);
        let report = serde_json::to_value(report).unwrap();
        assert_eq!(report["targets"].as_array().unwrap().len(), 7);
        let notes: Vec<_> =
            report["arms"].as_array().unwrap().iter().filter_map(|arm| arm["note"].as_str()).collect();
        assert!(notes.contains(&"unavailable: not installed"), "{notes:?}");
    }

    #[test]
    fn every_arm_has_a_name_of_its_own() {
        let mut names = names();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (16, 16));
    }
}
