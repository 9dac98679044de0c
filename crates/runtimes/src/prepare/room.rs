//! Keeps space free on the disk: unpacked code must leave room for the store, on which every namespace
//! depends.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use flint_executor::PrepareError;
use flint_model::ByteSize;
use rustix::fs::StatVfs;

use super::{quota::Claim, tree::failed};

/// Space left free by default, or a [`PORTION`]th of a smaller disk.
const MIN_FREE: ByteSize = ByteSize::mib(1024);
/// The fraction of the disk, and of its inodes.
const PORTION: u64 = 20;
/// A deploy begins only while all of that space is free. Work that has begun, and functions that are prepared
/// again for a call, may use it down to this fraction.
const UNDER_WAY: u64 = 4;

/// A disk with its minimum of free space.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    folder: PathBuf,
    min_free: Option<ByteSize>,
    /// The quota of the namespace that writes, if it is a single one.
    claim: Option<Arc<Claim>>,
}

impl Room {
    pub(crate) fn new(folder: &Path, min_free: Option<ByteSize>) -> Self {
        Self { folder: folder.to_owned(), min_free, claim: None }
    }

    /// The same disk, limited by one namespace's quota.
    pub(super) fn claimed(&self, claim: &Arc<Claim>) -> Self {
        Self { claim: Some(Arc::clone(claim)), ..self.clone() }
    }

    /// Whether another function may be deployed.
    pub(crate) fn for_a_deploy(&self) -> Result<(), PrepareError> {
        self.look(1)
    }

    /// Whether work that has begun may go on.
    pub(crate) fn to_go_on(&self) -> Result<(), PrepareError> {
        self.look(UNDER_WAY)
    }

    /// Claims `bytes` of the namespace's quota before they are written.
    pub(super) fn take(&self, bytes: u64) -> Result<(), PrepareError> {
        self.claim.as_ref().map_or(Ok(()), |claim| claim.take(bytes))
    }

    fn look(&self, part: u64) -> Result<(), PrepareError> {
        let disk = rustix::fs::statvfs(&self.folder).map_err(|errno| {
            failed(format!("looking at the disk of {}", self.folder.display()), &io::Error::from(errno))
        })?;
        match lacking(&disk, self.min_free, part) {
            None => Ok(()),
            Some(lack) => Err(PrepareError::NoRoom(format!(
                "the server's disk is nearly full: {lack} there (prepare.min_free). Remove functions that are not needed, or have the server's operator make room"
            ))),
        }
    }
}

/// What there is too little of, with figures.
fn lacking(disk: &StatVfs, min_free: Option<ByteSize>, part: u64) -> Option<String> {
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    let (free, portion) = (bytes(disk.f_bavail), bytes(disk.f_blocks) / PORTION);
    let floor = min_free.map_or(MIN_FREE.as_u64().min(portion), ByteSize::as_u64) / part;
    if free < floor {
        let [free, floor] = told_apart(free, floor);
        return Some(format!("{free} are free, and {floor} stay free"));
    }
    // File systems without a limit on inodes report 0.
    let floor = disk.f_files / PORTION / part;
    (disk.f_favail < floor).then(|| format!("{} inodes are free, and {floor} stay free", disk.f_favail))
}

/// Two sizes, the smaller one first, rounded down to the largest unit in which they differ and neither becomes 0.
fn told_apart(free: u64, floor: u64) -> [ByteSize; 2] {
    let tells = |unit: &u64| (free == 0 || free >= *unit) && free / unit < floor / unit;
    let unit = [1_u64 << 20, 1 << 10].into_iter().find(tells).unwrap_or(1);
    [free, floor].map(|bytes| ByteSize::bytes(bytes / unit * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(mib: u64, free: u64, inodes: u64) -> StatVfs {
        let mut disk = rustix::fs::statvfs("/").unwrap();
        (disk.f_frsize, disk.f_blocks, disk.f_bavail) = (1 << 20, mib, free);
        (disk.f_files, disk.f_favail) = (1000, inodes);
        disk
    }

    #[test]
    fn so_much_of_the_disk_stays_free() {
        let lack = |mib, free| lacking(&disk(mib, free, 1000), None, 1);
        assert_eq!(lack(1 << 20, 1024), None);
        assert_eq!(lack(1 << 20, 1023).unwrap(), "1023 MB are free, and 1 GB stay free");
        // A small disk may be used too.
        assert_eq!(lack(100, 5), None);
        assert!(lack(100, 4).unwrap().contains("5 MB stay free"));
        let said = lacking(&disk(100, 50, 1000), Some(ByteSize::mib(60)), 1);
        assert!(said.unwrap().contains("60 MB stay free"));
        assert_eq!(lacking(&disk(100, 50, 1000), Some(ByteSize::mib(60)), UNDER_WAY), None);
        assert_eq!(lacking(&disk(100, 0, 1000), Some(ByteSize::bytes(0)), 1), None);
    }

    #[test]
    fn sizes_of_small_disks_are_not_rounded_to_nothing() {
        const KIB: u64 = 1 << 10;
        let said = |free, floor| told_apart(free, floor).map(|size| size.to_string());
        assert_eq!(said(0, 512 * KIB), ["0 B", "512 KB"]);
        assert_eq!(said(300 * KIB, 512 * KIB + 1), ["300 KB", "512 KB"]);
        assert_eq!(said(10, 900), ["10 B", "900 B"]);
        assert_eq!(said(900 * KIB, 5 << 20), ["900 KB", "5 MB"]);
        assert_eq!(said(1100 * KIB, 1200 * KIB), ["1100 KB", "1200 KB"], "both are 1 MB");
        assert_eq!(said((4 << 20) + 1, 5 << 20), ["4 MB", "5 MB"]);
        assert_eq!(said(0, 1), ["0 B", "1 B"]);
        // A twentieth of a disk of 8 MB, and a quarter of that for work that has begun.
        let lack = lacking(&disk(8, 0, 1000), None, UNDER_WAY).unwrap();
        assert_eq!(lack, "0 B are free, and 102 KB stay free");
    }

    #[test]
    fn so_many_inodes_stay_free() {
        assert_eq!(lacking(&disk(100, 100, 50), None, 1), None);
        let said = lacking(&disk(100, 100, 49), None, 1).unwrap();
        assert_eq!(said, "49 inodes are free, and 50 stay free");
        let mut none_said = disk(100, 100, 0);
        none_said.f_files = 0;
        assert_eq!(lacking(&none_said, None, 1), None);
    }
}
