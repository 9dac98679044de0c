//! The payload's process from its creation to `execve`: it drops every privilege step by step before it
//! becomes the user's program.
//!
//! Until `execve` it shares pid 1's memory (see [`crate::sys::vfork`]), so it must not change anything there.

use std::ffi::CString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::fs::{Gid, Uid};
use rustix::process::{Resource, Rlimit};
use rustix::thread::LinkNameSpaceType;

use super::report::{self, Report};
use super::{Job, PAYLOAD_ID, REPORT, USERS, init, spawner};
use crate::error::Fault;
use crate::{fence, seccomp, sys};

/// If the whole host runs out of memory, the OOM killer takes payloads before the server.
const OOM_SCORE: &str = "500";

/// How often a program that is still open for writing is tried again.
const BUSY_TRIES: u32 = 500;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

const DEFAULTS: [(&str, &str); 3] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("TMPDIR", "/tmp")];

/// The arguments of `execve` as C strings.
pub(super) struct Program {
    candidates: Vec<CString>,
    pub(super) argv: Vec<CString>,
    pub(super) envp: Vec<CString>,
}

impl Program {
    pub(super) fn prepare(spec: &crate::spec::SandboxSpec) -> Result<Self, Fault> {
        let string = |text: &str| {
            CString::new(text).map_err(|_| Fault::Invalid {
                what: format!("{text:?} has a NUL byte, which no argument can have"),
            })
        };
        let mut env = spec.env.clone();
        for (name, value) in DEFAULTS {
            if !env.iter().any(|(other, _)| other == name) {
                env.push((name.into(), value.into()));
            }
        }
        let Some(program) = spec.argv.first() else {
            return Err(Fault::Invalid { what: "argv is empty; it names the program to run".into() });
        };
        let candidates = if program.contains('/') {
            vec![string(program)?]
        } else {
            let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
            path.split(':').map(|folder| string(&format!("{folder}/{program}"))).collect::<Result<_, _>>()?
        };
        Ok(Self {
            candidates,
            argv: spec.argv.iter().map(|text| string(text)).collect::<Result<_, _>>()?,
            envp: env
                .iter()
                .map(|(name, value)| string(&format!("{name}={value}")))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Executes the program; returns, with an errno, only on failure. Allocates nothing.
    pub(super) fn execute(&self, argv: &[*const libc::c_char], envp: &[*const libc::c_char]) -> i32 {
        let mut last = libc::ENOENT;
        for candidate in &self.candidates {
            let errno = execute_when_written(candidate, argv, envp).raw_os_error().unwrap_or(libc::EIO);
            // As in a shell, any other refusal outranks "not found" among the candidates of `PATH`.
            if errno != libc::ENOENT && errno != libc::ENOTDIR {
                last = errno;
                if errno != libc::EACCES {
                    break;
                }
            }
        }
        last
    }
}

/// Drops all privileges and executes the program; returns an exit code only on failure, which it has reported
/// to the launcher.
pub(super) fn run(job: &Job<'_>, program: &Program) -> i32 {
    let fault = match shed(job) {
        Ok(()) => execute(job, program),
        Err(fault) => fault,
    };
    tell(fault);
    127
}

/// Drops all privileges and serves as the spawner; returns an exit code. Writes a byte to `ready` once
/// nothing can fail any more, and closes it in any case.
pub(super) fn stay(job: &Job<'_>, program: &Program, ready: OwnedFd) -> i32 {
    if let Err(fault) = shed(job) {
        tell(fault);
        return 127;
    }
    let told = rustix::io::write(&ready, b"r");
    drop(ready);
    if told.is_err() { 127 } else { spawner::serve(program) }
}

fn tell(fault: Fault) {
    // SAFETY: open in this process until `execve`.
    let launcher = unsafe { BorrowedFd::borrow_raw(REPORT) };
    let _ = report::write(launcher, &Report::Fault(fault));
}

fn shed(job: &Job<'_>) -> Result<(), Fault> {
    let at = |step: &'static str| move |error: io::Error| Fault::step(step, &error);
    let at_errno = |step: &'static str| move |error: rustix::io::Errno| Fault::step(step, &error.into());
    // Written with CAP_SYS_RESOURCE it also becomes the minimum, so that the payload cannot lower it again.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    rustix::process::setsid().map_err(at_errno("start a session"))?;
    sys::give_way();
    limits(job).map_err(at("set resource limits"))?;
    // SAFETY: `init` put it there, and it is open until `execve`.
    let users = unsafe { BorrowedFd::borrow_raw(USERS) };
    sys::enter(users, LinkNameSpaceType::User).map_err(at("enter the user namespace"))?;
    empty_bounding_set();
    if job.init_uid.is_some() {
        let (uid, gid) = (Uid::from_raw(PAYLOAD_ID), Gid::from_raw(PAYLOAD_ID));
        rustix::thread::set_thread_groups(&[]).map_err(at_errno("clear groups"))?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(at_errno("set the group"))?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(at_errno("set the user"))?;
    }
    init::drop_capabilities().map_err(at("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(at_errno("set no_new_privs"))?;
    let writable = job.spec.mounts.iter().filter(|mount| !mount.readonly).map(|mount| mount.target.as_str());
    let locked = if job.spec.zygote { fence::lock_in_scopes() } else { fence::lock_in(writable) };
    locked.map_err(at("enter the Landlock domain"))?;
    rustix::process::chdir(job.spec.cwd.as_str())
        .map_err(|error| Fault::step(format!("change to directory {}", job.spec.cwd), &error.into()))?;
    if job.spec.spawner {
        spawner::prepare().map_err(at("become the one that reaps"))?;
    }
    sys::default_signal(libc::SIGPIPE);
    sys::default_signal(libc::SIGINT);
    sys::default_signal(libc::SIGTERM);
    sys::default_signal(libc::SIGHUP);
    seccomp::install(seccomp::program(job.spec.zygote)).map_err(at("install the system-call filter"))
}

/// RLIMIT_DATA counts writable private mappings, of which runtimes reserve more than they use: this much
/// beyond the memory limit is allowed.
const RESERVED: u64 = 256 << 20;

/// POSIX timers and signals that wait, of all processes of a sandbox: many times what a runtime uses, and so
/// few that their interrupts, which no limit counts, take nothing from others.
const PENDING_SIGNALS: u64 = 1024;

fn limits(job: &Job<'_>) -> io::Result<()> {
    sys::limit(Resource::Nofile, u64::from(job.spec.limits.open_files))?;
    sys::limit(Resource::Sigpending, PENDING_SIGNALS)?;
    no_core_dumps()?;
    if let Some(bytes) = job.spec.limits.file_bytes {
        sys::limit(Resource::Fsize, bytes)?;
    }
    if job.limit_data {
        sys::limit(Resource::Data, job.spec.limits.memory_bytes.saturating_add(RESERVED))?;
    }
    if job.limit_by_uid {
        sys::limit(Resource::Nproc, u64::from(job.spec.limits.processes) + 1)?;
    }
    Ok(())
}

/// With a limit of 1 byte no file is begun, and no program of the host (`core_pattern`) started: for a limit of
/// 0 the kernel starts it all the same, as root, and hands it the function's memory.
fn no_core_dumps() -> io::Result<()> {
    let one = Rlimit { current: Some(1), maximum: Some(1) };
    // Without privilege a limit of 0 cannot be raised.
    rustix::process::setrlimit(Resource::Core, one).or_else(|_| sys::limit(Resource::Core, 0))
}

/// Keeps every program that is executed later from regaining a capability.
fn empty_bounding_set() {
    for capability in 0..64 {
        // SAFETY: a plain `prctl` on this thread.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } < 0 {
            break;
        }
    }
}

/// ETXTBSY passes: a program that was just written may still be open for writing in a child that its writer
/// has forked and that has not reached its own `execve`.
fn execute_when_written(
    program: &CString,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
) -> io::Error {
    let mut tries = 0;
    loop {
        let error = sys::execve(program, argv, envp);
        tries += 1;
        if error.raw_os_error() != Some(libc::ETXTBSY) || tries == BUSY_TRIES {
            return error;
        }
        std::thread::sleep(BUSY_PAUSE);
    }
}

fn execute(job: &Job<'_>, program: &Program) -> Fault {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let errno = program.execute(&pointers(&program.argv), &pointers(&program.envp));
    Fault::Exec { program: job.spec.argv.first().cloned().unwrap_or_default(), errno }
}
