//! [`Launcher`], the server's handle to the launcher process, which starts a new one when it has died.

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::connection::{Begun, Connection};
use crate::error::{Error, Fault, Result};
use crate::launcher::is_root;
use crate::probe::{Probe, probe};
use crate::sandbox::Sandbox;
use crate::spec::{LauncherConfig, SandboxIo, SandboxSpec, check_limits};
use crate::sweep::{PATIENCE, SweepReport, sweep_within};
use crate::text::check_text;
use crate::wire::Request;

/// The server's handle to the launcher process. Clones share it. When the last one is dropped, every sandbox
/// ends as at shutdown, but nobody waits for it.
#[derive(Debug, Clone)]
pub struct Launcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: LauncherConfig,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Up(Arc<Connection>),
    ShutDown,
}

impl Launcher {
    /// Starts the launcher process.
    ///
    /// # Errors
    /// [`Error::LauncherStart`].
    pub async fn spawn(config: LauncherConfig) -> Result<Self> {
        check_config(&config)?;
        let connection = open(&config).await?;
        Ok(Self { shared: Arc::new(Shared { config, state: Mutex::new(State::Up(connection)) }) })
    }

    /// Starts a sandbox; returns once the payload's program has been executed. Dropping the future ends a
    /// sandbox under way. If the launcher has died, a new one is started first.
    ///
    /// # Errors
    /// What was wrong, where, and what to do: see [`Error`].
    pub async fn start(&self, spec: &SandboxSpec, io: SandboxIo) -> Result<Sandbox> {
        self.begin(spec, io, None).await.map(|(sandbox, _)| sandbox)
    }

    /// Like [`Self::start`], and returns a non-blocking socket that has been listening on `port` of the
    /// sandbox's loopback (127.0.0.1) since before anything ran there. Whatever connects to it is inside that
    /// sandbox: its network namespace is never given to another one.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_and_listen(
        &self,
        spec: &SandboxSpec,
        io: SandboxIo,
        port: u16,
    ) -> Result<(Sandbox, OwnedFd)> {
        let (sandbox, listener) = self.begin(spec, io, Some(port)).await?;
        listener.map(|listener| (sandbox, listener)).ok_or(Error::LauncherGone)
    }

    async fn begin(&self, spec: &SandboxSpec, io: SandboxIo, listen: Option<u16>) -> Result<Begun> {
        check_spec(spec, io.link.is_some()).map_err(|fault| fault.setup(&spec.id))?;
        let connection = self.connection().await?;
        let sid = connection.next_number();
        let request = Request::Start {
            sid,
            spec: Cow::Borrowed(spec),
            stdin: io.stdin.is_some(),
            link: io.link.is_some(),
            listen,
        };
        let fds: Vec<BorrowedFd<'_>> =
            [io.stdin.as_ref(), Some(&io.stdout), Some(&io.stderr), io.link.as_ref()]
                .into_iter()
                .flatten()
                .map(AsFd::as_fd)
                .collect();
        let started = connection.begin(sid, &spec.id, &request, &fds).await?;
        drop(io);
        started.await.map_err(|_| Error::LauncherGone)?
    }

    /// What this host offers for the isolation of this launcher's sandboxes: see [`probe`].
    pub fn probe(&self) -> Vec<Probe> {
        probe(self.shared.config.uid_base)
    }

    /// Whether directories can be mounted into a running sandbox ([`Sandbox::attach`]), which needs root.
    pub fn can_attach(&self) -> bool {
        is_root(self.shared.config.uid_base)
    }

    /// The executable that launchers are started from: [`LauncherConfig::exe`], or this process's own. Mount
    /// it from there into sandboxes that are to run it.
    ///
    /// # Errors
    /// This process's executable was replaced or removed since the process was started.
    pub fn program(&self) -> std::io::Result<PathBuf> {
        let program = match &self.shared.config.exe {
            Some(exe) => exe.clone(),
            None => std::fs::read_link("/proc/self/exe")?,
        };
        std::fs::canonicalize(&program).map_err(|error| {
            let text = format!(
                "{} was replaced or removed since it was started ({error}): start it again",
                program.display()
            );
            std::io::Error::new(error.kind(), text)
        })
    }

    /// Process id of the launcher, for diagnosis.
    pub async fn pid(&self) -> Option<u32> {
        match &*self.shared.state.lock().await {
            State::Up(connection) => Some(connection.pid()),
            State::ShutDown => None,
        }
    }

    /// Ends every sandbox and the launcher, and waits until nothing of them is left, even if the launcher was
    /// killed.
    pub async fn shutdown(self) {
        let state = std::mem::replace(&mut *self.shared.state.lock().await, State::ShutDown);
        if let State::Up(connection) = state {
            connection.close().await;
            sweep(&self.shared.config, LAST_PATIENCE).await;
        }
    }

    /// The connection to a living launcher.
    async fn connection(&self) -> Result<Arc<Connection>> {
        let mut state = self.shared.state.lock().await;
        match &*state {
            State::ShutDown => Err(Error::ShutDown),
            State::Up(connection) if !connection.is_gone() => Ok(connection.clone()),
            State::Up(old) => {
                tracing::warn!(pid = old.pid(), "the sandbox launcher has ended; starting another");
                old.close().await;
                sweep(&self.shared.config, PATIENCE).await;
                let connection = open(&self.shared.config).await?;
                *state = State::Up(connection.clone());
                Ok(connection)
            }
        }
    }
}

