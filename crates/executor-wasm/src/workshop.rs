//! Where code is compiled and initialisers are run: each piece of work in a process of its own, inside a sandbox, that can be ended at any moment.
//!
//! What compiles is the server's own program, started again as `flint __wasm-workshop ORDER` with the module on its standard input; what it makes goes
//! to its standard output. Compiling reads what users sent, for as long and with as much memory as that makes it take. An initialiser *is* what users sent. The two
//! are never done by one process: machine code, which the server runs as it is, comes from processes that have run nobody's code.

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

/// The argument that makes an executable a workshop.
const ARGUMENT: &str = "__wasm-workshop";
/// Where the server's program is inside the sandbox.
const PROGRAM: &str = "/workshop";
/// The exit code of work that the code was to blame for; standard error says why.
const REFUSED: i32 = 3;
/// The most that is made of a module: machine code takes several times its size.
const LARGEST: ByteSize = ByteSize::mib(512);
/// What the allocator may have reserved where the kernel does not say how much it is.
const RESERVED: u64 = 1280 << 20;
/// Threads of the compiler, and everything else in the sandbox.
const PROCESSES: u32 = 128;
/// Like other builds, it takes the processors that it gets.
const CPU_MILLIS: u32 = 4000;
/// The allocator takes memory as it is needed instead of a gigabyte at once, so that the bound on its memory is exact.
const ALLOCATOR: (&str, &str) = ("MIMALLOC_ARENA_EAGER_COMMIT", "0");
/// What is said where memory is refused: by Rust's runtime, by the system, and for the stacks of the compiler's threads.
const NO_MEMORY: [&str; 3] =
    ["memory allocation of", "Cannot allocate memory", "The global thread pool has not been initialized"];

/// Where code is compiled and initialisers are run.
#[derive(Clone)]
pub enum Workshop {
    /// In a sandbox for each piece of work, as builds of this house: they take turns, and what failed a moment ago is not tried again. The program that the
    /// house's launcher was started from has to call [`workshop_entry`] in its `main`.
    Sandboxes(Arc<House>),
    /// In this process, where it cannot be interrupted and its memory is not bounded: for benchmarks and fuzzing, whose modules are their own.
    Here,
}

/// Why work was not done.
#[derive(Debug)]
pub(crate) enum Undone {
    /// The code is to blame, and why.
    Refused(String),
    TooLong,
    OutOfMemory(ByteSize),
    TooMuch(ByteSize),
    /// The process that did it broke down over this code.
    Crashed(String),
    /// It could not be begun.
    NotBegun(String),
}

impl Workshop {
    /// Does `work`, which makes what `address` names, when it is its turn.
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

    /// Whether the disk has room for what is made.
    pub(crate) fn go_on(&self) -> Result<(), PrepareError> {
        match self {
            Self::Sandboxes(house) => house.go_on(),
            Self::Here => Ok(()),
        }
    }

    /// Has an order carried out within its configuration's bounds. Dropped, it is ended, with whatever it has made so far.
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
            // It sees them where a call does.
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
        // Where no cgroup ends it, the process does so itself.
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

/// Turns this process into a workshop when it was started as one (and then does not return); otherwise does nothing. To be called in `main` before any thread
/// exists, after [`flint_sandbox::launcher_entry`].
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

/// Gives the exit code.
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

/// The sandbox's cgroup bounds memory where there is one; this does everywhere. Processor time ends with the time allowed, whoever watches.
fn bound_oneself(memory: ByteSize, within: Duration) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let data = memory.as_u64().saturating_add(taken());
    let limits = [(Resource::Data, data), (Resource::Cpu, (within.as_secs() + 1).saturating_mul(cores))];
    for (resource, most) in limits {
        // Lowering a limit of one's own is never refused.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

/// What counts against the limit of data by now, before any work: also what the allocator has reserved and nothing uses.
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
