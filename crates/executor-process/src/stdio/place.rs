//! Where a call's process runs: in a sandbox of its own, or in a long-lived one, one call after another.

use std::{
    fs::OpenOptions,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use flint_executor::Fault;
use flint_runtimes::process::{command, ending, starter::Starter};
use flint_sandbox::{Ended, Error, Exit, ExitStatus, Program, Sandbox, SandboxIo, SandboxSpec, Spawner};
use tokio::{sync::SetOnce, time::timeout_at};

/// When a process was killed for lack of memory, its whole sandbox ends within this time.
const FOLLOWING: Duration = Duration::from_millis(50);
const KILLED: ExitStatus = ExitStatus::Signal(9);

/// What is specific to a call's process.
pub(super) struct Task {
    pub(super) arguments: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Where an instance's processes run.
pub(crate) enum Place {
    /// A sandbox made for the call, so that nothing runs before there is input.
    Fresh {
        starter: Starter,
        /// Taken by the call.
        spec: Mutex<Option<Box<SandboxSpec>>>,
        sandbox: SetOnce<Arc<Sandbox>>,
    },
    Kept(Arc<Kept>),
}

/// A long-lived sandbox and the program that it runs.
pub(crate) struct Kept {
    sandbox: Arc<Sandbox>,
    spawner: Spawner,
    program: String,
}

/// The process of one call.
pub(super) enum Process {
    Alone(Arc<Sandbox>),
    Guest {
        kept: Arc<Kept>,
        /// Kept, since the spawner reports it only once and `ended` may be called again.
        ended: OnceLock<Ended>,
    },
}

impl Place {
    /// A place for one call.
    pub(crate) fn fresh(starter: Starter, spec: SandboxSpec) -> Self {
        Self::Fresh { starter, spec: Mutex::new(Some(Box::new(spec))), sandbox: SetOnce::new() }
    }

    /// A place for any number of calls, one at a time.
    pub(crate) async fn kept(
        starter: &Starter,
        mut spec: SandboxSpec,
        deadline: Instant,
    ) -> Result<Self, Fault> {
        spec.spawner = true;
        let null = || OpenOptions::new().write(true).open("/dev/null").map(OwnedFd::from);
        let made = || -> io::Result<_> {
            let (spawner, link) = Spawner::link()?;
            Ok((spawner, SandboxIo { stdin: None, stdout: null()?, stderr: null()?, link: Some(link) }))
        };
        let (spawner, io) = made().map_err(|error| no_descriptors(&error))?;
        let sandbox = match timeout_at(deadline.into(), starter.start(&spec, io)).await {
            Err(_) => return Err(Fault::Deadline),
            Ok(started) => started.map_err(|error| ending::fault_of_start(&error, true))?,
        };
        let program = spec.argv.swap_remove(0);
        Ok(Self::Kept(Arc::new(Kept { sandbox: Arc::new(sandbox), spawner, program })))
    }

    /// Starts a call's process.
    pub(super) async fn start(&self, task: Task, deadline: Instant) -> Result<Process, Fault> {
        match self {
            Self::Fresh { starter, spec, sandbox } => {
                let spec = spec.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(mut spec) = spec else {
                    let cause = "a process in a sandbox of its own serves one call only, and has served it";
                    return Err(Fault::Platform { cause: cause.into() });
                };
                spec.argv.extend(task.arguments);
                command::set_all(&mut spec.env, task.env);
                let (stdin, stdout, stderr) = (task.stdin, task.stdout, task.stderr);
                let io = SandboxIo { stdin, stdout, stderr, link: None };
                match timeout_at(deadline.into(), starter.start(&spec, io)).await {
                    Err(_) => Err(Fault::Deadline),
                    Ok(Err(error)) => Err(ending::fault_of_start(&error, true)),
                    Ok(Ok(started)) => {
                        let started = Arc::new(started);
                        let _ = sandbox.set(Arc::clone(&started));
                        Ok(Process::Alone(started))
                    }
                }
            }
            Self::Kept(kept) => {
                let Task { arguments, env, stdin, stdout, stderr } = task;
                let variables = env.iter().map(|(name, value)| (&**name, &**value));
                flint_sandbox::check_text(arguments.iter().map(String::as_str), variables, 0)
                    .map_err(|message| Fault::Developer { message })?;
                let program = Program { arguments: &arguments, env: &env, stdin, stdout, stderr };
                match timeout_at(deadline.into(), kept.spawner.run(program)).await {
                    Err(_) => Err(Fault::Deadline),
                    Ok(Ok(())) => Ok(Process::Guest { kept: Arc::clone(kept), ended: OnceLock::new() }),
                    Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                        Err(Fault::Developer { message: format!("the program cannot be executed: {error}") })
                    }
                    Ok(Err(error)) => Err(Fault::Platform {
                        cause: format!("the program's sandbox does not take a call: {error}"),
                    }),
                }
            }
        }
    }

    /// The sandbox, once it exists.
    pub(super) fn sandbox(&self) -> Option<&Arc<Sandbox>> {
        match self {
            Self::Fresh { sandbox, .. } => sandbox.get(),
            Self::Kept(kept) => Some(&kept.sandbox),
        }
    }

    /// Resolves when the sandbox has existed and ended.
    pub(super) async fn ended(&self) {
        let sandbox = match self {
            Self::Fresh { sandbox, .. } => sandbox.wait().await,
            Self::Kept(kept) => &kept.sandbox,
        };
        sandbox.wait().await;
    }

    /// Rules out further calls.
    pub(super) fn close(&self) {
        if let Self::Fresh { spec, .. } = self {
            spec.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl Process {
    pub(super) fn sandbox(&self) -> &Sandbox {
        match self {
            Self::Alone(sandbox) => sandbox,
            Self::Guest { kept, .. } => &kept.sandbox,
        }
    }

    /// Waits for the end of the process and its descendants. Cancellation-safe; may be called again.
    pub(super) async fn ended(&self) -> Result<Exit, Fault> {
        let (kept, known) = match self {
            Self::Alone(sandbox) => return Ok(sandbox.wait().await),
            Self::Guest { kept, ended } => (kept, ended),
        };
        let ended = match known.get() {
            Some(ended) => *ended,
            None => {
                let told = tokio::select! {
                    told = kept.spawner.ended() => told,
                    exit = kept.sandbox.wait() => return Ok(exit),
                };
                let Ok(told) = told else { return Ok(kept.sandbox.wait().await) };
                *known.get_or_init(|| told)
            }
        };
        match ended {
            Ended { status: Err(errno), .. } => {
                let (id, program) = (kept.sandbox.id().to_owned(), kept.program.clone());
                let source = io::Error::from_raw_os_error(errno);
                Err(ending::fault_of_start(&Error::Exec { id, program, source }, true))
            }
            Ended { status: Ok(status), usage } => {
                if status == KILLED
                    && let Ok(exit) = tokio::time::timeout(FOLLOWING, kept.sandbox.wait()).await
                {
                    return Ok(exit);
                }
                Ok(Exit::new(status, usage))
            }
        }
    }

    /// Whether another call may follow this one, which has ended.
    pub(super) fn is_reusable(&self) -> bool {
        matches!(self, Self::Guest { kept, .. } if kept.sandbox.exited().is_none())
    }
}

/// The fault of a call for which no pipes could be made.
pub(super) fn no_descriptors(error: &io::Error) -> Fault {
    Fault::Platform {
        cause: format!(
            "the program's pipes could not be made: {error}; raise the limit of open files (ulimit -n)"
        ),
    }
}
