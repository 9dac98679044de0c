//! A Flint server of the benchmark's own: this binary on a free port, with a temporary data directory.

use std::{
    collections::HashSet,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use flint_api_native::resource::ErrorBody;
use flint_lab::{ArmError, ProcessTree};
use serde_json::Value;
use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, net::TcpStream};

use super::tied::tied;

/// The prefix of Flint's variables. The user's own are for another server, not for the measured one.
const OURS: &str = "FLINT_";

/// How long a server may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to stop when asked.
const STOPPED_WITHIN: Duration = Duration::from_secs(30);

/// What the CLI says about a failure; of an error in JSON, its message.
fn refusal(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let last = said.trim().lines().last().unwrap_or_default();
    match serde_json::from_str::<ErrorBody>(last) {
        Ok(body) => body.error.message,
        Err(_) => said.trim().to_owned(),
    }
}

/// A running server, stopped on drop.
pub(super) struct Server {
    process: Child,
    /// Where it listens.
    pub(super) address: SocketAddr,
    binary: PathBuf,
    data: PathBuf,
}

impl Server {
    /// Starts `flint up` with throttles disabled and defaults otherwise, except for settings, given as
    /// environment variables. `scratch` is a folder for this server only.
    pub(super) async fn start_with(scratch: &Path, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_in(scratch, settings, None).await
    }

    /// The same within a cgroup, by its folder: from the first instruction on, with all its descendants.
    pub(super) async fn start_in(
        scratch: &Path,
        settings: &[(&str, &str)],
        group: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let binary = std::env::current_exe().context("finding this program")?;
        // The port is free now and, on a machine that is being benchmarked, a moment later as well.
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .context("finding a free port")?;
        let log = std::fs::File::create(scratch.join("server.log")).context("creating the server's log")?;
        let data = scratch.join("data");
        let process = unset(in_group(group, &binary))
            .args(["up", "--listen", &address.to_string(), "--data-dir"])
            .arg(&data)
            .env("FLINT_LIMITS__INVOCATIONS_PER_MINUTE", "1000000000")
            .env("FLINT_LIMITS__CONCURRENT_INVOCATIONS", "100000")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("the server's log")?)
            .stderr(log)
            .spawn()
            .context("starting the server")?;
        let mut server = Self { process, address, binary, data };
        server.wait_until_ready(scratch).await?;
        Ok(server)
    }

    async fn wait_until_ready(&mut self, scratch: &Path) -> anyhow::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < READY_WITHIN {
            if let Some(status) = self.process.try_wait().context("waiting for the server")? {
                let log = std::fs::read_to_string(scratch.join("server.log")).unwrap_or_default();
                bail!("the server ended with {status}:\n{log}");
            }
            if self.is_ready().await.unwrap_or(false) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the server was not ready within {} s", READY_WITHIN.as_secs())
    }

    async fn is_ready(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await?;
        Ok(&status == b"HTTP/1.1 200")
    }

    /// Deploys with the CLI, as a user does.
    pub(super) fn deploy(&self, code: &Path, name: &str, options: &[&str]) -> anyhow::Result<()> {
        self.deployed(code, name, options).map(drop)
    }

    /// The same; returns the server's response.
    pub(super) fn deployed(&self, code: &Path, name: &str, options: &[&str]) -> anyhow::Result<Value> {
        self.deployed_with(None, code, name, options)
    }

    /// The same with `tools` first on PATH, for code that is built.
    pub(super) fn deployed_with(
        &self,
        tools: Option<&Path>,
        code: &Path,
        name: &str,
        options: &[&str],
    ) -> anyhow::Result<Value> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = tools.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
        let output = unset(Command::new(&self.binary))
            .env("PATH", std::env::join_paths(folders).context("putting the tools on PATH")?)
            // Whatever it leaves when killed is removed with this server's folder.
            .env("TMPDIR", self.data.parent().unwrap_or(&self.data))
            .arg("deploy")
            .arg(code)
            .args(["--json", "--name", name, "--url", &format!("http://{}", self.address)])
            .args(options)
            .output()
            .context("running flint deploy")?;
        ensure!(output.status.success(), "deploying {name} failed: {}", refusal(&output.stderr));
        serde_json::from_slice(&output.stdout).context("reading what flint deploy said")
    }

    /// Creates a namespace as an operator does; returns its key.
    pub(super) fn namespace(&self, name: &str, options: &[&str]) -> anyhow::Result<String> {
        let output = unset(Command::new(&self.binary))
            .args(["namespace", "create", name, "--data-dir"])
            .arg(&self.data)
            .args(options)
            .output()
            .context("running flint namespace create")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "making the namespace {name} failed: {}", said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A file of the runtime shims, as the server unpacked them.
    pub(super) fn shim(&self, file: &str) -> anyhow::Result<PathBuf> {
        let runtimes = self.data.join("runtimes");
        let layouts =
            std::fs::read_dir(&runtimes).with_context(|| format!("reading {}", runtimes.display()))?;
        layouts
            .flatten()
            .map(|layout| layout.path().join(file))
            .find(|path| path.exists())
            .with_context(|| format!("the server has no {file} in {}", runtimes.display()))
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The server and its launcher; all other descendants belong to functions.
    pub(super) fn own_processes(&self) -> HashSet<u32> {
        let launchers = ProcessTree::new(self.pid()).pids().into_iter().filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim() == "flint-launcher")
        });
        launchers.chain([self.pid()]).collect()
    }

    pub(super) fn binary_size(&self) -> anyhow::Result<u64> {
        Ok(std::fs::metadata(&self.binary).context("measuring the binary")?.len())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Asked to stop first, so that it removes its data directory and sandboxes.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begin = Instant::now();
        while begin.elapsed() < STOPPED_WITHIN && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Variables of the environment that are not passed to a benchmark's servers: their settings would appear in
/// no report.
pub(super) fn left_out() -> Vec<String> {
    ours(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))
}

