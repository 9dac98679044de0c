//! Ending sandboxes, and saying how they ended.

use std::{io, time::Duration};

use flint_executor::{EndOfProcess, Fault};
use flint_sandbox::{Exit, ExitStatus, Sandbox};

use super::{logs::Logs, output::Output};

/// A process that closed its link is on its way out, which takes its memory's time; one that is not is helped after this long.
const LEAVING: Duration = Duration::from_millis(500);
/// The kernel ends a whole process tree within this, unless the machine is overloaded; then the answer does not wait for it.
const DYING: Duration = Duration::from_millis(40);
/// For stops, which promise that nothing is left.
const DEAD: Duration = Duration::from_secs(30);

/// Signal that ends a program which calls `abort`, as V8 does when its heap is full.
const ABORT: i32 = 6;
/// What V8 and the JVM write then.
const HEAP_IS_FULL: [&str; 2] = ["JavaScript heap out of memory", "java.lang.OutOfMemoryError"];

/// The process ended, or broke off, by itself: waits for it and says how.
pub async fn of_itself(sandbox: &Sandbox, output: &mut Output, logs: &mut Logs) -> Fault {
    let exit = tokio::select! {
        exit = gather(sandbox, output, logs) => Some(exit),
        () = tokio::time::sleep(LEAVING) => None,
    };
    match exit {
        Some(exit) => fault_of(&exit, logs),
        // Its status would say that it was killed just now.
        None => match by_force(sandbox, output, logs).await {
            Some(exit) if exit.oom => Fault::OutOfMemory,
            _ => Fault::Exited { end: None },
        },
    }
}

/// Kills it and collects what it wrote, without waiting long; its end, if that was soon.
pub async fn by_force(sandbox: &Sandbox, output: &mut Output, logs: &mut Logs) -> Option<Exit> {
    sandbox.kill();
    tokio::time::timeout(DYING, gather(sandbox, output, logs)).await.ok()
}

/// Kills it and waits until nothing is left.
pub async fn completely(sandbox: &Sandbox) {
    sandbox.kill();
    if tokio::time::timeout(DEAD, sandbox.wait()).await.is_err() {
        tracing::error!(sandbox = sandbox.id(), "a sandbox has not ended {DEAD:?} after it was killed");
    }
}

/// The end, with everything written until then.
pub async fn gather(sandbox: &Sandbox, output: &mut Output, logs: &mut Logs) -> Exit {
    // Both at once: a process may wait for its full pipe to be read before it ends.
    let exit = {
        let reading = output.read_to_end(logs);
        let ended = sandbox.wait();
        tokio::pin!(reading, ended);
        tokio::select! {
            exit = &mut ended => exit,
            () = &mut reading => ended.await,
        }
    };
    output.drain(logs);
    exit
}

/// The fault of a process that ended before it had answered.
pub fn fault_of(exit: &Exit, logs: &Logs) -> Fault {
    let aborted = matches!(exit.status, ExitStatus::Signal(ABORT) | ExitStatus::Code(_));
    if exit.oom
        || (aborted && !exit.status.success() && HEAP_IS_FULL.iter().any(|text| logs.stderr_mentions(text)))
    {
        return Fault::OutOfMemory;
    }
    match exit.status {
        ExitStatus::Code(code) => Fault::Exited { end: Some(EndOfProcess::Code(code)) },
        ExitStatus::Signal(signal) => Fault::Exited { end: Some(EndOfProcess::Signal(signal)) },
        ExitStatus::Unknown => Fault::Exited { end: None },
        ExitStatus::Lost => Fault::Platform {
            cause: "the sandbox launcher ended, and the function's process with it; the next start brings up a new one".into(),
        },
    }
}

/// The fault of a sandbox that did not come to be. `users_program`: what it was to execute came from the user.
pub fn fault_of_start(error: &flint_sandbox::Error, users_program: bool) -> Fault {
    match error {
        flint_sandbox::Error::TextTooLong { what, .. } => Fault::Developer { message: what.clone() },
        flint_sandbox::Error::Exec { source, .. }
            if source.kind() == io::ErrorKind::ArgumentListTooLong =>
        {
            Fault::Developer {
                message: "arguments and environment variables are longer than this host lets a program have: shorten the parameters, secrets or headers that they come from".into(),
            }
        }
        flint_sandbox::Error::Exec { source, .. } if users_program => Fault::Developer {
            message: format!(
                "the program cannot be executed: {source}. It must be built for this processor, and its interpreter and libraries must be in the archive or in the sandbox's /usr"
            ),
        },
        other => Fault::Platform { cause: other.to_string() },
    }
}

/// Takes the processor away, where the host can.
pub async fn pause(sandbox: &Sandbox) {
    if let Err(error) = sandbox.freeze().await {
        tracing::debug!(sandbox = sandbox.id(), %error, "not paused");
    }
}

/// Gives it back.
pub async fn resume(sandbox: &Sandbox) {
    if let Err(error) = sandbox.thaw().await {
        tracing::debug!(sandbox = sandbox.id(), %error, "not resumed");
    }
}