/// Starts a launcher; one that does not come up leaves nothing behind.
async fn open(config: &LauncherConfig) -> Result<Arc<Connection>> {
    let opened = Connection::open(config).await;
    if opened.is_err() {
        sweep(config, PATIENCE).await;
    }
    opened
}

/// How long the remains of a launcher may take to die when no next launcher will sweep them.
const LAST_PATIENCE: Duration = Duration::from_secs(50);

/// Removes what a killed launcher has left behind.
async fn sweep(config: &LauncherConfig, patience: Duration) {
    let state_dir = config.state_dir.clone();
    match tokio::task::spawn_blocking(move || sweep_within(&state_dir, patience)).await {
        Ok(report) if report == SweepReport::default() => {}
        Ok(report) if report.problems.is_empty() => tracing::info!(?report, "swept after the launcher"),
        Ok(report) => {
            tracing::warn!(?report, "the launcher left what could not be removed; the next start tries again")
        }
        Err(error) => tracing::error!(%error, "the sweep after the launcher broke off"),
    }
}

fn check_config(config: &LauncherConfig) -> Result<()> {
    let id = &config.server_id;
    let plain = id.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if id.is_empty() || id.len() > 40 || !plain {
        let what = format!("server_id {id:?} must have 1 to 40 letters, digits, - or _");
        return Err(Error::LauncherStart {
            step: "check the configuration".into(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, what),
        });
    }
    Ok(())
}

fn check_spec(spec: &SandboxSpec, link: bool) -> Result<(), Fault> {
    let invalid = |what: String| Err(Fault::Invalid { what });
    if spec.argv.is_empty() {
        return invalid("argv is empty; it names the program to run".into());
    }
    if spec.spawner && (spec.zygote || !link) {
        return invalid("a spawner needs a link, and is no zygote".into());
    }
    if spec.hostname.len() > 64 {
        return invalid(format!("hostname has {} bytes, at most 64 are allowed", spec.hostname.len()));
    }
    check_limits(&spec.limits)?;
    if spec.zygote && i64::from(spec.limits.open_files) <= i64::from(crate::TMP_FD) {
        return invalid(format!("limits too low: a zygote needs more than {} open files", crate::TMP_FD));
    }
    if spec.limits.open_files < 8 {
        return invalid("limits too low: at least 8 open files".into());
    }
    let env = spec.env.iter().map(|(name, value)| (&**name, &**value));
    check_text(spec.argv.iter().map(String::as_str), env, 0).map_err(|what| Fault::TextTooLong { what })
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let State::Up(connection) = self.state.get_mut() {
            connection.hang_up();
        }
    }
}
