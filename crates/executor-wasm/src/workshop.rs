//! Compiles code and runs initialisers, each in a process of its own inside a sandbox, which can be ended at
//! any moment.
//!
//! The process runs the server's own program as `flint __wasm-workshop ORDER`, with the module on its stdin
//! and the product on its stdout. A compiler processes what users sent, which may make it take any time and
//! memory; an initialiser *is* what users sent. One process never does both: the machine code that the server
//! runs comes from processes that have not run anybody's code.

use std::{
    env,
    io::{self, Read, Write},
    path::PathBuf,
    process,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use flint_executor::{PrepareError, Progress};
use flint_model::{ByteSize, Function};
use flint_runtimes::{
    House,
    process::tool::{self, Bounds, ToolError},
};
use flint_sandbox::{ExitStatus, Mount, SandboxSpec};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::{
    host::ASSETS,
    order::{Order, Task},
};

/// The argument that turns an executable into a workshop.
const ARGUMENT: &str = "__wasm-workshop";
/// The path of the server's program inside the sandbox.
const PROGRAM: &str = "/workshop";
/// The exit code for a failure caused by the code; stderr has the reason.
const REFUSED: i32 = 3;
/// Largest product: machine code takes several times a module's size.
const LARGEST: ByteSize = ByteSize::mib(512);
/// The allocator's reservation where the kernel does not report it.
const RESERVED: u64 = 1280 << 20;
/// Threads of the compiler and everything else in the sandbox.
const PROCESSES: u32 = 128;
/// Like other builds, it uses up to four cores.
const CPU_MILLIS: u32 = 4000;
/// Makes the allocator commit memory on demand instead of a gigabyte in advance, so that the memory limit is
/// exact.
const ALLOCATOR: (&str, &str) = ("MIMALLOC_ARENA_EAGER_COMMIT", "0");
/// The messages when memory is refused: Rust's, the system's, and that for the stacks of the compiler's
/// threads.
const NO_MEMORY: [&str; 3] =
    ["memory allocation of", "Cannot allocate memory", "The global thread pool has not been initialized"];

/// Where code is compiled and initialisers are run.
#[derive(Clone)]
pub enum Workshop {
    /// In a sandbox per job, as builds of this house: they take turns, and a recent failure is not repeated.
    /// The program from which the house's launcher was started must call [`workshop_entry`] in its `main`.
    Sandboxes(Arc<House>),
    /// In this process, without a memory limit and uninterruptible: for benchmarks and fuzzing, which use
    /// trusted modules.
    Here,
}

/// Why a job failed.
#[derive(Debug)]
pub(crate) enum Undone {
    /// The code caused the failure, for this reason.
    Refused(String),
    TooLong,
    OutOfMemory(ByteSize),
    TooMuch(ByteSize),
    /// Its process crashed on this code.
    Crashed(String),
    /// It could not be started.
    NotBegun(String),
}

impl Workshop {
    /// Does `work`, whose product is identified by `address`, when it is the namespace's turn.
    pub(crate) async fn in_turn<T>(
        &self,
        function: &Function,
        address: &str,
        progress: Progress<'_>,
        work: impl Future<Output = Result<T, PrepareError>>,
    ) -> Result<T, PrepareError> {
        match self {
            Self::Sandboxes(house) => house.build(&function.path.namespace, address, progress, work).await,
            Self::Here => work.await,
        }
    }

    /// Whether the disk has room for the product.
    pub(crate) fn go_on(&self) -> Result<(), PrepareError> {
        match self {
            Self::Sandboxes(house) => house.go_on(),
            Self::Here => Ok(()),
        }
    }

    /// Does a job within the limits of its configuration. Dropping the future ends it.
    pub(crate) async fn carry_out(&self, order: Order, code: Bytes) -> Result<Vec<u8>, Undone> {
        let within = order.config.compile_timeout;
        match self {
            Self::Sandboxes(house) => in_sandbox(house, order, &code).await,
            Self::Here => {
                let working = tokio::task::spawn_blocking(move || order.carry_out(&code));
                match tokio::time::timeout(within, working).await {
                    Err(_) => Err(Undone::TooLong),
                    Ok(Err(panicked)) => Err(Undone::Crashed(panicked.to_string())),
                    Ok(Ok(done)) => done.map_err(Undone::Refused),
                }
            }
        }
    }
}

async fn in_sandbox(house: &House, mut order: Order, code: &[u8]) -> Result<Vec<u8>, Undone> {
    let not_begun = |error: String| Undone::NotBegun(error);
    let launcher = house.launcher();
    let readonly =
        |source: PathBuf, target: &str| Mount { source, target: target.to_owned(), readonly: true };
    let mut mounts =
        vec![readonly(launcher.program().map_err(|error| not_begun(error.to_string()))?, PROGRAM)];
    let id = match &mut order.task {
        Task::Compile => "wasm-compile",
        Task::Initialise(initialiser) => {
            // An initialiser sees the assets at the same path as a call.
            if let Some(assets) = &mut initialiser.assets {
                mounts.push(readonly(std::mem::replace(assets, ASSETS.into()), ASSETS));
            }
            "wasm-initialise"
        }
    };
    let bounds =
        Bounds { within: order.config.compile_timeout, memory: order.config.compile_memory, size: LARGEST };
    let order = serde_json::to_string(&order).map_err(|error| not_begun(error.to_string()))?;
    let mut spec = SandboxSpec::new(id, vec![PROGRAM.to_owned(), ARGUMENT.to_owned(), order]);
    spec.mounts = mounts;
    spec.cwd = "/".to_owned();
    spec.env = vec![(ALLOCATOR.0.to_owned(), ALLOCATOR.1.to_owned())];
    spec.tmp_bytes = 1 << 20;
    spec.limits.processes = PROCESSES;
    spec.limits.cpu_millis = CPU_MILLIS;
    tool::convert(launcher, spec, code, bounds).await.map_err(|error| undone(error, bounds.memory))
}

fn undone(error: ToolError, memory: ByteSize) -> Undone {
    match error {
        ToolError::NotRun(why) => Undone::NotBegun(why),
        ToolError::TooLong(_) => Undone::TooLong,
        ToolError::OutOfMemory(most) => Undone::OutOfMemory(most),
        ToolError::TooMuch(most) => Undone::TooMuch(most),
        // Without a cgroup, the process itself fails at its limit.
        ToolError::Failed { said, .. } if NO_MEMORY.iter().any(|words| said.contains(words)) => {
            Undone::OutOfMemory(memory)
        }
        ToolError::Failed { status: ExitStatus::Code(REFUSED), said } => Undone::Refused(said),
        ToolError::Failed { status: ExitStatus::Lost, .. } => {
            Undone::NotBegun("the sandbox launcher ended; the next attempt starts another".to_owned())
        }
        failed @ ToolError::Failed { .. } => Undone::Crashed(failed.to_string()),
    }
}

/// Turns this process into a workshop if it was started as one, and then does not return; otherwise does
/// nothing. Must be called in `main` before any thread exists, after [`flint_sandbox::launcher_entry`].
pub fn workshop_entry() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == ARGUMENT) {
        let order = arguments.next().and_then(|order| serde_json::from_slice(order.as_encoded_bytes()).ok());
        let Some(order) = order else {
            eprintln!("{ARGUMENT} is how Flint starts itself to compile Wasm; it is of no use by hand");
            process::exit(2);
        };
        process::exit(serve(&order));
    }
}

