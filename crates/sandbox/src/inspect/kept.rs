//! The launcher's own copies of a sealed zygote's descriptors, so that later inspections need not read them
//! all from `/proc` again.
//!
//! Comparing two descriptors with `kcmp` costs a tenth of reading one from `/proc`, and proves more: not that
//! there is a file of the same name, but that it is the same open file description.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::descriptors::{Descriptor, Kind, Listing};
use super::{Process, kcmp, pidfd};
use crate::TMP_FD;
use crate::descriptors::keep;

/// Copies of the descriptors that the zygote keeps for its whole life. Its streams and its link are not
/// copied: a copy would hide from their peers that the zygote has closed them.
#[derive(Debug)]
pub(super) struct Kept {
    copies: Vec<Copy>,
    launcher: u32,
}

#[derive(Debug)]
struct Copy {
    number: i32,
    device: bool,
    file: OwnedFd,
}

impl Kept {
    /// `None` where the kernel does not hand out descriptors or cannot compare them, and when one differs
    /// from `descriptors`: the zygote may have changed it since they were read.
    pub(super) fn of(zygote: Process, descriptors: &[Descriptor]) -> Option<Self> {
        let handle = pidfd::open(zygote.0).ok()?;
        let own = Process(std::process::id());
        let folder = Listing::open(own, "fd").ok()?;
        let mut copies = Vec::new();
        for descriptor in descriptors.iter().filter(|descriptor| can_be_kept(descriptor)) {
            let file = pidfd_getfd(&handle, descriptor.number, PidfdGetfdFlags::empty()).ok()?;
            let copy = folder.look(file.as_raw_fd()).ok()??;
            let same = (copy.kind, copy.device, &copy.target)
                == (descriptor.kind, descriptor.device, &descriptor.target);
            let mode = fcntl_getfl(&file).ok()?;
            let readable_only = !mode.intersects(OFlags::WRONLY | OFlags::RDWR);
            if !same || (copy.kind == Kind::Path && !readable_only) {
                return None;
            }
            copies.push(Copy {
                number: descriptor.number,
                device: copy.kind == Kind::Device,
                file: keep(file),
            });
        }
        let kept = Self { copies, launcher: own.0 };
        // Also finds out whether the kernel has `kcmp` at all.
        kept.unchanged_in(zygote).ok()?.then_some(kept)
    }

    /// Whether the zygote still has every copied descriptor at its number.
    fn unchanged_in(&self, zygote: Process) -> io::Result<bool> {
        for copy in &self.copies {
            let own = copy.file.as_fd().as_raw_fd();
            if !kcmp::same_file(zygote.0, copy.number, self.launcher, own)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the zygote has the descriptors of `sealed` and no more. `open` counts its descriptors and is
    /// called last. False also when that cannot be told.
    pub(super) fn are_all(
        &self,
        zygote: Process,
        sealed: &[Descriptor],
        folder: &Listing,
        open: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<bool> {
        for descriptor in sealed.iter().filter(|descriptor| !can_be_kept(descriptor)) {
            match folder.look(descriptor.number)? {
                Some(now) if now.target == descriptor.target => {}
                _ => return Ok(false),
            }
        }
        Ok(self.unchanged_in(zygote)? && open()? == sealed.len() as u64)
    }

    /// All descriptors of a clone, which has put devices in the place of most that it inherited. `None` when
    /// it has further ones and all must be read from `/proc`.
    pub(super) fn descriptors_of(
        &self,
        process: Process,
        sealed: &[Descriptor],
        folder: &Listing,
        open: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<Option<Vec<Descriptor>>> {
        let mut all = Vec::with_capacity(sealed.len());
        for descriptor in sealed {
            match self.device_in(process, descriptor, sealed)? {
                Some(device) => all.push(device),
                None => all.extend(folder.look(descriptor.number)?),
            }
        }
        Ok((open()? == all.len() as u64).then_some(all))
    }

    /// The zygote's device that the clone has at the number of `descriptor`.
    fn device_in(
        &self,
        process: Process,
        descriptor: &Descriptor,
        sealed: &[Descriptor],
    ) -> io::Result<Option<Descriptor>> {
        if !can_be_kept(descriptor) {
            return Ok(None);
        }
        for copy in self.copies.iter().filter(|copy| copy.device) {
            let own = copy.file.as_fd().as_raw_fd();
            if kcmp::same_file(process.0, descriptor.number, self.launcher, own)? {
                let device = sealed.iter().find(|sealed| sealed.number == copy.number);
                return Ok(device.map(|device| Descriptor { number: descriptor.number, ..device.clone() }));
            }
        }
        Ok(None)
    }
}

fn can_be_kept(descriptor: &Descriptor) -> bool {
    let inner = matches!(descriptor.kind, Kind::Event | Kind::Device | Kind::Pipe | Kind::Path);
    inner && !(0..4).contains(&descriptor.number) && descriptor.number != TMP_FD
}
