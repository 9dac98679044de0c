//! CPU time, memory and OOM kills of a cgroup, read through descriptors that stay open: opening a control
//! file costs several times as much as reading it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Version, number};
use crate::descriptors::keep;
use crate::outcome::Usage;

/// The counter files of a cgroup; `None` where the host has no such controller.
#[derive(Debug, Default)]
pub(super) struct Counters {
    memory: Option<(Version, PathBuf)>,
    /// v1 `memory.max_usage_in_bytes`, v2 `memory.peak`.
    peak: Option<File>,
    /// Whether the peak can be reset by writing to it. v2 can from Linux 6.12 on, and resets it only for the
    /// descriptor that is written to, hence one descriptor for both.
    resets: bool,
    oom: Option<File>,
    cpu: Option<Cpu>,
    cpu_before: u64,
    oom_before: u64,
}

#[derive(Debug)]
enum Cpu {
    /// v2 `cpu.stat`.
    Stat(File),
    /// v1 `cpuacct.usage`.
    Nanoseconds(File),
}

impl Counters {
    pub(super) fn open(
        memory: Option<&(Version, PathBuf)>,
        unified: Option<&Path>,
        cpuacct: Option<&Path>,
    ) -> Self {
        let kept = |file: File| File::from(keep(file.into()));
        let read = |path: &Path, file: &str| File::open(path.join(file)).ok().map(kept);
        let (mut peak, mut resets, mut oom) = (None, false, None);
        if let Some((version, path)) = memory {
            let (peak_file, oom_file) = match version {
                Version::V1 => ("memory.max_usage_in_bytes", "memory.oom_control"),
                Version::V2 => ("memory.peak", "memory.events"),
            };
            peak = fs::OpenOptions::new().read(true).write(true).open(path.join(peak_file)).ok().map(kept);
            resets = peak.is_some();
            peak = peak.or_else(|| read(path, peak_file));
            oom = read(path, oom_file);
        }
        let cpu = match (unified, cpuacct) {
            (Some(path), _) => read(path, "cpu.stat").map(Cpu::Stat),
            (None, Some(path)) => read(path, "cpuacct.usage").map(Cpu::Nanoseconds),
            (None, None) => None,
        };
        Self { memory: memory.cloned(), peak, resets, oom, cpu, cpu_before: 0, oom_before: 0 }
    }

    /// Starts counting for a new sandbox.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if let (Some(peak), true) = (&self.peak, self.resets) {
            match self.memory {
                Some((Version::V1, _)) => peak.write_at(b"0", 0).map(|_| ())?,
                // Before Linux 6.12 root can open `memory.peak` for writing, but the write fails.
                _ => self.resets = peak.write_at(b"reset", 0).is_ok(),
            }
        }
        self.cpu_before = self.cpu_us();
        self.oom_before = self.oom_kills();
        Ok(())
    }

    /// Whether the counters can be reset for another sandbox.
    pub(super) const fn can_begin_again(&self) -> bool {
        matches!(self.memory, None | Some((Version::V1, _))) || self.resets
    }

    /// Whether a process was killed for memory since [`Self::begin`].
    pub(super) fn oom_killed(&self) -> bool {
        self.oom_kills() > self.oom_before
    }

    /// Present memory, and CPU time and peak memory since [`Self::begin`].
    pub(super) fn usage(&self) -> Usage {
        let memory_bytes = match &self.memory {
            Some((Version::V1, path)) => number(path, "memory.usage_in_bytes").unwrap_or(0),
            Some((Version::V2, path)) => number(path, "memory.current").unwrap_or(0),
            None => 0,
        };
        Usage { memory_bytes, ..self.spent() }
    }

    /// The same with the present memory reported as 0, for an empty cgroup or where nobody wants to know it.
    pub(super) fn spent(&self) -> Usage {
        let peak = self.peak.as_ref().and_then(|file| text(file, |text| text.trim().parse().ok()));
        Usage {
            cpu_us: self.cpu_us().saturating_sub(self.cpu_before),
            memory_bytes: 0,
            memory_peak_bytes: peak.unwrap_or(0),
        }
    }

    fn oom_kills(&self) -> u64 {
        self.oom.as_ref().and_then(|file| text(file, |text| field(text, "oom_kill"))).unwrap_or(0)
    }

    fn cpu_us(&self) -> u64 {
        match &self.cpu {
            Some(Cpu::Stat(file)) => text(file, |text| field(text, "usage_usec")).unwrap_or(0),
            Some(Cpu::Nanoseconds(file)) => {
                text(file, |text| text.trim().parse::<u64>().ok()).unwrap_or(0) / 1000
            }
            None => 0,
        }
    }
}

