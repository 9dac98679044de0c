//! What the processes of a group have used, read through descriptors that stay open: to open a control file costs several times what
//! reading it does.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Version, number};
use crate::descriptors::keep;
use crate::outcome::Usage;

/// A group's accounts, each absent where the host does not keep it.
#[derive(Debug, Default)]
pub(super) struct Counters {
    memory: Option<(Version, PathBuf)>,
    /// v1 `memory.max_usage_in_bytes`, v2 `memory.peak`.
    peak: Option<File>,
    /// Writing to the very descriptor of [`Self::peak`] sets it to what is used now; v2 before 6.12 has no such thing.
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

    /// From here on, what is told is of a new sandbox.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if let (Some(peak), true) = (&self.peak, self.resets) {
            match self.memory {
                Some((Version::V1, _)) => peak.write_at(b"0", 0).map(|_| ())?,
                // Before 6.12 it can be opened for writing by root, and not be written to.
                _ => self.resets = peak.write_at(b"reset", 0).is_ok(),
            }
        }
        self.cpu_before = self.cpu_us();
        self.oom_before = self.oom_kills();
        Ok(())
    }

    /// Whether they can be begun anew.
    pub(super) const fn can_begin_again(&self) -> bool {
        matches!(self.memory, None | Some((Version::V1, _))) || self.resets
    }

    /// Whether a process was killed for memory since [`Self::begin`].
    pub(super) fn oom_killed(&self) -> bool {
        self.oom_kills() > self.oom_before
    }

    /// What is used, and was since [`Self::begin`].
    pub(super) fn usage(&self) -> Usage {
        let memory_bytes = match &self.memory {
            Some((Version::V1, path)) => number(path, "memory.usage_in_bytes").unwrap_or(0),
            Some((Version::V2, path)) => number(path, "memory.current").unwrap_or(0),
            None => 0,
        };
        Usage { memory_bytes, ..self.spent() }
    }

    /// The same when nobody lives there any more: nothing is used.
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

/// Reads a control file anew.
fn text<T>(file: &File, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0u8; 4096];
    let length = file.read_at(&mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// The number behind `key` in lines of `key value`.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