fn ours(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.filter(|name| name.starts_with(OURS)).collect();
    names.sort_unstable();
    names
}

/// `command` without these variables.
fn unset(command: Command) -> Command {
    without(command, &left_out())
}

fn without(mut command: Command, names: &[String]) -> Command {
    for name in names {
        command.env_remove(name);
    }
    command
}

/// A program that is killed with this one, within a cgroup by its folder, from its first instruction on.
pub(super) fn in_group(group: Option<&Path>, program: &Path) -> Command {
    let Some(group) = group else { return tied(program) };
    let mut shell = tied("/bin/sh");
    shell.args(["-c", r#"echo $$ > "$0" && exec "$@""#]).arg(group.join("cgroup.procs")).arg(program);
    shell
}

/// A gauge or counter of the server, by its metric's name.
pub(super) async fn metric(address: SocketAddr, name: &str) -> Result<f64, ArmError> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    answer
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        .ok_or_else(|| ArmError::WrongAnswer(format!("the server's metrics do not have {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_told_what_its_caller_has_set_for_others() {
        let set = ["FLINT_SNAPSHOT__STANDBYS", "PATH", "FLINT_CONFIG", "FLINTLOCK", "FLINT_AUTH"];
        let names = ours(set.iter().map(|&name| name.to_owned()));
        assert_eq!(names, ["FLINT_AUTH", "FLINT_CONFIG", "FLINT_SNAPSHOT__STANDBYS"]);
        let mut command = Command::new("/usr/bin/env");
        // Instead of the inherited environment.
        command.env_clear().envs(set.map(|name| (name, "1")));
        let mut command = without(command, &names);
        command.env("FLINT_POOL__PREWARM", "0");
        let output = command.output().unwrap();
        let mut seen: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        seen.sort_unstable();
        assert_eq!(seen, ["FLINTLOCK=1", "FLINT_POOL__PREWARM=0", "PATH=1"]);
    }
}