/// Does the job; returns the exit code.
fn serve(order: &Order) -> i32 {
    bound_oneself(order.config.compile_memory, order.config.compile_timeout);
    let mut code = Vec::new();
    let done = io::stdin().read_to_end(&mut code).map_err(|error| error.to_string());
    let written = |made: Vec<u8>| {
        let mut out = io::stdout().lock();
        out.write_all(&made).and_then(|()| out.flush()).map_err(|error| error.to_string())
    };
    match done.map(|_| order.carry_out(&code)) {
        Ok(Err(why)) => {
            eprintln!("{why}");
            REFUSED
        }
        Ok(Ok(made)) => written(made).map_or_else(complain, |()| 0),
        Err(why) => complain(why),
    }
}

fn complain(why: String) -> i32 {
    eprintln!("{why}");
    1
}

/// Limits memory even where the sandbox has no cgroup. CPU time is limited too, whether or not anybody
/// watches the process.
fn bound_oneself(memory: ByteSize, within: Duration) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let data = memory.as_u64().saturating_add(taken());
    let limits = [(Resource::Data, data), (Resource::Cpu, (within.as_secs() + 1).saturating_mul(cores))];
    for (resource, most) in limits {
        // A process may always lower its own limits.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

/// The memory that counts towards RLIMIT_DATA before any work, including what the allocator has reserved but
/// does not use.
fn taken() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmData:")?.split_whitespace().next());
    kilobytes.and_then(|number| number.parse::<u64>().ok()).map_or(RESERVED, |number| number << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_refused_is_told_from_a_crash() {
        let failed = |status, said: &str| {
            undone(ToolError::Failed { status, said: said.to_owned() }, ByteSize::mib(1))
        };
        let abort = ExitStatus::Signal(6);
        assert!(matches!(failed(abort, "memory allocation of 1024 bytes failed"), Undone::OutOfMemory(_)));
        assert!(matches!(failed(abort, "thread 'main' panicked"), Undone::Crashed(_)));
        let no_threads = r#"The global thread pool has not been initialized.: ThreadPoolBuildError { kind: IOError(Os { code: 11, kind: WouldBlock, message: "Resource temporarily unavailable" }) }"#;
        assert!(matches!(failed(ExitStatus::Code(101), no_threads), Undone::OutOfMemory(_)));
        let refused = ExitStatus::Code(REFUSED);
        assert!(matches!(
            failed(refused, "mmap: Cannot allocate memory (os error 12)"),
            Undone::OutOfMemory(_)
        ));
        assert!(matches!(failed(ExitStatus::Code(REFUSED), "no"), Undone::Refused(_)));
        assert!(matches!(failed(ExitStatus::Code(101), "no"), Undone::Crashed(_)));
        assert!(matches!(failed(ExitStatus::Lost, ""), Undone::NotBegun(_)));
    }
}
