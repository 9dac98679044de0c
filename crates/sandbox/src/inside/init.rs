//! Pid 1 of a sandbox: trusted code, forked from the launcher without an `execve`. It builds the sandbox
//! around itself, starts the payload, drops every privilege and then only reaps. When the payload's main
//! process ends, it ends too, and the kernel kills the rest of the pid namespace.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags};

use super::report::{self, Report};
use super::{FIRST_CLOSED, Job, LINK, REPORT, USERS, mounts, payload};
use crate::error::Fault;
use crate::outcome::ExitStatus;
use crate::sys::{self, Forked};
use crate::{TMP_FD, descriptors};

/// Builds the sandbox and stays as its pid 1.
pub(crate) fn run(job: &Job<'_>) -> ! {
    let main = match set_up(job) {
        Ok(main) => main,
        Err(fault) => {
            let _ = report::write(job.report, &Report::Fault(fault));
            sys::exit_now(125);
        }
    };
    // SAFETY: `arrange_descriptors` put the descriptor there, and it stays open until this process ends.
    let launcher = unsafe { BorrowedFd::borrow_raw(REPORT) };
    // PR_SET_PDEATHSIG has no effect if the launcher died before it was set. Then the pipe has no reader, and
    // this write fails.
    if drop_privileges(job.init_uid).is_err() || report::write(launcher, &Report::Running).is_err() {
        sys::exit_now(125);
    }
    let status = reap_until(main);
    let _ = report::write(launcher, &Report::Ended(status));
    sys::exit_now(0)
}

fn set_up(job: &Job<'_>) -> Result<i32, Fault> {
    let at = |step: &'static str| move |error: io::Error| Fault::step(step, &error);
    die_with_launcher().map_err(at("tie to the launcher"))?;
    if let Some(leaf) = job.leaf {
        leaf.enter().map_err(at("enter the cgroup"))?;
    }
    sys::enter(job.network, LinkNameSpaceType::Network).map_err(at("enter the network namespace"))?;
    sys::enter(job.template, LinkNameSpaceType::Mount).map_err(at("enter the root template"))?;
    // Nothing above opens or closes a descriptor, and nothing below uses one that the launcher keeps for
    // itself.
    if job.in_launchers_table {
        descriptors::leave().map_err(at("leave the launcher's descriptors"))?;
    }
    let own = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS | UnshareFlags::NEWCGROUP;
    sys::unshare(own).map_err(at("make namespaces"))?;
    rustix::system::sethostname(job.spec.hostname.as_bytes())
        .map_err(|error| at("set the host name")(error.into()))?;
    mounts::mount_all(job)?;
    let program = payload::Program::prepare(job.spec)?;
    arrange_descriptors(job).map_err(at("arrange descriptors"))?;
    let main = if job.spec.spawner {
        fork_spawner(job, &program)
    } else {
        // SAFETY: this process is single-threaded, and the payload's steps only read what was prepared, or
        // leak what they allocate.
        unsafe { sys::vfork(|| payload::run(job, &program)) }
    };
    let main = main.map_err(at("fork the payload"))?;
    for fd in [0, 1, 2, LINK, USERS, TMP_FD] {
        // SAFETY: the payload has copies of its own; nothing here uses these any more.
        unsafe { libc::close(fd) };
    }
    Ok(main)
}

/// Forks the process that will execute the program for each request, and waits until it is ready.
fn fork_spawner(job: &Job<'_>, program: &payload::Program) -> io::Result<i32> {
    let (reader, ready) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: this process is single-threaded.
    match unsafe { sys::clone3(0, None) }? {
        Forked::Child => {
            drop(reader);
            sys::exit_now(payload::stay(job, program, ready))
        }
        Forked::Parent { pid, .. } => {
            drop(ready);
            // End of file without a byte means that it has reported a fault.
            let _ = rustix::io::retry_on_intr(|| rustix::io::read(&reader, &mut [0u8]));
            Ok(pid)
        }
    }
}

/// Keeps only the payload's descriptors, the report pipe and the user namespace open, at their fixed numbers.
fn arrange_descriptors(job: &Job<'_>) -> io::Result<()> {
    for (number, fd) in [job.stdin, job.stdout, job.stderr].into_iter().enumerate() {
        sys::dup_onto(fd, number as i32, false)?;
    }
    match job.link {
        Some(link) => sys::dup_onto(link, LINK, false)?,
        // SAFETY: closes the launcher's placeholder.
        None => drop(unsafe { libc::close(LINK) }),
    }
    sys::dup_onto(job.report, REPORT, true)?;
    sys::dup_onto(job.users, USERS, true)?;
    // Last, since it may overwrite one of the launcher's descriptors.
    if let Some(tmp) = job.tmp {
        sys::dup_onto(tmp, TMP_FD, false)?;
        sys::close_range(FIRST_CLOSED, TMP_FD - 1, 0)?;
        sys::close_range(TMP_FD + 1, i32::MAX, 0)
    } else {
        sys::close_range(FIRST_CLOSED, i32::MAX, 0)
    }
}

fn die_with_launcher() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Becomes an unprivileged process that nothing can inspect: under another uid than the payload's, or without
/// root at least without capabilities.
fn drop_privileges(uid: Option<u32>) -> io::Result<()> {
    use rustix::fs::{Gid, Uid};
    if let Some(id) = uid {
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    drop_capabilities()?;
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The kernel clears the parent-death signal when credentials change.
    die_with_launcher()
}

/// Empties the effective, permitted and inheritable sets.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

/// Reaps children until `main` has ended.
fn reap_until(main: i32) -> ExitStatus {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == main => {
                if let Some(code) = status.exit_status() {
                    return ExitStatus::Code(code);
                }
                if let Some(signal) = status.terminating_signal() {
                    return ExitStatus::Signal(signal);
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // ECHILD: there is no child left to wait for.
            Err(_) => return ExitStatus::Signal(libc::SIGKILL),
        }
    }
}