/// Reads a control file from its beginning.
fn text<T>(file: &File, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0u8; 4096];
    let length = file.read_at(&mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// The number after `key` in a file of `key value` lines.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counters of a directory that stands for a cgroup of v2.
    fn counters(directory: &Path) -> Counters {
        Counters::open(Some(&(Version::V2, directory.to_owned())), Some(directory), None)
    }

    #[test]
    fn v2_counts_from_the_beginning_of_each_sandbox() {
        let scratch = tempfile::tempdir().unwrap();
        let say = |file: &str, text: &str| fs::write(scratch.path().join(file), text).unwrap();
        let events = |kills: u64| {
            format!("low 0\nhigh 0\nmax 9\noom 5\noom_kill {kills}\noom_group_kill 7\nsock_throttled 0\n")
        };
        say("cpu.stat", "usage_usec 1000\nuser_usec 600\nsystem_usec 400\ncore_sched.force_idle_usec 0\n");
        say("memory.current", "4096\n");
        say("memory.peak", "8192\n");
        say("memory.events", &events(2));
        let mut counters = counters(scratch.path());
        counters.begin().unwrap();
        // From Linux 6.12 on, anything that is written resets the peak that this descriptor reads.
        assert_eq!(fs::read_to_string(scratch.path().join("memory.peak")).unwrap(), "reset");
        assert!(counters.can_begin_again() && !counters.oom_killed());
        say("memory.peak", "16384\n");
        say("cpu.stat", "usage_usec 1750\nuser_usec 1000\nsystem_usec 750\n");
        let used = Usage { cpu_us: 750, memory_bytes: 4096, memory_peak_bytes: 16384 };
        assert_eq!(counters.usage(), used);
        assert_eq!(counters.spent(), Usage { memory_bytes: 0, ..used });
        say("memory.events", &events(3));
        assert!(counters.oom_killed());
        counters.begin().unwrap();
        assert!(!counters.oom_killed());
        assert_eq!(counters.spent().cpu_us, 0);
    }

    /// `memory.peak` is there from Linux 5.19 on.
    #[test]
    fn without_a_peak_there_is_none_and_the_group_serves_once() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("memory.current"), "4096\n").unwrap();
        let mut counters = counters(scratch.path());
        counters.begin().unwrap();
        assert_eq!(counters.usage(), Usage { cpu_us: 0, memory_bytes: 4096, memory_peak_bytes: 0 });
        assert!(!counters.can_begin_again() && !counters.oom_killed());
    }

    /// Before Linux 6.12 root can open `memory.peak` for writing, and the write fails with EINVAL, as this
    /// file's does. It has a number in it too.
    #[test]
    fn a_peak_that_cannot_be_reset_is_not_passed_on() {
        let scratch = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc/self/oom_score_adj", scratch.path().join("memory.peak")).unwrap();
        let mut counters = counters(scratch.path());
        counters.begin().unwrap();
        assert!(!counters.can_begin_again());
    }

    #[test]
    fn what_cannot_be_read_counts_as_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let say = |file: &str, text: &str| fs::write(scratch.path().join(file), text).unwrap();
        for file in ["cpu.stat", "memory.current", "memory.peak", "memory.events"] {
            say(file, "");
        }
        let mut counters = counters(scratch.path());
        counters.begin().unwrap();
        for text in ["", "\n", "max\n", "-1\n", "usage_usec\noom_kill\n", "usage_usec x\noom_kill \n"] {
            for file in ["cpu.stat", "memory.peak", "memory.events"] {
                say(file, text);
            }
            assert_eq!(counters.usage(), Usage::default(), "{text:?}");
            assert!(!counters.oom_killed(), "{text:?}");
        }
        // Nor does a counter that goes back.
        say("cpu.stat", "usage_usec 5000\n");
        counters.begin().unwrap();
        say("cpu.stat", "usage_usec 4000\n");
        assert_eq!(counters.spent().cpu_us, 0);
    }
}
