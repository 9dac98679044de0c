//! Who on this host has which block of addresses for egress, and for whom the host forwards.
//!
//! Every server with egress in one network namespace keeps a file in one directory under `/run/flint`, and holds its lock. The kernel
//! lets go of the lock when the launcher dies, however it does; whoever takes a turn next finds the file, and sweeps up.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sys;

/// Emptied at boot, as what it describes is.
const PLACE: &str = "/run/flint";
/// Blocks that can be had: 1 to this.
pub(super) const BLOCKS: u32 = 31;
/// A turn is some milliseconds' work.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory of one network namespace.
#[derive(Debug)]
pub(super) struct Registry {
    directory: PathBuf,
}

/// The right to change things, one at a time.
#[derive(Debug)]
pub(super) struct Turn {
    directory: PathBuf,
    _lock: File,
}

/// A block of addresses and its name in everything made for it. Held until it is dropped or its process dies.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) number: u32,
    _lock: File,
}

/// What making the directory and looking into it fail with while somebody removes it: it was there already, but is no directory any more.
const GOING: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::AlreadyExists];

impl Registry {
    /// That of the calling thread's network namespace.
    pub(super) fn of_this_network() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let network = match sys::network_cookie() {
            Ok(cookie) => cookie,
            // Before Linux 5.14.
            Err(_) => fs::metadata("/proc/thread-self/ns/net")?.ino(),
        };
        let boot = boot.split('-').next().unwrap_or_default();
        Ok(Self { directory: Path::new(PLACE).join(format!("egress-{boot}-{network}")) })
    }

    /// Waits for a turn.
    pub(super) fn enter(&self) -> io::Result<Turn> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
            match made.and_then(|()| self.try_enter()) {
                Ok(Some(turn)) => return Ok(turn),
                Err(error) if !GOING.contains(&error.kind()) => return Err(error),
                // The last one out has just removed the directory, or somebody has a turn.
                _ if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                _ => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("another server holds {} and does not let go", self.lock().display()),
                    ));
                }
            }
        }
    }

    /// A turn where there is something to look after, `None` where no server has egress.
    pub(super) fn enter_existing(&self) -> io::Result<Option<Turn>> {
        if self.directory.exists() { self.enter().map(Some) } else { Ok(None) }
    }

    fn try_enter(&self) -> io::Result<Option<Turn>> {
        let path = self.lock();
        let lock = open(&path)?;
        if !try_lock(&lock)? {
            return Ok(None);
        }
        // Between opening and locking it, the last one out may have removed it.
        let still_there = fs::metadata(&path)?.ino() == lock.metadata()?.ino();
        Ok(still_there.then(|| Turn { directory: self.directory.clone(), _lock: lock }))
    }

    fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }
}

impl Turn {
    /// A free block, for as long as this process lives.
    pub(super) fn claim(&self) -> io::Result<Option<Block>> {
        for number in 1..=BLOCKS {
            let path = self.block(number);
            // One that nobody holds, but which is there, has not been swept.
            if path.exists() {
                continue;
            }
            let lock = open(&path)?;
            if try_lock(&lock)? {
                return Ok(Some(Block { number, _lock: lock }));
            }
        }
        Ok(None)
    }

    /// Blocks whose holders have died.
    pub(super) fn abandoned(&self) -> io::Result<Vec<Block>> {
        let mut found = Vec::new();
        for number in self.numbers()? {
            let lock = open(&self.block(number))?;
            if try_lock(&lock)? {
                found.push(Block { number, _lock: lock });
            }
        }
        Ok(found)
    }

    /// Gives a block back, when nothing is left of what was made for it.
    pub(super) fn free(&self, block: Block) -> io::Result<()> {
        fs::remove_file(self.block(block.number))
    }

    /// Whether no server has a block.
    pub(super) fn is_deserted(&self) -> io::Result<bool> {
        Ok(self.numbers()?.is_empty())
    }

