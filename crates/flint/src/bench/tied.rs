//! Ties programs to the benchmark's life, even after `kill -9`, so that a restarted run does not measure
//! beside them.
//!
//! The kernel does this by `PR_SET_PDEATHSIG`, which a process has to request itself, after the fork, and
//! keeps over an exec. So this binary is executed first, as `flint __tied PARENT PROGRAM ARGUMENT…`, makes
//! the request, and becomes the program.

use std::{
    env,
    ffi::OsStr,
    os::unix::process::CommandExt as _,
    process::{self, Command},
};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::output::tell;

const ARGUMENT: &str = "__tied";
/// A shell's exit code for a program that cannot be executed.
const NOT_EXECUTED: i32 = 127;

/// `program` as a process that is killed when this one ends. The kernel watches the thread that starts it:
/// experiments run in the main thread, which ends last.
pub(super) fn tied(program: impl AsRef<OsStr>) -> Command {
    // The test binary does not call `entry`.
    if cfg!(test) {
        return Command::new(program);
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg(ARGUMENT).arg(process::id().to_string()).arg(program);
    command
}

/// Becomes the program if this process was started as one; otherwise does nothing. To be called in `main`
/// before any thread exists.
pub(crate) fn entry() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    let parent = arguments.next().and_then(|pid| Pid::from_raw(pid.to_str()?.parse().ok()?));
    let (Some(parent), Some(program)) = (parent, arguments.next()) else {
        tell!("{ARGUMENT} is how flint bench starts what has to end with it; it is of no use by hand");
        process::exit(2);
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        tell!("flint bench: asking to end with it: {error}");
        process::exit(NOT_EXECUTED);
    }
    // A parent that ended before the request sends no signal.
    if getppid() != Some(parent) {
        process::exit(NOT_EXECUTED);
    }
    let error = Command::new(&program).args(arguments).exec();
    tell!("flint bench: cannot execute {}: {error}", program.display());
    process::exit(NOT_EXECUTED);
}
