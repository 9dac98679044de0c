//! Runs a build's tools: passes their output on while they run, and enforces the deadline of the whole build.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Exit, Failure};

/// Number of last lines shown when a tool fails.
const SHOWN: usize = 40;
/// Maximum length of a line: a tool's output need not contain line ends.
const LINE: u64 = 64 << 10;
/// Maximum size kept of a tool's standard output.
const KEPT: usize = 32 << 20;
/// How long a pipe is read that another process holds open after the tool has ended.
const AFTER: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// Runs the steps of a build.
pub(super) struct Runner<'a> {
    path: &'a Path,
    within: Duration,
    deadline: Instant,
    told: &'a dyn Fn(&str),
}

enum Said {
    Out(String),
    Err(String),
}

impl<'a> Runner<'a> {
    pub(super) fn new(path: &'a Path, within: Duration, told: &'a dyn Fn(&str)) -> Self {
        // Without a deadline: a year.
        let deadline = Instant::now() + within.min(Duration::from_secs(365 * 86_400));
        Self { path, within, deadline, told }
    }

    /// Reports a step, until the tool's next line.
    pub(super) fn tell(&self, what: &str) {
        (self.told)(what);
    }

    /// Runs a tool to its end, and returns its standard output.
    pub(super) fn run(&self, command: &mut Command) -> Result<String, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = words(command);
        self.tell(&name);
        let mut child =
            command.spawn().map_err(|error| Failure::local(format!("cannot run `{name}`: {error}")))?;
        let lines = listen(&mut child);
        let mut heard = Heard::default();
        let status = self.follow(&mut child, &lines, &mut heard, &name)?;
        match status.success() {
            true => Ok(heard.out),
            false => Err(self.failed(&name, status, &heard)),
        }
    }

    fn follow(
        &self,
        child: &mut Child,
        lines: &Receiver<Said>,
        heard: &mut Heard,
        name: &str,
    ) -> Result<ExitStatus, Failure> {
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            match lines.recv_timeout(TICK) {
                Ok(said) => heard.hear(said, self.told),
                Err(RecvTimeoutError::Disconnected) if ended.is_none() => thread::sleep(TICK),
                Err(_) => {}
            }
            if ended.is_none() {
                let status =
                    child.try_wait().map_err(|error| Failure::local(format!("`{name}`: {error}")))?;
                ended = status.map(|status| (status, Instant::now()));
            }
            if let Some((status, at)) = ended {
                // Remaining reader threads end when the pipe is closed; what they read is no longer needed.
                while at.elapsed() < AFTER {
                    match lines.recv_timeout(TICK) {
                        Ok(said) => heard.hear(said, self.told),
                        Err(RecvTimeoutError::Disconnected) => break,
                        Err(RecvTimeoutError::Timeout) => {}
                    }
                }
                return Ok(status);
            }
            if Instant::now() >= self.deadline {
                end(child);
                return Err(Failure::new(
                    Exit::Local,
                    "build_timeout",
                    format!(
                        "building {} took longer than {:?}: `{name}` was ended",
                        self.path.display(),
                        self.within
                    ),
                )
                .hint("--build-timeout gives it more"));
            }
        }
    }

    fn failed(&self, name: &str, status: ExitStatus, heard: &Heard) -> Failure {
        let mut message = format!("building {} failed: `{name}` ended with {status}", self.path.display());
        for line in &heard.last {
            message.push_str("\n    ");
            message.push_str(line);
        }
        Failure::new(Exit::Usage, "build_failed", message)
    }
}

/// A tool's output.
#[derive(Default)]
struct Heard {
    out: String,
    last: VecDeque<String>,
    /// From here on the tool prints its own internals.
    enough: bool,
}

impl Heard {
    fn hear(&mut self, said: Said, told: &dyn Fn(&str)) {
        let line = match &said {
            Said::Out(line) | Said::Err(line) => line.trim_end(),
        };
        if let Said::Out(line) = &said
            && self.out.len() + line.len() < KEPT
        {
            self.out.push_str(line);
        }
        self.enough |= line == "Stack backtrace:";
        // Cargo's messages in JSON are for this program, not for people.
        if line.is_empty() || self.enough || line.starts_with("{\"reason\"") {
            return;
        }
        told(line.trim());
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(line.chars().take(400).collect());
    }
}

fn listen(child: &mut Child) -> Receiver<Said> {
    let (tell, lines) = sync_channel(256);
    if let Some(out) = child.stdout.take() {
        let tell = tell.clone();
        thread::spawn(move || forward(out, &tell, Said::Out));
    }
    if let Some(err) = child.stderr.take() {
        thread::spawn(move || forward(err, &tell, Said::Err));
    }
    lines
}

fn forward(from: impl Read, tell: &SyncSender<Said>, said: impl Fn(String) -> Said) {
    let mut reader = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            // Nobody listens any more, but the tool is read to its end, so that it does not block or fail.
            Ok(_) => drop(tell.send(said(String::from_utf8_lossy(&line).into_owned()))),
        }
    }
}

/// Ends a tool and its descendants.
fn end(child: &mut Child) {
    let mut all = vec![child.id()];
    let mut next = 0;
    while let Some(&process) = all.get(next) {
        let children =
            fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        next += 1;
    }
    for pid in all.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = child.wait();
}

/// A command as one would type it, without the program's directory.
fn words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_tool_says_is_told_and_its_output_given() {
        let told = RefCell::new(Vec::new());
        let tell = |line: &str| told.borrow_mut().push(line.to_owned());
        let runner = Runner::new(Path::new("x"), Duration::from_secs(60), &tell);
        let out = runner.run(&mut sh("echo result; echo '  working' >&2")).unwrap();
        assert_eq!(out, "result\n");
        assert!(told.borrow().contains(&"working".to_owned()));
    }

    #[test]
    fn a_failure_shows_the_command_and_its_last_lines() {
        let runner = Runner::new(Path::new("my-fn"), Duration::from_secs(60), &|_| {});
        let script = "{ seq 100; echo 'main.c:3: wrong'; echo 'Stack backtrace:'; echo inside; } >&2; exit 7";
        let failure = runner.run(&mut sh(script)).unwrap_err();
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, "build_failed"));
        let said = failure.message;
        assert!(
            said.starts_with("building my-fn failed: `sh -c ") && said.contains("exit status: 7"),
            "{said}"
        );
        assert!(said.ends_with("\n    main.c:3: wrong") && !said.contains("\n    2\n"), "{said}");
    }

    #[test]
    fn a_tool_that_does_not_end_is_ended_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let runner = Runner::new(Path::new("x"), Duration::from_millis(500), &|_| {});
        let script = format!("sh -c 'echo $$ > {}; exec sleep 600' & wait", pid.display());
        let failure = runner.run(&mut sh(&script)).unwrap_err();
        assert_eq!(failure.code, "build_timeout");
        // If the machine was too slow to start it, nothing can be left.
        if let Ok(text) = fs::read_to_string(&pid)
            && let Ok(started) = text.trim().parse::<u32>()
        {
            let began = Instant::now();
            let alive = || {
                fs::read_to_string(format!("/proc/{started}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
            };
            while alive() {
                assert!(
                    began.elapsed() < Duration::from_secs(60),
                    "the process that it started is still there"
                );
                thread::sleep(TICK);
            }
        }
    }
}