    /// Interfaces whose forwarding was off before a server needed it.
    pub(super) fn switched_on(&self) -> io::Result<Vec<String>> {
        match fs::read_to_string(self.note()) {
            Ok(names) => Ok(names.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Notes them, before the first of them is switched on.
    pub(super) fn note_switched_on(&self, names: &[String]) -> io::Result<()> {
        File::create(self.draft())?.write_all(names.join("\n").as_bytes())?;
        fs::rename(self.draft(), self.note())
    }

    /// They are off again.
    pub(super) fn forget_switched_on(&self) -> io::Result<()> {
        remove(&self.draft())?;
        remove(&self.note())
    }

    /// Removes the directory, when nobody needs it any more.
    pub(super) fn close(self) -> io::Result<()> {
        if !self.is_deserted()? || self.note().exists() {
            return Ok(());
        }
        remove(&self.directory.join("lock"))?;
        match fs::remove_dir(&self.directory) {
            Ok(()) => Ok(()),
            // Since the lock was removed somebody has come in, and perhaps left again.
            Err(error) => match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn numbers(&self) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_prefix("block-")?.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn block(&self, number: u32) -> PathBuf {
        self.directory.join(format!("block-{number}"))
    }

    fn note(&self) -> PathBuf {
        self.directory.join("forwarding")
    }

    fn draft(&self) -> PathBuf {
        self.directory.join("forwarding.new")
    }
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opened close-on-exec: the lock belongs to the open file, and no program that is started may keep it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> (tempfile::TempDir, Registry) {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("egress");
        (scratch, Registry { directory })
    }

    #[test]
    fn each_holder_has_a_block_of_its_own_until_it_dies_or_gives_it_back() {
        let (_scratch, registry) = registry();
        let turn = registry.enter().unwrap();
        let (first, second) = (turn.claim().unwrap().unwrap(), turn.claim().unwrap().unwrap());
        assert_eq!((first.number, second.number), (1, 2));
        assert!(turn.abandoned().unwrap().is_empty() && !turn.is_deserted().unwrap());
        // As when its process is killed.
        drop(first);
        assert_eq!(turn.claim().unwrap().unwrap().number, 3, "one that was not swept is nobody's");
        let found: Vec<Block> = turn.abandoned().unwrap();
        assert_eq!(found.iter().map(|block| block.number).collect::<Vec<_>>(), [1, 3]);
        found.into_iter().for_each(|block| turn.free(block).unwrap());
        assert_eq!(turn.claim().unwrap().unwrap().number, 1);
        turn.abandoned().unwrap().into_iter().for_each(|block| turn.free(block).unwrap());
        turn.free(second).unwrap();
        assert!(turn.is_deserted().unwrap());
        turn.close().unwrap();
        assert!(!registry.directory.exists() && registry.enter_existing().unwrap().is_none());
    }

    #[test]
    fn there_is_an_end_of_blocks() {
        let (_scratch, registry) = registry();
        let turn = registry.enter().unwrap();
        let all: Vec<Block> = (0..BLOCKS).map(|_| turn.claim().unwrap().unwrap()).collect();
        assert!(turn.claim().unwrap().is_none());
        drop(all);
    }

    #[test]
    fn turns_are_taken_one_at_a_time_also_while_the_directory_comes_and_goes() {
        let (_scratch, registry) = registry();
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let turn = registry.enter().unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        turn.close().unwrap();
                    }
                });
            }
        });
        assert!(!registry.directory.exists());
    }

    #[test]
    fn what_was_switched_on_is_remembered_while_somebody_is_there() {
        let (_scratch, registry) = registry();
        let turn = registry.enter().unwrap();
        assert!(turn.switched_on().unwrap().is_empty());
        let block = turn.claim().unwrap().unwrap();
        turn.note_switched_on(&["eth0".into(), "wlan0".into()]).unwrap();
        turn.close().unwrap();
        let turn = registry.enter_existing().unwrap().unwrap();
        assert_eq!(turn.switched_on().unwrap(), ["eth0", "wlan0"]);
        turn.free(block).unwrap();
        turn.close().unwrap();
        assert!(registry.directory.exists(), "they are still on");
        let turn = registry.enter().unwrap();
        turn.forget_switched_on().unwrap();
        turn.close().unwrap();
        assert!(!registry.directory.exists());
    }
}
