//! A launcher for a test, and sandboxes in it.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod zygote;

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flint_sandbox::{
    Exit, Launcher, LauncherConfig, Mount, ProbeState, Result, Sandbox, SandboxIo, SandboxSpec,
};

pub const HELPER: &str = env!("CARGO_BIN_EXE_flint-sandbox-test-helper");
pub const INSIDE: &str = "/function/helper";

/// A launcher with a state directory of its own.
pub struct Host {
    pub launcher: Launcher,
    pub directory: tempfile::TempDir,
}

impl Host {
    pub async fn new(id: &str) -> Self {
        Self::with(id, |_| {}).await
    }

    pub async fn with(id: &str, change: impl FnOnce(&mut LauncherConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let id = format!("{id}-{}", std::process::id());
        let mut config = LauncherConfig::new(directory.path(), id);
        config.exe = Some(HELPER.into());
        change(&mut config);
        Self { launcher: Launcher::spawn(config).await.unwrap(), directory }
    }

    /// Starts `spec`; gives the sandbox and the end of its output.
    pub async fn start(&self, spec: &SandboxSpec) -> Result<(Sandbox, std::io::PipeReader)> {
        let (reader, writer) = std::io::pipe().unwrap();
        let stderr: OwnedFd = writer.try_clone().unwrap().into();
        let io = SandboxIo { stdin: None, stdout: writer.into(), stderr, link: None };
        Ok((self.launcher.start(spec, io).await?, reader))
    }

    /// Runs `spec` to its end; gives its exit and its output (both streams).
    pub async fn run(&self, spec: &SandboxSpec) -> Result<(Exit, String)> {
        let (sandbox, mut reader) = self.start(spec).await?;
        let output = tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let exit = sandbox.wait().await;
        Ok((exit, output.await.unwrap()))
    }

    /// Runs the intruder and gives its findings.
    pub async fn intrude(&self, arguments: &[&str]) -> HashMap<String, String> {
        let (exit, output) = self.run(&helper(&[&["intrude"], arguments].concat())).await.unwrap();
        assert!(exit.status.success(), "{exit:?}: {output}");
        findings(&output)
    }
}

pub fn findings(output: &str) -> HashMap<String, String> {
    let pairs = output.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A sandbox that runs the helper program.
pub fn helper(arguments: &[&str]) -> SandboxSpec {
    let argv = std::iter::once(INSIDE).chain(arguments.iter().copied()).map(str::to_owned).collect();
    let mut spec = SandboxSpec::new("test", argv);
    spec.mounts.push(Mount { source: HELPER.into(), target: INSIDE.into(), readonly: true });
    spec
}

/// A sandbox that runs a shell script.
pub fn shell(script: &str) -> SandboxSpec {
    SandboxSpec::new("test", ["/bin/sh", "-c", script].map(str::to_owned).to_vec())
}

/// Waits (up to a minute) until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All cgroup directories whose name begins so. Those of a [`Host`], `flint-ID-`, only when this process has it: the same test may run beside.
pub fn groups(prefix: &str) -> Vec<PathBuf> {
    let own =
        if prefix.ends_with('-') { format!("{prefix}{}-", std::process::id()) } else { prefix.to_owned() };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points =
        mounts.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    let mut found = Vec::new();
    for point in points {
        search(Path::new(point), &own, 0, &mut found);
    }
    found
}

fn search(directory: &Path, prefix: &str, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            }
            if depth < 6 {
                search(&entry.path(), prefix, depth + 1, found);
            }
        }
    }
}

/// Process ids in these cgroups and below.
pub fn members(groups: &[PathBuf]) -> Vec<u32> {
    let mut pids = Vec::new();
    for group in groups {
        let mut all = vec![group.clone()];
        search(group, "", 0, &mut all);
        for directory in all {
            let text = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this host has `ability`, if only in part; says so when not.
pub fn has(ability: &str) -> bool {
    let found =
        flint_sandbox::probe(0).into_iter().find(|probe| probe.name == ability).expect("a known probe");
    if found.state == ProbeState::Missing {
        println!("not checked, {}: {} ({})", found.name, found.detail, found.remedy);
    }
    found.state != ProbeState::Missing
}
