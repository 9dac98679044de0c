//! The process that executes a sandbox's program once per call (see [`crate::SandboxSpec::spawner`]): trusted
//! code, forked from pid 1. It drops every privilege before the first request, and its programs inherit
//! filter, Landlock domain, limits and identity.
//!
//! It is the subreaper of its programs, so that no process of a call outlives the call.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::process::{DumpableBehavior, Pid};

use super::payload::Program;
use super::{LINK, REPORT, USERS};
use crate::outcome::ExitStatus;
use crate::spawner::{self, Answer, REQUEST_MAX, Request};
use crate::sys::{self, Child};

/// Exit code when nothing can be reported.
const SILENT: i32 = 111;

/// Becomes the subreaper of its programs, and non-dumpable.
pub(super) fn prepare() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(Pid::INIT))?;
    // Programs run under the same uid. They must not read this process's memory or take its descriptors.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Executes programs until the server closes the link; returns the exit code.
pub(super) fn serve(program: &Program) -> i32 {
    // SAFETY: `arrange_descriptors` put the link there, and it stays open until this process ends.
    let link = unsafe { BorrowedFd::borrow_raw(LINK) };
    if sys::dup_onto(link, LINK, true).is_err() {
        return SILENT;
    }
    for fd in [REPORT, USERS] {
        // SAFETY: nothing here uses them any more.
        unsafe { libc::close(fd) };
    }
    let mut buffer = vec![0; REQUEST_MAX];
    while let Some((request, io)) = spawner::receive(link, &mut buffer) {
        let ended = run(program, &request, &buffer, io);
        if !spawner::answer(link, &ended) {
            break;
        }
    }
    SILENT
}

fn run(program: &Program, request: &Request, buffer: &[u8], io: [OwnedFd; 3]) -> Answer {
    // A variable of the call replaces the sandbox's own variable of that name.
    let is_set = |own: &CString| request.env.iter().any(|at| name(&buffer[*at..]) == name(own.as_bytes()));
    let env: Vec<&CString> = program.envp.iter().filter(|own| !is_set(own)).collect();
    let strings = |own: &[&CString], more: &[usize]| -> Vec<*const libc::c_char> {
        let own = own.iter().map(|text| text.as_ptr());
        // Each position is the start of a NUL-terminated string: `Request::parse` has checked it.
        let more = more.iter().map(|at| buffer[*at..].as_ptr().cast());
        own.chain(more).chain([ptr::null()]).collect()
    };
    let argv: Vec<&CString> = program.argv.iter().collect();
    let (argv, envp) = (strings(&argv, &request.arguments), strings(&env, &request.env));
    let mut refused = 0;
    // SAFETY: this process is single-threaded; the child writes only to `refused`, which is read after it has
    // executed or ended.
    let child = unsafe {
        sys::vfork(|| {
            let _ = rustix::process::setsid();
            for (number, fd) in io.iter().enumerate() {
                if let Err(error) = sys::dup_onto(fd.as_fd(), number as i32, false) {
                    refused = error.raw_os_error().unwrap_or(libc::EIO);
                    return SILENT;
                }
            }
            refused = program.execute(&argv, &envp);
            SILENT
        })
    };
    drop(io);
    let mut answer = match child {
        Ok(child) => reap(child),
        Err(error) => {
            refused = error.raw_os_error().unwrap_or(libc::EIO);
            Answer { status: Err(refused), cpu_us: 0, memory_peak_bytes: 0 }
        }
    };
    if refused != 0 {
        answer.status = Err(refused);
    }
    answer
}

/// The name in `NAME=value`.
fn name(variable: &[u8]) -> &[u8] {
    variable.split(|byte| matches!(byte, b'=' | 0)).next().unwrap_or_default()
}

/// Waits for `main`, then kills and reaps what it has left behind.
fn reap(main: libc::pid_t) -> Answer {
    let mut answer =
        Answer { status: Ok(ExitStatus::Signal(libc::SIGKILL)), cpu_us: 0, memory_peak_bytes: 0 };
    let mut wait = true;
    loop {
        match sys::next_child(wait) {
            Child::Ended { pid, status, cpu_us, memory_peak_bytes } => {
                answer.cpu_us += cpu_us;
                answer.memory_peak_bytes = answer.memory_peak_bytes.max(memory_peak_bytes);
                if pid == main {
                    (answer.status, wait) = (Ok(status), false);
                }
            }
            // `kill(-1)` reaches every process but pid 1 and this one, and takes effect before any of them
            // can fork again.
            Child::Running => {
                sys::kill_everything();
                wait = true;
            }
            Child::None => return answer,
        }
    }
}
