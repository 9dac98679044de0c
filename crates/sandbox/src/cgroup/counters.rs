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
