//! Runs a program to ask for its version, with a timeout, since a program on PATH may hang.

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

/// A longer output is not an answer.
const LONGEST: usize = 64 << 10;
/// How often to check whether the program has ended.
const LOOK: Duration = Duration::from_millis(2);
/// A killed program has ended by then, unless it is blocked on a hung file system.
const DYING: Duration = Duration::from_millis(200);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It could not be run, or exited with an error.
    Failed,
    /// It did not end in time and was killed.
    TooLate,
}

/// The program's stdout.
pub(super) fn ask(program: &Path, arguments: &[&str], patience: Duration) -> Result<String, Unanswered> {
    let deadline = Instant::now() + patience;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A process group of its own, so that its children are killed with it.
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

/// Reads to the end of file.
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
        // While the pipe is held open by a child, and while it is closed.
        for script in ["sleep 1000", "sleep 1000 & wait", "exec >&-; sleep 1000"] {
            assert_eq!(shell(script, SHORT), Err(Unanswered::TooLate), "{script}");
        }
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > '{0}.new'; mv '{0}.new' '{0}'; wait", note.display());
        // The script must get as far as writing the file; on a busy machine it gets more time.
        let mut patience = Duration::from_secs(2);
        while !note.exists() {
            assert_eq!(shell(&script, patience), Err(Unanswered::TooLate));
            patience *= 4;
        }
        let pid: i32 = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Gone, or a zombie. A killed process may take a moment to become one.
        let has_ended = |stat: &str| stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ");
        let patience = Instant::now() + PLENTY;
        while !has_ended(&stat()) {
            assert!(Instant::now() < patience, "{}", stat());
            thread::sleep(LOOK);
        }
    }
}
