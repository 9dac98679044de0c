//! Ends sandboxes, and tells how they ended.

use std::{io, time::Duration};

use flint_executor::{EndOfProcess, Fault};
use flint_sandbox::{Exit, ExitStatus, Sandbox};

use super::{logs::Logs, output::Output};

/// How long a process that closed its link may take to exit, during which the kernel frees its memory, before
/// it is killed.
const LEAVING: Duration = Duration::from_secs(2);
/// The kernel kills a whole process tree within this time, unless the machine is overloaded. The answer does
/// not wait longer.
const DYING: Duration = Duration::from_millis(40);
/// How long `stop` waits, which promises that nothing is left.
const DEAD: Duration = Duration::from_secs(30);

/// SIGKILL, the end of what is ended by force.
const KILL: i32 = 9;
/// SIGABRT, the end of a program that calls `abort`, as V8 does when its heap is full.
const ABORT: i32 = 6;
/// Written to stderr by V8 and the JVM in that case.
const HEAP_IS_FULL: [&str; 2] = ["JavaScript heap out of memory", "java.lang.OutOfMemoryError"];
/// What the JVM says where it can start no thread: want of memory by name only.
pub(crate) const NO_THREAD: &str = "java.lang.OutOfMemoryError: unable to create native thread";

/// Waits for a process that ended or closed its link by itself; returns how it ended.
pub async fn of_itself(sandbox: &Sandbox, output: &mut Output, logs: &mut Logs) -> Fault {
    of_itself_within(LEAVING, sandbox, output, logs).await
}

/// The same, but kills the process after `patience`.
pub async fn of_itself_within(
    patience: Duration,
    sandbox: &Sandbox,
    output: &mut Output,
    logs: &mut Logs,
) -> Fault {
    match tokio::time::timeout(patience, gather(sandbox, output, logs)).await {
        Ok(exit) => fault_of(&exit, logs),
        Err(_) => match by_force(sandbox, output, logs).await {
            Some(exit) if exit.oom || is_its_own(exit.status) => fault_of(&exit, logs),
            // Its exit status would only say that it was just killed.
            _ => Fault::Exited { end: None },
        },
    }
}

/// Whether a process that was killed had come to this end before.
fn is_its_own(end: ExitStatus) -> bool {
    matches!(end, ExitStatus::Code(_)) || matches!(end, ExitStatus::Signal(signal) if signal != KILL)
}

/// Kills the sandbox and collects its output, without waiting long; returns how it ended, if it did in time.
pub async fn by_force(sandbox: &Sandbox, output: &mut Output, logs: &mut Logs) -> Option<Exit> {
    sandbox.kill();
    tokio::time::timeout(DYING, gather(sandbox, output, logs)).await.ok()
}

/// Kills the sandbox and waits until nothing of it is left.
pub async fn completely(sandbox: &Sandbox) {
    sandbox.kill();
    if tokio::time::timeout(DEAD, sandbox.wait()).await.is_err() {
        tracing::error!(sandbox = sandbox.id(), "a sandbox has not ended {DEAD:?} after it was killed");
    }
}

/// Waits for the end and collects all output until then.
pub async fn gather(sandbox: &Sandbox, output: &mut Output, logs: &mut Logs) -> Exit {
    // Concurrently, since a process may be blocked on a full pipe.
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

/// The fault of a process that ended without an answer.
pub fn fault_of(exit: &Exit, logs: &Logs) -> Fault {
    let aborted = matches!(exit.status, ExitStatus::Signal(ABORT) | ExitStatus::Code(_));
    let failed = aborted && !exit.status.success();
    let heap_is_full =
        |line: &str| HEAP_IS_FULL.iter().any(|text| line.contains(text)) && !line.contains(NO_THREAD);
    if exit.oom || (failed && logs.stderr_has(heap_is_full)) {
        return Fault::OutOfMemory;
    }
    if failed && logs.stderr_has(|line| line.contains(NO_THREAD)) {
        return no_thread();
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

/// The fault of a function that could start no thread. The JVM does not know why: "possibly out of memory or
/// process/resource limits reached".
pub(crate) fn no_thread() -> Fault {
    Fault::Developer {
        message: "the function could start no further thread; the JVM does not say why: check whether it has as many processes and threads as it may have (limits.processes), and whether its memory has room for one more (limits.memory)".into(),
    }
}

/// The fault of a sandbox that did not start. `users_program`: whether its program came from the user.
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

/// Freezes the sandbox, where the host can.
pub async fn pause(sandbox: &Sandbox) {
    if let Err(error) = sandbox.freeze().await {
        tracing::debug!(sandbox = sandbox.id(), %error, "not paused");
    }
}

/// Thaws it.
pub async fn resume(sandbox: &Sandbox) {
    if let Err(error) = sandbox.thaw().await {
        tracing::debug!(sandbox = sandbox.id(), %error, "not resumed");
    }
}

#[cfg(test)]
mod tests {
    use flint_model::{ByteSize, LogStream};
    use flint_sandbox::Usage;

    use super::*;

    #[test]
    fn a_jvm_without_threads_has_not_exhausted_its_memory() {
        const FULL: &str = "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n";
        const NONE_LEFT: &str = "Exception in thread \"main\" java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached\n";
        let fault = |stderr: &str, status: ExitStatus, oom: bool| {
            let mut logs = Logs::new(ByteSize::kib(4));
            logs.push(LogStream::Stderr, stderr.as_bytes());
            fault_of(&Exit { oom, ..Exit::new(status, Usage::default()) }, &logs)
        };
        let failed = ExitStatus::Code(1);
        assert_eq!(fault(FULL, failed, false), Fault::OutOfMemory);
        assert_eq!(fault(NONE_LEFT, failed, false), no_thread());
        // What ended it is not known of a process with both, except that the heap's end is rarely survived.
        assert_eq!(fault(&[NONE_LEFT, FULL].concat(), failed, false), Fault::OutOfMemory);
        assert_eq!(fault(NONE_LEFT, ExitStatus::Signal(KILL), true), Fault::OutOfMemory);
        let end = Some(EndOfProcess::Code(0));
        assert_eq!(fault(NONE_LEFT, ExitStatus::Code(0), false), Fault::Exited { end });
    }

    #[test]
    fn an_end_by_force_is_not_the_processs_own() {
        for own in [ExitStatus::Code(0), ExitStatus::Code(1), ExitStatus::Signal(ABORT)] {
            assert!(is_its_own(own), "{own}");
        }
        for forced in [ExitStatus::Signal(KILL), ExitStatus::Unknown, ExitStatus::Lost] {
            assert!(!is_its_own(forced), "{forced}");
        }
    }
}
