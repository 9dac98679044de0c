//! `flint doctor`: determines what a host can run and what it lacks, by trying it.

use std::{fs::File, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use flint_api_native::resource::{AbilityResource, AbilityState, DoctorReport, RuntimeResource};
use flint_executor::Executor;
use flint_executor_fork::{ForkConfig, ForkExecutor};
use flint_executor_process::ProcessExecutor;
use flint_executor_wasm::{WasmExecutor, Workshop, host::Services};
use flint_runtimes::{
    House, HouseConfig,
    discover::{Because, NotUsed},
};
use flint_sandbox::{Launcher, LauncherConfig, Probe, ProbeState, SandboxIo, SandboxSpec};
use rustix::fs::StatVfsMountFlags;
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    allowance,
    config::{Config, Room},
    scratch::{Purpose, Scratch},
};

const SCRATCH: Purpose = Purpose { prefix: "flint-doctor-", clear };
/// The launcher's state, in the scratch directory.
const SANDBOX: &str = "sandbox";
/// Time limit of the trial.
const TRIAL: Duration = Duration::from_secs(10);

/// The host's abilities, and the executors' own. Takes some milliseconds and blocks.
pub(crate) fn abilities(executors: &[Arc<dyn Executor>], uid_base: u32) -> Vec<AbilityResource> {
    let mut abilities: Vec<_> = flint_sandbox::probe(uid_base).into_iter().map(ability_of).collect();
    for capability in executors.iter().flat_map(|executor| executor.capabilities()) {
        // Runtimes are listed separately.
        if capability.name.starts_with("runtime ")
            || capability.name.starts_with("start fork ")
            || abilities.iter().any(|known| known.name == capability.name)
        {
            continue;
        }
        let (state, detail, remedy) = match capability.state {
            Ok(how) => match limited(&how) {
                Some((how, remedy)) => (AbilityState::Limited, how.to_owned(), remedy.to_owned()),
                None => (AbilityState::Works, how, String::new()),
            },
            Err(missing) => (AbilityState::Missing, "not available".to_owned(), missing),
        };
        abilities.push(AbilityResource { name: capability.name, state, detail, remedy });
    }
    abilities
}

/// Parses how executors describe a partial ability: `works so (limited: what to do)`.
fn limited(how: &str) -> Option<(&str, &str)> {
    let (how, remedy) = how.split_once(" (limited: ")?;
    Some((how, remedy.strip_suffix(')')?))
}

fn ability_of(probe: Probe) -> AbilityResource {
    let state = match probe.state {
        ProbeState::Available => AbilityState::Works,
        ProbeState::Limited => AbilityState::Limited,
        ProbeState::Missing => AbilityState::Missing,
    };
    AbilityResource { name: probe.name.to_owned(), state, detail: probe.detail, remedy: probe.remedy }
}

/// An entry if the host's limit of open files reduces the configured number of connections.
pub(crate) fn fewer_connections(config: &Config) -> Option<AbilityResource> {
    Some(AbilityResource {
        name: "connections".to_owned(),
        state: AbilityState::Limited,
        detail: Room::of(config).lacking()?,
        remedy: "raise the limit of open files (see open-files), or configure fewer".to_owned(),
    })
}

/// An entry if nothing in the data directory can be executed.
pub(crate) fn not_executable(data_dir: &Path) -> Option<AbilityResource> {
    let mount = rustix::fs::statvfs(data_dir).ok()?;
    mount.f_flag.contains(StatVfsMountFlags::NOEXEC).then(|| AbilityResource {
        name: "data directory".to_owned(),
        state: AbilityState::Limited,
        detail: format!(
            "{} is on a file system mounted noexec: programs, compiled Go and WebAssembly do not run",
            data_dir.display()
        ),
        remedy: "mount it without noexec, or choose another --data-dir".to_owned(),
    })
}

/// For the log: which limits of functions no cgroup enforces, and what else functions will lack.
pub(crate) fn shortcomings(abilities: &[AbilityResource]) -> Vec<String> {
    let missing = abilities.iter().filter(|ability| ability.state == AbilityState::Missing);
    let groups: Vec<&str> = missing.filter_map(|ability| ability.name.strip_prefix("cgroup-")).collect();
    let limits = (!groups.is_empty()).then(|| {
        format!(
            "functions have no cgroup for {}: their limits hold for each process alone, or not at all",
            groups.join(", ")
        )
    });
    let noexec = abilities.iter().filter(|ability| ability.name == "data directory");
    let others = noexec.map(|ability| ability.detail.clone());
    let space = abilities.iter().filter(|ability| ability.name == "address-space");
    let space = space.map(|ability| format!("little address space: {}", ability.detail));
    limits.into_iter().chain(others).chain(space).collect()
}

/// Examines this host, and runs a program in a sandbox. Leaves nothing behind, and does not disturb a server.
pub(crate) async fn examine(config: &Config) -> anyhow::Result<DoctorReport> {
    let scratch = spawn_blocking(|| Scratch::new(SCRATCH)).await?;
    let place = std::env::temp_dir();
    let scratch = scratch.with_context(|| {
        format!("making a folder of its own in {} (TMPDIR names another place)", place.display())
    })?;
    let mut report = examine_in(config, scratch.path()).await;
    if let Ok(report) = &mut report {
        report.abilities.extend(allowance::limited_space());
        report.abilities.extend(fewer_connections(config));
        report.abilities.extend(not_executable(&config.server.data_dir));
    }
    report
}

/// Removes what the launcher of a killed doctor may have left. False while that launcher is still doing so
/// itself.
fn clear(scratch: &Path) -> bool {
    let state = scratch.join(SANDBOX);
    let swept = flint_sandbox::sweep(&state);
    let left = std::fs::read_dir(&state).into_iter().flatten().flatten();
    swept.problems.is_empty()
        && !left.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".json"))
}

