//! Asking a program what it is. Whatever is on PATH may hang, so it is given a while.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process_group},
};

/// More is no answer.
const LONGEST: usize = 64 << 10;
/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// What was killed has ended by then, unless a file system hangs that it reads from.
const DYING: Duration = Duration::from_millis(200);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It could not be run, or said that it failed.
    Failed,
    /// It was still running, and was killed.
    TooLate,
}

/// What a program prints on stdout.
pub(super) fn ask(program: &Path, arguments: &[&str], patience: Duration) -> Result<String, Unanswered> {
    let deadline = Instant::now() + patience;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // So that what a script has started is killed with it.
    let mut child = command.process_group(0).spawn().map_err(|_| Unanswered::Failed)?;
    let answer = answer(&mut child, deadline);
    if answer == Err(Unanswered::TooLate) || answer.is_err() && !has_ended(&mut child, Instant::now()) {
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        has_ended(&mut child, Instant::now() + DYING);
    }
    answer
}

fn answer(child: &mut Child, deadline: Instant) -> Result<String, Unanswered> {
    let stdout = child.stdout.take().ok_or(Unanswered::Failed)?;
    let said = read(stdout, deadline)?;
    if !has_ended(child, deadline) {
        return Err(Unanswered::TooLate);
    }
    match child.try_wait() {
        Ok(Some(status)) if status.success() => Ok(String::from_utf8_lossy(&said).trim().to_owned()),
        _ => Err(Unanswered::Failed),
    }
}

/// Everything up to its end.
fn read(mut stdout: ChildStdout, deadline: Instant) -> Result<Vec<u8>, Unanswered> {
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Unanswered::Failed)?;
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Unanswered::TooLate),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return Err(Unanswered::Failed),
            Ok(_) => {}
        }
        match stdout.read(&mut buffer).map_err(|_| Unanswered::Failed)? {
            0 => return Ok(said),
            read if said.len() + read <= LONGEST => said.extend(&buffer[..read]),
            _ => return Err(Unanswered::Failed),
        }
    }
}

fn has_ended(child: &mut Child, by: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < by => thread::sleep(LOOK),
            ended => return !matches!(ended, Ok(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<String, Unanswered> {
        ask(Path::new("/bin/sh"), &["-c", script], patience)
    }

    const PLENTY: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn what_it_prints_is_the_answer_unless_it_fails() {
        assert_eq!(shell("echo; echo 1.2; echo 3", PLENTY).as_deref(), Ok("1.2\n3"));
        assert_eq!(shell("echo 1.2; exit 1", PLENTY), Err(Unanswered::Failed));
        assert_eq!(ask(Path::new("/nowhere/node"), &[], PLENTY), Err(Unanswered::Failed));
        assert_eq!(shell("while :; do echo endless; done", PLENTY), Err(Unanswered::Failed));
    }

    #[test]
    fn what_hangs_is_ended_with_all_that_it_started() {
        // With the pipe in its hand, and without.
        for script in ["sleep 1000", "sleep 1000 & wait", "exec >&-; sleep 1000"] {
            assert_eq!(shell(script, SHORT), Err(Unanswered::TooLate), "{script}");
        }
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", note.display());
        // It has to get as far as that: where the machine was too busy for it, more time is given.
        let mut patience = Duration::from_secs(2);
        while !note.exists() {
            assert_eq!(shell(&script, patience), Err(Unanswered::TooLate));
            patience *= 4;
        }
        let pid: i32 = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Gone, or waiting for somebody to take note of it; what is killed may still be on its way there.
        let has_ended = |stat: &str| stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ");
        let patience = Instant::now() + PLENTY;
        while !has_ended(&stat()) {
            assert!(Instant::now() < patience, "{}", stat());
            thread::sleep(LOOK);
        }
    }
}
