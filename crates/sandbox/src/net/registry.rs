//! The servers with egress on this host: which address block each of them holds, and whose forwarding was
//! switched on for them.
//!
//! All servers in one network namespace share a directory under `/run/flint`, in which each holds the lock of
//! a file of its own. The kernel releases the lock when the launcher dies, however it dies. The file remains,
//! and the next server that has a turn cleans up after it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sys;

/// A tmpfs, so that it is emptied at boot, as interfaces and rules are.
const PLACE: &str = "/run/flint";
/// Blocks are numbered from 1 to this.
pub(super) const BLOCKS: u32 = 31;
/// How long to wait for a turn, which takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory of one network namespace.
#[derive(Debug)]
pub(super) struct Registry {
    directory: PathBuf,
}

/// The exclusive right to change shared state.
#[derive(Debug)]
pub(super) struct Turn {
    directory: PathBuf,
    _lock: File,
}

/// An address block, whose number is part of the names of everything made for it. Held until it is dropped or
/// its process dies.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) number: u32,
    _lock: File,
}

/// An interface whose forwarding egress has switched on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Switched {
    pub(super) name: String,
    /// Whether the host forwarded already, but not through this interface: somebody wanted it so.
    pub(super) but_host: bool,
}

/// Stands behind the names of those, in the file. No interface's name has a space.
const BUT_HOST: &str = " but-host";

/// The errors of creating and opening the directory while another server removes it: it existed already, or
/// is gone again.
const GOING: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::AlreadyExists];

impl Registry {
    /// The registry of the calling thread's network namespace.
    pub(super) fn of_this_network() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let network = match sys::network_cookie() {
            Ok(cookie) => cookie,
            // Linux before 5.14 has no network namespace cookie.
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
                // The last server has just removed the directory, or another one has a turn.
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

    /// Waits for a turn if any server has egress; `None` otherwise.
    pub(super) fn enter_existing(&self) -> io::Result<Option<Turn>> {
        if self.directory.exists() { self.enter().map(Some) } else { Ok(None) }
    }

    /// A turn, if nobody has one just now. The directory must exist.
    pub(super) fn try_enter(&self) -> io::Result<Option<Turn>> {
        let path = self.lock();
        let lock = open(&path)?;
        if !try_lock(&lock)? {
            return Ok(None);
        }
        // The last server may have removed the file between our opening and locking it.
        let still_there = fs::metadata(&path)?.ino() == lock.metadata()?.ino();
        Ok(still_there.then(|| Turn { directory: self.directory.clone(), _lock: lock }))
    }

    fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }
}

impl Turn {
    /// Claims a free block, for as long as this process lives.
    pub(super) fn claim(&self) -> io::Result<Option<Block>> {
        for number in 1..=BLOCKS {
            let path = self.block(number);
            // An unlocked file belongs to a dead server and has not been swept yet.
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

    /// The blocks of dead servers.
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

    /// Returns a block, once everything created for it has been removed.
    pub(super) fn free(&self, block: Block) -> io::Result<()> {
        fs::remove_file(self.block(block.number))
    }

    /// Whether no server holds a block.
    pub(super) fn is_deserted(&self) -> io::Result<bool> {
        Ok(self.numbers()?.is_empty())
    }

    /// Interfaces whose forwarding egress has switched on.
    pub(super) fn switched_on(&self) -> io::Result<Vec<Switched>> {
        let read = |line: &str| {
            let name = line.strip_suffix(BUT_HOST);
            Switched { name: name.unwrap_or(line).to_owned(), but_host: name.is_some() }
        };
        match fs::read_to_string(self.note()) {
            Ok(lines) => Ok(lines.lines().map(read).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Records them. Must be called before the first of them is switched on.
    pub(super) fn note_switched_on(&self, all: &[Switched]) -> io::Result<()> {
        let line = |switched: &Switched| {
            format!("{}{}\n", switched.name, if switched.but_host { BUT_HOST } else { "" })
        };
        File::create(self.draft())?.write_all(all.iter().map(line).collect::<String>().as_bytes())?;
        fs::rename(self.draft(), self.note())
    }

    /// Forgets them, once they are off again.
    pub(super) fn forget_switched_on(&self) -> io::Result<()> {
        remove(&self.draft())?;
        remove(&self.note())
    }

    /// Removes the directory, unless a server still needs it.
    pub(super) fn close(self) -> io::Result<()> {
        if !self.is_deserted()? || self.note().exists() {
            return Ok(());
        }
        remove(&self.directory.join("lock"))?;
        match fs::remove_dir(&self.directory) {
            Ok(()) => Ok(()),
            // Another server has come in since the lock file was removed, and may have left again.
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

/// Opens a lock file close-on-exec: the lock belongs to the open file description, which no started program
/// may keep alive.
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
        // The kernel does the same when the process is killed.
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
        let switched = [("eth0", false), ("wlan0", true)]
            .map(|(name, but_host)| Switched { name: name.into(), but_host });
        turn.note_switched_on(&switched).unwrap();
        turn.close().unwrap();
        let turn = registry.enter_existing().unwrap().unwrap();
        assert_eq!(turn.switched_on().unwrap(), switched);
        turn.free(block).unwrap();
        turn.close().unwrap();
        assert!(registry.directory.exists(), "they are still on");
        let turn = registry.enter().unwrap();
        turn.forget_switched_on().unwrap();
        turn.close().unwrap();
        assert!(!registry.directory.exists());
    }
}