async fn examine_in(config: &Config, scratch: &Path) -> anyhow::Result<DoctorReport> {
    let uid_base = config.sandbox.uid_base;
    let mut launcher_config =
        LauncherConfig::new(scratch.join(SANDBOX), format!("doctor{}", std::process::id()));
    launcher_config.uid_base = uid_base;
    let launcher = match Launcher::spawn(launcher_config).await {
        Ok(launcher) => launcher,
        Err(error) => {
            let probed = spawn_blocking(move || flint_sandbox::probe(uid_base)).await?;
            let mut abilities: Vec<_> = probed.into_iter().map(ability_of).collect();
            abilities.push(broken("sandbox", error.to_string()));
            return Ok(DoctorReport { ok: false, abilities, runtimes: Vec::new() });
        }
    };
    let tried = trial(&launcher).await;
    let mut house = HouseConfig::new(scratch.join("prepared"), scratch.join("runtimes"), launcher.clone());
    house.search = config.runtimes.search.clone();
    let report = match House::open(house).await {
        Ok(house) => {
            let house = Arc::new(house);
            let process = Arc::new(ProcessExecutor::new(Arc::clone(&house)));
            let fork =
                ForkExecutor::new(Arc::clone(&house), Arc::clone(process.stems()), ForkConfig::default());
            let mut executors: Vec<Arc<dyn Executor>> = vec![process, Arc::new(fork)];
            let unused: Vec<_> = house.not_used().iter().map(not_used).collect();
            let wasm = wasm(config, scratch, house).await;
            let broken_wasm = wasm.as_ref().err().map(|why| broken("isolation wasm", format!("{why:#}")));
            executors.extend(wasm);
            let (mut abilities, runtimes, executors) = spawn_blocking(move || {
                let (abilities, runtimes) = (abilities(&executors, uid_base), runtimes(&executors));
                (abilities, runtimes, executors)
            })
            .await?;
            for executor in executors {
                executor.shutdown().await;
            }
            let ok = tried.state == AbilityState::Works && runtimes.iter().any(|runtime| runtime.available);
            abilities.push(tried);
            abilities.extend(broken_wasm);
            abilities.extend(unused);
            DoctorReport { ok, abilities, runtimes }
        }
        Err(error) => DoctorReport {
            ok: false,
            abilities: vec![tried, broken("runtimes", error.to_string())],
            runtimes: Vec::new(),
        },
    };
    launcher.shutdown().await;
    Ok(report)
}

/// The executor of Wasm functions, as in a server.
async fn wasm(config: &Config, scratch: &Path, house: Arc<House>) -> anyhow::Result<Arc<dyn Executor>> {
    let (settings, folder) = (config.wasm.config(config.pool.memory), scratch.join("wasm"));
    let services = Arc::new(Services::new(None)?);
    let executor = WasmExecutor::new(settings, &folder, services, Workshop::Sandboxes(house));
    executor.open().await?;
    Ok(Arc::new(executor))
}

fn broken(name: &str, why: String) -> AbilityResource {
    AbilityResource {
        name: name.to_owned(),
        state: AbilityState::Missing,
        detail: why,
        remedy: "what it says and what is missing above; run as root, or allow user namespaces to this user"
            .to_owned(),
    }
}

/// An interpreter that a server does not use.
fn not_used(one: &NotUsed) -> AbilityResource {
    let remedy = match one.because {
        Because::Replaceable => {
            "root runs nothing that another user could replace: give it to root, or run the server as that user"
        }
        Because::Hangs => {
            "run what hangs by hand to see what it waits for, or take it off PATH and runtimes.search"
        }
    };
    AbilityResource {
        name: "runtime not used".to_owned(),
        state: AbilityState::Limited,
        detail: one.why.clone(),
        remedy: remedy.to_owned(),
    }
}

/// Runs `/bin/true` in the way functions are run.
async fn trial(launcher: &Launcher) -> AbilityResource {
    let name = "sandbox".to_owned();
    match timeout(TRIAL, run_true(launcher)).await {
        Ok(Ok(setup_us)) => AbilityResource {
            name,
            state: AbilityState::Works,
            detail: format!("a program ran in one, set up in {:.1} ms", setup_us as f64 / 1000.0),
            remedy: String::new(),
        },
        Ok(Err(why)) => broken(&name, why),
        Err(_) => broken(&name, format!("a program did not end within {} s", TRIAL.as_secs())),
    }
}

async fn run_true(launcher: &Launcher) -> Result<u64, String> {
    let null = || {
        File::options()
            .write(true)
            .open("/dev/null")
            .map(OwnedFd::from)
            .map_err(|error| format!("/dev/null: {error}"))
    };
    let io = SandboxIo { stdin: None, stdout: null()?, stderr: null()?, link: None };
    let spec = SandboxSpec::new("doctor", vec!["true".to_owned()]);
    let sandbox = launcher.start(&spec, io).await.map_err(|error| error.to_string())?;
    let exit = sandbox.wait().await;
    match exit.status.success() {
        true => Ok(exit.setup_us),
        false => Err(format!("a program that does nothing ended with {}", exit.status)),
    }
}

fn runtimes(executors: &[Arc<dyn Executor>]) -> Vec<RuntimeResource> {
    let kinds = executors.iter().flat_map(|executor| executor.kinds());
    kinds
        .map(|runtime| RuntimeResource {
            kind: runtime.kind.to_string(),
            default: runtime.default,
            available: runtime.state.is_ok(),
            detail: runtime.state.unwrap_or_else(|missing| missing),
        })
        .collect()
}
